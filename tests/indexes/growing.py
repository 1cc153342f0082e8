"""Indexes in a test's directory, to append to."""

import numpy as np

from kafkalog.indexes.growing_index import SMALL_BYTES
from kafkalog.indexes.growing_offset_index import GrowingOffsetIndex
from kafkalog.indexes.growing_time_index import GrowingTimeIndex

BASE = 500
LARGE = SMALL_BYTES * 2  # its file is mapped, not copied


def offset_index(tmp_path, max_bytes=1000, **options):
    return GrowingOffsetIndex(tmp_path / "500.index", BASE, max_bytes, **options)


def time_index(tmp_path, max_bytes=1000, **options):
    return GrowingTimeIndex(tmp_path / "500.timeindex", BASE, max_bytes, **options)


def filled(tmp_path, entries, max_bytes=1000, **options):
    index = offset_index(tmp_path, max_bytes, **options)
    for entry in entries:
        index.append(*entry)
    return index


def append_each(index, *columns):
    """Append the entries whose fields are in the columns."""
    append = getattr(index, "maybe_append", None) or index.append
    for entry in zip(*(np.asarray(column).tolist() for column in columns), strict=True):
        append(*entry)

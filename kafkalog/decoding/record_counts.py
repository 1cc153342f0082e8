"""Numbers of records of batches: from their headers, or decoded for magic 0 and 1."""

from __future__ import annotations

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, counts_fit
from kafkalog.formats.layout import MAX_BATCH_BYTES


def has_count(rows: BatchHeaders) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which batches have a possible number of records in their headers."""
    has: np.ndarray[tuple[int], np.dtype[np.bool_]] = rows["magic"] == 2
    return has & counts_fit(rows, MAX_BATCH_BYTES)


def count_records(
    rows: BatchHeaders, data: Bytes, origin: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the number of records of each batch; decode those of magic 0 and 1.

    A batch whose bytes cannot hold its number of records is corrupt, and has none.
    """
    counts = rows["count"].astype(np.int64)
    decoded = np.flatnonzero(~has_count(rows))
    counts[decoded] = 0
    for views in decode(
        data,
        origin,
        rows[decoded],
        bounds=Bounds(),
        limit=MAX_BATCH_BYTES,
        workspace=Workspace(),
    ):
        if not isinstance(views, LocatedError):
            places = np.searchsorted(rows["position"], views.rows["position"])
            np.add.at(counts, places, views.counts)
    return counts

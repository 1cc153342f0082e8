"""The headers of records that were found: where each one's key and value lie.

Knows: how a record holds its headers. Does not know: files; what a header means.
Source: ``DefaultRecord.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.batch_decoder import RecordViews
from kafkalog.formats.batch_headers import decode_error

Take = Callable[[str, int, npt.DTypeLike], npt.NDArray[Any]]


def fresh(name: str, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Take new memory; `name` is for those who keep it."""
    del name
    return np.empty(length, dtype)


def find_headers(
    views: RecordViews, take: Take = fresh
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Find the headers of the records in `views`.

    Answers n + 1 offsets, between which record i's headers lie, and four rows of
    places: key start and length, value start and length.
    """
    counts = views.records["header_count"]
    offsets = take("header offsets", len(counts) + 1, np.int32)
    unused = take("header valid", len(counts), np.uint8)
    total, _ = _speedups.lengths_to_offsets(counts, offsets, unused)
    places = take("header places", 4 * total, np.int32).reshape(4, total)
    if total:
        starts = views.records["headers_start"]
        status = _speedups.decode_headers(views.data, starts, offsets, places)
        if status != Status.OK:
            raise decode_error(status, int(views.rows["position"][0]))
    return offsets, places

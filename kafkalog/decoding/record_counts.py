"""Numbers of records of batches: from their headers, or decoded for magic 0 and 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bytes
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, has_count
from kafkalog.formats.layout import MAX_BATCH_BYTES


def suffices_to_count(rows: BatchHeaders) -> npt.NDArray[np.bool_]:
    """Return of which batches `count_records` reads only the headers."""
    by_header: npt.NDArray[np.bool_] = rows["magic"] == 2
    return by_header & has_count(rows, MAX_BATCH_BYTES)


def count_records(
    rows: BatchHeaders, data: Bytes, origin: int
) -> npt.NDArray[np.int64]:
    """Return the number of records of each batch; decode those of magic 0 and 1.

    A batch whose bytes cannot hold its number of records is corrupt, and has none.
    """
    by_header = suffices_to_count(rows)
    counts = np.where(by_header, rows["count"], 0).astype(np.int64)
    decoded = np.flatnonzero(~by_header)
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

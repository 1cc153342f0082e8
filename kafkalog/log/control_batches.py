"""The control records of producers, found in the batches of a log.

A control batch of a producer holds one record, a transaction marker; compaction may
have emptied it.

Knows: control batches. Does not know: what a marker ends.
Source: ``EndTransactionMarker.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import RecordViews, decode, truncate_header
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.control_keys import control_types
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES, NO_PRODUCER_ID

Int64s = npt.NDArray[np.int64]


class FirstRecords(NamedTuple):
    """The first records of some control batches: row numbers, and types (-1 none).

    `slots` are their numbers among the records in `views`.
    """

    indexes: Int64s
    types: Int64s
    slots: Int64s
    views: RecordViews


def control_records(
    data: Bytes, rows: BatchHeaders, origin: int = 0
) -> Iterator[FirstRecords]:
    """Find the first record of each producer's control batch that is not empty.

    Each result is valid until the next is taken. Raises `CorruptRecordError`.
    """
    which = control_rows(rows)
    if not len(which):
        return
    chosen = rows[which]
    for several in np.flatnonzero(chosen["count"] > 1):
        chosen[several] = truncate_header(data, origin, chosen[several], 1)
    for views in decode(
        data,
        origin,
        chosen,
        bounds=Bounds(),
        limit=MAX_BATCH_BYTES,
        workspace=Workspace(),
    ):
        if isinstance(views, LocatedError):
            raise views
        held = views.counts > 0
        slots = (np.cumsum(views.counts) - views.counts)[held]
        found = np.searchsorted(chosen["position"], views.rows["position"][held])
        keys = views.records["key_start"][slots], views.records["key_length"][slots]
        types = control_types(views.data, *keys)
        yield FirstRecords(which[found], types, slots, views)


def control_rows(rows: BatchHeaders) -> Int64s:
    """Return the numbers of the rows that are control batches of a producer."""
    control = (rows["attributes"] & CONTROL_FLAG) != 0
    return np.flatnonzero(control & (rows["producer_id"] > NO_PRODUCER_ID))

"""The transaction markers in a step of a log, out of its control batches.

A control batch of a producer holds one record, its marker; compaction may have emptied
it.

Knows: control batches. Does not know: what a marker ends.
Source: ``EndTransactionMarker.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import Bounds, Views, decode, first_records
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError, LogArgumentError
from kafkalog.formats.entry_headers import Bytes, Rows
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES, NO_PRODUCER_ID
from kafkalog.log.producers.producer_entry import NONE, Marker
from kafkalog.messages.control_records import (
    ControlRecordType,
    control_types,
    parse_control,
    parse_control_key,
)
from kafkalog.validation.batch_records import refusal_of

Int64s = npt.NDArray[np.int64]

Markers = Mapping[int, Marker | None]
"""Row number of a producer's control batch -> its marker; None where it is empty."""


class FirstRecords(NamedTuple):
    """The first record of some control batches: number of its row, type (-1 none).

    `slots` says which of the records in `views` they are.
    """

    indexes: Int64s
    types: Int64s
    slots: Int64s
    views: Views


def read_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read the markers of the producers' control batches among `rows`.

    `origin` is the position of the first byte of `data`; positions in `rows` rise.
    Raises `InvalidRecordError` and `CompressionError` for a record that cannot be read,
    and `LogArgumentError` for one that is no marker.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(_control_rows(rows).tolist())
    try:
        for found in control_records(data, rows, origin):
            for index, type_id, slot in _each(found):
                markers[index] = marker = _marker(found.views, slot)
                if marker is None:
                    offset = int(rows["base_offset"][index])
                    raise LogArgumentError(
                        f"control record of type {type_id} in a producer's batch "
                        f"at offset {offset}, where only markers are"
                    )
    except LocatedError as error:
        raise refusal_of(error) from None
    return markers


def known_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read markers as `read_markers` does, with None for a record that is no marker.

    For readers, who are to pass over what brokers to come may write.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(_control_rows(rows).tolist())
    for found in control_records(data, rows, origin):
        for index, type_id, slot in _each(found):
            if ControlRecordType(type_id).is_marker:
                markers[index] = _marker(found.views, slot)
    return markers


def control_records(data: Bytes, rows: Rows, origin: int = 0) -> Iterator[FirstRecords]:
    """Find the first record of each producer's control batch that is not empty.

    What is yielded is valid until the next is taken. Raises `CorruptRecordError`.
    """
    which = _control_rows(rows)
    if not len(which):
        return
    asked = rows[which]
    for several in np.flatnonzero(asked["count"] > 1):
        asked[several] = first_records(data, origin, asked[several], 1)
    for views in decode(
        data,
        origin,
        asked,
        bounds=Bounds(),
        limit=MAX_BATCH_BYTES,
        workspace=Workspace(),
    ):
        if isinstance(views, LocatedError):
            raise views
        held = views.counts > 0
        slots = (np.cumsum(views.counts) - views.counts)[held]
        found = np.searchsorted(asked["position"], views.rows["position"][held])
        keys = views.records["key_start"][slots], views.records["key_length"][slots]
        types = control_types(views.data, *keys)
        yield FirstRecords(which[found], types, slots, views)


def _control_rows(rows: Rows) -> Int64s:
    control = (rows["attributes"] & CONTROL_FLAG) != 0
    return np.flatnonzero(control & (rows["producer_id"] > NO_PRODUCER_ID))


def _each(found: FirstRecords) -> Iterator[tuple[int, int, int]]:
    columns = found.indexes.tolist(), found.types.tolist(), found.slots.tolist()
    return zip(*columns, strict=True)


def _marker(views: Views, slot: int) -> Marker | None:
    """Read a record, which is a marker or None."""
    key, value = _bytes(views, slot, "key"), _bytes(views, slot, "value")
    _, type_id = parse_control_key(key)
    if not ControlRecordType(type_id).is_marker:
        return None
    epoch = parse_control(key, value).coordinator_epoch
    return Marker(
        type_id == ControlRecordType.ABORT,
        NONE if epoch is None else epoch,
        int(views.records["timestamp"][slot]),
    )


def _bytes(views: Views, slot: int, part: str) -> bytes | None:
    length = int(views.records[f"{part}_length"][slot])
    if length < 0:
        return None
    start = int(views.records[f"{part}_start"][slot])
    return views.data[start : start + length].tobytes()

"""Transaction markers and other records of the control batches of producers.

A control batch of a producer holds one record, a transaction marker. Compaction may
have removed the record.

Source: ``EndTransactionMarker.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kafkalog.array_types import Bytes, Int64s
from kafkalog.decoding.batch_decoder import RecordViews, decode, first_records
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError, LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.control_keys import (
    ControlRecordType,
    control_types,
    parse_control_key,
)
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES, NO_PRODUCER_ID
from kafkalog.log.producers.producer_entry import NONE, Marker
from kafkalog.messages.control_records import parse_control

Markers = Mapping[int, Marker | None]
"""Row number of a producer's control batch -> its marker; None if it is empty."""


class FirstRecords(NamedTuple):
    """The first records of some control batches.

    `indexes` are the row numbers of the batches, `types` the record types, and `slots`
    the numbers of the records among those of `views`.
    """

    indexes: Int64s
    types: Int64s
    slots: Int64s
    views: RecordViews


def control_records(
    data: Bytes, rows: BatchHeaders, origin: int = 0
) -> Iterator[FirstRecords]:
    """Yield the first records of the producers' control batches that are not empty.

    Each result is valid until the next one is taken. Raises `CorruptRecordError`.
    """
    which = control_rows(rows)
    if not len(which):
        return
    chosen = rows[which]
    for several in np.flatnonzero(chosen["count"] > 1):
        first = first_records(data, origin, chosen[several], 1)
        if first["count"] == 1:  # else it is corrupt, which the decoder reports
            chosen[several] = first
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
        filled = views.counts > 0
        slots = (np.cumsum(views.counts) - views.counts)[filled]
        found = np.searchsorted(chosen["position"], views.rows["position"][filled])
        keys = views.records["key_start"][slots], views.records["key_length"][slots]
        types = control_types(views.data, *keys)
        yield FirstRecords(which[found], types, slots, views)


def control_rows(rows: BatchHeaders) -> Int64s:
    """Return the numbers of the rows that are control batches of a producer."""
    control = (rows["attributes"] & CONTROL_FLAG) != 0
    return np.flatnonzero(control & (rows["producer_id"] > NO_PRODUCER_ID))


def read_markers(
    data: Bytes, rows: BatchHeaders, origin: int = 0
) -> dict[int, Marker | None]:
    """Read the markers of the producers' control batches among `rows`.

    `origin` is the position of the first byte of `data`; positions in `rows` increase.
    Raises `InvalidRecordError` and `CompressionError` for a record that cannot be read,
    and `LogArgumentError` for one that is no marker.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(control_rows(rows).tolist())
    try:
        for records in control_records(data, rows, origin):
            for index, type_id, slot in _each(records):
                markers[index] = marker = _marker(records.views, slot)
                if marker is None:
                    offset = int(rows["base_offset"][index])
                    raise LogArgumentError(
                        f"control record of type {type_id} in a producer's batch "
                        f"at offset {offset}, expected a transaction marker"
                    )
    except LocatedError as error:
        raise error.as_rejection() from None
    return markers


def known_markers(
    data: Bytes, rows: BatchHeaders, origin: int = 0
) -> dict[int, Marker | None]:
    """Read markers as `read_markers` does, with None for a record that is no marker.

    Readers use it: they ignore types of control records that later brokers add.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(control_rows(rows).tolist())
    for records in control_records(data, rows, origin):
        for index, type_id, slot in _each(records):
            if ControlRecordType(type_id).is_marker:
                markers[index] = _marker(records.views, slot)
    return markers


def _each(records: FirstRecords) -> Iterator[tuple[int, int, int]]:
    """Yield the row number, type and slot of each record."""
    columns = records.indexes.tolist(), records.types.tolist(), records.slots.tolist()
    return zip(*columns, strict=True)


def _marker(views: RecordViews, slot: int) -> Marker | None:
    """Read a marker; return None for a record that is not one."""
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


def _bytes(views: RecordViews, slot: int, part: str) -> bytes | None:
    length = int(views.records[f"{part}_length"][slot])
    if length < 0:
        return None
    start = int(views.records[f"{part}_start"][slot])
    return views.data[start : start + length].tobytes()

"""Transaction markers, read from the control batches of a log.

Knows: markers. Does not know: what a marker ends.
Source: ``EndTransactionMarker.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkalog.decoding.batch_decoder import RecordViews
from kafkalog.errors import LocatedError, LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.control_keys import ControlRecordType, parse_control_key
from kafkalog.log.control_batches import FirstRecords, control_records, control_rows
from kafkalog.log.producers.producer_entry import NONE, Marker
from kafkalog.messages.control_records import parse_control

Markers = Mapping[int, Marker | None]
"""Row number of a producer's control batch -> its marker; None where it is empty."""


def read_markers(
    data: Bytes, rows: BatchHeaders, origin: int = 0
) -> dict[int, Marker | None]:
    """Read the markers of the producers' control batches among `rows`.

    `origin` is the position of the first byte of `data`; positions in `rows` rise.
    Raises `InvalidRecordError` and `CompressionError` for a record that cannot be read,
    and `LogArgumentError` for one that is no marker.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(control_rows(rows).tolist())
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
        raise error.as_rejection() from None
    return markers


def known_markers(
    data: Bytes, rows: BatchHeaders, origin: int = 0
) -> dict[int, Marker | None]:
    """Read markers as `read_markers` does, with None for a record that is no marker.

    For readers, which ignore the types of control records that later brokers add.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(control_rows(rows).tolist())
    for found in control_records(data, rows, origin):
        for index, type_id, slot in _each(found):
            if ControlRecordType(type_id).is_marker:
                markers[index] = _marker(found.views, slot)
    return markers


def _each(found: FirstRecords) -> Iterator[tuple[int, int, int]]:
    columns = found.indexes.tolist(), found.types.tolist(), found.slots.tolist()
    return zip(*columns, strict=True)


def _marker(views: RecordViews, slot: int) -> Marker | None:
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


def _bytes(views: RecordViews, slot: int, part: str) -> bytes | None:
    length = int(views.records[f"{part}_length"][slot])
    if length < 0:
        return None
    start = int(views.records[f"{part}_start"][slot])
    return views.data[start : start + length].tobytes()

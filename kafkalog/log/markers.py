"""The transaction markers in a step of a log, out of its control batches.

Knows: control batches. Does not know: what a marker ends.
Source: ``EndTransactionMarker.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kafkalog.errors import LocatedError, LogArgumentError
from kafkalog.formats.control import ControlRecord, ControlRecordType, parse_control
from kafkalog.formats.decoding import Bounds, Views, decode
from kafkalog.formats.headers import Bytes, Rows
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES, NO_PRODUCER_ID
from kafkalog.formats.workspace import Workspace
from kafkalog.log.producer_entry import Marker

Markers = Mapping[int, Marker | None]
"""Row number of a producer's control batch -> its marker; None where it is empty."""


def read_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read the markers of the producers' control batches among `rows`.

    `origin` is the position of the first byte of `data`; positions in `rows` rise.
    Raises `CorruptRecordError`, and `LogArgumentError` for a record that is no marker.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(_control_rows(rows))
    for index, control, timestamp in control_records(data, rows, origin):
        marker = as_marker(control, timestamp)
        if marker is None:
            reason = f"control record {control.type_id} in a producer's batch at offset"
            offset = int(rows["base_offset"][index])
            raise LogArgumentError(f"{reason} {offset}, where only markers are")
        markers[index] = marker
    return markers


def known_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read markers as `read_markers` does, leaving out what is none.

    For readers, who are to pass over what brokers to come may write.
    """
    found = {
        index: as_marker(control, timestamp)
        for index, control, timestamp in control_records(data, rows, origin)
    }
    return dict.fromkeys(_control_rows(rows)) | found


def as_marker(control: ControlRecord, timestamp: int) -> Marker | None:
    """Take a control record for a marker; None if it is not."""
    if not control.type.is_marker:
        return None
    epoch = control.coordinator_epoch
    return Marker(
        control.type is ControlRecordType.ABORT,
        0 if epoch is None else epoch,
        timestamp,
    )


def control_records(
    data: Bytes, rows: Rows, origin: int = 0
) -> Iterator[tuple[int, ControlRecord, int]]:
    """Yield the first record of each producer's control batch: row, record, its time.

    Raises `CorruptRecordError` for a batch or a record that cannot be.
    """
    which = _control_rows(rows)
    if not which:
        return
    asked = rows[which]
    places = dict(zip(asked["position"].tolist(), which, strict=True))
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
        for position, slot in _firsts(views):
            record = parse_control(
                _bytes(views, slot, "key"), _bytes(views, slot, "value")
            )
            yield places[position], record, int(views.records["timestamp"][slot])


def _control_rows(rows: Rows) -> list[int]:
    control = (rows["attributes"] & CONTROL_FLAG) != 0
    control &= rows["producer_id"] > NO_PRODUCER_ID
    found: list[int] = np.flatnonzero(control).tolist()
    return found


def _firsts(views: Views) -> Iterator[tuple[int, int]]:
    """Position of each batch that holds a record, and the slot of its first."""
    held = views.counts > 0
    slots = np.cumsum(views.counts) - views.counts
    return zip(views.rows["position"][held].tolist(), slots[held].tolist(), strict=True)


def _bytes(views: Views, slot: int, part: str) -> bytes | None:
    length = int(views.records[f"{part}_length"][slot])
    if length < 0:
        return None
    start = int(views.records[f"{part}_start"][slot])
    return views.data[start : start + length].tobytes()

"""The transaction markers in a step of a log, out of its control batches.

Knows: control batches. Does not know: what a marker ends.
Source: ``EndTransactionMarker.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kafkalog.errors import LocatedError, LogArgumentError
from kafkalog.formats.control import (
    ControlRecordType,
    parse_control,
    parse_control_key,
)
from kafkalog.formats.decoding import Bounds, Views, decode
from kafkalog.formats.headers import Bytes, Rows
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES, NO_PRODUCER_ID
from kafkalog.formats.workspace import Workspace
from kafkalog.log.producer_entry import NONE, Marker

Markers = Mapping[int, Marker | None]
"""Row number of a producer's control batch -> its marker; None where it is empty."""


def read_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read the markers of the producers' control batches among `rows`.

    `origin` is the position of the first byte of `data`; positions in `rows` rise.
    Raises `CorruptRecordError`, and `LogArgumentError` for a record that is no marker.
    """
    markers: dict[int, Marker | None] = dict.fromkeys(_control_rows(rows))
    for index, type_id, marker in control_records(data, rows, origin):
        if marker is None:
            offset = int(rows["base_offset"][index])
            raise LogArgumentError(
                f"control record of type {type_id} in a producer's batch "
                f"at offset {offset}, where only markers are"
            )
        markers[index] = marker
    return markers


def known_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read markers as `read_markers` does, with None for a record that is no marker.

    For readers, who are to pass over what brokers to come may write.
    """
    records = control_records(data, rows, origin)
    found = {index: marker for index, _, marker in records}
    return dict.fromkeys(_control_rows(rows)) | found


def control_records(
    data: Bytes, rows: Rows, origin: int = 0
) -> Iterator[tuple[int, int, Marker | None]]:
    """Yield the first record of each producer's control batch: row, type, marker.

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
            yield (places[position], *_marker(views, slot))


def _marker(views: Views, slot: int) -> tuple[int, Marker | None]:
    key, value = _bytes(views, slot, "key"), _bytes(views, slot, "value")
    _, type_id = parse_control_key(key)
    if not ControlRecordType(type_id).is_marker:
        return type_id, None
    epoch = parse_control(key, value).coordinator_epoch
    return type_id, Marker(
        type_id == ControlRecordType.ABORT,
        NONE if epoch is None else epoch,
        int(views.records["timestamp"][slot]),
    )


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

"""Where records lie: of all in a scan those that meet conditions, by file and byte.

Batches are passed over by their headers where these say enough. What is left is
decoded, and keys, values and headers are looked at in place.

Knows: conditions, and where a record is. Does not know: how a place is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import Bounds, Views, decode
from kafkalog.decoding.record_headers import find_headers
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.entry_headers import Bytes
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.query.part_reading import PartReading, Piece, Problem, left_out
from kafkalog.query.scan import Scan
from kafkalog.query.sources import Part
from kafkalog.storage.location import Location

Pattern = re.Pattern[bytes]
Bools = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a record must be to be found; all that is given must hold.

    `key` and `value` are patterns that must occur in it, so null never fits. Of
    `headers`, pairs of a key and a pattern or None, one header must fit each pair. The
    producer is one of `producer_ids`, where there are any.
    """

    key: Pattern | None = None
    value: Pattern | None = None
    headers: tuple[tuple[bytes, Pattern | None], ...] = ()
    producer_ids: tuple[int, ...] = ()


class Place(NamedTuple):
    """Where a record lies: the batch is at byte `position` of `path`.

    `record_index` counts the batch's records from 0; `timestamp` is in ms, None where
    it has none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    path: Location | None
    position: int
    record_index: int


def find_places(
    scan: Scan, condition: Condition, *, first: bool = False
) -> Iterator[Place]:
    """Yield the places of the records in a scan that meet a condition.

    With `first`, of each part the first one only. What is left out on the way is listed
    in the scan's `problems`.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"a", b"one", timestamp=1)
    >>> batch.append(b"b", b"two", timestamp=2)
    >>> condition = Condition(value=re.compile(b"^t"))
    >>> [place] = find_places(kafkalog.scan(batch.build()), condition)
    >>> place.offset, place.position, place.record_index
    (8, 0, 1)
    """
    scan.problems = []
    for part, bounds in scan.parts:
        for place in _of_part(scan, part, bounds, condition):
            yield place
            if first:
                break


def _of_part(
    scan: Scan, part: Part, bounds: Bounds, condition: Condition
) -> Iterator[Place]:
    reading = PartReading(part=part, bounds=bounds, request=scan.request)
    workspace = Workspace()
    for piece in reading.pieces():
        if isinstance(piece, Problem):
            scan.problems.append(piece)
            continue
        last, passed = -1, 0  # the batch that may go on, and its records so far
        for views in _decoded(scan, piece, condition, workspace):
            first = int(views.rows["position"][0])
            passed = passed if first == last else 0
            slots = _meeting(views, piece.bounds, condition)
            yield from _places(part, piece, views, slots, passed)
            last = int(views.rows["position"][-1])
            passed = int(views.counts[-1]) + passed * (first == last)


def _places(
    part: Part, piece: Piece, views: Views, slots: Slots, passed: int
) -> Iterator[Place]:
    """Say where the records at `slots` lie; of the first batch some are `passed`."""
    ends = np.cumsum(views.counts)
    batches = np.searchsorted(ends, slots, side="right")
    indexes = slots - (ends - views.counts)[batches]
    indexes[batches == 0] += passed
    times = views.records["timestamp"][slots].tolist()
    for offset, time, position, index in zip(
        views.records["offset"][slots].tolist(),
        times,
        views.rows["position"][batches].tolist(),
        indexes.tolist(),
        strict=True,
    ):
        told = None if time == NO_TIMESTAMP else time
        yield Place(
            part.topic, part.partition, offset, told, piece.path, position, index
        )


def _decoded(
    scan: Scan, piece: Piece, condition: Condition, workspace: Workspace
) -> Iterator[Views]:
    """Decode the batches that may hold what is looked for, each of them whole."""
    rows = piece.step.rows
    if condition.producer_ids:
        rows = rows[np.isin(rows["producer_id"], condition.producer_ids)]
        piece = piece._replace(step=replace(piece.step, rows=rows))
    found = decode(
        piece.step.data,
        piece.step.origin,
        rows,
        bounds=Bounds(),
        limit=scan.request.max_batch_bytes,
        workspace=workspace,
        before=piece.step.before,
        in_pieces=True,
    )
    for views in found:
        if isinstance(views, LocatedError):
            scan.problems.append(left_out(views, piece, scan.request))
        else:
            yield views


def _meeting(views: Views, bounds: Bounds, condition: Condition) -> Slots:
    """Answer which records lie within bounds and meet the condition."""
    records = views.records
    slots = np.flatnonzero(_within(views, bounds))
    for name, pattern in (("key", condition.key), ("value", condition.value)):
        if pattern is not None:
            starts, lengths = records[f"{name}_start"], records[f"{name}_length"]
            fits = _matching(pattern, views.data, starts[slots], lengths[slots])
            slots = slots[fits]
    if condition.headers and len(slots):
        slots = _with_headers(condition.headers, views, slots)
    return slots


def _within(views: Views, bounds: Bounds) -> Bools:
    """Say which records lie within bounds; without a time, outside of any of it."""
    first, last, earliest, latest = bounds.as_array().tolist()
    offset, time = views.records["offset"], views.records["timestamp"]
    within: Bools = (offset >= first) & (offset <= last)
    if bounds.timed:
        within &= (time != NO_TIMESTAMP) & (time >= earliest) & (time <= latest)
    return within


def _matching(
    pattern: Pattern,
    data: Bytes,
    starts: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int32],
) -> Bools:
    """Say in which byte strings the pattern occurs; a length of -1 is null."""
    search, room = pattern.search, data.data
    return np.fromiter(
        (
            length >= 0 and search(room[start : start + length]) is not None
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ),
        np.bool_,
        len(starts),
    )


def _with_headers(
    wanted: tuple[tuple[bytes, Pattern | None], ...],
    views: Views,
    slots: Slots,
) -> Slots:
    """Keep the records that have, for each of `wanted`, a header that fits."""
    offsets, places = find_headers(views)
    room = views.data.data
    kept = []
    for slot in slots.tolist():
        here = places[:, offsets[slot] : offsets[slot + 1]].T.tolist()
        headers = [
            (bytes(room[a : a + m]), None if n < 0 else room[b : b + n])
            for a, m, b, n in here
        ]
        kept.append(all(_has(headers, *one) for one in wanted))
    return slots[np.array(kept, np.bool_)]


def _has(
    headers: list[tuple[bytes, memoryview | None]], name: bytes, pattern: Pattern | None
) -> bool:
    """Whether one of the headers has that key, and a value in which the pattern is."""
    return any(
        key == name
        and (pattern is None or (value is not None and bool(pattern.search(value))))
        for key, value in headers
    )

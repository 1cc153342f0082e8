"""The batches of a ``.log`` that is written to, as Kafka's engine walks them.

Here nothing is judged but the framing: where an entry is too small to be one, that is
damage, and where it runs past the end, the entries end before it, without a word. So
what recovery keeps, a lookup finds and truncation cuts is what Kafka's would. (What a
reader is given passes `file_records`, which trusts nothing.)

Knows: entries of one file. Does not know: indexes, producers, what is cut.
Source: ``FileRecords.java``, ``FileLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafkalog._speedups import Status
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import CorruptRecordError, LocatedError, LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes, scan_headers, size_field
from kafkalog.formats.layout import (
    BATCH,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_SIZE,
)
from kafkalog.storage.durable_file import DurableFile

FIRST_STEP_BYTES: Final = 16 << 10
STEP_BYTES: Final = 4 << 20
STEP_GROWTH: Final = 8


class Window(NamedTuple):
    """Entries that lie whole in `data`, whose first byte is at `origin` in the file."""

    rows: BatchHeaders
    data: Bytes
    origin: int


class Found(NamedTuple):
    """The first offset of an entry, where it begins, and its size."""

    offset: int
    position: int
    size_in_bytes: int


def windows(
    file: DurableFile,
    start: int,
    end: int,
    first_bytes: int = FIRST_STEP_BYTES,
    most_bytes: int = STEP_BYTES,
    room: Workspace | None = None,
) -> Iterator[Window]:
    """Yield the entries from position `start` to `end`, a window of them at a time.

    Windows grow from `first_bytes` to `most_bytes`, or what an entry needs.
    The bytes of a window lie in `room` where there is one, until the next is taken.
    Raises `CorruptRecordError` where an entry is too small, once what precedes it was
    given, and `LogArgumentError` for a negative position, as a damaged index has.
    """
    position, length = start, first_bytes
    if start < 0 and end > HEADER_SIZE_UP_TO_MAGIC:
        raise LogArgumentError(f"position {start} is before the file: {file.path}")
    while position < end - HEADER_SIZE_UP_TO_MAGIC:
        data = _read(file, position, min(length, end - position), room)
        rows, status, place = scan_headers(data, 0, position, any_magic=True)
        if len(rows):
            yield Window(rows, data, position)
        length = max(length, min(length * STEP_GROWTH, most_bytes))
        if status == Status.OK and place == 0:
            raise _cut_short(file, position)
        position += place
        if status == Status.OK or position >= end - HEADER_SIZE_UP_TO_MAGIC:
            continue
        size = _size(file, position, data[place:])
        if position + LOG_OVERHEAD + size > end:
            return
        if status == Status.ENTRY_TOO_SMALL:
            raise _too_small(file, position, size)
        length = max(length, LOG_OVERHEAD + size)


def position_of(file: DurableFile, offset: int, start: int, end: int) -> Found | None:
    """Find the first entry from `start` on whose last offset is `offset` or more.

    Of an entry that begins beyond it, having passed it or not, the header's first
    number is what counts: of magic 2 the base offset, before that the last one.
    """
    found = _find(file, offset, start, end)
    if found is None or found.offset >= 0:
        return found
    return found._replace(offset=_first_offset(file, *found[1:]))


class LogEnd(NamedTuple):
    """Where a segment ends: the next offset, and the byte after the last entry."""

    offset: int
    position: int


def find_end(
    file: DurableFile, indexed_offset: int, indexed_position: int, size: int
) -> LogEnd | None:
    """Return where a segment ends that is not read through, by its last index entry.

    None where no entry from the indexed position on reaches the indexed offset: Kafka
    then takes the segment for empty.
    """
    found = position_of(file, indexed_offset, max(indexed_position, 0), size)
    if found is None:
        return None
    for rows, _, _ in windows(file, found.position, size):
        last = rows[-1]
    return LogEnd(
        int(last["last_offset"]) + 1, int(last["position"] + last["size_in_bytes"])
    )


def first_offset(file: DurableFile, row: np.void) -> int:
    """First offset of an entry: its header's, but for a wrapper."""
    offset = int(row["base_offset"])
    place = int(row["position"]), int(row["size_in_bytes"])
    return offset if offset >= 0 else _first_offset(file, *place)


def _first_offset(file: DurableFile, position: int, size: int) -> int:
    """First offset of a wrapper, which is among its records."""
    try:
        return RecordBatch(file.read(position, size)).base_offset
    except LocatedError as error:
        error.kafka_name = error.as_rejection().kafka_name
        raise error.located(file.path, position) from None


def _find(file: DurableFile, offset: int, start: int, end: int) -> Found | None:
    before = np.empty(0, BATCH)
    for rows, _, _ in windows(file, start, end):
        # What stands first in an entry is, before magic 2, its last offset.
        firsts = np.where(rows["magic"] < 2, rows["last_offset"], rows["base_offset"])
        reached = np.flatnonzero(firsts >= offset)
        place = int(reached[0]) if len(reached) else len(rows)
        if place:
            before = rows[place - 1 : place]
        if place < len(rows):
            held = firsts[place] > offset and (before["last_offset"] >= offset).any()
            return _found(before[0] if held else rows[place])
    return _found(before[0]) if (before["last_offset"] >= offset).any() else None


def greatest_timestamp(file: DurableFile, start: int, end: int) -> tuple[int, int]:
    """Greatest timestamp from `start` on, and the last offset of its first batch.

    Both are -1 where no batch has a timestamp.
    """
    timestamp = offset = -1
    for rows, _, _ in windows(file, start, end):
        place = int(np.argmax(rows["max_timestamp"]))
        if rows["max_timestamp"][place] > timestamp:
            timestamp = int(rows["max_timestamp"][place])
            offset = int(rows["last_offset"][place])
    return timestamp, offset


def _read(
    file: DurableFile, position: int, length: int, room: Workspace | None
) -> Bytes:
    if room is None:
        return np.frombuffer(file.read(position, length), np.uint8)
    data = room.bytes_for(length)
    return data[: file.read_into(data, position)]


def _found(row: np.void) -> Found:
    fields = ("base_offset", "position", "size_in_bytes")
    return Found(*(int(row[field]) for field in fields))


def _size(file: DurableFile, position: int, known: Bytes) -> int:
    """Read the size field of an entry, unless its beginning is `known`.

    Raises where it is too small for any.
    """
    head = known[:LOG_OVERHEAD].tobytes()
    size = size_field(
        head if len(head) == LOG_OVERHEAD else file.read(position, LOG_OVERHEAD)
    )
    if size < MIN_SIZE:
        reason = f"a size of {size} is below {MIN_SIZE}, the least of any entry"
        error = CorruptRecordError(reason, position=position, cause="size")
        raise error.located(file.path)
    return size


def _too_small(file: DurableFile, position: int, size: int) -> CorruptRecordError:
    reason = f"a size of {size} is below what its magic needs"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)


def _cut_short(file: DurableFile, position: int) -> CorruptRecordError:
    reason = "the file ends before the size it had when it was opened"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)

"""Reading of the batches of a ``.log`` that is appended to, as Kafka reads them.

Only sizes are checked. An entry that is too small raises an error; one that extends
past the end of the file is ignored, with all after it. So recovery, lookups and
truncation find the same batches as Kafka's. (Readers use `file_records`, which verifies
everything.)

Source: ``FileRecords.java``, ``FileLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import CorruptRecordError, LocatedError, LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders, scan_headers, size_field
from kafkalog.formats.layout import (
    BATCH,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_SIZE,
)
from kafkalog.storage.durable_file import DurableFile
from kafkalog.storage.file_names import MAX_OFFSET

FIRST_WINDOW_BYTES: Final = 16 << 10
WINDOW_BYTES: Final = 4 << 20
WINDOW_GROWTH: Final = 8


class Window(NamedTuple):
    """Entries that are complete in `data`, which begins at `origin` in the file."""

    rows: BatchHeaders
    data: Bytes
    origin: int


class BatchPosition(NamedTuple):
    """The first offset of a batch, its position, and its size."""

    offset: int
    position: int
    size_in_bytes: int


def windows(
    file: DurableFile,
    start: int,
    end: int,
    first_bytes: int = FIRST_WINDOW_BYTES,
    most_bytes: int = WINDOW_BYTES,
    workspace: Workspace | None = None,
) -> Iterator[Window]:
    """Yield the entries from position `start` to `end`, a window of them at a time.

    Windows grow from `first_bytes` to `most_bytes`, or to the size of an entry. With a
    `workspace` the bytes of a window are valid until the next one is read. Raises
    `CorruptRecordError` at an entry that is too small, after the entries before it, and
    `LogArgumentError` for a negative position, which a damaged index may have.
    """
    position, length = start, first_bytes
    if start < 0 and end > HEADER_SIZE_UP_TO_MAGIC:
        raise LogArgumentError(f"position {start}, expected at least 0: {file.path}")
    while position < end - HEADER_SIZE_UP_TO_MAGIC:
        data = _read(file, position, min(length, end - position), workspace)
        rows, status, parsed = scan_headers(data, 0, position, any_magic=True)
        if len(rows):
            yield Window(rows, data, position)
        length = max(length, min(length * WINDOW_GROWTH, most_bytes))
        if status == Status.OK and parsed == 0:
            raise _truncated(file, position)
        position += parsed
        if status == Status.OK or position >= end - HEADER_SIZE_UP_TO_MAGIC:
            continue
        size = _size(file, position, data[parsed:])
        if position + LOG_OVERHEAD + size > end:
            return
        if status == Status.ENTRY_TOO_SMALL:
            raise _too_small(file, position, size)
        length = max(length, LOG_OVERHEAD + size)


def position_of(
    file: DurableFile, offset: int, start: int, end: int
) -> BatchPosition | None:
    """Return the first entry from `start` on whose last offset is >= `offset`.

    Entries are compared by the first field of their headers: the base offset for magic
    2, the last offset for magic 0 and 1. Kafka compares base offsets of all, for which
    it decompresses wrapper messages. Where offsets ascend, both find the same entry.
    """
    batch = _find(file, offset, start, end)
    if batch is None or batch.offset >= 0:
        return batch
    return batch._replace(offset=_first_offset(file, *batch[1:]))


class LogEnd(NamedTuple):
    """The end of a segment: its next offset, and the position after the last entry."""

    offset: int
    position: int


def find_end(
    file: DurableFile, indexed_offset: int, indexed_position: int, size: int
) -> LogEnd | None:
    """Return the end of a segment, read from its last index entry on.

    Returns None if no batch from the indexed position on reaches the indexed offset;
    Kafka then treats the segment as empty. Raises `CorruptRecordError` if the last
    offset is the greatest int64, after which there is no end, and the errors of a
    wrapper message that cannot be decompressed for its first offset.
    """
    _check_wrappers(file, indexed_offset, max(indexed_position, 0), size)
    batch = position_of(file, indexed_offset, max(indexed_position, 0), size)
    if batch is None:
        return None
    for rows, _, _ in windows(file, batch.position, size):
        last = rows[-1]
    last_offset, position = int(last["last_offset"]), int(last["position"])
    if last_offset == MAX_OFFSET:
        raise CorruptRecordError(
            f"last offset {MAX_OFFSET}, expected at most {MAX_OFFSET - 1}",
            position=position,
            cause="offset",
        ).located(file.path)
    return LogEnd(last_offset + 1, position + int(last["size_in_bytes"]))


def _check_wrappers(file: DurableFile, offset: int, start: int, end: int) -> None:
    """Decompress wrapper messages up to the first entry at or after an offset.

    A batch of magic 2 whose magic is damaged may be taken for one.
    """
    for rows, _, _ in windows(file, start, end):
        for row in rows:
            if first_offset(file, row) >= offset:
                return


def first_offset(file: DurableFile, row: np.void) -> int:
    """Return the first offset of an entry: of its header, or inside a wrapper."""
    offset = int(row["base_offset"])
    if offset >= 0:
        return offset
    return _first_offset(file, int(row["position"]), int(row["size_in_bytes"]))


def _first_offset(file: DurableFile, position: int, size: int) -> int:
    """Return the first offset of a wrapper, that of its first message."""
    try:
        return RecordBatch(file.read(position, size)).base_offset
    except LocatedError as error:
        error.kafka_name = error.as_rejection().kafka_name
        raise error.located(file.path, position) from None


def _find(file: DurableFile, offset: int, start: int, end: int) -> BatchPosition | None:
    before = np.empty(0, BATCH)
    for rows, _, _ in windows(file, start, end):
        # The first field is the last offset for magic 0 and 1.
        firsts = np.where(rows["magic"] < 2, rows["last_offset"], rows["base_offset"])
        reached = np.flatnonzero(firsts >= offset)
        i = int(reached[0]) if len(reached) else len(rows)
        if i:
            before = rows[i - 1 : i]
        if i < len(rows):
            is_before = firsts[i] > offset and (before["last_offset"] >= offset).any()
            return _found(before[0] if is_before else rows[i])
    return _found(before[0]) if (before["last_offset"] >= offset).any() else None


def greatest_timestamp(file: DurableFile, start: int, end: int) -> tuple[int, int]:
    """Return the greatest timestamp from `start` on, and its batch's last offset.

    Of several batches with it, the first one counts. Both are -1 without timestamps.
    """
    timestamp = offset = -1
    for rows, _, _ in windows(file, start, end):
        i = int(np.argmax(rows["max_timestamp"]))
        if rows["max_timestamp"][i] > timestamp:
            timestamp = int(rows["max_timestamp"][i])
            offset = int(rows["last_offset"][i])
    return timestamp, offset


def _read(
    file: DurableFile, position: int, length: int, workspace: Workspace | None
) -> Bytes:
    if workspace is None:
        return np.frombuffer(file.read(position, length), np.uint8)
    data = workspace.bytes_for(length)
    return data[: file.read_into(data, position)]


def _found(row: np.void) -> BatchPosition:
    fields = ("base_offset", "position", "size_in_bytes")
    return BatchPosition(*(int(row[field]) for field in fields))


def _size(file: DurableFile, position: int, known: Bytes) -> int:
    """Return the size field of an entry, from the bytes `known` or from the file.

    Raises `CorruptRecordError` if it is too small for any entry.
    """
    head = known[:LOG_OVERHEAD].tobytes()
    size = size_field(
        head if len(head) == LOG_OVERHEAD else file.read(position, LOG_OVERHEAD)
    )
    if size < MIN_SIZE:
        reason = f"entry size {size}, expected at least {MIN_SIZE}"
        error = CorruptRecordError(reason, position=position, cause="size")
        raise error.located(file.path)
    return size


def _too_small(file: DurableFile, position: int, size: int) -> CorruptRecordError:
    reason = f"entry size {size}, expected at least that of its magic"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)


def _truncated(file: DurableFile, position: int) -> CorruptRecordError:
    reason = "file truncated since it was opened"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)

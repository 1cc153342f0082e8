"""What an append's bytes hold: which batches count, and what they say of themselves.

Checked is what headers and checksums tell; records are not looked at. Each append of a
call is judged by itself, in Kafka's order of checks, so that the first fault found is
the one that Kafka finds.

Knows: headers, checksums, who may send what. Does not know: records, the log.
Source: ``UnifiedLog.analyzeAndValidateRecords``, ``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.codecs.compression import Codec
from kafkalog.encoding.record_columns import Int64s
from kafkalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    KafkaLogError,
    LogArgumentError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
)
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    Bytes,
    crc_error,
    decode_error,
    epoch_field,
    find_crc_mismatches,
    find_invalid_start,
    offset_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import (
    BATCH,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_BATCH_BYTES,
    MIN_SIZE,
)
from kafkalog.validation.appends import (
    APPEND,
    AppendMemory,
    AppendOrigin,
    Appends,
    as_bytes,
    bounds_of,
)
from kafkalog.validation.batch_records import read_through

_LEAST_INT32: Final = -(2**31)
_MOST_INT32: Final = 2**31 - 1
_EVERY: Final = 2**63 - 1


class Asked(NamedTuple):
    """What is asked of the batches of an append; `rules` are those of a leader's."""

    origin: AppendOrigin
    leader_epoch: int
    most_bytes: int
    monotonic: bool
    rules: tuple[bool, bool, int, int, int] | None = None

    def take(
        self,
        pieces: list[Any],
        byte_bounds: Int64s,
        data: Bytes,
        rows: BatchHeaders,
        info: BatchHeaders,
        row_bounds: Int64s,
    ) -> tuple[int, int]:
        """Copy `pieces` and fill the rest: how many are plain, and rows filled."""
        raft = self.origin is AppendOrigin.RAFT_LEADER
        bounded = raft or self.origin is AppendOrigin.REPLICATION
        return _speedups.take_batches(
            pieces,
            byte_bounds,
            self.origin is AppendOrigin.CLIENT,
            self.monotonic,
            self.leader_epoch if raft else _LEAST_INT32,
            self.leader_epoch if bounded else _MOST_INT32,
            self.most_bytes,
            self.rules,
            data,
            as_bytes(rows),
            as_bytes(info),
            row_bounds,
        )


_ANYTHING: Final = Asked(AppendOrigin.COORDINATOR, -1, _EVERY, monotonic=False)


def analyze_appends(
    pieces: Sequence[Any],
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    max_message_bytes: int | None,
    monotonic: bool,
    memory: AppendMemory,
) -> Appends:
    """Copy the appends of a call, and find the batches that are to be written.

    Each of `pieces` is the bytes of one append, bytes-like. `max_message_bytes` None
    leaves sizes unchecked, as for a follower; `monotonic` asks for offsets that rise,
    as where none are assigned. Behind the last whole batch, and from the first batch of
    a higher epoch than a replica knows, bytes are cut off without an error.

    Errors, in `Appends.errors`: `InvalidRecordError`, `RecordTooLargeError`,
    `CorruptRecordError`, `OffsetsOutOfOrderError`, `LogArgumentError` for a codec that
    there is none of.
    """
    most_bytes = _EVERY if max_message_bytes is None else max_message_bytes
    asked = Asked(origin, leader_epoch, most_bytes, monotonic)
    views = as_views(pieces)
    plain = take_plain(views, asked, memory)
    if plain is not None:
        return plain
    singles = [_single(np.frombuffer(view, np.uint8), asked) for view in views]
    return Appends.merged(singles, memory.joined)


def as_views(pieces: Sequence[Any]) -> list[Any]:
    """See each of `pieces` as bytes, one by one."""
    return list(map(as_view, pieces))


def as_view(piece: Any) -> Any:
    """See what holds bytes as bytes; raises `TypeError` for what holds none."""
    return piece if type(piece) is bytes else memoryview(piece).cast("B")


def take_plain(views: list[Any], asked: Asked, memory: AppendMemory) -> Appends | None:
    """Take all appends at once, if there is nothing to say against any of them."""
    byte_bounds = bounds_of(map(len, views))
    data = memory.joined.bytes_for(int(byte_bounds[-1]))
    row_bounds = np.empty(len(byte_bounds), np.int64)
    info = memory.spans_for(len(views))
    while True:
        rows = memory.rows
        plain, count = asked.take(views, byte_bounds, data, rows, info, row_bounds)
        if plain == len(views):
            return Appends(data, rows[:count], row_bounds, byte_bounds, info, {})
        if count < len(rows):
            return None
        memory.more_rows()


def _single(data: Bytes, asked: Asked) -> Appends:
    """Take one append, batch by batch, in Kafka's order of checks."""
    try:
        rows = _batches(data, asked)
    except KafkaLogError as error:
        return Appends.refused(error.with_traceback(None))
    byte_bounds = bounds_of([int(rows["size_in_bytes"].sum())])
    kept = data[: byte_bounds[1]]
    info, row_bounds = np.empty(1, APPEND), np.empty(2, np.int64)
    _ANYTHING.take([kept], byte_bounds, kept.copy(), rows, info, row_bounds)
    return Appends(kept, rows, row_bounds, byte_bounds, info, {})


def _batches(data: Bytes, asked: Asked) -> BatchHeaders:
    """Return the headers of the batches that are to be written, or raise."""
    kept: list[BatchHeaders] = []
    position, last_offset, skipping = 0, -1, False
    while (size := _whole_batch(data, position)) is not None:
        entry = data[position : position + size]
        _check_sender(entry, asked)
        skipping = skipping or _is_newer(entry, asked)
        if not skipping:
            row = _sound_batch(entry, position, asked)
            if asked.monotonic and last_offset >= row["last_offset"][0]:
                _read_through(data)
                reason = f"offset {row['last_offset'][0]} does not rise above"
                raise OffsetsOutOfOrderError(f"{reason} {last_offset}")
            last_offset = int(row["last_offset"][0])
            kept.append(row)
        position += size
    if not position and (error := _no_entry(data, position)):
        raise error
    return np.concatenate(kept) if kept else np.empty(0, BATCH)


def _read_through(data: Bytes) -> None:
    """Read all records, as Kafka does to tell their offsets; raise what is broken."""
    rows, _, place = scan_headers(data)
    read_through(data, rows, max(len(data), MAX_BATCH_BYTES))
    _whole_batch(data, place)


def _whole_batch(data: Bytes, position: int) -> int | None:
    """Return the size of the entry at `position`; None where none lies there whole."""
    left = len(data) - position
    if left < LOG_OVERHEAD:
        return None
    size, has_magic = size_field(data, position), left >= HEADER_SIZE_UP_TO_MAGIC
    strange = size < MIN_SIZE or (has_magic and data[position + MAGIC_OFFSET] > 2)
    if strange and (error := _no_entry(data, position)):
        raise error
    whole = LOG_OVERHEAD + size
    return whole if has_magic and whole <= left else None


def _no_entry(data: Bytes, position: int) -> CorruptRecordError | None:
    """Return the error that no entry begins at `position`, not even a part of one."""
    head = data[position : position + HEADER_SIZE_UP_TO_MAGIC]
    found = find_invalid_start(head, first=position == 0)
    return None if found is None else found.at(position)


def _check_sender(entry: Bytes, asked: Asked) -> None:
    """Refuse what this origin may not say in a header."""
    if asked.origin is AppendOrigin.RAFT_LEADER:
        epoch = _epoch(entry)
        if epoch != asked.leader_epoch:
            reason = f"a batch of epoch {epoch}, expected {asked.leader_epoch}"
            raise InvalidRecordError(reason)
    if asked.origin is AppendOrigin.CLIENT and entry[16] == 2:
        base_offset = offset_field(entry)
        if base_offset != 0:
            raise InvalidRecordError(f"base offset {base_offset}, a client's is 0")


def _is_newer(entry: Bytes, asked: Asked) -> bool:
    """Whether a batch is of a higher epoch than the replica knows."""
    return asked.origin is AppendOrigin.REPLICATION and (
        _epoch(entry) > asked.leader_epoch and _epoch(entry) != -1
    )


def _epoch(entry: Bytes) -> int:
    return epoch_field(entry) if entry[16] == 2 else -1


def _sound_batch(entry: Bytes, position: int, asked: Asked) -> BatchHeaders:
    """Read the header of a batch that is neither too large nor damaged."""
    if len(entry) > asked.most_bytes:
        reason = f"a batch of {len(entry)} bytes exceeds {asked.most_bytes}"
        raise RecordTooLargeError(reason)
    row = np.empty(1, BATCH)
    status, _, _ = _speedups.scan_batches(entry, 0, position, row)
    if status != Status.OK:
        raise decode_error(status, position)
    if len(find_crc_mismatches(entry, position, row)):
        raise crc_error(entry, position, row[0])
    codec = int(row["attributes"][0]) & CODEC_MASK
    if codec >= len(Codec):
        raise LogArgumentError(f"there is no compression type {codec}")
    return row

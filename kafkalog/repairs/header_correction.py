"""Correction of batch headers whose right content is known.

The checksum of a batch does not cover its first 21 bytes. If only these are damaged,
its records are intact, and the fields follow from others:

    length         the batch ends where the next one begins; the checksum proves it
    magic          2, if the checksum matches then
    base offset    follows that of the batch before, and its last offset is followed by
                   that of the next batch; or one bit differs from what follows
    leader epoch   epochs never fall: if it is not between those of the batches before
                   and after, it is theirs, or that of the checkpoint

A field that is not known for certain is not changed, unlike in a copy, whose batches
are appended: there, each gets an epoch that fits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.formats.batch_headers import (
    PARTITION_LEADER_EPOCH,
    find_crc_mismatches,
    magic_field,
    offset_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import (
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    NO_LEADER_EPOCH,
    RECORD_BATCH_OVERHEAD,
    SIZE_OFFSET,
)
from kafkalog.log.leader_epochs import certain_epoch, epoch_for_offset
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource

MAX_BYTES: Final = 64 << 20
"""The largest batch whose header is corrected."""

MAGIC: Final = 2


class HeaderCorrection(NamedTuple):
    """New bytes of a field, at a position of the file."""

    position: int
    data: bytes
    description: str


def correct_header(
    data: Bytes,
    position: int,
    before: int,
    after: int | None,
    *,
    is_last: bool = False,
) -> list[HeaderCorrection]:
    """Return the corrections that make `data` one valid batch; none if none do.

    `before` is the last offset before it, `after` the first one after it. If it
    `is_last`, that is the least offset at which the log may end, None if it is unknown.
    """
    if not RECORD_BATCH_OVERHEAD <= len(data) <= MAX_BYTES:
        return []
    data, corrections = data.copy(), []
    size = len(data) - LOG_OVERHEAD
    for field, found, expected, width, name in (
        (SIZE_OFFSET, size_field(data), size, 4, "length"),
        (MAGIC_OFFSET, magic_field(data), MAGIC, 1, "magic"),
    ):
        if found != expected:
            right = expected.to_bytes(width, signed=True)
            data[field : field + width] = np.frombuffer(right, np.uint8)
            text = f"{name} {found}, expected {expected}"
            corrections.append(HeaderCorrection(position + field, right, text))
    rows, _, end = scan_headers(data, 0, 0, 2)
    if len(rows) != 1 or end != len(data) or len(find_crc_mismatches(data, 0, rows)):
        return []
    base, delta = offset_field(data), int(rows["last_offset"][0]) - offset_field(data)
    fits = before < base and (after is None or base + delta < after)
    if fits or (is_last and base == before + 1):
        return corrections
    offset = correct_offset(
        position, (base, base + delta), before, after, is_last=is_last
    )
    return [] if offset is None else [*corrections, offset]


def correct_offset(
    position: int,
    offsets: tuple[int, int],
    before: int,
    after: int | None,
    *,
    is_last: bool,
) -> HeaderCorrection | None:
    """Return the correction of the base offset of a batch, None if none is certain.

    `offsets` are the first and last one of a batch that cannot have them. With the
    right ones it ends right before the offset `after`, which the next batch or the end
    of the log has; or, if it `is_last` in its log, they differ in one bit.
    """
    base, last = offsets
    expected = before + 1
    differing = ((base ^ expected) & (2**64 - 1)).bit_count()
    if expected + last - base + 1 != after and not (is_last and differing == 1):
        return None
    text = f"base offset {base}, expected {expected}"
    return HeaderCorrection(position, expected.to_bytes(8, signed=True), text)


def apply_corrections(
    data: Bytes, start: int, corrections: Iterable[HeaderCorrection]
) -> None:
    """Write the corrections into the bytes of a file from `start` on."""
    for each in corrections:
        for place, byte in enumerate(each.data, each.position - start):
            if 0 <= place < len(data):
                data[place] = byte


def correct_epochs(
    path: Path,
    base: int,
    most: int,
    positions: Collection[int],
    epochs: Sequence[EpochEntry],
) -> list[HeaderCorrection]:
    """Return the corrections of the leader epochs of the batches at `positions`.

    `epochs` are those of ``leader-epoch-checkpoint``. A batch is corrected if its epoch
    is not between those of the batches before and after it.
    """
    found = []
    with FileSource(path) as source:
        rows = np.concatenate(list(_epochs(source, LogSegment(path, base, most))))
    for position in sorted(positions):
        i = int(np.searchsorted(rows[:, 0], position))
        if i == len(rows) or rows[i, 0] != position:
            continue
        stored, offset = rows[i, 1:].tolist()
        low = int(rows[i - 1, 1]) if i else NO_LEADER_EPOCH
        high = int(rows[i + 1, 1]) if i + 1 < len(rows) else None
        fits = low <= stored and (high is None or stored <= high)
        expected = certain_epoch(low, high, epoch_for_offset(epochs, offset))
        if fits or expected is None or expected < 0:
            continue
        right = expected.to_bytes(4, signed=True)
        text = f"leader epoch {stored}, expected {expected}"
        found.append(
            HeaderCorrection(position + PARTITION_LEADER_EPOCH.start, right, text)
        )
    return found


def _epochs(source: FileSource, segment: LogSegment) -> Iterator[np.ndarray]:
    """Yield positions, leader epochs and last offsets of the valid batches."""
    yield np.empty((0, 3), np.int64)
    policy = ReadPolicy(on_corruption="skip", max_batch_bytes=MAX_BYTES)
    for step in segment.records(source, policy=policy):
        if isinstance(step, Step):
            names = "position", "leader_epoch", "last_offset"
            columns = [step.rows[name].astype(np.int64) for name in names]
            yield np.column_stack(columns)

"""Finding the way again behind damage, and telling damage from the end of a file.

Behind the last whole entry of a file a tail is no error where it is an entry of which
the end is missing (a crash, or a write under way), or zeros to the end of the file
(preallocation). An entry whose size leads past the end although sound entries follow is
not such a tail: its size is wrong.

Knows: what an entry looks like. Does not know: indexes, neighbours, what is wanted.
Source: ``FileLogInputStream.java`` for where Kafka stops.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog._speedups import Status, find_batch
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.batch_headers import (
    REASONS,
    BatchHeaders,
    Bytes,
    find_crc_mismatches,
    find_invalid_start,
    offset_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import (
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAX_BATCH_BYTES,
    MAX_OFFSET_DELTA,
)
from kafkalog.storage.byte_source import ByteSource, only_zeros

NONE: Final = np.empty(0, np.intp)

WINDOW_BYTES: Final = 8 << 20
CHECKSUMMED_PER_BYTE: Final = 16
"""How many bytes may be checksummed for each byte searched: bounds hostile input."""


def sound_entry(source: ByteSource, position: int) -> BatchHeaders | None:
    """Header of the whole entry with the right checksum that lies at `position`."""
    head = source.read(position, HEADER_SIZE_UP_TO_MAGIC)
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    size = LOG_OVERHEAD + size_field(head)
    room = min(source.size - position, MAX_BATCH_BYTES)
    if not HEADER_SIZE_UP_TO_MAGIC < size <= room:
        return None
    data = source.read(position, size)
    rows, _, _ = scan_headers(data, 0, position, 1)
    sound = len(rows) and not len(find_crc_mismatches(data, position, rows))
    return rows if sound else None


def find_half_written(
    source: ByteSource,
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    chosen: BatchHeaders,
) -> npt.NDArray[np.intp]:
    """Places, in `chosen`, of what was being written when `data` was read.

    That may be where zeros lie behind all `rows`: there a file is longer than what was
    written to it. By now each is whole.
    """
    if not len(chosen):
        return NONE
    behind = int(rows["position"][-1] + rows["size_in_bytes"][-1]) - origin
    follows = data[behind : behind + LOG_OVERHEAD]
    if follows.any() or not len(follows):
        return NONE
    unsound = find_crc_mismatches(data, origin, chosen)
    positions = chosen["position"][unsound].tolist()
    whole = [sound_entry(source, position) is not None for position in positions]
    return unsound[np.array(whole, np.bool_)]


def leads_on(source: ByteSource, position: int, behind: int) -> bool:
    """Whether the size of a bad entry at `position` is right that it ends at `behind`.

    There a sound entry follows, or the file ends and none lies in between.
    """
    if behind == source.size:
        return find_sound_entry(source, position + 1) is None
    return sound_entry(source, behind) is not None


def find_sound_entry(source: ByteSource, position: int) -> int | None:
    """Position of the first sound entry from `position` on, or None.

    Windows overlap by half, so an entry is found if it is no longer than that.
    """
    while position < source.size:
        data = source.read(position, WINDOW_BYTES)
        found, budget = find_batch(data, 0, CHECKSUMMED_PER_BYTE * WINDOW_BYTES)
        if found >= 0:
            return position + found
        if position + len(data) >= source.size or not len(data) or budget < 0:
            return None
        position += len(data) // 2
    return None


def belongs(source: ByteSource, position: int, before: int | None, most: int) -> bool:
    """Whether the sound entry at `position` is the log's, going by its offsets.

    These follow `before`, and are `most` at most; anything goes where that is None.
    What is compressed a little holds whole messages, but not their offsets.
    """
    rows = sound_entry(source, position)
    if rows is None or before is None:
        return rows is not None
    last = int(rows["last_offset"][0])
    if not before < last <= most:
        return False
    behind = position + int(rows["size_in_bytes"][0])
    follows = find_sound_entry(source, behind)
    if follows is None or follows == behind:
        return True
    after = sound_entry(source, follows)
    return after is None or int(after["last_offset"][0]) > last


def tail_error(
    source: ByteSource, position: int, status: int, offsets: tuple[int, int]
) -> CorruptRecordError | None:
    """Return why the bytes from `position` on are no entry; None for a legal tail.

    `status` is what the scan of headers found there, the whole rest of the file being
    at hand. The offset of an entry there would lie in `offsets`, both included.
    """
    if status in (Status.ENTRY_INCOMPLETE, Status.ENTRY_TOO_SMALL) and only_zeros(
        source, position
    ):
        return None
    head = source.read(position, HEADER_SIZE_UP_TO_MAGIC)
    if no_entry := find_invalid_start(head, offsets, first=position == 0):
        return no_entry.at(position)
    if status != Status.ENTRY_INCOMPLETE:  # something was written there since
        return CorruptRecordError(REASONS[status], position=position)
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    follows = find_sound_entry(source, position + 1)
    while follows is not None and not _lies_behind(source, follows, position):
        follows = find_sound_entry(source, follows + 1)
    if follows is None:
        return None
    reason = f"the size of an entry leads past the end, yet one lies at {follows}"
    return CorruptRecordError(reason, position=position, cause="size")


def _lies_behind(source: ByteSource, position: int, cut: int) -> bool:
    """Whether a sound entry has offsets that could follow those of the one at `cut`.

    What is packed a little holds whole messages: not behind its own offset, or far off.
    """
    own = offset_field(source.read(cut, LOG_OVERHEAD))
    rows = sound_entry(source, position)
    return rows is None or 0 < int(rows["last_offset"][0]) - own <= MAX_OFFSET_DELTA

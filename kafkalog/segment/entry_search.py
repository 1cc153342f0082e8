"""Search for the next valid entry after damage, and check how a file ends.

After the last complete entry a file may end with a partial entry (a crash, or a write
that is not finished) or with zeros (preallocation); neither is damage. If the size of
an entry extends past the end although valid entries follow, its size is wrong.

Source: ``FileLogInputStream.java`` for where Kafka stops.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog._speedups import Status, find_batch
from kafkalog.array_types import Bytes
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.batch_headers import (
    REASONS,
    BatchHeaders,
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
"""Bytes whose CRC may be computed for each byte searched; limits crafted input."""


def read_valid_entry(source: ByteSource, position: int) -> BatchHeaders | None:
    """Return the header of a complete entry with a valid CRC at `position`, or None."""
    head = source.read(position, HEADER_SIZE_UP_TO_MAGIC)
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    size = LOG_OVERHEAD + size_field(head)
    most = min(source.size - position, MAX_BATCH_BYTES)
    if not HEADER_SIZE_UP_TO_MAGIC < size <= most:
        return None
    data = source.read(position, size)
    rows, _, _ = scan_headers(data, 0, position, 1)
    valid = len(rows) and not len(find_crc_mismatches(data, position, rows))
    return rows if valid else None


def find_being_written(
    source: ByteSource,
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    chosen: BatchHeaders,
) -> npt.NDArray[np.intp]:
    """Return the indexes in `chosen` of entries that were being written when read.

    There may be some if zeros follow all `rows`: the file is longer than its entries.
    The result has the entries that were incomplete in `data` and are valid in the file
    now.
    """
    if not len(chosen):
        return NONE
    end = int(rows["position"][-1] + rows["size_in_bytes"][-1]) - origin
    follows = data[end : end + LOG_OVERHEAD]
    if follows.any() or not len(follows):
        return NONE
    invalid = find_crc_mismatches(data, origin, chosen)
    positions = chosen["position"][invalid].tolist()
    valid = [read_valid_entry(source, position) is not None for position in positions]
    return invalid[np.array(valid, np.bool_)]


def is_size_confirmed(source: ByteSource, position: int, end: int) -> bool:
    """Return whether a damaged entry at `position` certainly ends at `end`.

    It does if a valid entry begins there, or if the file ends there and no valid
    entry is in between.
    """
    if end == source.size:
        return find_valid_entry(source, position + 1) is None
    return read_valid_entry(source, end) is not None


def find_valid_entry(source: ByteSource, position: int) -> int | None:
    """Return the position of the first valid entry from `position` on, or None.

    Windows overlap by half of their size, the size up to which entries are found.
    """
    while position < source.size:
        data = source.read(position, WINDOW_BYTES)
        index, budget = find_batch(
            data, 0, len(data), CHECKSUMMED_PER_BYTE * WINDOW_BYTES, False
        )
        if index >= 0:
            return position + index
        if position + len(data) >= source.size or not len(data) or budget < 0:
            return None
        position += len(data) // 2
    return None


def has_plausible_offsets(
    source: ByteSource, position: int, before: int | None, most: int
) -> bool:
    """Return whether the valid entry at `position` is one of the log, by its offsets.

    These must be above `before`, and at most `most`; any are accepted if `before` is
    None. Bytes inside a compressed batch may form a valid message with other offsets.
    """
    rows = read_valid_entry(source, position)
    if rows is None or before is None:
        return rows is not None
    last = int(rows["last_offset"][0])
    if not before < last <= most:
        return False
    end = position + int(rows["size_in_bytes"][0])
    follows = find_valid_entry(source, end)
    if follows is None or follows == end:
        return True
    after = read_valid_entry(source, follows)
    return after is None or int(after["last_offset"][0]) > last


def tail_error(
    source: ByteSource, position: int, status: int, offsets: tuple[int, int]
) -> CorruptRecordError | None:
    """Return the error of the bytes from `position` on; None for a valid end of a file.

    `status` is that of scanning all of them for headers. The offset of an entry there
    must be in `offsets`, both included.
    """
    if status in (Status.ENTRY_INCOMPLETE, Status.ENTRY_TOO_SMALL) and only_zeros(
        source, position
    ):
        return None
    head = source.read(position, HEADER_SIZE_UP_TO_MAGIC)
    if no_entry := find_invalid_start(head, offsets, first=position == 0):
        return no_entry.at(position)
    if status != Status.ENTRY_INCOMPLETE:  # the file has changed since
        return CorruptRecordError(REASONS[status], position=position)
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    follows = find_valid_entry(source, position + 1)
    while follows is not None and not _may_follow(source, follows, position):
        follows = find_valid_entry(source, follows + 1)
    if follows is None:
        return None
    reason = f"entry size past the end of the file, expected one up to byte {follows}"
    return CorruptRecordError(reason, position=position, cause="size")


def _may_follow(source: ByteSource, position: int, cut: int) -> bool:
    """Return whether the offsets of a valid entry may follow those of one at `cut`.

    Bytes inside a compressed batch may form a valid message; its offset is not above
    that of the batch, or is far from it.
    """
    own = offset_field(source.read(cut, LOG_OVERHEAD))
    rows = read_valid_entry(source, position)
    return rows is None or 0 < int(rows["last_offset"][0]) - own <= MAX_OFFSET_DELTA

"""Whether bytes that hold no whole entry may be the beginning of one.

A file may end in part of an entry, and so may bytes in memory: the rest was not written
yet, or never was. What cannot be the beginning of an entry is damage, or no log at all.

Knows: the first 17 bytes of an entry. Does not know: files, checksums.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkalog.errors import CorruptRecordError
from kafkalog.formats.entry_fields import magic_field, size_field
from kafkalog.formats.entry_headers import Bytes
from kafkalog.formats.layout import (
    HEADER_SIZE_UP_TO_MAGIC,
    LEAST_SIZES,
    LOG_OVERHEAD,
    SIZE_AT,
)

LIKELY_OFFSETS: Final = (0, 2**56 - 1)
"""Offsets that a log may have where nothing else bounds them: a million records a
second reach the last in two thousand years, and no text begins with less."""


class NoEntry(NamedTuple):
    """Why no entry begins there, and the word for that kind of damage."""

    reason: str
    cause: str

    def at(self, position: int) -> CorruptRecordError:
        """Return the error that says so."""
        return CorruptRecordError(self.reason, position=position, cause=self.cause)


def find_no_entry(
    head: Bytes, offsets: tuple[int, int] = LIKELY_OFFSETS, *, first: bool = False
) -> NoEntry | None:
    """Return why no entry begins with `head`, None where one may.

    `head` has the first 17 bytes, or all that there are. The entry's offset would lie
    in `offsets`, both included. `first` says that nothing precedes it.

    >>> import numpy as np
    >>> text = np.frombuffer(b"a text of more bytes", np.uint8)
    >>> find_no_entry(text, first=True).reason
    'not a Kafka log: magic 121, expected 0, 1 or 2'
    >>> find_no_entry(text[:5]).reason
    'offset 6998721800087535616 or more, expected 0 to 72057594037927935'
    """
    if not len(head):
        return None
    # Of an offset cut short this is the least that it may be, and the greatest.
    known = head[:SIZE_AT].tobytes()
    low, high = (
        int.from_bytes(known.ljust(SIZE_AT, rest), signed=True)
        for rest in (b"\0", b"\xff")
    )
    within = low <= offsets[1] and high >= offsets[0]
    found = _in_size_or_magic(head)
    if found is None and not within:
        least = "" if low == high else " or more"
        reason = f"offset {low}{least}, expected {offsets[0]} to {offsets[1]}"
        found = NoEntry(reason, "offset")
    if found is not None and first and not within:
        return NoEntry(f"not a Kafka log: {found.reason}", found.cause)
    return found


def _in_size_or_magic(head: Bytes) -> NoEntry | None:
    least, magic = LEAST_SIZES[0], None
    if len(head) >= HEADER_SIZE_UP_TO_MAGIC:
        magic = magic_field(head)
        if not 0 <= magic < len(LEAST_SIZES):
            return NoEntry(f"magic {magic}, expected 0, 1 or 2", "magic")
        least = LEAST_SIZES[magic]
    if len(head) >= LOG_OVERHEAD and (size := size_field(head)) < least:
        of_magic = "" if magic is None else f" of magic {magic}"
        return NoEntry(f"size {size}, expected at least {least}{of_magic}", "size")
    return None

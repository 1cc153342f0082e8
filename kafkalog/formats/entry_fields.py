"""Fields of one entry's header, each by itself, whatever the rest of it is worth.

Of an entry at `place` of some bytes. Where they end inside of a field, it is 0 or what
is there of it: who asks has looked at how many there are.

Knows: single fields. Does not know: what values they may have.
"""

from __future__ import annotations

from typing import Final

from kafkalog.formats.entry_headers import Bytes
from kafkalog.formats.layout import LOG_OVERHEAD, SIZE_AT

MAGIC_AT: Final = 16
COUNT: Final = slice(57, 61)

_EPOCH: Final = slice(12, 16)
_LAST_OFFSET_DELTA: Final = slice(23, 27)
_MESSAGE_ATTRIBUTES: Final = 17
_BATCH_ATTRIBUTES: Final = 22  # the byte of them that is used


def offset_field(data: Bytes | bytes, place: int = 0) -> int:
    """Read what stands first: of magic 2 the base offset, before that the last one."""
    return _signed(data[place : place + SIZE_AT])


def size_field(data: Bytes | bytes, place: int = 0) -> int:
    """Read the size, which is that of what follows it.

    >>> size_field(bytes.fromhex("0000000000000007 00000031"))
    49
    """
    return _signed(data[place + SIZE_AT : place + LOG_OVERHEAD])


def magic_field(data: Bytes | bytes, place: int = 0) -> int:
    """Read the magic, below 0 from 128 on, as in Java."""
    return _signed(data[place + MAGIC_AT : place + MAGIC_AT + 1])


def attributes_field(entry: Bytes) -> int:
    """Read the byte of the attributes in which all that is known of them stands."""
    is_message = magic_field(entry) < 2
    return int(entry[_MESSAGE_ATTRIBUTES if is_message else _BATCH_ATTRIBUTES])


def epoch_field(entry: Bytes) -> int:
    """Read the leader epoch of a batch."""
    return _signed(entry[_EPOCH])


def delta_field(entry: Bytes) -> int:
    """Read how far the last offset of a batch lies above the first."""
    return _signed(entry[_LAST_OFFSET_DELTA])


def count_field(entry: Bytes) -> int:
    """Read how many records a batch says that it has."""
    return _signed(entry[COUNT])


def _signed(field: Bytes | bytes) -> int:
    """Read a whole number of so many bytes, the greatest first."""
    return int.from_bytes(bytes(field), "big", signed=True)

"""A file to dump, with its name as in Java and the numbers in that name.

Source: ``java.io.File``, ``java.lang.Long.parseLong``, ``Snapshots.java``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unicodedata import decimal

from kafkalog.dump.java_exceptions import NUMBER_FORMAT, OUT_OF_BOUNDS, ToolEnded
from kafkalog.text.decimal_text import int_from_text

LONG_BITS: Final = 64
INT_BITS: Final = 32
_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file by the name given for it; `path` is that name as Java prints it.

    >>> file = DumpedFile.of("logs//orders-0/00000000000000000042.index/")
    >>> file.path, file.suffix, file.base_offset()
    ('logs/orders-0/00000000000000000042.index', '.index', 42)
    """

    path: str

    @classmethod
    def of(cls, named: str) -> DumpedFile:
        """Return the file of a name, without redundant slashes."""
        path = re.sub("/+", "/", named)
        return cls(path if path == "/" else path.removesuffix("/"))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str | None:
        """The end of the name from its last dot; None if it has no dot."""
        _, dot, end = self.name.rpartition(".")
        return dot + end if dot else None

    @property
    def absolute(self) -> str:
        """The absolute path, without resolving links or dots."""
        if self.path.startswith("/"):
            return self.path
        return f"{str(Path.cwd()).removesuffix('/')}/{self.path}".removesuffix("/")

    def base_offset(self) -> int:
        """Return the number before the first dot of the name.

        Raises `ToolEnded` if there is none.
        """
        return java_number(self.name.partition(".")[0], LONG_BITS)

    def sibling(self, suffix: str) -> DumpedFile:
        """Return the segment's file with another suffix, by its absolute path."""
        folder = self.absolute.rpartition("/")[0]
        return DumpedFile(f"{folder}/{self.name.partition('.')[0]}{suffix}")

    def snapshot_id(self) -> tuple[int, int]:
        """Return the end offset and epoch in the name of a KRaft snapshot.

        Raises `ToolEnded` if the name has none.
        """
        digits = self.name[:_OFFSET_DIGITS]
        rest = self.name[_OFFSET_DIGITS + 1 :][:_EPOCH_DIGITS]
        if len(digits) < _OFFSET_DIGITS:
            raise _too_short(0, _OFFSET_DIGITS, len(self.name))
        offset = java_number(digits, LONG_BITS)
        if len(rest) < _EPOCH_DIGITS:
            begin = _OFFSET_DIGITS + 1
            raise _too_short(begin, begin + _EPOCH_DIGITS, len(self.name))
        return offset, java_number(rest, INT_BITS)


def java_number(digits: str, bits: int) -> int:
    r"""Parse an integer of `bits` as Java does, in digits of any script.

    Raises `ToolEnded` if `digits` are not one.

    >>> java_number("-\N{ARABIC-INDIC DIGIT THREE}", 64)
    -3
    """
    ascii_digits = "".join(map(_ascii_digit, digits))
    try:
        return int_from_text(ascii_digits, bits)
    except ValueError:
        raise ToolEnded(NUMBER_FORMAT, f'For input string: "{digits}"') from None


def _ascii_digit(char: str) -> str:
    """Return the ASCII digit for one of another script; other characters unchanged.

    Java parses units of 16 bits: characters beyond them are not digits.
    """
    return char if char > "\uffff" else str(decimal(char, char))


def _too_short(begin: int, end: int, length: int) -> ToolEnded:
    name = OUT_OF_BOUNDS.replace("IndexOut", "StringIndexOut")
    return ToolEnded(name, f"begin {begin}, end {end}, length {length}")

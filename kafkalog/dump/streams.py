"""Output of the tool's lines: as text to two streams, or as data to the caller.

As data, a line is a dict: `file`, `kind`, and the members of the line under the names
that the tool prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Row = dict[str, Any]

_NUMBER: Final = re.compile(r"-?\d+")
_HELD: Final = re.compile(r"OptionalLong\[(-?\d+)\]")
_WORDS: Final = {"true": True, "false": False, "OptionalLong.empty": None}
_CLOCKS: Final = ("CreateTime:", "LogAppendTime:", "NoTimestampType:")


@dataclass(frozen=True, slots=True)
class Streams:
    """The tool's output: bytes to standard output, text to standard error.

    With `take_row`, lines for standard output become rows of data; `file` is the one
    that is dumped.
    """

    write: Callable[[bytes | memoryview], object]
    write_error: Callable[[str], object]
    take_row: Callable[[Row], object] | None = None
    file: str = ""

    def print(self, line: str, kind: str | None = None, **members: object) -> None:
        """Print a line; as data, a row of its `members`, by default those in the line.

        A line without a `kind` has no row.
        """
        if self.take_row is None:
            self.write(f"{line}\n".encode("utf-8", "surrogateescape"))
        elif kind is not None:
            values = members_of(line) if line and not members else members
            self.take_row({"file": self.file, "kind": kind, **values})


def members_of(line: str) -> Row:
    """Return the names and values in a line that contains no text of users.

    >>> members_of("offset: 7 isValid: true deleteHorizonMs: OptionalLong[9]")
    {'offset': 7, 'isValid': True, 'deleteHorizonMs': 9}
    >>> members_of("| offset: 7 LogAppendTime: 1700000000000")
    {'offset': 7, 'timestampType': 'LogAppendTime', 'timestamp': 1700000000000}
    """
    words = line.removeprefix("| ").split(" ")
    members: Row = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name in _CLOCKS:
            members["timestampType"] = name[:-1]
            name = "timestamp:"
        members[name[:-1]] = _value(value)
    return members


def _value(word: str) -> Any:
    if _NUMBER.fullmatch(word):
        return int(word)
    held = _HELD.fullmatch(word)
    return int(held[1]) if held else _WORDS.get(word, word)

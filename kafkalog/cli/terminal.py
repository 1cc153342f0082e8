r"""What a terminal needs: harmless text, units for people, colour, widths.

Keys, values and topics are anybody's bytes, and a terminal obeys some of them. So all
that it would not simply show is spelled with a backslash: ``\x1b``, ``\u202e``.

Knows: people and their terminals. Does not know: records.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

BINARY_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
WIDTH_WITHOUT_TERMINAL: Final = 120
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_TIME: Final = "-"

_INVISIBLE: Final = (
    "\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_CONTROLS: Final = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
_CONTROLS_IN_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]")
_CONTROLS_IN_JSON: Final = re.compile(f"[{_INVISIBLE}]")
_SHORT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def harmless(text: str) -> str:
    r"""Spell out what a terminal would obey, or hide.

    >>> print(harmless("red: \x1b[31m, line\nbreak"))
    red: \x1b[31m, line\nbreak
    """
    return _CONTROLS.sub(_spelled, text)


def harmless_lines(text: str) -> str:
    """Like `harmless`, but leave line ends and tabs as they are."""
    return _CONTROLS_IN_LINES.sub(_spelled, text)


def harmless_json(text: str) -> str:
    r"""Escape in JSON what a terminal would obey or hide; it stays the same JSON.

    >>> print(harmless_json('{"key": "\x9b31m"}'))
    {"key": "\u009b31m"}
    """
    return _CONTROLS_IN_JSON.sub(_escaped, text)


def _spelled(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    pairs = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs)


def in_units(size_in_bytes: int) -> str:
    """Give a size as people read it.

    >>> in_units(999), in_units(1536), in_units(3 << 30)
    ('999 B', '1.5 KiB', '3.0 GiB')
    """
    size, unit = float(size_in_bytes), 0
    while size >= 1024 and unit < len(BINARY_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size_in_bytes} B" if not unit else f"{size:.1f} {BINARY_UNITS[unit]}"


def in_utc(timestamp: int | None) -> str:
    """Give ms since 1970 as ISO 8601; as the number where no calendar has it.

    >>> in_utc(1700000000123), in_utc(None), in_utc(2**62)
    ('2023-11-14T22:13:20.123Z', '-', '4611686018427387904')
    """
    if timestamp is None:
        return NO_TIME
    try:
        time = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"


def in_seconds(timestamp: int | None) -> str:
    """Give ms since 1970 as people read it, in UTC, to the second.

    >>> in_seconds(1700000000123), in_seconds(None)
    ('2023-11-14 22:13:20', '-')
    """
    exact = in_utc(timestamp)
    return exact[:-5].replace("T", " ") if exact.endswith("Z") else exact


def is_coloured(*, no_color: bool = False) -> bool:
    """Whether standard output is a terminal that shows colour, to one who wants it."""
    unwanted = no_color or bool(os.environ.get("NO_COLOR"))
    return not unwanted and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def columns_wide() -> int:
    """How many characters a line of the table may have."""
    return shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns


Tell = Callable[[int, int], None]


@contextmanager
def bar(label: str, *, quiet: bool = False) -> Iterator[Tell | None]:
    """Give what is told (bytes done, bytes in all); None where no one would see it."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    parts = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*parts, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(harmless(label), total=None)

        def tell(done: int, in_all: int) -> None:
            shown.update(task, completed=done, total=in_all)

        yield tell

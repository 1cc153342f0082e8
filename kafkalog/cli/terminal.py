r"""Text for terminals: escaped control characters, times, colour, progress.

Keys, values and topics are arbitrary bytes, which may contain commands of the terminal.
Control and invisible characters are escaped with a backslash: ``\x1b``, ``\u202e``.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from kafkalog.progress import BEGUN, Progress

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


def escape(text: str) -> str:
    r"""Escape control and invisible characters.

    >>> print(escape("red: \x1b[31m, line\nbreak"))
    red: \x1b[31m, line\nbreak
    """
    return _CONTROLS.sub(_spelled, text)


def escape_lines(text: str) -> str:
    """Escape control and invisible characters, except line ends and tabs."""
    return _CONTROLS_IN_LINES.sub(_spelled, text)


def escape_json(text: str) -> str:
    r"""Escape control and invisible characters in JSON, which stays equivalent.

    >>> print(escape_json('{"key": "\x9b31m"}'))
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


def in_utc(timestamp: int | None) -> str:
    """Return milliseconds since 1970 as ISO 8601; as a number where it is out of range.

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
    """Return milliseconds since 1970 as UTC date and time, to the second.

    >>> in_seconds(1700000000123), in_seconds(None)
    ('2023-11-14 22:13:20', '-')
    """
    exact = in_utc(timestamp)
    return exact[:-5].replace("T", " ") if exact.endswith("Z") else exact


def is_coloured(*, no_color: bool = False) -> bool:
    """Return whether colour is wanted, and standard output is a terminal with it."""
    unwanted = no_color or bool(os.environ.get("NO_COLOR"))
    return not unwanted and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def columns_wide() -> int:
    """Return the maximum width of a table's lines, in characters."""
    return shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns


@contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[Progress | None]:
    """Show a progress bar on standard error; yield None unless that is a terminal.

    There is none while `verbose_lines` are printed.
    """
    is_unwanted = quiet or BEGUN.isEnabledFor(logging.INFO)
    if is_unwanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as ProgressBar

    parts = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with ProgressBar(*parts, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(escape(label), total=None)

        def update(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield update

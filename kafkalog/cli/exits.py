"""How a command ends: exit codes, and which error means which.

    0    fine
    1    damage, or differences, in files that can be read; what was sound is given
    2    usage
    3    no such file, no permission, not a log directory; a missing optional package
    4    refused for safety
    130  interrupted

A pipe that its reader closed ends a command quietly, with 0. Where standard output was
closed from the beginning, a command that has something to print ends with 3; where
standard error was, what would be told there is not.

Knows: errors and codes. Does not know: commands.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import click

from kafkalog.errors import ConfigError, KafkaLogError, LocatedError

if TYPE_CHECKING:
    from kafkalog.query.part_reading import Problem


class Exit(IntEnum):
    """The exit codes."""

    FINE = 0
    DAMAGE = 1
    USAGE = 2
    UNREADABLE = 3
    REFUSED = 4
    INTERRUPTED = 130


class Refused(Exception):
    """What was asked for would destroy something; the message says what."""


class Damaged(Exception):
    """Damage was found and reported; what was sound has been given."""


CODES: Final[tuple[tuple[type[BaseException], Exit], ...]] = (
    (Damaged, Exit.DAMAGE),
    (LocatedError, Exit.DAMAGE),
    (ConfigError, Exit.USAGE),
    (Refused, Exit.REFUSED),
    (KafkaLogError, Exit.UNREADABLE),
    (OSError, Exit.UNREADABLE),
    (KeyboardInterrupt, Exit.INTERRUPTED),
)
"""The first that fits counts."""


def code_of(error: BaseException) -> Exit | None:
    """Return the exit code of an error; None for one that is a bug of ours.

    >>> code_of(FileNotFoundError(2, "No such file or directory"))
    <Exit.UNREADABLE: 3>
    """
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    return None


@contextmanager
def reported(context: click.Context) -> Iterator[None]:
    """Turn what ends a command into a line on standard error and an exit code."""
    _stand_in_for_closed()
    code: Exit | None = Exit.FINE
    try:
        try:
            yield
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            code = code_of(error)
            if code is None:
                raise
            sys.stdout.flush()
            complain(describe(error))
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
    if code:
        context.exit(code)


def report_problems(problems: Sequence[Problem]) -> None:
    """Tell what a scan left out, a line each; raises `Damaged` if there is any."""
    for problem in problems:
        complain(f"left out: {problem}")
    if problems:
        times = "once" if len(problems) == 1 else f"{len(problems)} times"
        raise Damaged(f"damage was passed over {times}")


def describe(error: BaseException) -> str:
    """Say in a line what an error is about."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {os.fsdecode(error.filename)}"
    return str(error) or "interrupted"


def complain(message: str) -> None:
    """Print a line on standard error, harmless whatever is in it."""
    from kafkalog.cli.terminal import harmless

    click.echo(f"kafkalog: {without_urls(harmless(message))}", err=True)


def without_urls(text: str) -> str:
    """Leave of each URL in a text its scheme: the rest may be secret.

    >>> without_urls("no such file: s3://KEY:SECRET@bucket/x")
    'no such file: s3://...'
    """
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*)://\S+", r"\1://...", text)


class _ClosedOutput(io.FileIO):
    """Standard output that was closed: writing to it fails, and says what it was."""

    def write(self, _: object) -> int:
        reason = os.strerror(errno.EBADF)
        raise OSError(errno.EBADF, reason, "standard output")


def _stand_in_for_closed() -> None:
    """Put streams in the place of those that Python has found closed, and has not.

    A file opened later could not take their numbers then.
    """
    if sys.stdout is None:
        raw = _ClosedOutput(os.open(os.devnull, os.O_RDONLY), "w")
        sys.stdout = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(nowhere, "w", encoding="utf-8")


def _let_go_of_stdout() -> None:
    """Have what is still buffered go nowhere, instead of failing once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

"""Exit codes, and the code of each error.

    0    success
    1    corrupt data, or differences, in readable files; valid data was printed
    2    usage
    3    no such file, no permission, not a log directory; a missing optional package
    4    refused for safety
    130  interrupted

A pipe closed by its reader ends a command quietly, with 0. If standard output was
closed from the beginning, a command that has something to print exits with 3; if
standard error was, messages are dropped.
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
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kafkalog.errors import ConfigError, DiskSpaceError, KafkaLogError, LocatedError

if TYPE_CHECKING:
    from kafkalog.query.partition_reader import ScanProblem
    from kafkalog.reports import ReportBase


class Exit(IntEnum):
    """The exit codes."""

    FINE = 0
    DAMAGE = 1
    USAGE = 2
    UNREADABLE = 3
    REFUSED = 4
    INTERRUPTED = 130


class Refused(Exception):
    """The request would destroy data; the message states which."""

    @classmethod
    def of(cls, error: Exception) -> Refused:
        """Return the refusal for an error, with its advice."""
        refused = cls(describe(error))
        for note in notes_of(error):
            refused.add_note(note)
        return refused


class Damaged(Exception):
    """Corrupt data was found and reported; the valid data was printed."""


CODES: Final[tuple[tuple[type[BaseException], Exit], ...]] = (
    (Damaged, Exit.DAMAGE),
    (LocatedError, Exit.DAMAGE),
    (ConfigError, Exit.USAGE),
    (Refused, Exit.REFUSED),
    (DiskSpaceError, Exit.REFUSED),
    (KafkaLogError, Exit.UNREADABLE),
    (OSError, Exit.UNREADABLE),
    (KeyboardInterrupt, Exit.INTERRUPTED),
)
"""The first that matches counts."""


@contextmanager
def refusals() -> Iterator[None]:
    """Report a state that does not allow a request as its refusal.

    A log directory that is locked stays the error that it is.
    """
    from kafkalog.errors import LogLockedError, LogStateError

    try:
        yield
    except LogLockedError:
        raise
    except LogStateError as error:
        raise Refused.of(error) from error


def code_of(error: BaseException) -> Exit | None:
    """Return the exit code of an error; None for an error that is a bug in kafkalog.

    >>> code_of(FileNotFoundError(2, "No such file or directory"))
    <Exit.UNREADABLE: 3>
    """
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    return None


@contextmanager
def reported(context: click.Context) -> Iterator[None]:
    """Report the error that ends a command on standard error, and set the exit code."""
    _replace_closed_streams()
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
            print_error(describe(error))
            for note in notes_of(error):
                print_error(note)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    if code:
        context.exit(code)


def report_problems(problems: Sequence[ScanProblem]) -> None:
    """Print the problems that a scan skipped, a line each; raise `Damaged` if any."""
    for problem in problems:
        print_error(f"skipped: {problem}")
    if problems:
        times = "once" if len(problems) == 1 else f"{len(problems)} times"
        raise Damaged(f"corrupt data was skipped {times}")


def end_with(report: ReportBase) -> None:
    """End the command with exit code 1 if its report is not ok."""
    if not report.ok:
        click.get_current_context().exit(Exit.DAMAGE)


def describe(error: BaseException) -> str:
    """Return an error's message as one line."""
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return error.strerror
        return f"{error.strerror}: {os.fsdecode(error.filename)}"
    return str(error) or "interrupted"


def notes_of(error: BaseException) -> list[str]:
    """Return the advice that was added to an error."""
    return getattr(error, "__notes__", [])


def print_error(message: str) -> None:
    """Print a message on standard error, with control characters escaped."""
    from kafkalog.cli.terminal import escape

    click.echo(f"kafkalog: {without_credentials(escape(message))}", err=True)


def without_credentials(text: str) -> str:
    """Return the text with each URL that has a user reduced to its scheme.

    >>> without_credentials("no such file: s3://bucket/x or s3://KEY:SECRET@bucket/x")
    'no such file: s3://bucket/x or s3://...'
    """
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*)://\S*@\S*", r"\1://...", text)


def raise_shown(error: click.UsageError) -> NoReturn:
    """Raise a usage error without control characters and secrets of its arguments."""
    from kafkalog.cli.terminal import escape_lines

    message = error.format_message()
    shown = escape_lines(without_urls(message))
    if shown == message:
        raise error
    raise click.UsageError(shown, error.ctx) from None


def without_urls(text: str) -> str:
    """Return the text with each URL reduced to its scheme: the rest may be secret.

    >>> without_urls("no such file: s3://KEY:SECRET@bucket/x")
    'no such file: s3://...'
    """
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*)://\S+", r"\1://...", text)


class _ClosedOutput(io.FileIO):
    """Standard output that was closed: every write raises `OSError`."""

    def write(self, _: object) -> int:
        reason = os.strerror(errno.EBADF)
        raise OSError(errno.EBADF, reason, "standard output")


def _replace_closed_streams() -> None:
    """Replace standard streams that were closed when Python started.

    Otherwise a file opened later could get their descriptor numbers.
    """
    if sys.stdout is None:
        raw = _ClosedOutput(os.open(os.devnull, os.O_RDONLY), "w")
        sys.stdout = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        sys.stderr = os.fdopen(nowhere, "w", encoding="utf-8")


def _discard_stdout() -> None:
    """Send what is still buffered to /dev/null, so that exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

"""Files that are not what a broker wrote, but what a version control system made of it.

Git LFS leaves a text with a checksum, the *pointer*, in the place of a file that it did
not fetch. Git with ``core.autocrlf`` replaces each LF by CR LF in a file that it takes
for text. Neither is damage of a disk, and both can be undone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.file_names import parse_file_name
from kafkalog.verification.verification_report import Cause, Problem, Severity

POINTER: Final = b"version https://git-lfs.github.com/spec/"
MAX_POINTER_BYTES: Final = 1024
SAMPLE_BYTES: Final = 1 << 20
"""Bytes at the start of a file in which line ends are counted."""

ABSENT: Final = frozenset({Cause.MISSING, Cause.ORPHAN, Cause.GAP, Cause.FOREIGN})
"""Causes that are not about the content of a file."""

UNFETCHED: Final = "a Git LFS pointer, expected {}: fetch the file with `git lfs pull`"
TRANSLATED: Final = (
    "each LF in the file follows a CR: line ends were translated, as by Git with "
    "core.autocrlf; declare the files as binary in .gitattributes (`*.{} binary`), "
    "and check them out again"
)


def name_translated(problems: Iterable[Problem], where: Path) -> list[Problem]:
    """Return the problems, with those of files that Git has translated named as such.

    Parameters
    ----------
    problems : iterable of Problem
        Problems with paths relative to `where`.
    where : Path
        The directory or file that was verified.

    Returns
    -------
    list of Problem
        The problems of the content of a Git LFS pointer are replaced by the worst of
        them, with another message. The message on translated line ends follows that of
        the first problem of a file.
    """
    by_file: defaultdict[str, list[Problem]] = defaultdict(list)
    named = []
    for problem in problems:
        if problem.cause in ABSENT:
            named.append(problem)
        else:
            by_file[problem.path].append(problem)
    for file, found in by_file.items():
        head = b""
        with suppress(OSError):
            head = _head(where / file if where.is_dir() else where)
        if is_pointer(head):
            worst = min(found, key=lambda problem: problem.severity != Severity.ERROR)
            found = [_with_message(worst, UNFETCHED.format(_kind(file)))]
        elif has_translated_line_ends(head):
            ending = Path(file).suffix.removeprefix(".") or Path(file).name
            found.sort(key=lambda problem: problem.order)
            message = f"{found[0].reason}; {TRANSLATED.format(ending)}"
            found[0] = _with_message(found[0], message)
        named += found
    return named


def is_pointer(data: bytes) -> bool:
    """Return whether the content of a file is a Git LFS pointer.

    >>> is_pointer(b"version https://git-lfs.github.com/spec/v1" + bytes([10]))
    True
    """
    return len(data) <= MAX_POINTER_BYTES and data.startswith(POINTER)


def has_translated_line_ends(data: bytes) -> bool:
    r"""Return whether each LF of `data` follows a CR; False without one.

    >>> has_translated_line_ends(b"0\r\n1\r\n"), has_translated_line_ends(b"\r\n\n")
    (True, False)
    """
    return 0 < data.count(b"\n") == data.count(b"\r\n")


def _head(path: Path) -> bytes:
    with FileSource(path, links=False) as source:
        return source.read(0, SAMPLE_BYTES).tobytes()


def _kind(file: str) -> str:
    name = parse_file_name(Path(file).name)
    if name is None:
        return "a file of a broker"
    kinds = {"log": "batches", "snapshot": "a producer snapshot"}
    return kinds.get(name.kind, "an index" if "index" in name.kind else "batches")


def _with_message(problem: Problem, message: str) -> Problem:
    return replace(problem, message=message, reason=message)

"""Cleanup of files that an interrupted deletion, compaction or split left behind.

| suffix | state of the file | action |
|---|---|---|
| ``.deleted`` | to be removed | removed |
| ``.cleaned`` | being written | removed |
| ``.swap`` | complete, to replace other segments | replaces them, see below |

A ``.swap`` is removed if there is a ``.cleaned`` at or below its offset: the split was
not complete. The file that states what remains to be done is removed last, and the
directory is flushed after each step, so that the next load can continue after any
interruption. The content of the files is not read, except for the last offset of a
``.log.swap``.

Source: ``LogLoader.load``, ``removeTempFilesAndCollectSwapFiles``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from kafkalog.codecs.decimal_text import int_from_text
from kafkalog.errors import StrayFileError
from kafkalog.log.recovery.recovery_report import RecoveryReport
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.location import is_file

CLEANED: Final = ".cleaned"
DELETED: Final = ".deleted"
METADATA_SNAPSHOT: Final = ".checkpoint.deleted"
SWAP: Final = ".swap"
TEMPORARY: Final = (DELETED, CLEANED, SWAP)
SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
NO_CLEANED: Final = 2**63 - 1

OFFSET_DIGITS: Final = 20
LAST_OFFSET: Final = "09223372036854775807"

Listing = Mapping[str, set[str]]
"""Names of the files in a directory by suffix, from the last dot on."""

NextOffset = Callable[[int], int]
"""Function that returns the end offset of the ``.log.swap`` at a base offset."""


def clear_leftovers(
    directory: Path,
    files: Listing,
    disk: Disk,
    next_offset: NextOffset,
    report: RecoveryReport,
) -> None:
    """Remove unfinished and deleted files, and finish swaps.

    `files` are the files of the directory.
    """
    names = sorted(name for suffix in TEMPORARY for name in files[suffix])
    swaps = _remove_unfinished(directory, names, disk, report)
    bases = [
        offset_of(name)
        for name in swaps
        if name.removesuffix(SWAP).endswith(".log") and name.endswith(SWAP)
    ]
    if bases:
        start, end = min(bases), max(next_offset(base) for base in bases)
        _remove_between(directory, disk, start, end, report)
    # `next_offset` may have created an index for a segment, so list again.
    for name in file_names(directory, SWAP) if swaps else ():
        disk.sync_directory(directory)
        target = name.removesuffix(SWAP)
        disk.rename(directory / name, directory / target)
        report.renamed.append(name)


def list_files(directory: Path) -> Listing:
    """Return the files of a directory, without subdirectories."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    with os.scandir(directory) as entries:
        for entry in entries:
            if is_file(entry):
                name = entry.name
                files[name[name.rfind(".") :]].add(name)
    return files


def file_names(directory: Path, suffix: str = "") -> list[str]:
    """Return the sorted names of the files in a directory that end with `suffix`."""
    with os.scandir(directory) as entries:
        files = [
            entry.name
            for entry in entries
            if entry.name.endswith(suffix) and is_file(entry)
        ]
    return sorted(files)


def offset_of(name: str) -> int:
    """Return the number at the start of a file name, parsed as in Java.

    Raises `StrayFileError` if there is none.
    """
    if name.startswith(".", OFFSET_DIGITS) and is_offset(
        number := name[:OFFSET_DIGITS]
    ):
        return int(number)
    number, dot, _ = name.partition(".")
    try:
        offset = int_from_text(number, 64)
    except ValueError:
        dot = ""
    if not dot:
        raise StrayFileError(
            f"file name {name!r}, expected one that begins with an offset"
        )
    return offset


def check_names(files: Listing) -> None:
    """Raise `StrayFileError` if a segment file has a name without an offset.

    A broker does not start with such a file.
    """
    for suffix in (*SEGMENT_SUFFIXES, CLEANED, SWAP):
        for name in files[suffix]:
            offset_of(name)


def is_offset(text: str) -> bool:
    """Return whether `text` is an offset as Kafka writes it in file names."""
    has_digits = len(text) == OFFSET_DIGITS and text.isascii() and text.isdigit()
    return has_digits and text <= LAST_OFFSET


def _remove_unfinished(
    directory: Path, names: Iterable[str], disk: Disk, report: RecoveryReport
) -> list[str]:
    """Remove deleted and incomplete files, and return the complete swaps."""
    least = NO_CLEANED
    cleaned: list[str] = []
    swaps: list[str] = []
    for name in names:
        if name.endswith(CLEANED):
            least = min(least, offset_of(name))
            cleaned.append(name)
        elif name.endswith(SWAP):
            swaps.append(name)
        elif not name.endswith(METADATA_SNAPSHOT):
            _remove(directory, disk, name, report)
    offsets = {name: offset_of(name) for name in swaps}
    incomplete = [name for name in swaps if offsets[name] >= least]
    for name in incomplete:
        _remove(directory, disk, name, report)
    if incomplete:
        disk.sync_directory(directory)
    for name in cleaned:
        _remove(directory, disk, name, report)
    return [name for name in swaps if offsets[name] < least]


def _remove_between(
    directory: Path, disk: Disk, start: int, end: int, report: RecoveryReport
) -> None:
    """Remove the files that the swapped segments replace."""
    for name in file_names(directory):
        if name.endswith(SWAP):
            continue
        try:
            offset = offset_of(name)
        except StrayFileError:
            continue
        if start <= offset < end:
            _remove(directory, disk, name, report)


def _remove(directory: Path, disk: Disk, name: str, report: RecoveryReport) -> None:
    disk.remove_if_there(directory / name)
    report.removed.append(name)

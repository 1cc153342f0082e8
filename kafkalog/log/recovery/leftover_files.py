"""Files that an interrupted deletion, compaction or split left in a partition.

    .deleted    was to be removed: it is
    .cleaned    was being written: it is removed
    .swap       was whole, and to take the place of other segments: it does, unless a
                .cleaned at or below it tells that a split was not done

What tells of the rest goes last, and one after another is forced out of the directory:
so whatever interrupts this, the next load takes it up where it was.

Knows: suffixes and offsets. Does not know: what the files hold, but for the offset
behind a ``.log.swap``.
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

CLEANED: Final = ".cleaned"
DELETED: Final = ".deleted"
METADATA_SNAPSHOT: Final = ".checkpoint.deleted"
SWAP: Final = ".swap"
MARKS: Final = (DELETED, CLEANED, SWAP)
OF_SEGMENTS: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
NO_CLEANED: Final = 2**63 - 1

OFFSET_DIGITS: Final = 20
LAST_OFFSET: Final = "09223372036854775807"

Listing = Mapping[str, set[str]]
"""Names of the files in a directory, by their ending from the last dot on."""

NextOffset = Callable[[int], int]
"""Gives one past the last offset of the ``.log.swap`` at a base offset."""


def clear_leftovers(
    directory: Path,
    files: Listing,
    disk: Disk,
    next_offset: NextOffset,
    report: RecoveryReport,
) -> None:
    """Remove what was to go, and finish what was to take its place.

    `files` are those in the directory.
    """
    names = sorted(name for mark in MARKS for name in files[mark])
    swaps = _remove_unfinished(directory, names, disk, report)
    bases = [
        offset_of(name)
        for name in swaps
        if name.removesuffix(SWAP).endswith(".log") and name.endswith(SWAP)
    ]
    if bases:
        start, end = min(bases), max(next_offset(base) for base in bases)
        _remove_between(directory, disk, start, end, report)
    # Asked where it ends, a segment may have made itself an index.
    for name in file_names(directory, SWAP) if swaps else ():
        disk.sync_directory(directory)
        target = name.removesuffix(SWAP)
        disk.rename(directory / name, directory / target)
        report.renamed.append(name)


def list_files(directory: Path) -> Listing:
    """List the files of a directory, no directories."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                name = entry.name
                files[name[name.rfind(".") :]].add(name)
    return files


def file_names(directory: Path, ending: str = "") -> list[str]:
    """Names of the files in a directory, no directories, in their order."""
    with os.scandir(directory) as entries:
        files = [
            entry.name
            for entry in entries
            if entry.name.endswith(ending) and entry.is_file(follow_symlinks=False)
        ]
    return sorted(files)


def offset_of(name: str) -> int:
    """Read the number a file's name begins with, as Java reads one.

    Raises `StrayFileError` where there is none.
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
        raise StrayFileError(f"no offset begins the name {name!r}")
    return offset


def check_names(files: Listing) -> None:
    """Raise `StrayFileError` if a file of a segment has a name without an offset.

    A broker does not start on a directory that has one.
    """
    for ending in (*OF_SEGMENTS, CLEANED, SWAP):
        for name in files[ending]:
            offset_of(name)


def is_offset(text: str) -> bool:
    """Whether `text` is an offset as Kafka spells it in names."""
    plain = len(text) == OFFSET_DIGITS and text.isascii() and text.isdigit()
    return plain and text <= LAST_OFFSET


def _remove_unfinished(
    directory: Path, names: Iterable[str], disk: Disk, report: RecoveryReport
) -> list[str]:
    """Remove what was deleted, or not written to its end; answer the sound swaps."""
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
    unsound = [name for name in swaps if offsets[name] >= least]
    for name in unsound:
        _remove(directory, disk, name, report)
    if unsound:
        disk.sync_directory(directory)
    for name in cleaned:
        _remove(directory, disk, name, report)
    return [name for name in swaps if offsets[name] < least]


def _remove_between(
    directory: Path, disk: Disk, start: int, end: int, report: RecoveryReport
) -> None:
    """Remove the files that what was swapped in stands for."""
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

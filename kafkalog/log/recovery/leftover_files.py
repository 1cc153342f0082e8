"""Cleanup of files that an interrupted deletion, compaction or split left behind.

What is done with each file follows from the names, see `leftover_names`. The file that
states what remains to be done is removed last, and the directory is flushed after each
step, so that the next load can continue after any interruption. The content of the
files is not read, except for the last offset of a ``.log.swap``.

Source: ``LogLoader.load``, ``removeTempFilesAndCollectSwapFiles``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kafkalog.errors import StrayFileError
from kafkalog.log.recovery.recovery_report import RecoveryReport
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import CLEANED, DELETED, SWAP
from kafkalog.storage.leftover_names import (
    Leftovers,
    offset_of,
    replaced_offsets,
    sort_leftovers,
)
from kafkalog.storage.location import is_file

TEMPORARY: Final = (DELETED, CLEANED, SWAP)
SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

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
    found = sort_leftovers(name for suffix in TEMPORARY for name in files[suffix])
    swaps = found.swaps
    _remove_unfinished(directory, found, disk, report)
    if found.swapped_logs:
        bases = map(offset_of, found.swapped_logs)
        start, end = replaced_offsets(bases, next_offset)
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
    for name in file_names(directory):
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


def check_names(files: Listing) -> None:
    """Raise `StrayFileError` if a segment file has a name without an offset.

    A broker does not start with such a file.
    """
    for suffix in (*SEGMENT_SUFFIXES, CLEANED, SWAP):
        for name in files[suffix]:
            offset_of(name)


def _remove_unfinished(
    directory: Path, found: Leftovers, disk: Disk, report: RecoveryReport
) -> None:
    """Remove deleted and incomplete files."""
    for name in found.deleted:
        _remove(directory, disk, name, report)
    for name in found.incomplete:
        _remove(directory, disk, name, report)
    if found.incomplete:
        disk.sync_directory(directory)
    for name in found.cleaned:
        _remove(directory, disk, name, report)


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

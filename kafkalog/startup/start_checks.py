"""Files without which a broker does not start, and files that it cannot write.

The first are judged by the rules of `verify`: the metadata log's ``quorum-state`` and
newest snapshot, ``bootstrap.checkpoint``, and the sizes of ``.log`` files.

Source: ``KafkaRaftServer.scala``, ``FileQuorumStateStore.java``,
``BootstrapDirectory.java``, ``FileRecords.java``, ``LogManager.lockLogDirs``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION
from kafkalog.segment.segment_files import oversize
from kafkalog.storage.file_names import BOOTSTRAP, SEGMENT_KINDS, parse_file_name
from kafkalog.verification.path_verification import verify, verify_locked
from kafkalog.verification.verification_report import Recovery

ROOT: Final = 0
"""The user for whom no mode of a file matters."""


def find_stops(directory: Path) -> Iterator[str]:
    """Yield the reasons for which a broker does not start with a metadata directory."""
    metadata, bootstrap = directory / METADATA_PARTITION, directory / BOOTSTRAP
    if bootstrap.is_file():
        for problem in verify(bootstrap).problems:
            if problem.recovery == Recovery.REFUSE:
                yield f"{bootstrap}: {problem.message}"
    if metadata.is_dir():
        for problem in verify_locked(metadata).problems:
            if problem.recovery == Recovery.REFUSE:
                yield f"{metadata / problem.path}: {problem.message}"


def find_oversize(partition: Path) -> Iterator[str]:
    """Yield the reasons for which a broker does not open the logs of a partition."""
    for path in sorted(partition.iterdir()):
        name = parse_file_name(path.name)
        is_opened = name is not None and name.kind == "log" and name.suffix is None
        if is_opened and path.is_file():
            reason = oversize(path.stat().st_size)
            if reason is not None:
                yield f"{path}: {reason}"


def find_unwritable(directory: Path) -> Iterator[str]:
    """Yield what a broker cannot write in a log directory, the directory first.

    The broker is assumed to run as the user who owns the directory.
    """
    if os.statvfs(directory).f_flag & os.ST_RDONLY:
        yield f"read-only file system: {directory}"
        return
    owner = directory.stat().st_uid
    if owner == ROOT:
        return
    for path in _written(directory):
        if not _is_writable(path, owner):
            yield f"not writable for its owner: {path}"


def _written(directory: Path) -> Iterator[Path]:
    """Yield the directories and files that a broker opens for writing."""
    yield directory
    for place in sorted(directory.iterdir()):
        if not place.is_dir() or place.is_symlink():
            continue
        yield place
        for path in sorted(place.iterdir()):
            name = parse_file_name(path.name)
            if name is not None and name.kind in SEGMENT_KINDS and path.is_file():
                yield path


def _is_writable(path: Path, owner: int) -> bool:
    """Return whether a user may write to a file, by its mode."""
    status = path.stat()
    if status.st_uid == owner:
        return bool(status.st_mode & stat.S_IWUSR)
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

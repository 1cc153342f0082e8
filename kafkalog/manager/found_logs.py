"""The logs in a log directory, listed and checked before any is loaded.

    orders-0                            is loaded
    orders-0.<32 hex>-future            is loaded as a future log
    orders-0.<32 hex>-delete            is removed after a delay
    orders-0.<32 hex>-stray             is left unchanged
    __cluster_metadata-0                is left unchanged: it belongs to the controller
    orders-0.kafkalog-move              a file: a move replaces the log here by a log in
                                        another directory
    orders-0 -> /other/orders-0         a symbolic link: is left unchanged, see
                                        `FoundLogs`

This module changes no files.

Source: ``LogManager.loadLogs``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkalog.errors import (
    ConfigError,
    LogStateError,
    NotALogDirectoryError,
)
from kafkalog.log.ownership import Name
from kafkalog.log.recovery.log_loading import check_log
from kafkalog.log.runtime import DISK_FAILURES
from kafkalog.log.topic_settings import PartitionSettings, TopicSettings
from kafkalog.storage.file_names import (
    METADATA_TOPIC,
    PartitionDir,
    parse_partition_dir,
)
from kafkalog.storage.location import AnyPath, is_directory, is_file, local_path
from kafkalog.storage.log_directory import (
    check_no_links,
    linked_partitions,
    subdirectories,
)
from kafkalog.storage.remote_source import RemotePath

DEPARTURE: Final = ".kafkalog-move"
"""Suffix of the file that marks a log while a log elsewhere replaces it."""

AnyDirectories = AnyPath | Iterable[AnyPath]


def distinct_directories(directories: AnyDirectories) -> list[Path]:
    """Return one or several log directories as absolute paths.

    Raises `ConfigError` if there is no directory, or one twice, and `LogArgumentError`
    for a URL.
    """
    if isinstance(directories, (str, os.PathLike, RemotePath)):
        directories = [directories]
    paths = [local_path(directory).absolute() for directory in directories]
    if not paths:
        raise ConfigError("0 log directories, expected at least 1")
    for place, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:place]]:
            raise ConfigError(f"duplicate log directory: {path}")
    return paths


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A checked directory of a partition, to be loaded with `settings`."""

    name: PartitionDir
    path: Path
    settings: PartitionSettings

    @property
    def key(self) -> tuple[str, int, bool]:
        """Topic, partition, and whether it is a future log; unique in a manager."""
        return self.name.topic, self.name.partition, self.name.state is not None


@dataclass(slots=True)
class FoundLogs:
    """The logs of a log directory: those to load, those to remove, and strays.

    `departed` are the partitions with a ``.kafkalog-move`` file. `superseded` are the
    logs of those that have been replaced by a log in another directory.

    `linked` are the symbolic links to partitions. A broker loads their logs; here they
    count as missing. Their lines of the checkpoints stay, no log of the same name is
    created, and the clean shutdown marker is not written for them.
    """

    logs: list[FoundLog] = field(default_factory=list)
    deleted: list[Path] = field(default_factory=list)
    strays: list[Path] = field(default_factory=list)
    departed: set[Name] = field(default_factory=set)
    superseded: list[FoundLog] = field(default_factory=list)
    linked: list[PartitionDir] = field(default_factory=list)


def find_logs(directory: Path, settings: TopicSettings, threads: Executor) -> FoundLogs:
    """Return the logs in a directory, checked in `threads`.

    Raises `NotALogDirectoryError` for a subdirectory that is not a partition's, and the
    first error of `check_log`; other errors precede `DISK_FAILURES`.
    """
    found = FoundLogs()
    partitions: list[tuple[PartitionDir, Path]] = []
    for path in filter(is_file, directory.glob(f"*{DEPARTURE}")):
        departed = parse_partition_dir(path.name.removesuffix(DEPARTURE))
        if departed is not None:
            found.departed.add((departed.topic, departed.partition))
    found.linked += (name for name, _ in linked_partitions(directory))
    for path in filter(is_directory, subdirectories(directory)):
        name = parse_partition_dir(path.name)
        if name is None:
            raise NotALogDirectoryError(
                f"directory name, expected <topic>-<partition>: {path}"
            )
        if name.state == "delete":
            found.deleted.append(path)
        elif name.state == "stray":
            found.strays.append(path)
        elif name.topic != METADATA_TOPIC:
            partitions.append((name, path))

    def check(listed: tuple[PartitionDir, Path]) -> str | Exception | None:
        try:
            check_no_links(listed[1])
            return check_log(listed[1])
        except DISK_FAILURES as error:  # raised after all logs are checked
            return error

    checks = list(threads.map(check, partitions))
    for (name, path), topic_id in zip(partitions, checks, strict=True):
        if isinstance(topic_id, Exception):
            raise topic_id
        topic_settings = settings.of(name.topic, topic_id)
        found.logs.append(FoundLog(name, path, topic_settings))
    return found


def check_unique(logs: Iterable[FoundLog]) -> None:
    """Raise `LogStateError` if a partition has two directories."""
    seen: dict[tuple[str, int, bool], FoundLog] = {}
    for log in logs:
        if (other := seen.setdefault(log.key, log)) is not log:
            both = f"{other.path} and {log.path}"
            error = LogStateError(f"two directories of one partition: {both}")
            error.add_note("Compare them, and move the one that is not needed away.")
            raise error

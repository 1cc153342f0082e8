"""What lies in a log directory that is to be loaded: found and checked, not changed.

    orders-0                            to be loaded
    orders-0.<32 hex>-future            to be loaded, and kept apart
    orders-0.<32 hex>-delete            to be removed after a delay
    orders-0.<32 hex>-stray             left alone
    __cluster_metadata-0                left alone: the controller's

Knows: directories of partitions, and what refuses to load them. Does not know: locks,
how a log is loaded.
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
    CorruptCheckpointError,
    LogStateError,
    NotALogDirectoryError,
)
from kafkalog.log.recovery.log_loading import check_log
from kafkalog.log.topic_settings import PartitionSettings, TopicSettings
from kafkalog.storage.file_names import (
    METADATA_TOPIC,
    PartitionDir,
    parse_partition_dir,
)
from kafkalog.storage.location import AnyPath, local_path
from kafkalog.storage.remote_source import RemotePath

REMOTE_INDEXES: Final = "remote-log-index-cache"
DISK_FAILURES: Final = (OSError, CorruptCheckpointError)
"""What closes a directory if a log in it raises it, and does not stop all."""


AnyDirectories = AnyPath | Iterable[AnyPath]


def distinct_directories(directories: AnyDirectories) -> list[Path]:
    """Return one or several log directories as paths; `ConfigError` for none, twins.

    Raises `LogArgumentError` for a URL.
    """
    if isinstance(directories, (str, os.PathLike, RemotePath)):
        directories = [directories]
    paths = [local_path(directory).absolute() for directory in directories]
    if not paths:
        raise ConfigError("no log directory is given")
    for place, path in enumerate(paths):
        if path.resolve() in [other.resolve() for other in paths[:place]]:
            raise ConfigError(f"a log directory is given twice: {path}")
    return paths


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A partition's directory to be loaded, checked, and the settings it is to have."""

    name: PartitionDir
    path: Path
    settings: PartitionSettings

    @property
    def key(self) -> tuple[str, int, bool]:
        """Topic, partition, and whether it is a future one: there is one of each."""
        return self.name.topic, self.name.partition, self.name.state is not None


@dataclass(slots=True)
class FoundLogs:
    """What a log directory holds: logs to load, `doomed` ones to remove, `strays`."""

    logs: list[FoundLog] = field(default_factory=list)
    doomed: list[Path] = field(default_factory=list)
    strays: list[Path] = field(default_factory=list)


def find_logs(directory: Path, settings: TopicSettings, threads: Executor) -> FoundLogs:
    """Find the logs in a directory, and check them, side by side.

    Raises `NotALogDirectoryError` for a directory in it that is no partition's, and
    what `check_log` raises: one of `DISK_FAILURES` if nothing else is.
    """
    found = FoundLogs()
    named: list[tuple[PartitionDir, Path]] = []
    for path in sorted(directory.iterdir()):
        if not path.is_dir() or path.name == REMOTE_INDEXES:
            continue
        name = parse_partition_dir(path.name)
        if name is None:
            raise NotALogDirectoryError(f"not a partition's directory: {path}")
        if name.state == "delete":
            found.doomed.append(path)
        elif name.state == "stray":
            found.strays.append(path)
        elif name.topic != METADATA_TOPIC:
            named.append((name, path))

    def check(one: tuple[PartitionDir, Path]) -> str | Exception | None:
        try:
            return check_log(one[1])
        except DISK_FAILURES as error:  # raised when all were checked
            return error

    checks = list(threads.map(check, named))
    for (name, path), topic_id in zip(named, checks, strict=True):
        if isinstance(topic_id, Exception):
            raise topic_id
        of_topic = settings.of(name.topic, topic_id)
        found.logs.append(FoundLog(name, path, of_topic))
    return found


def refuse_twins(found: Iterable[FoundLog]) -> None:
    """Refuse a partition that has two directories, wherever they are."""
    seen: dict[tuple[str, int, bool], FoundLog] = {}
    for one in found:
        if (other := seen.setdefault(one.key, one)) is not one:
            both = f"{other.path} and {one.path}"
            raise LogStateError(f"two directories of one partition: {both}")

"""The log directories of a broker before its start: ids, checkpoints, space.

Source: ``KafkaRaftServer.initializeLogDirs``, ``LogManager.loadLogs``,
``CheckpointFileWithFailureHandler.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkalog.errors import (
    LogStateError,
    NotALogDirectoryError,
    UnsupportedFormatError,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.ownership import Name
from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION
from kafkalog.log.runtime import DISK_FAILURES
from kafkalog.manager.found_logs import distinct_directories
from kafkalog.manager.identity import Owner, check_identities, read_identity
from kafkalog.rehearsal.log_rehearsal import (
    CheckpointedOffsets,
    DirectoryOffsets,
    describe_error,
)
from kafkalog.startup.start_report import Freeable, FreeableKind
from kafkalog.storage.checkpoint_file import (
    CHECKPOINTS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    read_offsets,
)
from kafkalog.storage.disk_space import free_bytes
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PartitionDir,
    parse_partition_dir,
)
from kafkalog.storage.location import STATUS_BLOCK_BYTES, AnyPath
from kafkalog.storage.log_directory import is_log_directory, subdirectories

NOT_OF_DISK: Final = ("NumberFormatException", "IllegalArgumentException")
"""Exceptions for a checkpoint that do not fail the log directory."""

OF_ZOOKEEPER: Final = (
    f"version=0 in {META_PROPERTIES}: written for a cluster with ZooKeeper. Kafka 4 "
    "has no metadata of its topics, and makes each partition a stray: migrate the "
    "cluster with Kafka 3.9, or restore the partitions into a new one with `kafkalog "
    "restore`"
)


def is_reset(name: str, error: Exception) -> bool:
    """Return whether a broker treats an invalid checkpoint as empty.

    It does so for a number that Java cannot parse in two of them. Any other error fails
    the directory.

    Source: ``LogManager.loadLogs``, ``OffsetCheckpointFile.java``.
    """
    is_number = getattr(error, "kafka_name", None) in NOT_OF_DISK
    return is_number and name in (RECOVERY_POINTS, LOG_STARTS)


@dataclass(slots=True)
class FoundDirectory:
    """A log directory, and what was found in it.

    `failures` take the directory offline; `stops` keep the broker from starting.
    """

    path: Path
    identity: MetaProperties | None = None
    clean: bool = False
    checkpoints: dict[str, Offsets] = field(default_factory=dict)
    partitions: list[tuple[PartitionDir, Path]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    freeable: list[Freeable] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> FoundDirectory:
        """Read the names and small files of a directory."""
        found = cls(path, clean=(path / CLEAN_SHUTDOWN).exists())
        try:
            found.identity = read_identity(path)
            found._check_identity()
            for each in subdirectories(path):
                if (partition := parse_partition_dir(each.name)) is not None:
                    found.partitions.append((partition, each))
                    continue
                reason = "directory name, expected <topic>-<partition>"
                found.stops.append(f"{reason}: {each}")
        except (*DISK_FAILURES, UnsupportedFormatError) as error:
            found.failures.append(describe_error(error))
        for name in CHECKPOINTS:
            try:
                found.checkpoints[name] = read_offsets(path, name)
            except DISK_FAILURES as error:
                found.checkpoints[name] = {}
                if is_reset(name, error):
                    found.notes.append(f"treated as empty: {describe_error(error)}")
                else:
                    found.failures.append(describe_error(error))
        return found

    def _check_identity(self) -> None:
        """Note the ids without which a broker does not start."""
        file = self.path / META_PROPERTIES
        if self.identity is None:
            self.stops.append(f"no {META_PROPERTIES}, expected one: {file}")
            return
        if self.identity.version == 0:
            self.notes.append(OF_ZOOKEEPER)
        if self.identity.node_id is None:
            self.stops.append(f"no node.id, expected one: {file}")
        if self.identity.cluster_id is None:
            self.stops.append(f"no cluster.id, expected one: {file}")
        if self.identity.directory_id is None:
            self.notes.append("gets a new directory.id")

    def offsets_of(self, name: Name) -> CheckpointedOffsets:
        """Return the checkpointed offsets of a partition."""
        return DirectoryOffsets(self.clean, self.checkpoints).of(name)

    @property
    def bytes_free(self) -> int:
        """Bytes that are available to an unprivileged user on the file system."""
        return free_bytes(self.path)

    def add_freeable(self, path: Path, kind: FreeableKind) -> None:
        """Add a file or a directory that can be removed."""
        files = path.iterdir() if path.is_dir() else [path]
        size = sum(_bytes_on_disk(file) for file in files)
        self.freeable.append(Freeable(str(path), size, kind))


def _bytes_on_disk(path: Path) -> int:
    """Return the bytes that a file occupies, which are fewer for a file with holes."""
    return path.lstat().st_blocks * STATUS_BLOCK_BYTES


def find_directories(paths: AnyPath | Iterable[AnyPath]) -> list[FoundDirectory]:
    """Return the log directories at paths.

    Raises `FileNotFoundError`, `NotADirectoryError`, and `NotALogDirectoryError`.
    """
    found = []
    places = distinct_directories(paths)
    for path in places:
        if len(places) > 1 and path.is_file():  # fails, and the others are used
            failure = f"not a directory: {path}"
            found.append(FoundDirectory(path, failures=[failure]))
            continue
        if not is_log_directory(path):  # raises if there is no directory
            raise NotALogDirectoryError(f"not a log directory: {path}")
        found.append(FoundDirectory.read(path))
    return found


def check_owner(directories: Sequence[FoundDirectory], owner: Owner) -> Iterator[str]:
    """Yield the reasons for which directories cannot belong to one broker.

    Source: ``MetaPropertiesEnsemble.verify``.
    """
    accepted: dict[Path, MetaProperties] = {}
    for found in directories:
        if found.identity is None:
            continue
        tried = {**accepted, found.path: found.identity}
        try:
            check_identities(tried, owner.cluster_id, owner.node_id)
            accepted = tried
        except LogStateError as error:
            yield str(error)
    with_metadata = [
        each.path for each in directories if (each.path / METADATA_PARTITION).exists()
    ]
    if len(with_metadata) > 1:
        listed = " and ".join(map(str, with_metadata))
        yield f"{METADATA_PARTITION} in two directories: {listed}"
    for found in directories[1:]:
        if with_metadata == [found.path]:
            found.notes.append(
                f"has {METADATA_PARTITION}: metadata.log.dir must be this directory, "
                "as by default it is the first of log.dirs"
            )

"""The ids in ``meta.properties`` of a manager's log directories.

All directories of a broker have the same cluster id and node id, and each has a
directory id of its own. A new directory gets the file if both ids are given; a file
without a directory id, from before Kafka 3.7, gets one.

Source: ``MetaPropertiesEnsemble.java``, ``DirectoryId.java``,
``KafkaRaftServer.initializeLogDirs``, ``Formatter.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from kafkalog.errors import ConfigError, LogStateError
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.cluster_image import ClusterImage, is_reserved
from kafkalog.storage.checkpoint_file import read_if_exists
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import META_PROPERTIES
from kafkalog.storage.location import AnyPath
from kafkalog.text.uuid_text import uuid_to_text

IsStray = Callable[[WritableLog], bool]
"""Returns whether a loaded log does not belong to this broker."""


def read_identity(directory: Path) -> MetaProperties | None:
    """Return the content of ``meta.properties``; None if there is no file.

    Raises `CorruptCheckpointError` or `UnsupportedFormatError` for an invalid file.
    """
    return read_if_exists(directory / META_PROPERTIES, MetaProperties.parse)


def check_identities(
    found: Mapping[Path, MetaProperties], cluster_id: str | None, node_id: int | None
) -> None:
    """Raise `LogStateError` for directories of several clusters or brokers.

    `cluster_id` and `node_id` are the expected ids; None stands for the ids of the
    first directory. Duplicate and reserved directory ids are errors, too.
    """
    seen: dict[str, Path] = {}
    for directory, identity in found.items():
        path = directory / META_PROPERTIES
        if cluster_id is None:
            cluster_id = identity.cluster_id
        if node_id is None:
            node_id = identity.node_id
        if identity.cluster_id not in (None, cluster_id):
            raise LogStateError(
                f"cluster.id {identity.cluster_id}, expected {cluster_id}: {path}"
            )
        if identity.node_id not in (None, node_id):
            raise LogStateError(
                f"node.id {identity.node_id}, expected {node_id}: {path}"
            )
        if (directory_id := identity.directory_id) is None:
            continue
        if is_reserved(directory_id):
            raise LogStateError(f"reserved directory.id {directory_id}: {path}")
        other = seen.setdefault(directory_id, path)
        if other is not path:
            raise LogStateError(
                f"directory.id {directory_id} in two directories: {other} and {path}"
            )


def complete_identity(
    directory: Path,
    identity: MetaProperties | None,
    cluster_id: str,
    node_id: int,
    *,
    now_ms: int,
    disk: Disk,
) -> MetaProperties:
    """Write ``meta.properties`` if it, or its directory id, is missing; return it."""
    if identity is None:
        identity = MetaProperties(version=1, node_id=node_id, cluster_id=cluster_id)
    if identity.directory_id is None:
        identity = replace(identity, directory_id=new_directory_id())
        written = datetime.fromtimestamp(now_ms / 1000, UTC)
        disk.replace(directory / META_PROPERTIES, identity.format(written))
    return identity


def new_directory_id() -> str:
    """Return a random id for a log directory.

    As in Kafka it does not begin with a dash, which would look like an option.

    >>> len(new_directory_id())
    22
    """
    while True:
        directory_id = uuid_to_text(uuid4().bytes)
        if not directory_id.startswith("-") and not is_reserved(directory_id):
            return directory_id


@dataclass(slots=True)
class Owner:
    """The cluster and the broker that a manager's log directories belong to.

    `cluster` is the cluster's partitions, or the path of its metadata log. `cluster_id`
    and `node_id` are the expected ids; `check` sets an unknown `node_id`.
    """

    cluster: ClusterImage | AnyPath | None = None
    cluster_id: str | None = None
    node_id: int | None = None

    def check(self, found: Mapping[Path, MetaProperties]) -> None:
        """Check the ids of directories, and read the cluster's partitions.

        Raises the errors of `check_identities`, and `ConfigError` if there is a cluster
        and the id of this broker is unknown.
        """
        check_identities(found, self.cluster_id, self.node_id)
        for identity in found.values():
            if self.node_id is None:
                self.node_id = identity.node_id
        if self.cluster is not None:
            if self.node_id is None:
                raise ConfigError("no node.id, expected one to find strays by")
            if not isinstance(self.cluster, ClusterImage):
                self.cluster = ClusterImage.read(self.cluster)

    def strays_or(self, is_stray: IsStray | None) -> IsStray | None:
        """Return a function that finds strays by the cluster or by `is_stray`."""
        image, node_id = self.cluster, self.node_id
        if not isinstance(image, ClusterImage) or node_id is None:
            return is_stray
        return lambda log: (
            image.is_stray(log, node_id) or (is_stray is not None and is_stray(log))
        )

    def directory_of(self, log: WritableLog) -> str | None:
        """Return the id of the directory that the cluster has recorded for a log."""
        if not isinstance(self.cluster, ClusterImage) or self.node_id is None:
            return None
        return self.cluster.directory_of(log, self.node_id)

    def is_accepted_in(self, log: WritableLog, identity: MetaProperties | None) -> bool:
        """Return whether the cluster has recorded a log in the directory of an id."""
        expected = self.directory_of(log)
        return (
            expected is not None
            and identity is not None
            and (identity.directory_id == expected)
        )

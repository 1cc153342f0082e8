"""The partitions that a KRaft cluster assigns to its brokers.

A log that the cluster does not assign to this broker is a stray. Its directory is
renamed to ``-stray``, and not deleted. A future log whose directory the cluster has
accepted becomes the current log.

Source: ``LogManager.isStrayReplica``, ``LogManager.recoverAbandonedFutureLogs``,
``BrokerMetadataPublisher.scala``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from kafkalog.errors import NotALogDirectoryError
from kafkalog.log.reading.cluster_metadata import (
    METADATA_PARTITION,
    Replicas,
    read_cluster_settings,
)
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.location import AnyPath, is_directory, local_path
from kafkalog.text.uuid_text import uuid_from_text

RESERVED_IDS: Final = 100
"""Number of the lowest ids, which are reserved, such as that of a lost directory."""

TopicPartition = tuple[str, int]
"""Topic id and number of a partition."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The partitions of a cluster, by topic id and number, with their replicas.

    Parameters
    ----------
    partitions : mapping of (str, int) to Replicas
        For each partition the ids of its brokers, and the ids of the log directories
        on these brokers. There may be no ids of directories.
    topic_ids : mapping of str to str, optional
        The ids of topics by name.

    Examples
    --------
    >>> orders = "wgPZZe6wRgSsxbpNzQVtow"
    >>> image = ClusterImage({(orders, 0): Replicas((1, 2))})
    >>> image.is_assigned(orders, 0, node_id=1), image.is_assigned(orders, 1, node_id=1)
    (True, False)
    """

    partitions: Mapping[TopicPartition, Replicas]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: AnyPath) -> Self:
        """Return the partitions in the metadata log of a cluster.

        The log is read to its end, including records that the controllers have not
        committed.

        Parameters
        ----------
        path : path
            A directory ``__cluster_metadata-0``, or the log directory that has it.

        Returns
        -------
        ClusterImage
            The partitions as of the last record.

        Raises
        ------
        NotALogDirectoryError
            If there is no metadata log at `path`.
        CorruptRecordError
            If the metadata log is corrupt, or has a gap.
        OSError
            If a file cannot be read.
        """
        directory = local_path(path)
        if is_directory(directory / METADATA_PARTITION):
            directory /= METADATA_PARTITION
        if not directory.is_dir() or directory.absolute().name != METADATA_PARTITION:
            raise NotALogDirectoryError(f"no {METADATA_PARTITION}: {directory}")
        settings = read_cluster_settings(directory)
        return cls(settings.partitions, settings.topic_ids)

    def assigned_to(self, node_id: int) -> list[tuple[str, int, str | None]]:
        """Return the partitions that have a replica on a broker.

        Parameters
        ----------
        node_id : int
            The id of the broker.

        Returns
        -------
        list of (str, int, str or None)
            Topic, number, and the id of the log directory if it is recorded. Topics
            whose name is unknown are left out.
        """
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return sorted(
            (names[topic_id], number, dict(_by_broker(replicas)).get(node_id))
            for (topic_id, number), replicas in self.partitions.items()
            if node_id in replicas.brokers and topic_id in names
        )

    def recorded_directory(self, node_id: int) -> str | None:
        """Return the id of the only log directory that the cluster has of a broker.

        Parameters
        ----------
        node_id : int
            The id of the broker.

        Returns
        -------
        str or None
            The id; None if there is none, or there are several.
        """
        found = {
            directory_id
            for replicas in self.partitions.values()
            for broker, directory_id in _by_broker(replicas)
            if broker == node_id and not is_reserved(directory_id)
        }
        return found.pop() if len(found) == 1 else None

    def is_assigned(self, topic_id: str | None, partition: int, node_id: int) -> bool:
        """Return whether a partition of a topic has a replica on a broker.

        Parameters
        ----------
        topic_id : str or None
            The topic's id; a log without one is assigned to no broker.
        partition : int
            The number of the partition.
        node_id : int
            The id of the broker.

        Returns
        -------
        bool
            Whether the cluster has the partition, and the broker has a replica of it.
        """
        if topic_id is None:
            return False
        replicas = self.partitions.get((topic_id, partition))
        return replicas is not None and node_id in replicas.brokers

    def is_stray(self, log: WritableLog, node_id: int) -> bool:
        """Return whether a log does not belong to a broker.

        Parameters
        ----------
        log : WritableLog
            The log, with the topic id of its ``partition.metadata``.
        node_id : int
            The id of the broker.

        Returns
        -------
        bool
            Whether the log has no topic id, or the cluster does not have the partition,
            or the broker has no replica of it.
        """
        return not self.is_assigned(log.topic_id, log.partition, node_id)

    def directory_of(self, log: WritableLog, node_id: int) -> str | None:
        """Return the id of the log directory that the cluster has recorded for a log.

        Parameters
        ----------
        log : WritableLog
            The log.
        node_id : int
            The id of the broker.

        Returns
        -------
        str or None
            The id; None if the cluster has no such replica, or no directory of it.
        """
        replicas = self.partitions.get((log.topic_id or "", log.partition))
        if replicas is None:
            return None
        return dict(_by_broker(replicas)).get(node_id)


def is_reserved(directory_id: str) -> bool:
    """Return whether a directory id stands for a lost or an unknown directory.

    >>> is_reserved("AAAAAAAAAAAAAAAAAAAAAQ")
    True
    """
    return int.from_bytes(uuid_from_text(directory_id)) < RESERVED_IDS


def _by_broker(replicas: Replicas) -> Iterator[tuple[int, str]]:
    """Yield the brokers with the ids of their directories, if these are recorded."""
    return zip(replicas.brokers, replicas.directories, strict=False)

"""The topics of log directories: their ids, their partitions, and the logs of these.

A directory is listed when it changes. A log is opened when it is first asked for: ten
thousand partitions are listed in a second, and few of them are read.

Of several replicas of a partition, the log that is longest at the highest epoch is the
one that is served.

Source: ``KRaftMetadataCache.java``, ``PartitionMetadataFile.java``.
"""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkalog.errors import KafkaLogError
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.ownership import is_owned
from kafkalog.log.reading.cluster_metadata import (
    METADATA_PARTITION,
    ClusterSettings,
    read_cluster_settings,
)
from kafkalog.log.reading.followed_log import FollowedLog
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    Offsets,
    read_if_exists,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    META_PROPERTIES,
    METADATA_TOPIC,
    PARTITION_METADATA,
    parse_partition_dir,
)
from kafkalog.storage.location import Location, is_directory
from kafkalog.storage.log_directory import (
    PartitionSelection,
    is_partition,
    list_partitions,
)
from kafkalog.storage.record_lock import is_locked
from kafkalog.text.uuid_text import ZERO_UUID, uuid_to_text

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
"""Topics that responses call internal."""

MOST_OPEN_FILES: Final = 256
NODE_ID: Final = 1
"""The node id where no directory has one."""

CLUSTER_ID: Final = "kafkalog-0000000000000"
"""The cluster id where no directory has one."""


def most_open_files() -> int:
    """Return how many segments are kept open, at most a quarter of the files allowed.

    >>> 0 < most_open_files() <= MOST_OPEN_FILES
    True
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST_OPEN_FILES, max(1, limit // 4)) if limit > 0 else MOST_OPEN_FILES


@dataclass(slots=True)
class ServedPartition:
    """A partition, and the log of the replica that is served."""

    topic: str
    number: int
    log: FollowedLog
    watermark: int | None = None
    """The checkpointed high watermark, while a broker writes to the log."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which the log is served: its end, without a broker."""
        log = self.log
        if self.watermark is None:
            return log.log_end_offset
        return min(max(self.watermark, log.log_start_offset), log.log_end_offset)

    @property
    def stable_offset(self) -> int:
        """The offset up to which transactions are decided, and served."""
        return min(self.log.last_stable_offset, self.high_watermark)

    def end_offset(self, *, is_committed: bool) -> int:
        """Return the offset up to which a consumer of an isolation level reads."""
        return self.stable_offset if is_committed else self.high_watermark

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch of the log; 0 if it is unknown."""
        epochs = self.log.leader_epochs
        return epochs[-1].epoch if epochs else 0


@dataclass(slots=True)
class ServedTopic:
    """A topic: its id, and the directories of its partitions' replicas by number."""

    name: str
    directories: dict[int, list[Location]] = field(default_factory=dict)
    topic_id: str = ZERO_UUID

    @property
    def is_internal(self) -> bool:
        """Whether clients are told that the topic is internal."""
        return self.name in INTERNAL_TOPICS

    @property
    def partition_count(self) -> int:
        """The number of partitions, those before the last that are missing included."""
        return max(self.directories) + 1


class Catalogue:
    """The topics and partitions that lie in log directories, or are named alone."""

    def __init__(
        self, paths: Sequence[Location], selection: PartitionSelection
    ) -> None:
        self._paths = list(paths)
        self._selection = selection
        self._open_files = OpenFiles(most_open_files())
        self._times: list[int] = []
        self._marks: dict[Path, tuple[int, Offsets | None]] = {}
        self._partitions: dict[tuple[str, int], ServedPartition] = {}
        self.topics: dict[str, ServedTopic] = {}
        self.names: dict[str, str] = {}
        self.cluster_id, self.node_id = self._identity()
        self.refresh()

    def refresh(self) -> None:
        """List the directories again that have changed."""
        times = [self._time(path) for path in self._paths]
        if times == self._times:
            return
        self._times = times
        topics: dict[str, ServedTopic] = {}
        for path in self._paths:
            for topic, number, directory in self._listed(path):
                served = topics.setdefault(topic, ServedTopic(topic))
                served.directories.setdefault(number, []).append(directory)
        for served in topics.values():
            known = self.topics.get(served.name)
            served.topic_id = (
                self._topic_id(served) if known is None else known.topic_id
            )
        self.topics = dict(sorted(topics.items()))
        self.names = {topic.topic_id: topic.name for topic in topics.values()}
        for key, partition in list(self._partitions.items()):
            if key[1] not in self._directories(key[0]):
                partition.log.close()
                del self._partitions[key]

    def partition(self, topic: str, number: int) -> ServedPartition | None:
        """Return a partition, as it is now; None if there is none."""
        partition = self._partitions.get((topic, number))
        if partition is None:
            directories = self._directories(topic).get(number)
            if directories is None:
                return None
            logs = [self._log(directory, topic, number) for directory in directories]
            partition = ServedPartition(topic, number, max(logs, key=_length))
            self._partitions[topic, number] = partition
        partition.log.refresh()
        marks = self._watermarks(partition.log.directory.absolute().parent)
        partition.watermark = None if marks is None else marks.get((topic, number), 0)
        return partition

    def _watermarks(self, root: Location) -> Offsets | None:
        """Return the high watermarks in a log directory; None if no broker has it.

        A broker writes them every five seconds, and it alone changes them: whether one
        is running is asked when they have changed, or are asked for the first time.
        """
        if not isinstance(root, Path) or is_owned(root):
            return None
        try:
            changed_ns = (root / HIGH_WATERMARKS).stat().st_mtime_ns
        except OSError:
            changed_ns = 0
        known = self._marks.get(root)
        if known is None or known[0] != changed_ns:
            marks = None
            if is_locked(root):
                marks = read_offsets_or_none(root, HIGH_WATERMARKS)
            known = self._marks[root] = changed_ns, marks
        return known[1]

    def by_log_directory(self) -> dict[Location, dict[str, dict[int, Location]]]:
        """Return the directories of partitions by log directory, topic and number."""
        found: dict[Location, dict[str, dict[int, Location]]] = {}
        for path in self._paths:
            if not is_partition(path):
                found[path.absolute()] = {}
        for topic in self.topics.values():
            for number, directories in topic.directories.items():
                for directory in directories:
                    topics = found.setdefault(directory.absolute().parent, {})
                    topics.setdefault(topic.name, {})[number] = directory
        return found

    def cluster_settings(self) -> ClusterSettings:
        """Return the settings in the newest metadata of the cluster, empty without.

        Raises `KafkaLogError` and `OSError` for metadata that cannot be read.
        """
        found = [ClusterSettings()]
        for path in self.by_log_directory():
            directory = path / METADATA_PARTITION
            if is_directory(directory):
                found.append(read_cluster_settings(directory))
        return max(found, key=lambda settings: settings.end_offset)

    def directories_of(self, topic: str) -> list[Location]:
        """Return the directories of a topic's partitions, also if it is not served."""
        return [
            directory
            for path in self._paths
            for name, _, directory in self._found(path)
            if name == topic
        ]

    def close(self) -> None:
        """Close all files."""
        for partition in self._partitions.values():
            partition.log.close()

    def _directories(self, topic: str) -> dict[int, list[Location]]:
        served = self.topics.get(topic)
        return {} if served is None else served.directories

    def _log(self, directory: Location, topic: str, number: int) -> FollowedLog:
        starts: Offsets = {}
        with suppress(OSError):
            starts = read_offsets_or_none(directory.parent, LOG_STARTS)
        log = FollowedLog(directory, starts.get((topic, number)), self._open_files)
        log.refresh()
        return log

    def _listed(self, path: Location) -> list[tuple[str, int, Location]]:
        """Return the partitions at a path that are served."""
        return [
            found
            for found in self._found(path)
            if self._selection.has(found[0], found[1]) and found[0] != METADATA_TOPIC
        ]

    def _found(self, path: Location) -> list[tuple[str, int, Location]]:
        if is_partition(path):
            name = parse_partition_dir(path.absolute().name)
            found = [] if name is None else [(name, path)]
        else:
            found = list_partitions(path)
        return [(name.topic, name.partition, directory) for name, directory in found]

    def _time(self, path: Location) -> int:
        return path.stat().st_mtime_ns if isinstance(path, Path) else 0

    def _identity(self) -> tuple[str, int]:
        """Return the ids of the cluster and the node."""
        for path in self._paths:
            for directory in (path, path.absolute().parent):
                with suppress(KafkaLogError, OSError):
                    found = read_if_exists(
                        directory / META_PROPERTIES, MetaProperties.parse
                    )
                    if found is not None:
                        node_id = NODE_ID if found.node_id is None else found.node_id
                        return found.cluster_id or CLUSTER_ID, node_id
        return CLUSTER_ID, NODE_ID

    def _topic_id(self, topic: ServedTopic) -> str:
        """Return the id in ``partition.metadata``, or one made from the names."""
        for directories in topic.directories.values():
            for directory in directories:
                with suppress(KafkaLogError, OSError):
                    found = read_if_exists(
                        directory / PARTITION_METADATA, PartitionMetadata.parse
                    )
                    if found is not None and found.topic_id != ZERO_UUID:
                        return found.topic_id
        name = f"{self.cluster_id}/{topic.name}".encode()
        return uuid_to_text(hashlib.sha256(name).digest()[:16])


def _length(log: FollowedLog) -> tuple[int, int]:
    epoch = log.leader_epochs[-1].epoch if log.leader_epochs else -1
    return epoch, log.log_end_offset

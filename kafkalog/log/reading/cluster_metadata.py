"""Topics, partitions and settings of a KRaft cluster: ``__cluster_metadata-0``.

The newest ``.checkpoint`` has all of them as of its offset. The records of the log from
that offset on have the later changes. Records of a transaction are applied when it
ends. The log is read to its end, so a record that its quorum has not committed is
applied, too.

Source: ``ConfigurationsDelta.java``, ``TopicsDelta.java``,
``PartitionRegistration.java``, ``MetadataBatchLoader.java``, ``KafkaRaftLog.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.errors import CorruptRecordError, LocatedError
from kafkalog.log.reading.log_segments import from_offset, list_segments, read_on
from kafkalog.log.reading.metadata_snapshot import MetadataSnapshot
from kafkalog.messages.internal_records import decode_metadata, metadata_type
from kafkalog.segment.file_records import Step
from kafkalog.storage.file_names import METADATA_TOPIC, PartitionDir, parse_file_name
from kafkalog.storage.location import Location, entries, read_small

METADATA_PARTITION: Final = PartitionDir(METADATA_TOPIC, 0).name

TOPIC, PARTITION, CONFIG, PARTITION_CHANGE, REMOVE_TOPIC = 2, 3, 4, 5, 9
BEGIN, END, ABORT = 23, 24, 25
APPLIED_TYPES: Final = frozenset(
    {TOPIC, PARTITION, CONFIG, PARTITION_CHANGE, REMOVE_TOPIC, BEGIN, END, ABORT}
)
"""Kafka's numbers of the record types that are read; all others are skipped."""

TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 16, 32
"""Kafka's numbers of the resource types whose settings are read."""

CLUSTER_DEFAULT: Final = ""
"""Name, in place of a broker's id, of the default settings of all brokers."""

Change = tuple[int, dict[str, Any]]
"""Type number and message of a record."""


class Replicas(NamedTuple):
    """The brokers of a partition, and the ids of its log directories on each.

    `directories` is empty in clusters before Kafka 3.7.
    """

    brokers: tuple[int, ...]
    directories: tuple[str, ...] = ()


@dataclass(slots=True)
class ClusterSettings:
    """Settings of topics, brokers and more by name, the ids and partitions of topics.

    `partitions` are by topic id and number. `end_offset` is the offset after the last
    record that was applied.
    """

    end_offset: int = 0
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Replicas] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[str, dict[str, str]] = field(default_factory=dict)
    client_metrics: dict[str, dict[str, str]] = field(default_factory=dict)
    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    _open: list[Change] | None = None  # records of a transaction that has not ended

    def apply(self, value: bytes | None) -> None:
        """Apply a record of the metadata log, or skip it."""
        number = metadata_type(value)
        if number not in APPLIED_TYPES:
            return
        message = decode_metadata(METADATA_TOPIC, value)[3]
        if number == BEGIN:
            self._open = []
        elif number in (END, ABORT):
            ended, self._open = self._open or [], None
            for change in ended if number == END else ():
                self._change(*change)
        elif self._open is not None:
            self._open.append((number, message))
        else:
            self._change(number, message)

    def _change(self, number: int, message: dict[str, Any]) -> None:
        if number == TOPIC:
            self.topic_ids[message["name"]] = message["topicId"]
        elif number == REMOVE_TOPIC:
            for name, topic_id in list(self.topic_ids.items()):
                if topic_id == message["topicId"]:
                    del self.topic_ids[name]
                    self.topics.pop(name, None)
            for partition in list(self.partitions):
                if partition[0] == message["topicId"]:
                    del self.partitions[partition]
        elif number in (PARTITION, PARTITION_CHANGE):
            self._assign(message)
        else:
            self._set(message)

    def _assign(self, message: dict[str, Any]) -> None:
        """Apply a record of a partition; one of a change has only what has changed."""
        partition = message["topicId"], message["partitionId"]
        brokers, directories = self.partitions.get(partition, Replicas(()))
        if message.get("replicas") is not None:
            brokers, directories = tuple(message["replicas"]), ()
        if message.get("directories") is not None:
            directories = tuple(message["directories"])
        self.partitions[partition] = Replicas(brokers, directories)

    def _set(self, message: dict[str, Any]) -> None:
        by_type = {
            TOPIC_RESOURCE: self.topics,
            BROKER_RESOURCE: self.brokers,
            CLIENT_METRICS_RESOURCE: self.client_metrics,
            GROUP_RESOURCE: self.groups,
        }
        resources = by_type.get(message["resourceType"])
        if resources is None:
            return
        settings = resources.setdefault(message["resourceName"], {})
        if message["value"] is None:
            settings.pop(message["name"], None)
        else:
            settings[message["name"]] = message["value"]


def is_tiered_by(cluster: ClusterSettings, topic: str) -> bool | None:
    """Return whether a topic has remote storage; None if the cluster has no such topic.

    It is set for single topics only; brokers have no default for it.

    >>> is_tiered_by(ClusterSettings(topic_ids={"orders": "id"}), "orders")
    False
    """
    if topic not in cluster.topic_ids:
        return None
    setting = cluster.topics.get(topic, {}).get("remote.storage.enable", "")
    return setting.strip().lower() == "true"


def read_cluster_settings(directory: Location) -> ClusterSettings:
    """Return the settings in a directory ``__cluster_metadata-0``.

    Raises `KafkaLogError` for a file that is corrupt, or a gap between files, and
    `OSError`.
    """
    settings = ClusterSettings()
    start = settings.end_offset = _apply_snapshot(directory, settings)
    for batch in _batches(directory, start):
        settings.end_offset = batch.last_offset + 1
        if not batch.is_control:
            for record in batch:
                if record.offset >= start:
                    settings.apply(record.value)
    return settings


def _apply_snapshot(directory: Location, settings: ClusterSettings) -> int:
    """Apply the newest snapshot; return its end offset, 0 without a snapshot."""
    names = [parse_file_name(entry.name) for entry in entries(directory)]
    snapshots = [
        (name.base_offset, name.epoch or 0, name.name)
        for name in names
        if name is not None and name.kind == "checkpoint"
        if name.suffix is None and name.token is None
    ]
    if not snapshots:
        return 0
    offset, _, newest = max(snapshots)
    path = directory / newest
    try:
        data = read_small(path)
        snapshot = MetadataSnapshot.parse(data)
        if snapshot.finished is None:
            raise CorruptRecordError("no snapshot footer", position=len(data))
    except LocatedError as error:
        raise error.located(path) from None
    for records in snapshot.batches:
        for record in records:
            settings.apply(record.value)
    return offset


def _batches(directory: Location, start: int) -> Iterator[RecordBatch]:
    """Yield the batches that end at or after `start`, with their checksums checked.

    Raises `CorruptRecordError` for missing offsets.
    """
    end = start
    segments = list_segments(directory)
    if not segments and not start:
        reason = "no segment and no snapshot, expected at least one"
        raise CorruptRecordError(reason).located(directory)
    for opened in read_on(directory, from_offset(segments, start)):
        for step in opened.records(opened.position_for(start)):
            assert isinstance(step, Step)  # damage is raised
            for row in step.rows:
                position = int(row["position"])
                batch = RecordBatch(step.data, position - step.origin)
                if batch.last_offset < start:
                    continue
                if batch.base_offset > end:
                    reason = f"base offset {batch.base_offset}, expected {end}"
                    error = CorruptRecordError(reason, position=position)
                    raise error.located(opened.segment.path)
                end = batch.last_offset + 1
                yield batch

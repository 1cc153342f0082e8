"""Checks of names that a broker cannot parse, and of topic ids.

When a broker starts, it parses the name of each directory in a log directory as a
partition's, except that of tiered storage, and the names of some kinds of files as
offsets. A name that it cannot parse fails the start.

A broker renames a partition whose ``partition.metadata`` has another topic id than the
cluster's metadata to ``-stray``, and creates an empty one.

Source: ``LocalLog.parseTopicPartitionName``, ``LogManager.loadLogs``, ``LogLoader``,
``LogFileUtils.java``, ``ProducerStateManager.listSnapshotFiles``, ``Snapshots.parse``,
``BrokerMetadataPublisher.scala``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkalog.errors import KafkaLogError, StrayFileError
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.reading.cluster_metadata import ClusterSettings, read_cluster_settings
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.file_names import (
    PARTITION_METADATA,
    PartitionDir,
    parse_file_name,
)
from kafkalog.storage.leftover_names import offset_of
from kafkalog.storage.log_directory import LINKED, linked_partitions, subdirectories
from kafkalog.text.decimal_text import int_from_text
from kafkalog.verification.verification_report import Cause, Findings, Recovery

NUMBERED: Final = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    ".cleaned",
    ".swap",
)
"""Suffixes of files whose names begin with an offset."""

METADATA_SNAPSHOTS: Final = (".checkpoint", ".checkpoint.part", ".checkpoint.deleted")
MARKS: Final = ("-delete", "-future", "-stray")
_BLANK: Final = " \t\n\x0b\f\r"
_MARKED: Final = re.compile(rf"[^{_BLANK}]+-[^{_BLANK}]+\.[^{_BLANK}]+")


def is_partition_name(name: str) -> bool:
    """Return whether a broker takes a directory's name for a partition's.

    >>> is_partition_name("orders-0"), is_partition_name("orders-0.bak")
    (True, False)
    >>> is_partition_name("lost+found")
    False
    """
    for mark in MARKS:
        if name.endswith(mark):
            if not _MARKED.fullmatch(name.removesuffix(mark)):
                return False
            name = name[: name.rindex(".")]
            break
    topic, _, number = name.rpartition("-")
    with suppress(ValueError):
        int_from_text(number, 32)
        return bool(topic)
    return False


def check_directories(root: Path, findings: Findings) -> None:
    """Add a problem for each directory that keeps a broker from starting.

    Another one is that a partition is a symbolic link, which is not followed.
    """
    for _, path in linked_partitions(root):
        findings_of_link = Findings(path.name)
        findings_of_link.add(Cause.FOREIGN, LINKED)
        findings.problems += findings_of_link.problems
    for entry in subdirectories(root):
        if not is_partition_name(entry.name):
            findings_of_entry = Findings(entry.name)
            findings_of_entry.add(
                Cause.FOREIGN,
                "directory name, expected <topic>-<partition>: a broker does not start "
                "with it; move it out of the log directory",
            )
            findings.problems += findings_of_entry.problems


def check_file_names(
    names: Iterable[str], *, is_metadata: bool
) -> Iterator[tuple[str, str]]:
    """Yield the names of files that keep a broker from loading a log, and why."""
    for name in names:
        if name.endswith(NUMBERED):
            try:
                offset_of(name)
            except StrayFileError:
                yield name, "file name does not begin with an offset"
        elif (
            is_metadata
            and name.endswith(METADATA_SNAPSHOTS)
            and not parse_file_name(name)
        ):
            yield name, "file name does not begin with an offset and an epoch"


def cluster_topics(metadata: Path) -> ClusterSettings | None:
    """Return the topics in the cluster's metadata; None if that is damaged."""
    try:
        return read_cluster_settings(metadata)
    except (KafkaLogError, OSError):
        return None


def describe_misnamed(
    topic_ids: Mapping[str, str], name: PartitionDir, topic_id: str | None
) -> str:
    """Return how the name of a log differs from the topic of its id."""
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    owner = names.get(topic_id or "")
    expected = topic_ids.get(name.topic)
    of_name = (
        f"expected {expected} of {name.topic}"
        if expected is not None
        else f"and the cluster has no topic {name.topic}"
    )
    return f"topic id {topic_id} of {owner}, {of_name}"


def check_directory_id(
    identity: MetaProperties, cluster: ClusterSettings, findings: Findings
) -> None:
    """Compare a log directory's id with that of the broker's only one in the cluster.

    A partition whose directory is not among those of the broker gets no leader.
    """
    if identity.node_id is None:
        return
    image = ClusterImage(cluster.partitions, cluster.topic_ids)
    recorded = image.recorded_directory(identity.node_id)
    if recorded is None or recorded == identity.directory_id:
        return
    findings.add(
        Cause.DIRECTORY_ID,
        f"directory.id {identity.directory_id}, expected {recorded} of node "
        f"{identity.node_id} in the cluster's metadata: its partitions get no leader",
        recovery=Recovery.UNSERVED,
    )


def check_topic_id(
    directory: Path,
    name: PartitionDir,
    cluster: ClusterSettings,
    node_id: int | None,
    findings: Findings,
    *,
    has_records: bool,
) -> None:
    """Compare a partition's ``partition.metadata`` with the cluster's metadata.

    A log of another topic that has a replica on the broker is loaded, under the wrong
    name; `node_id` is the broker's, None if it is unknown.

    It is written before the first records: in a partition without any it may be
    missing.
    """
    try:
        topic_id: str | None = PartitionMetadata.parse(
            read_regular(directory / PARTITION_METADATA)
        ).topic_id
    except FileNotFoundError:
        topic_id = None
    except KafkaLogError:  # is reported separately
        return
    expected = cluster.topic_ids.get(name.topic)
    if expected is not None and topic_id == expected:
        return
    if topic_id is None and not has_records:
        return
    aside = "a broker renames the directory to -stray"
    replicas = cluster.partitions.get((topic_id or "", name.partition))
    if replicas is not None and node_id in (None, *replicas.brokers):
        misnamed = describe_misnamed(cluster.topic_ids, name, topic_id)
        findings.add(
            Cause.TOPIC_ID,
            f"{misnamed}; a broker loads the log, and does not serve it: give the "
            "directory the name of its topic, or move it away",
            recovery=Recovery.UNSERVED,
        )
        return
    if expected is None:
        message = f"the cluster's metadata has no topic {name.topic}; {aside}"
        findings.warn(Cause.TOPIC_ID, message)
        return
    actual = (
        "no topic id (missing file)" if topic_id is None else f"topic id {topic_id}"
    )
    findings.add(
        Cause.TOPIC_ID,
        f"{actual}, expected {expected} of {name.topic} in the cluster's metadata; "
        f"{aside}, and the partition starts empty",
    )

"""Checks of names that a broker cannot read, and of what the cluster's metadata says.

A broker that starts takes each directory in a log directory for a partition, but for
that of tiered storage, and reads an offset from the name of each file of some kinds. A
name that it cannot read ends the start.

A partition whose ``partition.metadata`` has another topic id than the cluster's
metadata is set aside, as ``-stray``, and begins anew.

Knows: names, topic ids. Does not know: segments.
Source: ``LocalLog.parseTopicPartitionName``, ``LogManager.loadLogs``, ``LogLoader``,
``LogFileUtils.java``, ``ProducerStateManager.listSnapshotFiles``, ``Snapshots.parse``,
``BrokerMetadataPublisher.scala``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkalog.codecs.decimal_text import int_from_text
from kafkalog.errors import KafkaLogError, StrayFileError
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.log.cluster_metadata import read_cluster_settings
from kafkalog.log.recovery.leftover_files import offset_of
from kafkalog.manager.found_logs import REMOTE_INDEXES
from kafkalog.storage.byte_source import read_plain
from kafkalog.storage.file_names import (
    PARTITION_METADATA,
    PartitionDir,
    parse_file_name,
)
from kafkalog.verification.report import Cause, Findings

NUMBERED: Final = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    ".cleaned",
    ".swap",
)
"""Endings of files whose names a broker reads an offset from."""

CHECKPOINTS: Final = (".checkpoint", ".checkpoint.part", ".checkpoint.deleted")
MARKS: Final = ("-delete", "-future", "-stray")
_BLANK: Final = " \t\n\x0b\f\r"
_MARKED: Final = re.compile(rf"[^{_BLANK}]+-[^{_BLANK}]+\.[^{_BLANK}]+")


def is_partition_name(name: str) -> bool:
    """Whether a broker takes a directory's name for a partition's.

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
    """Note each directory in a log directory that keeps a broker from starting."""
    for entry in sorted(root.iterdir()):
        if entry.name == REMOTE_INDEXES or is_partition_name(entry.name):
            continue
        if entry.is_dir():
            found = Findings(entry.name)
            found.add(
                Cause.FOREIGN,
                "its name is not that of a partition, and a broker does not start with "
                "it: move it out of the log directory",
            )
            findings.problems += found.problems


def check_file_names(
    names: Iterable[str], *, is_metadata: bool
) -> Iterator[tuple[str, str]]:
    """Yield the files whose names keep a broker from opening a partition, and why."""
    for name in names:
        if name.endswith(NUMBERED):
            try:
                offset_of(name)
            except StrayFileError:
                yield name, "no offset begins its name"
        elif is_metadata and name.endswith(CHECKPOINTS) and not parse_file_name(name):
            yield name, "its name has no offset and epoch"


def topic_ids(metadata: Path) -> dict[str, str] | None:
    """Return the topics' ids by the cluster's metadata; None where that is damaged."""
    try:
        return read_cluster_settings(metadata).topic_ids
    except (KafkaLogError, OSError):
        return None


def check_topic_id(
    directory: Path,
    name: PartitionDir,
    ids: dict[str, str],
    findings: Findings,
    *,
    has_records: bool,
) -> None:
    """Hold a partition's ``partition.metadata`` to the ids in the cluster's metadata.

    The file is written before the first records are: without any it may be missing.
    """
    try:
        found: str | None = PartitionMetadata.parse(
            read_plain(directory / PARTITION_METADATA)
        ).topic_id
    except FileNotFoundError:
        found = None
    except KafkaLogError:  # that is a finding of its own
        return
    expected = ids.get(name.topic)
    if expected is not None and found == expected:
        return
    if found is None and not has_records:
        return
    aside = "a broker sets the directory aside, as -stray"
    if expected is None:
        message = f"the cluster's metadata has no topic {name.topic}: {aside}"
        findings.warn(Cause.TOPIC_ID, message)
        return
    said = "the file is missing" if found is None else f"topic id {found}"
    findings.add(
        Cause.TOPIC_ID,
        f"{said}, but {name.topic} has {expected} in the cluster's metadata: {aside}, "
        "and the partition starts empty",
    )

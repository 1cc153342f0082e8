"""Committed offsets of consumer groups, carried over to a copy.

They are written to a file for ``kafka-consumer-groups.sh --reset-offsets --from-file``,
lines of group, topic, partition and offset, or as records of ``__consumer_offsets``. A
group's partition of that topic is the absolute value of its name's hash code, modulo
the number of partitions.

Source: ``OffsetsUtils.parseResetPlan``, ``GroupCoordinatorService.partitionFor``,
``GroupCoordinatorRecordHelpers.newOffsetCommitRecord``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafkalog.copies.restore_report import RestoredOffset
from kafkalog.decoding.read_policy import OnCorruption
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.messages.schema_tables import schemas_of
from kafkalog.query.newest_records import (
    CONSUMER_OFFSETS,
    OFFSET_COMMIT,
    current_messages,
    newest_records,
)
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan import scan

KEY_TYPE: Final = 1
KEY_VERSION: Final = 0
VALUE_VERSION: Final = 3
"""The newest version that every broker since Kafka 2.1 reads."""

OFFSETS_PARTITIONS: Final = 50
"""``offsets.topic.num.partitions``."""

BATCH_RECORDS: Final = 1000
NO_EPOCH: Final = -1


class CommittedOffset(NamedTuple):
    """A committed offset of a group."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


def read_committed_offsets(
    directories: Sequence[Any], on_corruption: OnCorruption
) -> tuple[list[CommittedOffset], list[ScanProblem]]:
    """Return the committed offsets in the partitions of ``__consumer_offsets``.

    They are sorted by group, topic and partition. The second list is the damage that
    was skipped: a commit that is lost with a batch leaves the one before it.
    """
    found_in = scan(list(directories), on_corruption=on_corruption)
    newest = newest_records(found_in, CONSUMER_OFFSETS, OFFSET_COMMIT)
    found = [
        CommittedOffset(
            key["group"],
            key["topic"],
            key["partition"],
            value["offset"],
            value.get("leaderEpoch", NO_EPOCH),
            value["metadata"],
        )
        for key, value in current_messages(newest, CONSUMER_OFFSETS)
    ]
    return sorted(found), [problem for each in newest for problem in each.problems]


def carry_over(
    committed: Iterable[CommittedOffset],
    offsets: Mapping[tuple[str, int], tuple[int, int]],
) -> list[RestoredOffset]:
    """Return committed offsets for a copy, whose start and end offsets are given.

    >>> found = [CommittedOffset("g", "orders", 0, 3, -1, "")]
    >>> [carried] = carry_over(found, {("orders", 0): (5, 9)})
    >>> carried.committed, carried.offset
    (3, 5)
    """
    carried = []
    for each in committed:
        extent = offsets.get((each.topic, each.partition))
        offset = None if extent is None else min(max(each.offset, extent[0]), extent[1])
        carried.append(
            RestoredOffset(
                group=each.group,
                topic=each.topic,
                partition=each.partition,
                committed=each.offset,
                offset=offset,
            )
        )
    return carried


def format_reset_file(carried: Iterable[RestoredOffset], *, as_json: bool) -> bytes:
    r"""Return a file of committed offsets: CSV as Kafka reads it, or JSON.

    >>> format_reset_file(
    ...     [RestoredOffset(group="g", topic="t", partition=0, committed=3, offset=5)],
    ...     as_json=False,
    ... )
    b'g,t,0,5\n'
    """
    known = [each for each in carried if each.offset is not None]
    if as_json:
        rows = [
            {
                "group": each.group,
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
            }
            for each in known
        ]
        return (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode()
    text = io.StringIO()
    lines = ((each.group, each.topic, each.partition, each.offset) for each in known)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def partition_of_group(group: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that has a group.

    >>> partition_of_group("readers-classic", 50)
    43
    """
    value = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for unit in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[unit : unit + 2])) & 0xFFFFFFFF
    if value >= 1 << 31:  # negative; Utils.abs returns 0 for Integer.MIN_VALUE
        value = ((1 << 32) - value) & 0x7FFFFFFF
    return value % partitions


def offset_batches(
    carried: Iterable[RestoredOffset],
    committed: Iterable[CommittedOffset],
    *,
    partitions: int,
    leader_epoch: int,
    keeps_epochs: bool,
    now_ms: int,
) -> dict[int, list[bytes]]:
    """Return the batches of ``__consumer_offsets``, by partition.

    The time of each commit is `now_ms`, so that none expires at once. Leader epochs are
    those of the source only if batches keep theirs.
    """
    schemas = schemas_of(CONSUMER_OFFSETS)
    key_schema = schemas["coordinator-key", KEY_TYPE]
    value_schema = schemas["coordinator-value", KEY_TYPE]
    rows: dict[int, list[tuple[bytes, bytes]]] = {}
    for each, source in zip(carried, committed, strict=True):
        if each.offset is None:
            continue
        names = {"group": each.group, "topic": each.topic, "partition": each.partition}
        epoch = source.leader_epoch if keeps_epochs else NO_EPOCH
        value = {
            "offset": each.offset,
            "leaderEpoch": epoch if each.offset == each.committed else NO_EPOCH,
            "metadata": source.metadata,
            "commitTimestamp": now_ms,
        }
        key = KEY_TYPE.to_bytes(2) + key_schema.encode(names, KEY_VERSION)
        encoded = value_schema.encode(value, VALUE_VERSION)
        record = key, VALUE_VERSION.to_bytes(2) + encoded
        rows.setdefault(partition_of_group(each.group, partitions), []).append(record)
    return {
        number: [
            _batch(records[first : first + BATCH_RECORDS], first, leader_epoch, now_ms)
            for first in range(0, len(records), BATCH_RECORDS)
        ]
        for number, records in rows.items()
    }


def _batch(
    records: list[tuple[bytes, bytes]], first: int, leader_epoch: int, now_ms: int
) -> bytes:
    batch = RecordBatchBuilder(base_offset=first, leader_epoch=leader_epoch)
    for key, value in records:
        batch.append(key, value, timestamp=now_ms)
    return batch.build()

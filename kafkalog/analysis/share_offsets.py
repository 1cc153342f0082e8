"""The start offsets of share groups, as the share coordinator has them.

A share group has no committed offsets. Its state of each partition is in
``__share_group_state``: a snapshot, and the updates after it. The partition has the
topic's id only; ``__consumer_offsets`` has the names of the topics of a group.

Source: ``ShareCoordinatorShard.java``, ``ShareGroupOffset.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kafkalog.errors import CorruptMessageError, UnsupportedFormatError
from kafkalog.messages.internal_records import InternalRecord
from kafkalog.query.newest_records import NewestRecords, current_messages, partitions_of
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan import Scan

SHARE_STATE: Final = "__share_group_state"
SHARE_TOPICS: Final = (15,)
"""The type of the keys of records with the topics of a share group."""

UNKNOWN: Final = -1
COLUMNS: Final = ("offset", "timestamp", "key", "value")

SharePlace = tuple[str, str, int]
"""A share group, the id of a topic, and the number of a partition."""


class ShareState(NamedTuple):
    """What a share group has read of a partition; None if unknown.

    Records below `start_offset` are done, and `completed` of those above it.
    """

    start_offset: int | None = None
    completed: int | None = None
    leader_epoch: int | None = None
    timestamp: int | None = None


def share_states(
    found: Scan, problems: list[ScanProblem]
) -> dict[SharePlace, ShareState]:
    """Return the state of each partition of each share group; append what is skipped.

    Of a partition of ``__share_group_state`` that is in several directories, the
    replica with the highest offset is used.
    """
    if all(source.topic != SHARE_STATE for source, _ in found.sources):
        return {}
    replicas: dict[int, tuple[int, dict[SharePlace, ShareState]]] = {}
    for part in partitions_of(found, SHARE_STATE):
        [(source, _)] = part.sources
        end, states = _replay(part, problems)
        if end >= replicas.get(source.partition, (-1, None))[0]:
            replicas[source.partition] = end, states
    return {
        place: state
        for _, states in replicas.values()
        for place, state in states.items()
    }


def _replay(
    part: Scan, problems: list[ScanProblem]
) -> tuple[int, dict[SharePlace, ShareState]]:
    """Return the offset after the last record of a partition, and its states."""
    states: dict[SharePlace, ShareState] = {}
    log = NewestRecords(part)
    read = replace(part, columns=COLUMNS)
    for records in read.chunks(reuse=True):
        rows = zip(
            records.offset.tolist(),
            records.timestamp.tolist(),
            records.key.to_list(),
            records.value.to_list(),
            strict=True,
        )
        for offset, timestamp, key, value in rows:
            log.end = offset + 1
            try:
                record = InternalRecord.decode(SHARE_STATE, key, value)
            except (CorruptMessageError, UnsupportedFormatError) as error:
                log.skip(error, offset)
                continue
            assert record.key is not None  # it is a coordinator's
            of = record.key
            place = of["groupId"], str(of["topicId"]), of["partition"]
            if record.value is None:
                states.pop(place, None)
                continue
            states[place] = _merged(
                states.get(place) if record.name == "ShareUpdate" else None,
                ShareState(
                    _known(record.value["startOffset"]),
                    _known(record.value.get("deliveryCompleteCount", UNKNOWN)),
                    _known(record.value["leaderEpoch"]),
                    _known(timestamp),
                ),
            )
    problems += read.problems + log.problems
    return log.end, states


def _merged(before: ShareState | None, update: ShareState) -> ShareState:
    """Return a state after an update, in which unknown values do not change."""
    if before is None:
        return update
    return ShareState(
        *(old if new is None else new for old, new in zip(before, update, strict=True))
    )


def share_topics(newest: NewestRecords) -> dict[SharePlace, str]:
    """Return the names of the topics of share groups that have a state.

    `newest` has the records of `SHARE_TOPICS` of a partition of ``__consumer_offsets``.
    """
    return {
        (key["groupId"], str(topic["topicId"]), partition): topic["topicName"]
        for key, value in current_messages([newest], "__consumer_offsets")
        for topic in (*value["initializingTopics"], *value["initializedTopics"])
        for partition in topic["partitions"]
    }


def name_topics(
    states: Mapping[SharePlace, ShareState], names: Mapping[SharePlace, str]
) -> dict[tuple[str, str, int], ShareState]:
    """Return states by group, name of the topic and partition.

    A topic whose name is unknown has its id instead. A partition whose state is in no
    directory has an unknown one.
    """
    by_id = {topic_id: name for (_, topic_id, _), name in names.items()}
    return {
        (group, by_id.get(topic_id, topic_id), partition): states.get(
            (group, topic_id, partition), ShareState()
        )
        for group, topic_id, partition in sorted({*names, *states})
    }


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number

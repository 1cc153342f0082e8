"""Why a copy has all records of its source, by setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kafkalog.copies.record_selection import RecordFilters, RecordSelection
from kafkalog.copies.restore_report import RestoredPartition
from kafkalog.copies.selected_batches import SelectedBatches
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.reading.offset_lookup import find_end
from kafkalog.query.readable_offsets import earliest_offset
from kafkalog.reports import counted

TOPICS: Final = {
    "topics": "it matches every topic",
    "exclude_topics": "it matches no topic",
}
OFFSETS: Final = {
    "start_offset": "no record is below it",
    "end_offset": "no record is at or above it",
}
TIMES: Final = {
    "start_timestamp": "no record is earlier",
    "end_timestamp": "no record is at that time or later",
}


def why_unchanged(
    filters: RecordFilters,
    selection: RecordSelection,
    logs: Sequence[SelectedBatches],
    left_out: Collection[str],
    partitions: Sequence[RestoredPartition],
) -> tuple[str, ...]:
    """Return why each setting has left out nothing; nothing if one has.

    `left_out` are the topics of the source that are not copied, without internal ones.
    A copy without any partition has its reason, too.
    """
    if not partitions:
        names = " and ".join(name for name in TOPICS if filters.get(name)) or "topics"
        topics = counted(len(left_out), "topic")
        return (f"{names}: {topics} left out, and none to copy",)
    if left_out or any(each.excluded_records for each in partitions):
        return ()
    if not all(map(_is_whole, logs, partitions)):
        return ()
    reasons = tuple(_reasons(filters, selection))
    if not any(each.records for each in partitions):
        return ("the source has no records", *reasons)
    return reasons or ("no setting selects records: all are copied",)


def _is_whole(log: SelectedBatches, copy: RestoredPartition) -> bool:
    """Return whether a copy has all offsets of its source."""
    start = earliest_offset(log.directory, log.source)
    end = find_end(
        log.directory, list_segments(log.directory), max(start, 0), past_damage=True
    )
    return copy.log_start_offset <= start and copy.log_end_offset >= end


def _reasons(filters: RecordFilters, selection: RecordSelection) -> Iterator[str]:
    given = {name for name, value in filters.items() if value not in (None, (), [])}
    for name, reason in (TOPICS | OFFSETS | TIMES).items():
        if name in given:
            yield f"{name}: {reason}"
    if selection.keys is not None:
        yield f"keys: every record has {_one_of(selection.keys, 'key')}"
    if selection.excluded_keys:
        yield f"exclude_keys: no record has {_one_of(selection.excluded_keys, 'key')}"
    if selection.producer_ids is not None:
        ids = _one_of(selection.producer_ids, "producer id")
        yield f"producer_ids: every record has {ids}"
    if selection.excluded_producer_ids:
        ids = _one_of(selection.excluded_producer_ids, "producer id")
        yield f"exclude_producer_ids: no record has {ids}"
    if selection.headers:
        headers = counted(len(selection.headers), "header")
        yield f"headers: every record has the {headers}"
    if selection.excluded_headers:
        headers = _one_of(selection.excluded_headers, "header")
        yield f"exclude_headers: no record has {headers}"
    if selection.where is not None:
        yield "where: it returns true for every record"


def _one_of(given: Collection[object], noun: str) -> str:
    return f"the {noun}" if len(given) == 1 else f"one of the {len(given)} {noun}s"

"""`whatif`: report what retention and compaction would remove.

For a log without compaction, only headers are read. For a log with ``compact`` in
``cleanup.policy``, rounds of a `LogCleaner` run on a rehearsal disk. The records that
they remove from a batch are counted for the segment that now has the batch.

A broker may write to the logs, and delete segments: a log of which a file has gone is
read again.

Source: ``LogManager.cleanupLogs``, ``LogCleaner.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.cleaner.batch_chunks import ChunkReader
from kafkalog.cleaner.batch_filter import RemovedRecords
from kafkalog.cleaner.cleanable_range import find_cleanable
from kafkalog.cleaner.corrupt_batches import CorruptBatches
from kafkalog.cleaner.log_copies import cleaner_of, rehearsed
from kafkalog.cleaner.partition_facts import (
    PartitionFacts,
    chosen,
    count_file_records,
    find_settings,
    partitions_at,
    read_facts,
)
from kafkalog.cleaner.removal_report import (
    KeepRule,
    Removal,
    RemovalCause,
    RemovalReport,
    SettingsUsed,
    UnchangedLog,
)
from kafkalog.cleaner.retention_decision import RetentionReason
from kafkalog.cleaner.segment_keeping import kept_by_retention
from kafkalog.cleaner.unchanged_logs import reasons_not_to_compact
from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.decoding.record_counts import count_records
from kafkalog.formats.batch_headers import have_flag
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES
from kafkalog.formats.timestamps import Time, as_ms
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.ownership import Name
from kafkalog.log.retention import (
    LogOffsets,
    Segment,
    expires_ms,
    is_replicated,
    plan_retention,
    with_following,
)
from kafkalog.log.topic_settings import (
    PASS_PROPERTIES,
    PartitionSettings,
    TopicSettings,
)
from kafkalog.log.writable_log import WritableLog
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.location import local_path
from kafkalog.storage.log_directory import Numbers, PartitionSelection, Topics
from kafkalog.text.time_text import NOW

CHUNK_BYTES: Final = 1 << 20
ATTEMPTS: Final = 5
"""Number of times that a log is read again after a file of it has gone."""

CAUSES: Final = (
    RemovalCause.COMPACT,
    RemovalCause.TOMBSTONE,
    RemovalCause.NULL_KEY,
    RemovalCause.ABORTED,
)
"""The causes for which a round of compaction removes records."""


def whatif(
    path: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    at: Time | None = None,
    broker: BrokerConfig | None = None,
) -> RemovalReport:
    """Return what retention and compaction would remove from the logs under a path.

    Nothing under `path` is changed. The rules and settings are those of a `LogManager`
    that opens the log directory; its next round makes the removals that are due.
    Segments that get too old later are listed with that time. Compaction may remove
    some of their records earlier.

    Parameters
    ----------
    path : str or path-like
        A partition's directory, or a log directory.
    settings : mapping of str to object, optional
        Settings to change, by Kafka's names, such as ``retention.ms``. The other
        settings are those of the topic in the cluster's metadata log, if the log
        directory is a broker's, or else Kafka's defaults. Without that log they are
        those of `broker`; overrides of topics are then unknown.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    at : int, datetime or str, optional
        The time for which to report, as for `scan`; by default now.
    broker : BrokerConfig, optional
        The settings in the broker's ``server.properties``. Without them, a
        ``retention.ms`` or ``retention.bytes`` that may be set there removes nothing.

    Returns
    -------
    RemovalReport
        The removals, and the origin of the settings.

    Raises
    ------
    FileNotFoundError
        If `path`, a topic or a partition does not exist.
    NotALogDirectoryError
        If `path` is neither a partition nor a log directory.
    ConfigError
        If a setting is unknown or invalid.
    CorruptRecordError
        If a batch that would be compacted cannot be read.
    CorruptCheckpointError
        If ``cleaner-offset-checkpoint`` cannot be read.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/state-0", "a") as log:
    ...         for value in (b"old", b"new"):
    ...             _ = log.append_records({"key": [b"k"], "value": [value]})
    ...             _ = log.roll()
    ...         _ = log.update_high_watermark(log.log_end_offset)
    ...     report = kafkalog.whatif(root, {"cleanup.policy": "compact"})
    ...     [(removal.segment, removal.records) for removal in report.removals]
    [('00000000000000000000.log', 1)]
    """
    now_ms = as_ms(NOW if at is None else at)
    changes = dict(settings or {})
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    partitions_found = partitions_at(local_path(path).absolute())
    topic_settings = TopicSettings(
        [directory.parent for directory, _ in partitions_found[:1]], None, None, broker
    )
    used: dict[str, SettingsUsed] = {}
    removals: list[Removal] = []
    unchanged: list[UnchangedLog] = []
    for directory, name in chosen(partitions_found, selection):
        try:
            found = find_settings(topic_settings, directory, name[0], changes)
            planned = _plan(directory, name, found, now_ms)
        except FileNotFoundError:
            if directory.exists():
                raise
            continue  # deleted since
        used[name[0]] = SettingsUsed(name[0], found.source, found.unknown)
        removals += sorted(
            planned.removals, key=lambda removal: (removal.at, removal.segment)
        )
        if not planned.removals:
            unchanged.append(UnchangedLog(*name, tuple(planned.reasons)))
    return RemovalReport(
        tuple(removals), tuple(used.values()), now_ms, tuple(unchanged)
    )


class _Plan(NamedTuple):
    """The removals of a log, and the reasons for which there are no others."""

    removals: list[Removal]
    reasons: list[str]


def _plan(
    directory: Path, name: Name, settings: PartitionSettings, now_ms: int
) -> _Plan:
    """Return the removals of a log; read it again if a broker has deleted a file."""
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            return _plan_once(directory, name, settings, now_ms)
    return _plan_once(directory, name, settings, now_ms)


def _plan_once(
    directory: Path, name: Name, settings: PartitionSettings, now_ms: int
) -> _Plan:
    facts = read_facts(directory, name, settings)
    if not facts.segments:
        return _Plan([], ["no segments"])
    reasons = _reasons_to_keep(facts, now_ms)
    if not settings.config.compact:
        return _Plan(list(_plan_by_retention(facts, now_ms)), reasons)
    planned = _plan_by_rounds(facts, now_ms)
    return _Plan(planned.removals, [*planned.reasons, *reasons])


def _reasons_to_keep(facts: PartitionFacts, now_ms: int) -> list[str]:
    """Return why retention keeps the oldest segment; limits may be unknown."""
    unknown, reasons = facts.settings.unknown, list[str]()
    has_limits = unknown is None or facts.settings.source == "broker"
    if unknown == PASS_PROPERTIES:
        reasons.append("retention.ms unknown: it may be in server.properties")
    elif not has_limits:
        reasons.append(f"settings unknown: {unknown}")
    limits = (KeepRule.TIME, KeepRule.SIZE)
    kept = kept_by_retention(facts, 0, now_ms)
    known = (each for each in kept if has_limits or each.rule not in limits)
    return [*reasons, *map(str, known)]


def _plan_by_retention(facts: PartitionFacts, now_ms: int) -> Iterator[Removal]:
    """Yield the removals of a log without compaction."""
    segments, offsets = facts.segments, facts.offsets
    planned = plan_retention(segments, offsets, facts.config, now_ms)
    due = [(segment, RemovalCause(rule), now_ms) for segment, rule in planned]
    later = [
        (segment, RemovalCause.TIME, expiry)
        for segment, expiry in plan_expiry(
            segments[len(due) :], offsets, facts.config, now_ms
        )
    ]
    for segment, cause, when in (*due, *later):
        records = count_file_records(segment.file)
        yield Removal(
            *facts.name, segment.file.name, records, segment.size, cause, when
        )


def plan_expiry(
    segments: Sequence[Segment], offsets: LogOffsets, config: LogConfig, now_ms: int
) -> Iterator[tuple[Segment, int]]:
    """Yield the segments that get too old later, with the time of the deletion.

    The active segment is not among them: its time changes with every append.
    """
    if not config.delete:
        return
    when = now_ms + 1
    for segment, following in with_following(segments):
        if following is None or not is_replicated(following, offsets):
            return
        expiry = expires_ms(segment, config)
        if expiry is None or expiry > MAX_INT64:
            return
        when = max(when, expiry)
        yield segment, when


class _FixedClock:
    """A clock that always returns the same time."""

    def __init__(self, time_ms: int) -> None:
        self._time_ms = time_ms

    def now_ms(self) -> int:
        return self._time_ms


class _Tally:
    """Numbers of removed records and bytes, by segment, cause and time.

    A batch is counted for the segment of the original log that has its last offset.
    """

    def __init__(self, facts: PartitionFacts, now_ms: int) -> None:
        self._facts = facts
        self._bases = np.array(
            [segment.base_offset for segment in facts.segments], np.int64
        )
        self._now_ms = now_ms
        self._sums: dict[tuple[int, RemovalCause, int], Int64s] = {}

    def add(
        self,
        cause: RemovalCause,
        when: int,
        last_offsets: Int64s,
        records: Int64s,
        sizes: Int64s,
    ) -> None:
        """Add the records and bytes of some batches."""
        places = np.searchsorted(self._bases, last_offsets, side="right") - 1
        places = np.maximum(places, 0)
        for place in sorted(set(places.tolist())):
            chosen = places == place
            total = np.array([records[chosen].sum(), sizes[chosen].sum()], np.int64)
            if total.any():
                key = place, cause, when
                self._sums[key] = self._sums.get(key, np.int64(0)) + total

    def add_compacted(self, removed: RemovedRecords) -> None:
        """Add the records and bytes that a round of compaction removes from a chunk.

        The bytes of a batch are counted for the cause that removes most of its records.
        """
        rows = removed.rows
        is_control = have_flag(rows, CONTROL_FLAG)
        whole = removed.records[:, -RetentionReason.DROPPED_WITH_BATCH - 1]
        due = removed.records[:, -RetentionReason.TOMBSTONE_DUE - 1]
        counts = np.stack(
            [
                removed.records[:, -RetentionReason.SUPERSEDED - 1],
                due + np.where(is_control, whole, 0),
                removed.records[:, -RetentionReason.WITHOUT_KEY - 1],
                np.where(is_control, 0, whole),
            ]
        )
        most = counts.argmax(axis=0)
        for number, cause in enumerate(CAUSES):
            sizes = np.where(most == number, removed.bytes, 0)
            self.add(cause, self._now_ms, rows["last_offset"], counts[number], sizes)

    def add_segment(
        self, log: WritableLog, segment: GrowingSegment, cause: RemovalCause, when: int
    ) -> None:
        """Add all records and bytes of a segment of the copy."""
        reader = ChunkReader(
            CHUNK_BYTES, lambda _: None, CorruptBatches("skip"), MAX_BATCH_BYTES
        )
        with log.runtime.disk.open(segment.path) as file:
            for chunk in reader.read(file, 0, segment.size, segment.base_offset):
                rows = chunk.rows
                records = count_records(rows, chunk.data, chunk.origin)
                sizes = rows["size_in_bytes"].astype(np.int64)
                self.add(cause, when, rows["last_offset"], records, sizes)

    def removals(self) -> Iterator[Removal]:
        """Yield the removals, one for each segment, cause and time."""
        for (place, cause, when), (records, size) in self._sums.items():
            file = self._facts.segments[place].file.name
            yield Removal(*self._facts.name, file, int(records), int(size), cause, when)


def _plan_by_rounds(facts: PartitionFacts, now_ms: int) -> _Plan:
    """Run compaction and retention on a rehearsal disk, and count the removals."""
    tally, clock = _Tally(facts, now_ms), _FixedClock(now_ms)
    with rehearsed(facts.directory, facts.name, facts.config, clock) as rehearsal:
        reasons = _run_rounds(rehearsal.log, facts, tally, now_ms)
    return _Plan(list(tally.removals()), reasons)


def _run_rounds(
    log: WritableLog, facts: PartitionFacts, tally: _Tally, now_ms: int
) -> list[str]:
    """Count the removals of a log; return why a round removes nothing, if it does."""
    with cleaner_of(log) as cleaner:
        cleaner.observer = tally.add_compacted
        cleanable = find_cleanable(log, cleaner.states.checkpointed(log), now_ms)
        is_cleaned = True
        while is_cleaned:  # as `LogCleaner.work`
            is_cleaned = cleaner.clean_filthiest() is not None
            planned = plan_retention(
                log.growing_segments, _offsets_of(log), log.config, now_ms
            )
            for segment, rule in planned:
                tally.add_segment(log, segment, RemovalCause(rule), now_ms)
            cleaner.delete_old_segments()
    expiry = plan_expiry(log.growing_segments, _offsets_of(log), log.config, now_ms)
    for segment, when in expiry:
        tally.add_segment(log, segment, RemovalCause.TIME, when)
    return reasons_not_to_compact(cleanable, by_ratio=True)


def _offsets_of(log: WritableLog) -> LogOffsets:
    return LogOffsets(log.log_start_offset, log.high_watermark, log.log_end_offset)

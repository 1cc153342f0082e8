"""`why`: the rules that keep a segment, or that remove it.

The rules are those of `kafkalog.log.retention` and `kafkalog.cleaner.cleanable_range`.
The partition is read without changing it.

Source: ``UnifiedLog.deletableSegments``, ``LogCleanerManager.cleanableOffsets``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kafkalog.cleaner.cleanable_range import (
    CleaningLimit,
    LimitOffset,
    find_first_dirty,
    find_limits,
)
from kafkalog.cleaner.log_copies import cleaner_of, rehearsed
from kafkalog.cleaner.partition_facts import (
    PartitionFacts,
    SegmentFacts,
    find_settings,
    partition_name,
    read_facts,
)
from kafkalog.cleaner.removal_report import (
    KeepReport,
    KeepRule,
    Reason,
    RemovalCause,
    SettingsUsed,
)
from kafkalog.config import BrokerConfig
from kafkalog.errors import (
    KafkaLogError,
    LogArgumentError,
    LogCleaningAbortedError,
)
from kafkalog.formats.timestamps import Time, as_ms
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.reading.transactions import find_stable
from kafkalog.log.retention import (
    RetentionRule,
    condition_of,
    expires_ms,
    is_replicated,
    plan_retention,
    rules_of,
    with_following,
)
from kafkalog.log.topic_settings import (
    PASS_PROPERTIES,
    UNLIMITED,
    PartitionSettings,
    TopicSettings,
)
from kafkalog.storage.checkpoint_file import CLEANED_TO, read_offsets
from kafkalog.storage.file_names import SegmentFile, parse_file_name
from kafkalog.storage.location import local_path, no_such_path
from kafkalog.text.time_text import NOW


def why(
    segment: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    at: Time | None = None,
    broker: BrokerConfig | None = None,
) -> KeepReport:
    """Return the rules that keep a segment, or that remove it.

    Nothing is changed. With ``compact`` in ``cleanup.policy``, the rules that keep the
    segment from being compacted are listed, too, and the error that ends a round of
    compaction: the records of the log are read for it.

    Parameters
    ----------
    segment : str or path-like
        A segment's ``.log`` or ``.log.deleted`` file, in the directory of its
        partition.
    settings : mapping of str to object, optional
        Settings to change, by Kafka's names, as for `whatif`.
    at : int, datetime or str, optional
        The time for which to report, as for `scan`; by default now.
    broker : BrokerConfig, optional
        The settings in the broker's ``server.properties``.

    Returns
    -------
    KeepReport
        Whether the segment is kept, and the rules.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ConfigError
        If a setting is unknown or invalid.
    LogArgumentError
        If the file is not a segment's ``.log`` or ``.log.deleted``.
    NotALogDirectoryError
        If the directory of the file is not that of a partition.
    CorruptCheckpointError
        If ``cleaner-offset-checkpoint`` cannot be read.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
    ...         _ = log.append_records({"value": [b"1"]})
    ...         _ = log.update_high_watermark(log.log_end_offset)
    ...     report = kafkalog.why(f"{root}/orders-0/00000000000000000000.log")
    ...     report.kept, [str(reason.rule) for reason in report.because]
    (True, ['retention.ms', 'retention.bytes'])
    """
    path = local_path(segment).absolute()
    now_ms = as_ms(NOW if at is None else at)
    file = _segment_file(path)
    directory = path.parent
    name = partition_name(directory)
    topics = TopicSettings([directory.parent], None, None, broker)
    changes = dict(settings or {})
    found = find_settings(topics, directory, name[0], changes)
    used = SettingsUsed(name[0], found.source, found.unknown)
    if file.suffix == "deleted":
        reason = _deletion_delay(path, found)
        kept = reason.until is not None and now_ms < reason.until
        return KeepReport(path.name, kept, (reason,), used)
    facts = read_facts(directory, name, found)
    number = _number_of(path, facts)
    planned = plan_retention(facts.segments, facts.offsets, facts.config, now_ms)
    if number < len(planned):
        reason = _removal(planned[number].rule, facts, facts.segments[number])
        return KeepReport(path.name, False, (reason,), used)
    reasons = [
        _unless_unknown(reason, found, changes)
        for reason in kept_by_retention(facts, number, now_ms)
    ]
    if facts.config.compact:
        rules = {reason.rule for reason in reasons}
        reasons += [
            reason
            for reason in _kept_from_compaction(facts, number, now_ms)
            if reason.rule not in rules
        ]
        reasons += _uncleanable(facts)
    return KeepReport(path.name, True, tuple(reasons), used)


def _unless_unknown(
    reason: Reason, found: PartitionSettings, changes: Mapping[str, object]
) -> Reason:
    """Return a reason without the value of a retention limit that is unknown."""
    unknown = set(UNLIMITED) if found.source == "unknown" else set()
    if found.unknown == PASS_PROPERTIES:
        unknown = {"retention.ms"}
    if reason.setting in unknown - changes.keys():
        return replace(reason, value=None)
    return reason


def _segment_file(path: Path) -> SegmentFile:
    if not path.exists():
        raise no_such_path(path)
    file = parse_file_name(path.name)
    is_log = file is not None and file.kind == "log" and path.is_file()
    if file is None or not is_log or file.suffix not in (None, "deleted"):
        raise LogArgumentError(f"expected a .log or .log.deleted of a segment: {path}")
    return file


def _number_of(path: Path, facts: PartitionFacts) -> int:
    for number, segment in enumerate(facts.segments):
        if segment.file.name == path.name:
            return number
    raise FileNotFoundError(2, "No such segment", str(path))


def _deletion_delay(path: Path, settings: PartitionSettings) -> Reason:
    """Return the deletion delay of a marked file, counted from its status change."""
    delay_ms = settings.config.file_delete_delay_ms
    until = path.stat().st_ctime_ns // 1_000_000 + delay_ms
    rule = KeepRule.DELETE_DELAY
    return Reason(rule, str(rule), delay_ms, until)


def _removal(
    rule: RetentionRule, facts: PartitionFacts, segment: SegmentFacts
) -> Reason:
    match rule:
        case RetentionRule.LOG_START:
            start = facts.offsets.log_start_offset
            return Reason(RemovalCause.LOG_START, None, start)
        case RetentionRule.SIZE:
            limit = facts.config.retention_bytes
            return Reason(RemovalCause.SIZE, str(rule), limit)
        case RetentionRule.TIME:
            limit, until = facts.config.retention_ms, expires_ms(segment, facts.config)
            return Reason(RemovalCause.TIME, str(rule), limit, until)


def kept_by_retention(
    facts: PartitionFacts, number: int, now_ms: int
) -> Iterator[Reason]:
    """Yield the rules that keep a segment from being deleted."""
    config, offsets = facts.config, facts.offsets
    segment, following = list(with_following(facts.segments))[number]
    if not config.delete:
        policy = ",".join(config.cleanup_policy)
        yield Reason(KeepRule.POLICY, "cleanup.policy", policy)
    applied = set(rules_of(config))
    deletes = {rule for rule in applied if _deletes(rule, facts, number, now_ms)}
    if RetentionRule.TIME in applied and not deletes:
        until = expires_ms(segment, config)
        yield Reason(KeepRule.TIME, "retention.ms", config.retention_ms, until)
    if RetentionRule.SIZE in applied and not deletes:
        yield Reason(KeepRule.SIZE, "retention.bytes", config.retention_bytes)
    if not is_replicated(following, offsets):
        yield Reason(KeepRule.HIGH_WATERMARK, None, offsets.high_watermark)
    if following is None and segment.size == 0:
        yield Reason(KeepRule.ACTIVE, None, None)
    planned = plan_retention(facts.segments, offsets, config, now_ms)
    if deletes and number > len(planned):
        older = facts.segments[len(planned)].file.name
        yield Reason(KeepRule.OLDER_SEGMENT, None, older)


def _deletes(
    rule: RetentionRule, facts: PartitionFacts, number: int, now_ms: int
) -> bool:
    """Return whether a rule deletes a segment, if it is replicated and the oldest."""
    condition = condition_of(rule, facts.segments, facts.offsets, facts.config, now_ms)
    pairs = list(with_following(facts.segments))[: number + 1]
    return [condition(segment, following) for segment, following in pairs][-1]


def _kept_from_compaction(
    facts: PartitionFacts, number: int, now_ms: int
) -> Iterator[Reason]:
    """Yield the rules that keep a segment from being compacted."""
    offsets, segments = facts.offsets, facts.segments
    following = segments[number + 1] if number + 1 < len(segments) else None
    end = offsets.log_end_offset if following is None else following.base_offset
    checkpointed = read_offsets(facts.directory.parent, CLEANED_TO)
    first_dirty, _ = find_first_dirty(
        checkpointed.get(facts.name), offsets.log_start_offset, offsets.log_end_offset
    )
    if end <= first_dirty:
        yield Reason(KeepRule.CLEANED, None, first_dirty)
    dirty = [
        segment
        for segment, after in with_following(segments)
        if after is not None and after.base_offset > first_dirty
    ]
    stable = find_stable(
        facts.directory,
        list_segments(facts.directory),
        offsets.log_start_offset,
        offsets.log_end_offset,
    )
    stable = min(stable, offsets.high_watermark)
    limits = find_limits(dirty, segments[-1].base_offset, stable, facts.config, now_ms)
    if end > first_dirty and end <= min(offset for _, offset in limits):
        yield from _not_dirty_enough(facts, first_dirty, limits, now_ms)
    # Each limit below the segment's end keeps it, not only the lowest.
    for limit, offset in limits:
        if end <= offset:
            continue
        match limit:
            case CleaningLimit.ACTIVE:
                if following is None:
                    yield Reason(KeepRule.ACTIVE, None, None)
            case CleaningLimit.UNSTABLE if stable == offsets.high_watermark:
                yield Reason(KeepRule.HIGH_WATERMARK, None, stable)
            case CleaningLimit.UNSTABLE:
                yield Reason(KeepRule.TRANSACTION, None, stable)
            case CleaningLimit.LAG:
                lag_ms = facts.config.min_compaction_lag_ms
                [first] = [
                    segment for segment in segments if segment.base_offset == offset
                ]
                until = first.largest_timestamp + lag_ms
                yield Reason(KeepRule.LAG, str(limit), lag_ms, until)


def _not_dirty_enough(
    facts: PartitionFacts,
    first_dirty: int,
    limits: Sequence[LimitOffset],
    now_ms: int,
) -> Iterator[Reason]:
    """Yield the ratio, if a cleaner waits for more dirty bytes."""
    config, bound = facts.config, min(offset for _, offset in limits)
    pairs = list(with_following(facts.segments))
    clean = dirty = 0
    for segment, following in pairs:
        end = bound if following is None else following.base_offset
        if segment.base_offset < first_dirty and end <= first_dirty:
            clean += segment.size
        elif segment.base_offset < bound:
            overdue_ms = now_ms - config.max_compaction_lag_ms
            if segment.largest_timestamp < overdue_ms:
                return
            dirty += segment.size
    ratio = dirty / (clean + dirty) if clean + dirty else 0.0
    if ratio <= config.min_cleanable_dirty_ratio:
        text = f"{config.min_cleanable_dirty_ratio}; dirty ratio {ratio:.3g}"
        text += f", {dirty} of {clean + dirty} bytes"
        rule = KeepRule.DIRTY_RATIO
        yield Reason(rule, str(rule), text)


def _uncleanable(facts: PartitionFacts) -> Iterator[Reason]:
    """Yield the error that ends a round of compaction over the log, if any does."""
    try:
        with rehearsed(facts.directory, facts.name, facts.config) as rehearsal:
            rehearsal.disk.discards_records = True
            cleaner_of(rehearsal.log).clean(*facts.name)
    except LogCleaningAbortedError:  # a segment is split, for a new round
        return
    except KafkaLogError as error:
        yield Reason(KeepRule.UNCLEANABLE, None, str(error))

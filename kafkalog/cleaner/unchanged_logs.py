"""The reasons for which compaction removes no record from a log, as text.

Each begins with the setting or the offset that keeps the records.
"""

from __future__ import annotations

from kafkalog.cleaner.cleanable_range import CleanableLog, CleaningLimit


def reasons_not_to_compact(
    cleanable: CleanableLog, *, by_ratio: bool = False
) -> list[str]:
    """Return why a round over a log removes nothing; `by_ratio` as a broker's cleaner.

    The reasons apply if it does not: a round over cleanable bytes may find nothing.
    """
    config, log = cleanable.log.config, cleanable.log
    if log.log_start_offset == log.log_end_offset:
        return ["no records"]
    if cleanable.cleanable_bytes:
        if by_ratio and not cleanable.is_dirty_enough:
            least, ratio = config.min_cleanable_dirty_ratio, cleanable.cleanable_ratio
            return [f"min.cleanable.dirty.ratio {least}: dirty ratio {ratio:.3g}"]
        end = cleanable.first_uncleanable_offset
        kept = f"no record below offset {end} has a later one of its key"
        return [kept, *_limits(cleanable)]
    dirty = cleanable.first_dirty_offset
    reasons = list(_limits(cleanable))
    if dirty > log.log_start_offset:
        reasons.insert(0, f"cleaner-offset-checkpoint {dirty}: compacted up to there")
    return reasons


def _limits(cleanable: CleanableLog) -> list[str]:
    """Return what keeps records at the end of the log from being compacted."""
    log, lowest = cleanable.log, min(limit.offset for limit in cleanable.limits)
    if lowest >= log.log_end_offset:
        return []
    reasons = []
    for limit, offset in cleanable.limits:
        if offset > lowest:
            continue
        match limit:
            case CleaningLimit.UNSTABLE if offset == log.high_watermark:
                text = f"high watermark {offset}: nothing at or above it is compacted"
            case CleaningLimit.UNSTABLE:
                text = f"last stable offset {offset}: a transaction is open there"
            case CleaningLimit.LAG:
                lag = log.config.min_compaction_lag_ms
                text = f"{limit} {lag}: records from offset {offset} on are younger"
            case CleaningLimit.ACTIVE:
                text = f"active segment: nothing from offset {offset} on is compacted"
        reasons.append(text)
    return reasons

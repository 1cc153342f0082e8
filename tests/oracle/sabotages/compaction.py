"""Sabotages of compaction."""

from dataclasses import replace

from kafkalog import LogManager
from kafkalog.cleaner import (
    batch_filter,
    cleanable_range,
    cleaning_round,
    cleaning_states,
    retention_decision,
    segment_groups,
)
from kafkalog.cleaner.cleanable_range import CleanableLog, CleaningLimit
from kafkalog.cleaner.cleaning_states import CleaningStates
from kafkalog.cleaner.log_cleaner import LogCleaner
from kafkalog.cleaner.retention_decision import (
    BatchInputs,
    RecordInputs,
    RetentionReason,
)
from kafkalog.cleaner.segment_groups import SegmentSizes
from kafkalog.cleaner.throttle import Throttle
from kafkalog.cleaner.transaction_tracker import COMMIT, TransactionTracker
from kafkalog.config import LogConfig
from kafkalog.decoding.offset_map import OffsetMap
from kafkalog.formats.batch_headers import have_flag
from kafkalog.formats.layout import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from kafkalog.log import replaceable_segments
from kafkalog.log.deletion import delete_files
from kafkalog.log.recovery import segment_splitting
from kafkalog.log.replaceable_segments import ReplaceableSegments
from kafkalog.manager.managed_directory import ManagedDirectory
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.file_names import CLEANED, SWAP
from tests.cleaner import test_log_cleaner, test_throttle
from tests.crash import conftest, test_compaction_states
from tests.manager import test_compacted_retention, test_moving
from tests.oracle.sabotages.register import Built, do_nothing, sabotage

LOGS = Built(test_log_cleaner.open_logs)
ROOTS = Built(conftest.make_roots)


def change_cleanable(patch, change):
    """Change the fields of each cleanable range: `change` is called with the range."""
    find_cleanable = cleaning_states.find_cleanable

    def find(*arguments, **options):
        found = find_cleanable(*arguments, **options)
        return replace(found, **change(found))

    patch.setattr(cleaning_states, "find_cleanable", find)


def remove_limit(patch, limit):
    """Ignore one limit of compaction."""
    find_limits = cleanable_range.find_limits

    def find(*arguments):
        return [found for found in find_limits(*arguments) if found.limit != limit]

    patch.setattr(cleanable_range, "find_limits", find)


def change_cleaner(patch, **options):
    """Build each cleaner with other options."""
    begin = LogCleaner.__init__
    patch.setattr(
        LogCleaner,
        "__init__",
        lambda self, logs, **given: begin(self, logs, **given | options),
    )


def change_batches(patch, change):
    """Change the decision about batches: `change` is called with inputs and result."""
    decide = retention_decision.decide_batch

    def changed(inputs):
        decision = decide(inputs)
        return decision._replace(**change(inputs, decision))

    table = retention_decision._table_of(BatchInputs, changed)
    patch.setattr(retention_decision, "_BATCHES", table)


def change_records(patch, change):
    """Change why records are kept: `change` is called with inputs and reason."""
    decide = retention_decision.decide_record
    table = retention_decision._table_of(
        RecordInputs, lambda inputs: change(inputs, decide(inputs))
    )
    patch.setattr(retention_decision, "_RECORDS", table)


def replace_reason(patch, reason, other):
    """Decide `other` about the records of which `reason` was decided."""
    change_records(patch, lambda _, decided: other if decided == reason else decided)


def change_settling(patch, change):
    """Change which markers are discardable: `change` is called with type and result."""
    settle = TransactionTracker._is_settled_by
    patch.setattr(
        TransactionTracker,
        "_is_settled_by",
        lambda self, type_, producer_id: change(
            type_, settle(self, type_, producer_id)
        ),
    )


def change_headers(patch, change, *, emptied=False):
    """Change the headers of rebuilt, or of emptied, batches before they are encoded.

    `change` is called with the columns, the headers and the first record of each batch.
    """
    encode = batch_filter.encode

    def encode_changed(columns, headers, bounds, **options):
        if (not len(columns.offset)) == emptied:
            change(columns, headers, bounds[:-1])
        return encode(columns, headers, bounds, **options)

    patch.setattr(batch_filter, "encode", encode_changed)


def set_header(patch, name, value, *, emptied=False):
    """Set one field of the headers of rebuilt, or of emptied, batches."""

    def change(_, headers, __):
        headers[name] = value

    change_headers(patch, change, emptied=emptied)


def clear_flag(patch, flag, *, emptied=False):
    """Clear bits of the attributes of rebuilt, or of emptied, batches."""

    def change(_, headers, __):
        headers["attributes"] &= ~flag

    change_headers(patch, change, emptied=emptied)


def change_groups(patch, change):
    """Change the arguments by which segments are grouped."""
    group = cleaning_round.group_segments
    patch.setattr(
        cleaning_round,
        "group_segments",
        lambda *arguments: group(*change(*arguments)),
    )


def change_if_cleaned(patch, name, function):
    """Replace a method of segments whose files have the suffix ``.cleaned``."""
    method = getattr(GrowingSegment, name)

    def changed(self, *arguments):
        is_cleaned = self.path.suffix == CLEANED
        return (function if is_cleaned else method)(self, *arguments)

    patch.setattr(GrowingSegment, name, changed)


# The choice of a log


@sabotage("a log is compacted only if it is dirty enough", "compaction-picked")
def _(patch):
    """Any share of dirty bytes is enough."""
    is_dirty = property(lambda log: log.cleanable_bytes > 0)
    patch.setattr(CleanableLog, "is_dirty_enough", is_dirty)


@sabotage(
    "the share of dirty bytes must be above min.cleanable.dirty.ratio",
    test_log_cleaner.test_the_ratio_must_be_exceeded,
    logs=LOGS,
)
def _(patch):
    """It may be equal."""
    patch.setattr(
        CleanableLog,
        "is_dirty_enough",
        property(
            lambda log: log.cleanable_ratio >= log.log.config.min_cleanable_dirty_ratio
        ),
    )


@sabotage("the bytes of the clean part count in the share", "compaction-picked")
def _(patch):
    """Only the cleanable bytes count."""
    change_cleanable(patch, lambda _: {"clean_bytes": 0})


@sabotage(
    "a record older than max.compaction.lag.ms makes its log dirty enough",
    "compaction-max-lag",
)
def _(patch):
    """Only the share of dirty bytes counts."""
    change_cleanable(patch, lambda _: {"needs_compaction_now": False})


@sabotage("a record is overdue after max.compaction.lag.ms", "compaction-max-lag")
def _(patch):
    """It is overdue at that age."""
    is_overdue = cleanable_range._is_overdue
    patch.setattr(
        cleanable_range,
        "_is_overdue",
        lambda log, dirty, active, now_ms: is_overdue(log, dirty, active, now_ms + 1),
    )


@sabotage("the first batch of a segment decides if it is overdue", "compaction-max-lag")
def _(patch):
    """The greatest timestamp decides."""

    def is_overdue(log, dirty, active, now_ms):
        limit = now_ms - log.config.max_compaction_lag_ms
        segments = cleanable_range._inactive_from(log, dirty, active)
        return any(segment.largest_timestamp < limit for segment in segments)

    patch.setattr(cleanable_range, "_is_overdue", is_overdue)


@sabotage("only dirty segments can be overdue", "compaction-max-lag")
def _(patch):
    """Clean ones can be, too."""
    is_overdue = cleanable_range._is_overdue
    patch.setattr(
        cleanable_range,
        "_is_overdue",
        lambda log, _, active, now_ms: is_overdue(log, 0, active, now_ms),
    )


@sabotage(
    "the dirtiest log is compacted first",
    test_log_cleaner.test_the_dirtiest_log_is_compacted_first_and_clean_ones_are_not,
    logs=LOGS,
)
def _(patch):
    """The cleanest one of the dirty logs is."""
    patch.setattr(cleaning_states, "max", min, raising=False)


@sabotage(
    "only logs with compact in cleanup.policy are compacted",
    test_log_cleaner.test_logs_without_the_policy_are_not_compacted,
    logs=LOGS,
)
def _(patch):
    """All logs are."""
    patch.setattr(LogConfig, "compact", True)


@sabotage(
    "a log that is being compacted is not chosen again",
    test_log_cleaner.test_pauses_are_counted,
    logs=LOGS,
)
def _(patch):
    """The states of logs have no effect on the choice."""
    patch.setattr(CleaningStates, "_free", CleaningStates._current)


@sabotage(
    "a log whose compaction failed is not compacted again",
    test_log_cleaner.test_a_log_that_cannot_be_read_is_uncleanable_and_others_are_compacted,
    logs=LOGS,
)
def _(patch):
    """It is tried again."""
    patch.setattr(CleaningStates, "mark_uncleanable", do_nothing)


@sabotage(
    "a log that was deleted is no longer uncleanable",
    test_log_cleaner.test_the_mark_of_a_deleted_log_is_removed,
    logs=LOGS,
)
def _(patch):
    """The mark stays."""
    patch.setattr(CleaningStates, "forget_missing", do_nothing)


# The range


@sabotage(
    "records at or above the last stable offset are not compacted",
    "compaction-last-stable-offset",
)
def _(patch):
    """The active segment is the limit."""
    remove_limit(patch, CleaningLimit.UNSTABLE)


@sabotage("the active segment is not compacted", "compaction-latest-of-each-key")
def _(patch):
    """It is compacted up to the last stable offset."""
    change_cleanable(
        patch,
        lambda found: {"first_uncleanable_offset": found.log.last_stable_offset},
    )


@sabotage("segments younger than min.compaction.lag.ms stay", "compaction-min-lag")
def _(patch):
    """They are compacted."""
    remove_limit(patch, CleaningLimit.LAG)


@sabotage(
    "a segment exactly min.compaction.lag.ms old is compacted",
    "compaction-min-lag-to-the-millisecond",
)
def _(patch):
    """It is too young."""
    find_limits = cleanable_range.find_limits
    patch.setattr(
        cleanable_range,
        "find_limits",
        lambda *arguments: find_limits(*arguments[:-1], arguments[-1] - 1),
    )


@sabotage(
    "the first young segment ends the range", "compaction-min-lag-to-the-millisecond"
)
def _(patch):
    """The last one does."""
    find_limits = cleanable_range.find_limits
    patch.setattr(
        cleanable_range,
        "find_limits",
        lambda dirty, *others: find_limits(dirty[::-1], *others),
    )


@sabotage("the range ends where a segment begins", "compaction-last-stable-offset")
def _(patch):
    """It ends at the last stable offset, inside a segment."""
    change_cleanable(
        patch,
        lambda found: {
            "first_uncleanable_offset": min(
                found.log.last_stable_offset,
                found.log.growing_segments[-1].base_offset,
            )
        },
    )


@sabotage("a round begins at the checkpointed offset", "compaction-map-full")
def _(patch):
    """It begins at the log start offset."""
    patch.setattr(CleaningStates, "checkpointed", lambda *_: None)


@sabotage(
    "a checkpointed offset above the log end offset is replaced",
    "compaction-checkpoint-outside",
)
def _(patch):
    """The log counts as clean."""
    find_first_dirty = cleanable_range.find_first_dirty
    patch.setattr(
        cleanable_range,
        "find_first_dirty",
        lambda checkpoint, start, end: find_first_dirty(
            checkpoint and min(checkpoint, end), start, end
        ),
    )


@sabotage(
    "a checkpointed offset below the log start offset is replaced",
    "compaction-checkpoint-outside",
)
def _(patch):
    """It is used."""
    find_first_dirty = cleanable_range.find_first_dirty
    patch.setattr(
        cleanable_range,
        "find_first_dirty",
        lambda checkpoint, start, end: find_first_dirty(
            checkpoint, min(start, checkpoint or 0), end
        ),
    )


@sabotage(
    "an offset that replaces a checkpointed one is written",
    "compaction-checkpoint-outside",
)
def _(patch):
    """It is not."""
    change_cleanable(patch, lambda _: {"must_reset_checkpoint": False})


# The offset map


@sabotage("a key takes 24 bytes of the offset map", "compaction-map-full")
def _(patch):
    """It takes fewer."""
    begin = OffsetMap.__init__
    patch.setattr(OffsetMap, "__init__", lambda self, size: begin(self, size * 2))


@sabotage("a round fills a share of the offset map", "compaction-map-full")
def _(patch):
    """It fills all of it."""
    change_cleaner(patch, load_factor=1.0)


@sabotage("a full offset map ends the round", "compaction-map-full")
def _(patch):
    """The range up to the active segment counts as compacted."""
    end_cleaning = CleaningStates.end_cleaning
    patch.setattr(
        CleaningStates,
        "end_cleaning",
        lambda self, log, _: end_cleaning(
            self, log, log.growing_segments[-1].base_offset
        ),
    )


@sabotage(
    "records of aborted transactions are not in the offset map", "compaction-aborted"
)
def _(patch):
    """They are, and supersede others."""
    is_aborted = TransactionTracker._is_aborted_data
    patch.setattr(
        TransactionTracker,
        "_is_aborted_data",
        lambda self, producer_id: (
            is_aborted(self, producer_id) and self.keep_aborted is not None
        ),
    )


# Records


@sabotage("older records of a key are removed", "compaction-latest-of-each-key")
def _(patch):
    """They are kept."""
    replace_reason(patch, RetentionReason.SUPERSEDED, RetentionReason.LATEST_VALUE)
    patch.setattr(OffsetMap, "are_superseded", lambda _, first, last: last < first)


@sabotage(
    "a batch is removed unread only if all its records are superseded",
    "random-compaction-431-30",
)
def _(patch):
    """It is removed if its first record is."""
    of_ranges = OffsetMap.are_superseded

    def of_first_offsets(self, first, _):
        return of_ranges(self, first, first)

    patch.setattr(OffsetMap, "are_superseded", of_first_offsets)


@sabotage("the last record of a key is kept", "compaction-latest-of-each-key")
def _(patch):
    """It is removed with the others."""
    replace_reason(patch, RetentionReason.LATEST_VALUE, RetentionReason.SUPERSEDED)


@sabotage("records that the map does not cover are kept", "compaction-without-key")
def _(patch):
    """They are treated as any other."""
    decide = retention_decision.decide_record
    change_records(patch, lambda inputs, _: decide(inputs._replace(is_after_map=False)))


@sabotage("records without a key are removed", "compaction-without-key")
def _(patch):
    """They are kept."""
    replace_reason(patch, RetentionReason.WITHOUT_KEY, RetentionReason.LATEST_VALUE)


@sabotage("a tombstone is kept until its horizon", "compaction-tombstones")
def _(patch):
    """It is removed in the first round."""
    replace_reason(
        patch, RetentionReason.TOMBSTONE_PROTECTED, RetentionReason.TOMBSTONE_DUE
    )


@sabotage("a tombstone is removed after its horizon", "compaction-tombstones")
def _(patch):
    """It is kept."""
    replace_reason(
        patch, RetentionReason.TOMBSTONE_DUE, RetentionReason.TOMBSTONE_PROTECTED
    )


@sabotage("a control record is kept with its batch", "compaction-aborted")
def _(patch):
    """It is removed."""
    replace_reason(patch, RetentionReason.CONTROL, RetentionReason.SUPERSEDED)


# Delete horizons


@sabotage("the delete horizon is delete.retention.ms from now", "compaction-tombstones")
def _(patch):
    """It is now."""
    none = property(lambda _: 0, do_nothing)
    patch.setattr(LogConfig, "delete_retention_ms", none)


@sabotage("a batch keeps its delete horizon", "compaction-horizon-kept")
def _(patch):
    """Each round sets a new one."""
    patch.setattr(
        batch_filter,
        "have_flag",
        lambda rows, flag: have_flag(rows, flag & ~DELETE_HORIZON_FLAG),
    )


@sabotage("only what may be removed later has a delete horizon", "compaction-aborted")
def _(patch):
    """Each batch gets one."""
    change_batches(patch, lambda *_: {"needs_horizon": True})


@sabotage("a marker without data gets a delete horizon", "compaction-markers")
def _(patch):
    """It gets none."""
    change_batches(patch, lambda *_: {"needs_horizon": False})


@sabotage("a marker with data gets no delete horizon", "compaction-markers")
def _(patch):
    """Each marker gets one."""
    change_batches(patch, lambda inputs, _: {"needs_horizon": inputs.is_control})


@sabotage(
    "tombstones of magic 1 live as long as their segment's time allows",
    "compaction-old-tombstone",
)
def _(patch):
    """They are kept."""
    always = property(lambda _: True, do_nothing)
    patch.setattr(batch_filter.BatchFilter, "keeps_old_tombstones", always)


# Transactions


@sabotage("records of aborted transactions are removed", "compaction-aborted")
def _(patch):
    """They are kept."""
    change_batches(
        patch,
        lambda inputs, decision: {
            "is_read": decision.is_read or not inputs.is_control,
            "drops_records": decision.drops_records and inputs.is_control,
        },
    )


@sabotage("aborted transactions are those of the index", "compaction-aborted")
def _(patch):
    """The index is not read."""
    patch.setattr(TransactionTracker, "expect", do_nothing)


@sabotage("a marker is kept until its horizon", "compaction-markers")
def _(patch):
    """It is removed as soon as its transaction has no data."""
    change_batches(
        patch,
        lambda inputs, _: {
            "is_read": not inputs.is_discardable,
            "drops_records": inputs.is_discardable,
        },
    )


@sabotage("a marker is removed after its horizon", "compaction-markers")
def _(patch):
    """It is kept."""
    change_batches(
        patch,
        lambda inputs, decision: {
            "is_read": decision.is_read or inputs.is_control,
            "drops_records": decision.drops_records and not inputs.is_control,
        },
    )


@sabotage(
    "a commit marker stays with the data of its transaction", "compaction-markers"
)
def _(patch):
    """It is discardable at once."""
    change_settling(patch, lambda type_, settled: settled or type_ == COMMIT)


@sabotage(
    "an abort marker stays with the data of its transaction", "compaction-markers"
)
def _(patch):
    """It is discardable at once."""
    change_settling(patch, lambda type_, settled: settled or type_ != COMMIT)


@sabotage("a marker without data is discardable", "compaction-markers")
def _(patch):
    """It stays."""
    change_settling(patch, lambda *_: False)


@sabotage(
    "data in an earlier segment keeps the marker of its transaction",
    "compaction-markers",
)
def _(patch):
    """Only data in the same segment does."""
    expect = TransactionTracker.expect

    def forget(self, transactions):
        self._committed.clear()
        expect(self, transactions)

    patch.setattr(TransactionTracker, "expect", forget)


@sabotage(
    "the transaction index of a cleaned segment has its aborted transactions",
    "compaction-markers",
)
def _(patch):
    """It is empty."""
    settle = TransactionTracker._is_settled_by

    def without_index(self, *marker):
        self.keep_aborted = None
        return settle(self, *marker)

    patch.setattr(TransactionTracker, "_is_settled_by", without_index)


# Batches without records


@sabotage(
    "the batch with a producer's last sequence is kept", "compaction-producer-kept"
)
def _(patch):
    """It is dropped if it has no records."""
    change_batches(patch, lambda inputs, _: {"is_kept_empty": inputs.ends_round})


@sabotage("the last batch of the range is kept", "compaction-without-key")
def _(patch):
    """It is dropped if it has no records."""
    change_batches(
        patch, lambda inputs, _: {"is_kept_empty": inputs.is_last_of_producer}
    )


@sabotage("other batches without records are dropped", "compaction-latest-of-each-key")
def _(patch):
    """They are kept."""
    change_batches(patch, lambda *_: {"is_kept_empty": True})


@sabotage(
    "a batch without records keeps its greatest timestamp", "compaction-producer-kept"
)
def _(patch):
    """It has none."""
    set_header(patch, "max_timestamp", -1, emptied=True)


@sabotage("a batch without records keeps its sequence", "compaction-producer-kept")
def _(patch):
    """It has none."""
    set_header(patch, "base_sequence", -1, emptied=True)


@sabotage(
    "an empty control batch is still a control batch", "compaction-last-marker-kept"
)
def _(patch):
    """It is a data batch."""
    clear_flag(patch, CONTROL_FLAG, emptied=True)


# Rebuilt batches


@sabotage("a rebuilt batch keeps its base offset", "compaction-greatest-timestamp")
def _(patch):
    """It begins with its first record."""

    def change(columns, headers, first):
        headers["base_offset"] = columns.offset[first]

    change_headers(patch, change)


@sabotage("a rebuilt batch keeps its last offset", "compaction-horizon-kept")
def _(patch):
    """It ends with its last record."""

    def change(columns, headers, first):
        last = [*(first[1:] - 1), len(columns.offset) - 1]
        headers["last_offset"] = columns.offset[last]

    change_headers(patch, change)


@sabotage("a rebuilt batch keeps its producer", "compaction-markers")
def _(patch):
    """It has none."""
    set_header(patch, "producer_id", -1)


@sabotage("a rebuilt batch keeps its leader epoch", "compaction-aborted")
def _(patch):
    """It has none."""
    set_header(patch, "leader_epoch", -1)


@sabotage("a rebuilt batch keeps its codec", "compaction-compressed")
def _(patch):
    """It is not compressed."""
    clear_flag(patch, CODEC_MASK)


@sabotage("a rebuilt batch is still of its transaction", "compaction-markers")
def _(patch):
    """It is of none."""
    clear_flag(patch, TRANSACTIONAL_FLAG)


@sabotage(
    "a rebuilt batch keeps the type of its timestamps", "compaction-greatest-timestamp"
)
def _(patch):
    """It has CreateTime."""
    clear_flag(patch, LOG_APPEND_TIME_FLAG)


@sabotage(
    "the greatest timestamp of a rebuilt batch is that of its records",
    "compaction-greatest-timestamp",
)
def _(patch):
    """It is that of the first record."""

    def change(columns, headers, first):
        headers["max_timestamp"] = columns.timestamp[first]

    change_headers(patch, change)


@sabotage("batches of magic 0 and 1 are converted to magic 2", "compaction-old-formats")
def _(patch):
    """They are copied."""
    filter_chunk = batch_filter.BatchFilter.filter

    def copy_old(self, window):
        kept = filter_chunk(self, window)
        rows = window.rows
        if (rows["magic"] == 2).any():
            return kept
        size = int(rows["size_in_bytes"].sum())
        last_offset = int(rows["last_offset"][-1])
        return batch_filter.Filtered(window.data[:size], rows.copy(), last_offset)

    patch.setattr(batch_filter.BatchFilter, "filter", copy_old)


# Segments


@sabotage("small segments are merged", "compaction-aborted")
def _(patch):
    """Each segment stays one."""
    change_groups(patch, lambda segments, _, *others: (segments, 0, *others))


@sabotage("a merged segment has at most segment.bytes", "compaction-latest-of-each-key")
def _(patch):
    """It may be larger."""
    change_groups(patch, lambda segments, _, *others: (segments, 2**40, *others))


@sabotage(
    "the indexes of merged segments have at most segment.index.bytes",
    "compaction-groups-by-index",
)
def _(patch):
    """They may be larger."""
    change_groups(patch, lambda segments, size, _, last: (segments, size, 2**40, last))


@sabotage(
    "the offsets of merged segments are in range of the first base",
    "compaction-groups-by-offset",
)
def _(patch):
    """They may be out of it."""
    patch.setattr(segment_groups, "MAX_OFFSET_DELTA", 2**62)


@sabotage(
    "a segment without records may be merged at any offset",
    "compaction-groups-by-offset",
)
def _(patch):
    """Its offsets are estimated, too."""
    change_groups(
        patch,
        lambda segments, *others: (
            [segment._replace(size=segment.size + 1) for segment in segments],
            *others,
        ),
    )


@sabotage(
    "the base of the next segment bounds the offsets of one",
    "compaction-groups-by-offset",
)
def _(patch):
    """Its offsets are taken to end after its own base."""
    group = cleaning_round.group_segments

    def with_ends(segments, *limits):
        ends = [SegmentSizes(each.base_offset + 1, 0, 0, 0) for each in segments]
        pairs = [each for pair in zip(segments, ends, strict=True) for each in pair]
        groups = group(pairs, *limits)
        return [[row // 2 for row in rows if row % 2 == 0] for rows in groups]

    patch.setattr(cleaning_round, "group_segments", with_ends)


@sabotage("a cleaned segment keeps the modification time", "compaction-aborted")
def _(patch):
    """It has that of the round."""
    patch.setattr(GrowingSegment, "set_modified", do_nothing)


@sabotage(
    "a cleaned segment has an index entry every index.interval.bytes",
    "compaction-greatest-timestamp",
)
def _(patch):
    """It has none."""
    begin = segment_splitting.begin_cleaned_segment

    def begin_cleaned(directory, base, config, *others):
        rare = config.with_changes({"index.interval.bytes": 2**30})
        return begin(directory, base, rare, *others)

    patch.setattr(segment_splitting, "begin_cleaned_segment", begin_cleaned)


@sabotage(
    "the time index of a cleaned segment ends with its greatest timestamp",
    "compaction-greatest-timestamp",
)
def _(patch):
    """It ends with an earlier one."""
    change_if_cleaned(patch, "become_inactive", do_nothing)


@sabotage(
    "a cleaned segment is forced to disk before it replaces others",
    test_compaction_states.test_a_power_cut_during_compaction_loses_no_key,
    roots=ROOTS,
)
def _(patch):
    """It is forced later."""
    change_if_cleaned(patch, "flush", do_nothing)


@sabotage(
    "cleaned segments are complete under .swap before others are deleted",
    test_compaction_states.test_a_power_cut_during_compaction_loses_no_key,
    roots=ROOTS,
)
def _(patch):
    """They are still .cleaned, and are deleted after a crash."""
    rename = GrowingSegment.rename

    def rename_later(self, before, after):
        if after != SWAP:
            rename(self, CLEANED if before == SWAP else before, after)

    patch.setattr(GrowingSegment, "rename", rename_later)


@sabotage(
    "segments are marked as deleted after their replacement is there",
    test_compaction_states.test_a_power_cut_during_compaction_loses_no_key,
    roots=ROOTS,
)
def _(patch):
    """They are marked before."""
    replace_segments = segment_splitting.replace_segments

    def delete_first(segments, new, old, directory, config, runtime):
        delete_files(old, runtime, config.file_delete_delay_ms)
        patch.setattr(segment_splitting, "delete_files", do_nothing)
        return replace_segments(segments, new, old, directory, config, runtime)

    patch.setattr(segment_splitting, "replace_segments", delete_first)


@sabotage(
    "replaced segments are removed after file.delete.delay.ms",
    "compaction-latest-of-each-key",
)
def _(patch):
    """They are removed at once."""
    patch.setattr(
        segment_splitting,
        "delete_files",
        lambda segments, runtime, _: delete_files(segments, runtime, 0),
    )


@sabotage(
    "the snapshots of replaced segments are deleted", "compaction-latest-of-each-key"
)
def _(patch):
    """They are kept."""
    patch.setattr(replaceable_segments, "delete_snapshots", do_nothing)


@sabotage(
    "a round splits a segment whose offsets are too far apart",
    test_log_cleaner.test_a_segment_whose_offsets_are_too_far_apart_is_split,
    logs=LOGS,
)
def _(patch):
    """It stays."""
    patch.setattr(ReplaceableSegments, "split", do_nothing)


# The checkpoint, and other operations on the log


@sabotage("the end of each round is checkpointed", "compaction-latest-of-each-key")
def _(patch):
    """It is not."""
    patch.setattr(
        CleaningStates,
        "end_cleaning",
        lambda self, log, _: self.end_work([(log.topic, log.partition)]),
    )


@sabotage(
    "the lines of partitions that are gone are removed from the checkpoint",
    test_log_cleaner.test_lines_of_missing_partitions_are_dropped_and_others_kept,
    logs=LOGS,
)
def _(patch):
    """They are kept."""

    def set_checkpoint(self, log, offset):
        line = {(log.topic, log.partition): offset}
        self._update(log, lambda offsets: offsets.update(line))

    patch.setattr(CleaningStates, "set_checkpoint", set_checkpoint)


@sabotage(
    "a truncation lowers the checkpoint to the active segment",
    "compaction-checkpoint-truncated",
)
def _(patch):
    """The checkpoint stays."""
    patch.setattr(CleaningStates, "lower_checkpoint", do_nothing)


@sabotage("a truncation does not raise the checkpoint", "compaction-checkpoint-below")
def _(patch):
    """It becomes the base of the active segment."""

    def lower_checkpoint(self, log):
        self.set_checkpoint(log, log.growing_segments[-1].base_offset)

    patch.setattr(CleaningStates, "lower_checkpoint", lower_checkpoint)


@sabotage(
    "a round that was aborted ends before its next chunk",
    test_log_cleaner.test_a_round_that_was_aborted_leaves_the_checkpoint,
    logs=LOGS,
)
def _(patch):
    """It goes on."""
    patch.setattr(CleaningStates, "check", do_nothing)


@sabotage(
    "a round that was aborted is not checkpointed",
    test_log_cleaner.test_a_round_that_was_aborted_leaves_the_checkpoint,
    logs=LOGS,
)
def _(patch):
    """Its begin is."""

    def end_cleaning(self, log, end_offset):
        self.set_checkpoint(log, end_offset)
        self.end_work([(log.topic, log.partition)])

    patch.setattr(CleaningStates, "end_cleaning", end_cleaning)


@sabotage(
    "a log is not compacted while it moves",
    test_moving.test_a_compacted_log_is_not_compacted_while_it_moves,
    directories=Built(test_moving.paths),
)
def _(patch):
    """It is."""
    patch.setattr(LogManager, "_pause_moving", do_nothing)


@sabotage(
    "a log that has moved is as clean as before",
    test_moving.test_the_lines_of_the_checkpoints_move_along,
    directories=Built(test_moving.paths),
)
def _(patch):
    """All of it is dirty."""
    patch.setattr(ManagedDirectory, "set_cleaned_to", do_nothing)


@sabotage(
    "the cleaner deletes the old segments of compacted logs",
    test_compacted_retention.test_compacted_logs_are_retained_when_a_cleaner_would,
    cleans=True,
)
def _(patch):
    """They stay."""
    patch.setattr(LogCleaner, "delete_old_segments", lambda _: 0)


@sabotage(
    "compaction reads and writes at most the bytes per second that are set",
    test_throttle.test_more_than_the_limit_waits_until_it_is_the_limit,
)
def _(patch):
    """It does not wait."""
    patch.setattr(Throttle, "count", do_nothing)

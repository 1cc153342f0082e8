"""Sabotages of retention, truncation and leader epochs."""

from contextlib import contextmanager

from kafkalog.config import LogConfig
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.indexes.growing_index import GrowingIndex
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.log import deletion, retention, truncation, watermarks
from kafkalog.log.leader_epochs import EpochEnd, LeaderEpochs
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.segment_map import SegmentMap
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.segment_files import SegmentFiles
from tests.log import test_edges, test_snapshot_files, test_writable_log
from tests.oracle.sabotages.register import Built, do_nothing, sabotage


@contextmanager
def all_replicated(log):
    """Set a log's high watermark to its log end offset within the context."""
    known, log.high_watermark = log.high_watermark, log.end
    yield
    log.high_watermark = known


# Retention


@sabotage("segments older than retention.ms are deleted", "retention-by-time")
def _(patch):
    """The age of a segment has no effect."""
    patch.setattr(retention, "_is_expired", lambda *_: retention._never)


@sabotage("a segment exactly retention.ms old is kept", "retention-by-time")
def _(patch):
    """It is deleted."""
    largest = GrowingSegment.largest_timestamp.fget
    older = property(lambda self: largest(self) - 1)
    patch.setattr(GrowingSegment, "largest_timestamp", older)


@sabotage(
    "the age of a segment without timestamps is that of its file", "retention-by-mtime"
)
def _(patch):
    """Its age is unlimited."""
    greatest = property(lambda self: self.greatest_timestamp[0])
    patch.setattr(GrowingSegment, "largest_timestamp", greatest)


@sabotage("segments beyond retention.bytes are deleted", "retention-by-size")
def _(patch):
    """The size of the log has no effect."""
    patch.setattr(retention, "_is_excess", lambda *_: retention._never)


@sabotage("after deletion by size at least retention.bytes remain", "retention-by-size")
def _(patch):
    """A segment more is deleted."""
    is_excess = retention._is_excess
    patch.setattr(
        retention,
        "_is_excess",
        lambda segments, limit: is_excess(segments, limit - segments[-1].size),
    )


@sabotage("a retention.ms of -1 keeps every segment", "random-delete-records-431-25")
def _(patch):
    """It is treated as 0."""

    is_expired = retention._is_expired
    patch.setattr(
        retention,
        "_is_expired",
        lambda limit, now_ms: is_expired(max(0, limit), now_ms),
    )


@sabotage("a retention.bytes of -1 keeps every segment", "retention-by-time")
def _(patch):
    """It is treated as 0."""
    patch.setattr(
        retention, "_is_excess", lambda *_: lambda _, following: bool(following)
    )


@sabotage(
    "segments before the log start offset are deleted", "retention-delete-records"
)
def _(patch):
    """They are kept."""
    patch.setattr(retention, "_is_below", lambda *_: retention._never)


@sabotage(
    "deletion is by log start offset, then by size, then by time",
    test_writable_log.test_segments_below_the_log_start_are_deleted_first_and_then_old_ones,
    load=Built(test_writable_log.Loading),
)
def _(patch):
    """The log start offset comes last."""

    rules_of = retention.rules_of

    def start_last(config):
        first, *others = rules_of(config)
        return (*others, first)

    patch.setattr(retention, "rules_of", start_last)


@sabotage(
    "a segment that is kept keeps all segments after it", "retention-future-timestamp"
)
def _(patch):
    """Each segment is decided by itself."""

    def find_deletable(rule, segments, offsets, config, now_ms):
        condition = retention.condition_of(rule, segments, offsets, config, now_ms)
        return [
            segment
            for segment, following in retention.with_following(segments)
            if following is not None and condition(segment, following)
        ]

    patch.setattr(retention, "find_deletable", find_deletable)


@sabotage("no segment above the high watermark is deleted", "retention-high-watermark")
def _(patch):
    """Every segment counts as replicated."""
    patch.setattr(retention, "is_replicated", lambda *_: True)


@sabotage(
    "retention by time and size needs cleanup.policy=delete",
    "retention-other-policies",
)
def _(patch):
    """It applies with any policy."""
    patch.setattr(LogConfig, "delete", True)


@sabotage(
    "a new segment is rolled before all segments are deleted", "retention-everything"
)
def _(patch):
    """The active segment is kept."""
    find_deletable = retention.find_deletable

    def without_active(rule, segments, *arguments):
        deletable = find_deletable(rule, segments, *arguments)
        return [segment for segment in deletable if segment is not segments[-1]]

    patch.setattr(retention, "find_deletable", without_active)


@sabotage("a deleted segment's files are renamed to .deleted", "retention-by-time")
def _(patch):
    """They are removed under their own names."""
    patch.setattr(deletion, "DELETED", ".log")


@sabotage(
    "files marked .deleted are removed after file.delete.delay.ms", "retention-by-time"
)
def _(patch):
    """They are removed at once."""
    delete_files = deletion.delete_files
    patch.setattr(
        deletion,
        "delete_files",
        lambda deleted, runtime, _: delete_files(deleted, runtime, 0),
    )


@sabotage("a segment's snapshot is deleted with it", "retention-snapshots")
def _(patch):
    """It is kept."""
    patch.setattr(retention, "delete_snapshots", do_nothing)


@sabotage(
    "delete_records moves the log start offset at once", "retention-delete-records"
)
def _(patch):
    """It moves when segments are deleted."""
    patch.setattr(watermarks, "raise_log_start", lambda *_: True)


@sabotage(
    "records above the high watermark cannot be deleted", "retention-delete-records"
)
def _(patch):
    """The log end offset is the limit."""
    raise_log_start = watermarks.raise_log_start

    def raise_anyway(log, offset):
        with all_replicated(log):
            return raise_log_start(log, offset)

    patch.setattr(watermarks, "raise_log_start", raise_anyway)


# Truncation


@sabotage("truncation removes the segments after it", "truncation-across-segments")
def _(patch):
    """They are kept."""
    patch.setattr(SegmentMap, "above", lambda *_: [])


@sabotage(
    "truncation inside a batch removes the whole batch", "truncation-inside-batch"
)
def _(patch):
    """The batch is kept."""
    cut = SegmentFiles.cut_for_good
    patch.setattr(
        SegmentFiles,
        "cut_for_good",
        lambda self, size: cut(self, min(size + 70, self.size)),
    )


@sabotage(
    "truncation to the first offset keeps the first segment",
    test_edges.test_a_log_truncated_to_its_first_offset_keeps_its_segment,
)
def _(patch):
    """The log begins with a new segment."""
    truncate_to = truncation.truncate_to

    def restart(log, offset, *place):
        if offset > log.segments.first.base_offset:
            return truncate_to(log, offset, *place)
        truncation.truncate_fully(log, offset, *place)
        return True

    patch.setattr(truncation, "truncate_to", restart)


@sabotage(
    "after truncation inside a batch the log end offset is the offset given",
    "truncation-inside-batch",
)
def _(patch):
    """The log ends after its last batch."""
    move_end = LogState.move_end
    patch.setattr(
        LogState,
        "move_end",
        lambda self, _: move_end(self, self.segments.active.next_offset()),
    )


@sabotage("truncation removes index entries", "truncation-inside-batch")
def _(patch):
    """The entries stay."""
    patch.setattr(GrowingIndex, "truncate_to", do_nothing)


@sabotage(
    "the indexes of a truncated segment have the capacity of an active one",
    test_writable_log.test_a_truncated_segment_has_indexes_of_full_size_again,
    load=Built(test_writable_log.Loading),
    target=1,
)
def _(patch):
    """The indexes keep their size."""
    patch.setattr(GrowingIndex, "resize", lambda *_: False)


@sabotage(
    "truncation of a marker opens its transaction again", "truncation-transaction"
)
def _(patch):
    """The entry of the transaction index stays."""
    patch.setattr(GrowingTransactionIndex, "truncate_to", do_nothing)


@sabotage(
    "truncation restores the producer state of that offset", "truncation-producers"
)
def _(patch):
    """The producer state does not change."""
    patch.setattr(truncation, "_rebuild", do_nothing)


@sabotage("truncation lowers the high watermark", "truncation-inside-batch")
def _(patch):
    """It does not change."""
    patch.setattr(truncation, "update_high_watermark", do_nothing)


@sabotage(
    "truncation below the first segment restarts the log there",
    "truncation-below-first",
)
def _(patch):
    """It does nothing."""
    patch.setattr(truncation, "truncate_fully", do_nothing)


@sabotage("full truncation clears the leader epochs", "truncation-fully")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "clear_and_flush", do_nothing)


@sabotage(
    "full truncation clears the producer state",
    test_snapshot_files.test_a_full_truncation_to_the_log_end_removes_all_producers,
)
def _(patch):
    """It stays, with its snapshots."""
    patch.setattr(ProducerStateManager, "truncate_fully_and_start_at", do_nothing)


# Leader epochs


@sabotage("truncation removes later leader epochs", "truncation-inside-batch")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "truncate_from_end", do_nothing)


@sabotage(
    "truncation to the log end offset removes an epoch that starts there",
    "truncation-nothing",
)
def _(patch):
    """It stays."""
    patch.setattr(LeaderEpochs, "truncate_from_end", do_nothing)


@sabotage("leader epochs before the log start offset are removed", "epochs-cut-front")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "truncate_from_start", do_nothing)


@sabotage("the epoch at the log start offset starts there", "epochs-cut-front")
def _(patch):
    """It keeps its start offset."""

    def truncate_from_start(self, offset):
        kept = [one for one in self._entries if one.start_offset >= offset]
        before = [one for one in self._entries if one.start_offset < offset]
        self._keep((*before[-1:], *kept))
        self._write_later()

    patch.setattr(LeaderEpochs, "truncate_from_start", truncate_from_start)


@sabotage("truncated leader epochs are written to disk later", "epochs-cut-front")
def _(patch):
    """They are written at once."""
    patch.setattr(LeaderEpochs, "_write_later", LeaderEpochs._write)


@sabotage("a new leader epoch removes epochs that contradict it", "epochs-assign")
def _(patch):
    """They are kept with it."""

    def take(self, entry):
        self._keep(tuple(sorted({*self._entries, EpochEntry(*entry)})))
        return True

    patch.setattr(LeaderEpochs, "_take", take)


@sabotage("a leader epoch ends where the next higher one starts", "epochs-end-offset")
def _(patch):
    """It ends at the log end offset."""
    end_offset_for = LeaderEpochs.end_offset_for

    def end_at_end(self, epoch, log_end_offset):
        found = end_offset_for(self, epoch, log_end_offset)
        return found and EpochEnd(found.epoch, log_end_offset)

    patch.setattr(LeaderEpochs, "end_offset_for", end_at_end)


@sabotage("for a missing epoch the next lower epoch is returned", "epochs-end-offset")
def _(patch):
    """The requested epoch is returned."""
    end_offset_for = LeaderEpochs.end_offset_for

    def end_itself(self, epoch, log_end_offset):
        found = end_offset_for(self, epoch, log_end_offset)
        return found and EpochEnd(epoch, found.end_offset)

    patch.setattr(LeaderEpochs, "end_offset_for", end_itself)


@sabotage(
    "the latest leader epoch ends at the log end offset", "follower-gaps-and-epochs"
)
def _(patch):
    """It ends at its start offset."""
    end_offset_for = LeaderEpochs.end_offset_for

    def end_at_start(self, epoch, log_end_offset):
        latest = self.latest
        if latest is not None and epoch == latest.epoch:
            return EpochEnd(epoch, latest.start_offset)
        return end_offset_for(self, epoch, log_end_offset)

    patch.setattr(LeaderEpochs, "end_offset_for", end_at_start)

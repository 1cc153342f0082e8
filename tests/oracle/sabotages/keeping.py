"""Sabotages of retention, of cutting a log, and of its leader epochs."""

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
from tests.oracle.sabotages.register import Made, nothing, sabotage


@contextmanager
def all_replicated(log):
    """Let a log's high watermark be its end for a while."""
    known, log.high_watermark = log.high_watermark, log.end
    yield
    log.high_watermark = known


# Retention


@sabotage("segments older than retention.ms go", "retention-by-time")
def _(patch):
    """Age does not matter."""
    patch.setattr(retention, "_delete_too_old", lambda _: 0)


@sabotage("a segment of just retention.ms stays", "retention-by-time")
def _(patch):
    """It goes."""
    largest = GrowingSegment.largest_timestamp.fget
    older = property(lambda self: largest(self) - 1)
    patch.setattr(GrowingSegment, "largest_timestamp", older)


@sabotage("a segment without timestamps is as old as its file", "retention-by-mtime")
def _(patch):
    """It is as old as can be."""
    greatest = property(lambda self: self.greatest_timestamp[0])
    patch.setattr(GrowingSegment, "largest_timestamp", greatest)


@sabotage("segments beyond retention.bytes go", "retention-by-size")
def _(patch):
    """Size does not matter."""
    patch.setattr(retention, "_delete_beyond_size", lambda _: 0)


@sabotage("what is left by size has at least retention.bytes", "retention-by-size")
def _(patch):
    """It may have less, by a segment."""
    size = SegmentMap.size_in_bytes.fget
    more = property(lambda self: size(self) + self.active.size)
    patch.setattr(SegmentMap, "size_in_bytes", more)


@sabotage("a retention.ms of -1 keeps all", "random-delete-records-431-25")
def _(patch):
    """It is taken for 0."""

    def delete_too_old(log):
        def too_old(segment, _):
            age = log.runtime.now_ms() - segment.largest_timestamp
            return age > max(0, log.config.retention_ms)

        return retention._delete_while(log, too_old)

    patch.setattr(retention, "_delete_too_old", delete_too_old)


@sabotage("a retention.bytes of -1 keeps all", "retention-by-time")
def _(patch):
    """It is taken for 0."""
    delete_while = retention._delete_while
    patch.setattr(
        retention,
        "_delete_beyond_size",
        lambda log: delete_while(log, lambda segment, following: bool(following)),
    )


@sabotage("segments before the log's start go", "retention-delete-records")
def _(patch):
    """They stay."""
    patch.setattr(retention, "_delete_before_start", lambda _: 0)


@sabotage(
    "the log's start comes first, then size, then time",
    test_writable_log.test_what_starts_below_goes_first_and_then_what_is_old,
    load=Made(test_writable_log.Loading),
)
def _(patch):
    """The log's start comes last."""

    def delete_old_segments(log):
        kept = log.config.delete
        passes = (retention._delete_beyond_size, retention._delete_too_old)
        deleted = sum(one(log) for one in passes) if kept else 0
        return deleted + retention._delete_before_start(log)

    patch.setattr(retention, "delete_old_segments", delete_old_segments)


@sabotage("a segment that stays shields all behind it", "retention-future-timestamp")
def _(patch):
    """Each goes by itself."""

    def deletable(log, condition):
        *others, active = log.segments
        return [
            one
            for one, following in zip(others, [*others[1:], active], strict=True)
            if condition(one, following)
        ]

    patch.setattr(retention, "_deletable", deletable)


@sabotage("nothing goes that is not replicated", "retention-high-watermark")
def _(patch):
    """All counts as replicated."""
    deletable = retention._deletable

    def deletable_anyway(log, condition):
        with all_replicated(log):
            return deletable(log, condition)

    patch.setattr(retention, "_deletable", deletable_anyway)


@sabotage(
    "time and size count with cleanup.policy=delete alone",
    "retention-other-policies",
)
def _(patch):
    """They count with any policy."""
    patch.setattr(LogConfig, "delete", True)


@sabotage("where all is too old, a new segment begins first", "retention-everything")
def _(patch):
    """The active segment stays."""
    deletable = retention._deletable

    def without_active(log, condition):
        found = deletable(log, condition)
        return [one for one in found if one is not log.segments.active]

    patch.setattr(retention, "_deletable", without_active)


@sabotage("what goes is marked .deleted", "retention-by-time")
def _(patch):
    """It is removed under its name."""
    patch.setattr(deletion, "DELETED", ".log")


@sabotage("what is marked is removed after file.delete.delay.ms", "retention-by-time")
def _(patch):
    """It is removed at once."""
    delete_files = deletion.delete_files
    patch.setattr(
        deletion,
        "delete_files",
        lambda doomed, runtime, _: delete_files(doomed, runtime, 0),
    )


@sabotage("a segment's snapshot goes with it", "retention-snapshots")
def _(patch):
    """It stays."""
    patch.setattr(retention, "delete_snapshots", nothing)


@sabotage("delete_records moves the log's start at once", "retention-delete-records")
def _(patch):
    """It moves when segments go."""
    patch.setattr(watermarks, "raise_log_start", lambda *_: True)


@sabotage("nothing behind the high watermark is deleted", "retention-delete-records")
def _(patch):
    """The log's end is the limit."""
    raise_log_start = watermarks.raise_log_start

    def raise_anyway(log, offset):
        with all_replicated(log):
            return raise_log_start(log, offset)

    patch.setattr(watermarks, "raise_log_start", raise_anyway)


# Truncation


@sabotage("segments behind a cut go", "truncation-across-segments")
def _(patch):
    """They stay."""
    patch.setattr(SegmentMap, "above", lambda *_: [])


@sabotage("the batch that holds the cut goes whole", "truncation-inside-batch")
def _(patch):
    """It stays."""
    cut = SegmentFiles.cut_for_good
    patch.setattr(
        SegmentFiles,
        "cut_for_good",
        lambda self, size: cut(self, min(size + 70, self.size)),
    )


@sabotage(
    "a log cut at its first offset keeps its segment",
    test_edges.test_a_log_cut_at_its_first_offset_keeps_its_segment,
)
def _(patch):
    """It begins anew."""
    truncate_to = truncation.truncate_to

    def begin_anew(log, offset, *place):
        if offset > log.segments.first.base_offset:
            return truncate_to(log, offset, *place)
        truncation.truncate_fully(log, offset, *place)
        return True

    patch.setattr(truncation, "truncate_to", begin_anew)


@sabotage("the log ends at the cut, also inside a batch", "truncation-inside-batch")
def _(patch):
    """It ends behind its last batch."""
    move_end = LogState.move_end
    patch.setattr(
        LogState,
        "move_end",
        lambda self, _: move_end(self, self.segments.active.next_offset()),
    )


@sabotage("entries of indexes behind a cut go", "truncation-inside-batch")
def _(patch):
    """They stay."""
    patch.setattr(GrowingIndex, "truncate_to", nothing)


@sabotage(
    "a segment that is cut has the room of an active one's indexes",
    test_writable_log.test_a_segment_that_is_cut_has_indexes_of_full_size_again,
    load=Made(test_writable_log.Loading),
    target=1,
)
def _(patch):
    """Its indexes stay as they are."""
    patch.setattr(GrowingIndex, "resize", lambda *_: False)


@sabotage("a transaction whose marker is cut is open again", "truncation-transaction")
def _(patch):
    """Its entry stays."""
    patch.setattr(GrowingTransactionIndex, "truncate_to", nothing)


@sabotage("producers go back to where they were at a cut", "truncation-producers")
def _(patch):
    """They stay as they are."""
    patch.setattr(truncation, "_rebuild", nothing)


@sabotage("the high watermark does not stay behind a cut", "truncation-inside-batch")
def _(patch):
    """It stays where it was."""
    patch.setattr(truncation, "update_high_watermark", nothing)


@sabotage("a cut below the first segment begins the log anew", "truncation-below-first")
def _(patch):
    """It does nothing."""
    patch.setattr(truncation, "truncate_fully", nothing)


@sabotage("a log that is cut wholly forgets its epochs", "truncation-fully")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "clear_and_flush", nothing)


@sabotage(
    "a log that is cut wholly forgets its producers",
    test_snapshot_files.test_a_log_that_is_cut_wholly_at_its_end_forgets_producers,
)
def _(patch):
    """They stay, with their snapshots."""
    patch.setattr(ProducerStateManager, "truncate_fully_and_start_at", nothing)


# Leader epochs


@sabotage("epochs behind a cut go", "truncation-inside-batch")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "truncate_from_end", nothing)


@sabotage("an epoch at the log's end goes though nothing is cut", "truncation-nothing")
def _(patch):
    """It stays."""
    patch.setattr(LeaderEpochs, "truncate_from_end", nothing)


@sabotage("epochs before the log's start go", "epochs-cut-front")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "truncate_from_start", nothing)


@sabotage("the epoch of the log's start begins there", "epochs-cut-front")
def _(patch):
    """It begins where it began."""

    def truncate_from_start(self, offset):
        kept = [one for one in self._entries if one.start_offset >= offset]
        before = [one for one in self._entries if one.start_offset < offset]
        self._keep((*before[-1:], *kept))
        self._write_later()

    patch.setattr(LeaderEpochs, "truncate_from_start", truncate_from_start)


@sabotage("epochs that are cut are written later", "epochs-cut-front")
def _(patch):
    """They are written at once."""
    patch.setattr(LeaderEpochs, "_write_later", LeaderEpochs._write)


@sabotage("a new epoch drops those that contradict it", "epochs-assign")
def _(patch):
    """It stands beside them."""

    def take(self, entry):
        self._keep(tuple(sorted({*self._entries, EpochEntry(*entry)})))
        return True

    patch.setattr(LeaderEpochs, "_take", take)


@sabotage("an epoch ends where the next higher one begins", "epochs-end-offset")
def _(patch):
    """It ends at the log's end."""
    end_offset_for = LeaderEpochs.end_offset_for

    def end_at_end(self, epoch, log_end_offset):
        found = end_offset_for(self, epoch, log_end_offset)
        return found and EpochEnd(found.epoch, log_end_offset)

    patch.setattr(LeaderEpochs, "end_offset_for", end_at_end)


@sabotage("of an epoch between two the lower one is told", "epochs-end-offset")
def _(patch):
    """It is told itself."""
    end_offset_for = LeaderEpochs.end_offset_for

    def end_itself(self, epoch, log_end_offset):
        found = end_offset_for(self, epoch, log_end_offset)
        return found and EpochEnd(epoch, found.end_offset)

    patch.setattr(LeaderEpochs, "end_offset_for", end_itself)


@sabotage("the latest epoch ends at the log's end", "follower-gaps-and-epochs")
def _(patch):
    """It ends where it began."""
    end_offset_for = LeaderEpochs.end_offset_for

    def end_at_start(self, epoch, log_end_offset):
        latest = self.latest
        if latest is not None and epoch == latest.epoch:
            return EpochEnd(epoch, latest.start_offset)
        return end_offset_for(self, epoch, log_end_offset)

    patch.setattr(LeaderEpochs, "end_offset_for", end_at_start)

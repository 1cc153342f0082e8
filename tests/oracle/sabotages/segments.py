"""Sabotages of rolling, of index entries, and of the files of a segment."""

from contextlib import suppress

from kafkalog.config import LogConfig
from kafkalog.errors import KafkaLogError
from kafkalog.indexes.growing_index import GrowingIndex
from kafkalog.indexes.growing_time_index import GrowingTimeIndex
from kafkalog.log import appending, rolling
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.segment_files import SegmentFiles, SegmentSettings
from tests.log import test_edges, test_writable_log, test_write_runs, test_writing
from tests.oracle.sabotages.plans import change, with_one_more
from tests.oracle.sabotages.register import (
    Built,
    disable_fast_path,
    do_nothing,
    sabotage,
)

NEVER = -(2**40)


def roll_as_if(patch, size=0, **kept):
    """Check for a roll as if `size` bytes more were appended, one by one."""
    disable_fast_path(patch)
    should_roll = rolling.should_roll
    patch.setattr(
        appending,
        "should_roll",
        lambda log, bytes_, *rest: should_roll(log, bytes_ + size, *rest),
    )


def settings_with(patch, change):
    """Change the settings of segments."""
    patch.setattr(
        rolling, "SegmentSettings", lambda *given: SegmentSettings(*change(*given))
    )


# When a segment rolls


@sabotage("a segment rolls before it exceeds segment.bytes", "roll-by-size")
def _(patch):
    """Its size has no effect."""
    roll_as_if(patch, NEVER)


@sabotage(
    "a segment may be exactly segment.bytes long",
    test_write_runs.test_a_segment_is_filled_to_its_last_byte_and_no_further,
    append="one",
)
def _(patch):
    """It rolls one byte earlier."""
    roll_as_if(patch, 1)


@sabotage("a segment rolls when its records span more than segment.ms", "roll-by-time")
def _(patch):
    """Its age has no effect."""
    change(patch, "segment_ms", 2**40)


@sabotage("records may span exactly segment.ms", "roll-by-time")
def _(patch):
    """The segment rolls a millisecond earlier."""
    change(patch, "segment_ms", -1)


@sabotage(
    "the age of a segment depends on record timestamps, not on the clock",
    "roll-by-time",
)
def _(patch):
    """It depends on the clock."""
    change(patch, "first_timestamp", -(2**41))


@sabotage(
    "the age of a segment without timestamps depends on the clock", "roll-by-clock"
)
def _(patch):
    """The segment has no age."""
    change(patch, "created_ms", 2**40)


@sabotage("an empty segment does not roll by time", "roll-by-clock")
def _(patch):
    """It does."""
    disable_fast_path(patch)
    should_roll = rolling.should_roll

    def rolls(log, size, max_timestamp, last_offset):
        age = log.runtime.now_ms() - log.segments.active.created_ms
        old = age > log.config.max_segment_ms
        return old or should_roll(log, size, max_timestamp, last_offset)

    patch.setattr(appending, "should_roll", rolls)


@sabotage(
    "the age of a segment counts from its first batch's timestamp",
    "follower-roll-timestamp-of-first-batch",
)
def _(patch):
    """It counts from the greatest timestamp."""
    greatest = property(lambda self: self.greatest_timestamp[0])
    patch.setattr(GrowingSegment, "rolling_timestamp", greatest)


@sabotage(
    "jitter shortens segment.ms",
    test_writable_log.test_jitter_lets_a_segment_roll_earlier,
    load=Built(test_writable_log.Loading),
)
def _(patch):
    """There is no jitter."""
    settings_with(patch, lambda interval, room, _: (interval, room, 0))


@sabotage("max.compaction.lag.ms bounds segment.ms", "roll-compaction-lag")
def _(patch):
    """It does not."""
    patch.setattr(LogConfig, "max_segment_ms", property(lambda self: self.segment_ms))


@sabotage("a segment rolls when its offset index is full", "roll-offset-index-full")
def _(patch):
    """The index takes one entry more."""
    change(patch, "offset_index", with_one_more)


@sabotage("a segment rolls when its time index is full", "roll-time-index-full")
def _(patch):
    """The index takes one entry more."""
    change(patch, "time_index", with_one_more)


@sabotage(
    "a slot of the time index is reserved for its last entry", "roll-time-index-full"
)
def _(patch):
    """The index is full one entry later."""
    patch.setattr(GrowingTimeIndex, "entries_left", GrowingIndex.entries_left)


@sabotage(
    "a segment rolls when offsets are too far from its base offset", "roll-offset-range"
)
def _(patch):
    """Any distance is accepted."""
    disable_fast_path(patch)
    should_roll = rolling.should_roll

    def rolls(log, size, max_timestamp, _):
        base_offset = log.segments.active.base_offset
        return should_roll(log, size, max_timestamp, base_offset)

    patch.setattr(appending, "should_roll", rolls)
    patch.setattr(GrowingSegment, "can_hold", lambda *_: True)


# The roll


@sabotage(
    "a roll of an empty segment replaces it by one of the same base offset",
    "roll-on-request",
)
def _(patch):
    """The segment is kept."""
    patch.setattr(rolling, "replace_segments", lambda log, base, replaced: replaced[-1])


@sabotage(
    "a roll to the base offset of an existing segment is an error",
    test_writing.test_no_segment_begins_at_or_below_an_existing_base_offset,
)
def _(patch):
    """The existing segment is used."""
    begin = rolling._begin

    def begin_anyway(log, base):
        active = log.segments.active
        return begin(log, base) if base > active.base_offset else active

    patch.setattr(rolling, "_begin", begin_anyway)


@sabotage("a rolled segment gets its last time index entry", "roll-by-size")
def _(patch):
    """It does not."""

    def become_inactive(self):
        self.offset_index.trim()
        self.time_index.trim()
        self.cut(self.size)

    patch.setattr(GrowingSegment, "become_inactive", become_inactive)


@sabotage("the indexes of a rolled segment are trimmed", "roll-on-request")
def _(patch):
    """They keep their size."""
    patch.setattr(GrowingIndex, "trim", do_nothing)


@sabotage("a rolled segment is flushed in the background", "roll-by-size")
def _(patch):
    """It is not."""
    patch.setattr(rolling, "flush_unlocked", do_nothing)


@sabotage(
    "a roll moves a high watermark at the log end offset to the new segment",
    test_edges.test_a_high_watermark_at_the_log_end_moves_to_the_new_segment_with_a_roll,
)
def _(patch):
    """It stays in the rolled segment."""
    patch.setattr(rolling, "raise_to_log_end", do_nothing)


# Index entries


@sabotage(
    "an index entry is made after more than index.interval.bytes",
    "append-log-append-time",
)
def _(patch):
    """Exactly that many bytes suffice."""
    settings_with(patch, lambda interval, *rest: (interval - 1, *rest))


@sabotage("the first batch of a segment gets no index entry", "roll-index-interval")
def _(patch):
    """It gets one."""
    patch.setattr(GrowingSegment, "bytes_since_index_entry", 2**30)


@sabotage(
    "the bytes before a batch whose entry a full index rejects are kept",
    "roll-index-overrun",
)
def _(patch):
    """The entry is skipped without an error."""
    make_entries = GrowingSegment.make_entries

    def make_some(self, *batches, **options):
        with suppress(KafkaLogError):
            make_entries(self, *batches, **options)

    patch.setattr(GrowingSegment, "make_entries", make_some)


@sabotage("batches without timestamps get no time index entry", "append-no-timestamps")
def _(patch):
    """They get one with the current time."""
    greatest = GrowingSegment.greatest_timestamp.fget

    def known(self):
        timestamp, offset = greatest(self)
        return max(timestamp, 0), offset

    patch.setattr(GrowingSegment, "greatest_timestamp", property(known))


# Files


@sabotage("index files are created when they are first needed", "truncation-fully")
def _(patch):
    """They are created with the segment."""
    create = SegmentFiles.create

    def create_all(self, *size):
        create(self, *size)
        self.make_indexes()

    patch.setattr(SegmentFiles, "create", create_all)


@sabotage("an index file has segment.index.bytes", "roll-on-request")
def _(patch):
    """It has twice as many."""
    settings_with(patch, lambda interval, room, jitter: (interval, 2 * room, jitter))


@sabotage("with preallocate a segment file has segment.bytes", "roll-preallocate")
def _(patch):
    """The file is empty."""
    patch.setattr(LogConfig, "initial_file_size", 0)


@sabotage("a preallocated segment is trimmed when it is rolled", "roll-preallocate")
def _(patch):
    """It keeps its size."""

    def become_inactive(self):
        self.time_index.maybe_append(*self.greatest_timestamp, skip_full=True)
        self.offset_index.trim()
        self.time_index.trim()

    patch.setattr(GrowingSegment, "become_inactive", become_inactive)


@sabotage(
    "a preallocated segment is trimmed when it is closed", "random-recovery-431-9"
)
def _(patch):
    """It keeps its size."""
    patch.setattr(SegmentFiles, "finish_log", SegmentFiles._close_log)

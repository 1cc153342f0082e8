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
from tests.oracle.sabotages.plans import change
from tests.oracle.sabotages.register import Made, nothing, one_by_one, sabotage

NEVER = -(2**40)


def roll_as_if(patch, size=0, **kept):
    """Ask whether to roll as if `size` bytes more were appended, one by one."""
    one_by_one(patch)
    should_roll = rolling.should_roll
    patch.setattr(
        appending,
        "should_roll",
        lambda log, bytes_, *rest: should_roll(log, bytes_ + size, *rest),
    )


def settings_with(patch, change):
    """Give segments other settings than the topic's three numbers."""
    patch.setattr(
        rolling, "SegmentSettings", lambda *given: SegmentSettings(*change(*given))
    )


# When a segment is left


@sabotage("a segment rolls before it exceeds segment.bytes", "roll-by-size")
def _(patch):
    """Its size does not matter."""
    roll_as_if(patch, NEVER)


@sabotage(
    "a segment may be filled just to segment.bytes",
    test_write_runs.test_a_segment_is_filled_to_its_last_byte_and_no_further,
    append="one",
)
def _(patch):
    """It rolls one byte earlier."""
    roll_as_if(patch, 1)


@sabotage("a segment rolls when its records span more than segment.ms", "roll-by-time")
def _(patch):
    """Its age does not matter."""
    change(patch, "segment_ms", 2**40)


@sabotage("records may span just segment.ms", "roll-by-time")
def _(patch):
    """The segment rolls a millisecond earlier."""
    change(patch, "segment_ms", -1)


@sabotage("the time of records counts, not that of their arrival", "roll-by-time")
def _(patch):
    """The clock counts."""
    change(patch, "first_timestamp", -(2**41))


@sabotage("without timestamps the clock counts", "roll-by-clock")
def _(patch):
    """A segment without timestamps has no age."""
    change(patch, "created_ms", 2**40)


@sabotage("an empty segment does not roll by time", "roll-by-clock")
def _(patch):
    """It does."""
    one_by_one(patch)
    should_roll = rolling.should_roll

    def rolls(log, size, max_timestamp, last_offset):
        age = log.runtime.now_ms() - log.segments.active.created_ms
        old = age > log.config.max_segment_ms
        return old or should_roll(log, size, max_timestamp, last_offset)

    patch.setattr(appending, "should_roll", rolls)


@sabotage(
    "the first batch's timestamp counts, not the latest",
    "follower-roll-timestamp-of-first-batch",
)
def _(patch):
    """The greatest so far counts."""
    greatest = property(lambda self: self.greatest_timestamp[0])
    patch.setattr(GrowingSegment, "rolling_timestamp", greatest)


@sabotage(
    "jitter shortens segment.ms",
    test_writable_log.test_jitter_lets_a_segment_roll_earlier,
    load=Made(test_writable_log.Loading),
)
def _(patch):
    """There is none."""
    settings_with(patch, lambda interval, room, _: (interval, room, 0))


@sabotage("max.compaction.lag.ms bounds segment.ms", "roll-compaction-lag")
def _(patch):
    """It does not."""
    patch.setattr(LogConfig, "max_segment_ms", property(lambda self: self.segment_ms))


@sabotage("a segment rolls when its offset index is full", "roll-offset-index-full")
def _(patch):
    """It takes one entry more."""
    change(patch, "index_entries", 1)


@sabotage("a segment rolls when its time index is full", "roll-time-index-full")
def _(patch):
    """It takes one entry more."""
    change(patch, "time_entries", 1)


@sabotage("a slot of the time index is kept for its last entry", "roll-time-index-full")
def _(patch):
    """The index is full one entry later."""
    patch.setattr(GrowingTimeIndex, "entries_left", GrowingIndex.entries_left)


@sabotage("a segment rolls when offsets get too far from its base", "roll-offset-range")
def _(patch):
    """Any offset is near enough."""
    one_by_one(patch)
    should_roll = rolling.should_roll

    def rolls(log, size, max_timestamp, _):
        base_offset = log.segments.active.base_offset
        return should_roll(log, size, max_timestamp, base_offset)

    patch.setattr(appending, "should_roll", rolls)
    patch.setattr(GrowingSegment, "can_hold", lambda *_: True)


# How the next one begins


@sabotage(
    "an empty segment that is rolled is replaced by one of the same base",
    "roll-on-request",
)
def _(patch):
    """It stays as it is."""
    patch.setattr(rolling, "replace_segments", lambda log, base, replaced: replaced[-1])


@sabotage(
    "no segment begins where one is",
    test_writing.test_a_segment_does_not_begin_where_one_is,
)
def _(patch):
    """The one there is is taken for it."""
    begin = rolling._begin

    def begin_anyway(log, base):
        active = log.segments.active
        return begin(log, base) if base > active.base_offset else active

    patch.setattr(rolling, "_begin", begin_anyway)


@sabotage("a segment that is left has its last time entry", "roll-by-size")
def _(patch):
    """It lacks it."""

    def become_inactive(self):
        self.offset_index.trim()
        self.time_index.trim()
        self.cut(self.size)

    patch.setattr(GrowingSegment, "become_inactive", become_inactive)


@sabotage("the indexes of a segment that is left are trimmed", "roll-on-request")
def _(patch):
    """They keep their room."""
    patch.setattr(GrowingIndex, "trim", nothing)


@sabotage("a roll is forced to disk in the background", "roll-by-size")
def _(patch):
    """It is not."""
    patch.setattr(rolling, "flush_beside", nothing)


@sabotage(
    "a high watermark at the log's end goes along with a roll",
    test_edges.test_a_high_watermark_at_the_end_goes_along_with_a_roll,
)
def _(patch):
    """It stays in the segment that is left."""
    patch.setattr(rolling, "raise_to_log_end", nothing)


# Entries of indexes


@sabotage(
    "an entry comes once more than index.interval.bytes lie behind the last",
    "append-log-append-time",
)
def _(patch):
    """Just as many will do."""
    settings_with(patch, lambda interval, *rest: (interval - 1, *rest))


@sabotage("the first batch of a segment gets no entry", "roll-index-interval")
def _(patch):
    """It gets one."""
    patch.setattr(GrowingSegment, "bytes_since_index_entry", 2**30)


@sabotage("what a full index refuses leaves its bytes", "roll-index-overrun")
def _(patch):
    """The entry is left out, and no more is said."""
    make_entries = GrowingSegment.make_entries

    def make_some(self, *batches, **options):
        with suppress(KafkaLogError):
            make_entries(self, *batches, **options)

    patch.setattr(GrowingSegment, "make_entries", make_some)


@sabotage("without timestamps there are no time entries", "append-no-timestamps")
def _(patch):
    """A batch without one has that of its arrival."""
    greatest = GrowingSegment.greatest_timestamp.fget

    def known(self):
        timestamp, offset = greatest(self)
        return max(timestamp, 0), offset

    patch.setattr(GrowingSegment, "greatest_timestamp", property(known))


# Files


@sabotage("indexes are made when they are first needed", "truncation-fully")
def _(patch):
    """They are made with the segment."""
    create = SegmentFiles.create

    def create_all(self, *size):
        create(self, *size)
        self.make_indexes()

    patch.setattr(SegmentFiles, "create", create_all)


@sabotage("an index is made as large as segment.index.bytes", "roll-on-request")
def _(patch):
    """It is made twice as large."""
    settings_with(patch, lambda interval, room, jitter: (interval, 2 * room, jitter))


@sabotage("preallocate makes a segment segment.bytes long", "roll-preallocate")
def _(patch):
    """It makes it empty."""
    patch.setattr(LogConfig, "initial_file_size", 0)


@sabotage("a preallocated segment is trimmed when it is left", "roll-preallocate")
def _(patch):
    """It keeps its room."""

    def become_inactive(self):
        self.time_index.maybe_append(*self.greatest_timestamp, skip_full=True)
        self.offset_index.trim()
        self.time_index.trim()

    patch.setattr(GrowingSegment, "become_inactive", become_inactive)


@sabotage(
    "a preallocated segment is trimmed when it is closed", "random-recovery-431-9"
)
def _(patch):
    """It keeps its room."""
    patch.setattr(SegmentFiles, "finish_log", SegmentFiles._close_log)

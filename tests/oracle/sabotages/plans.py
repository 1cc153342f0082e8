"""Sabotages of the numbers by which one write is planned, and a roll decided.

The plan kernel and the general step take the same numbers.
"""

from struct import Struct

from kafkalog.log import rolling
from tests.log import test_write_runs, test_writing
from tests.oracle.sabotages.register import sabotage

TIME_ENTRY = Struct(">qi")


def change(patch, name, by):
    """Add `by` to one of the numbers, or replace it by the result of a function."""
    function = "segment_limits"
    if name in rolling.SegmentEnd._fields:
        function = "segment_end"
    right = getattr(rolling, function)

    def wrong(log):
        numbers = right(log)
        value = getattr(numbers, name)
        return numbers._replace(**{name: by(value) if callable(by) else value + by})

    patch.setattr(rolling, function, wrong)


def with_one_more(index):
    """Return the end of an index in which one more entry fits."""
    left, newest = index
    return left + 1, newest


def with_later_entry(index):
    """Return the end of a time index whose last entry is a millisecond later."""
    left, newest = index
    if not newest:
        return index
    timestamp, offset = TIME_ENTRY.unpack_from(newest, len(newest) - TIME_ENTRY.size)
    return left, TIME_ENTRY.pack(timestamp + 1, offset)


# Where a write ends


@sabotage("one write ends where another leader epoch begins", "epochs-cut-front")
def _(patch):
    """It continues into the next epoch."""
    change(patch, "leader_epoch", 1)


@sabotage(
    "one write fills its segment up to segment.bytes",
    test_write_runs.test_a_segment_is_filled_to_its_last_byte_and_no_further,
    append="many",
)
def _(patch):
    """It fills the segment further."""
    change(patch, "segment_bytes", 300)


@sabotage(
    "one write ends where a flush is due",
    test_writing.test_flush_messages_forces_the_log_after_that_many_records,
)
def _(patch):
    """It ends later."""
    change(patch, "flush_at", 3)


# Where a write begins


@sabotage("appends of one write get the next offsets", "append-offsets-and-epoch")
def _(patch):
    """One offset is skipped."""
    change(patch, "next_offset", 1)


@sabotage("index entries have offsets relative to the base", "roll-index-interval")
def _(patch):
    """They are relative to the next offset."""
    change(patch, "base_offset", 1)


@sabotage("index entries have positions in the segment", "roll-index-interval")
def _(patch):
    """The positions are one byte too high."""
    change(patch, "size", 1)


@sabotage("the age of a segment counts from its first batch", "roll-by-time")
def _(patch):
    """It counts from a millisecond later."""
    change(patch, "first_timestamp", 1)


@sabotage("one write makes an entry after enough bytes", "append-codecs-in-place")
def _(patch):
    """One byte more is required."""
    change(patch, "index_interval_bytes", 1)


@sabotage("one write counts the bytes since the last entry", "append-codecs-in-place")
def _(patch):
    """It counts a thousand more."""
    change(patch, "bytes_since_entry", 1000)


@sabotage(
    "one write makes a time entry above the last one",
    test_write_runs.test_index_entries_continue_from_one_write_to_the_next,
    step_ms=1,
)
def _(patch):
    """The last one is a millisecond higher."""
    change(patch, "time_index", with_later_entry)


@sabotage("one write continues from the greatest timestamp", "append-codecs-in-place")
def _(patch):
    """It continues from a millisecond later."""
    change(patch, "greatest_timestamp", 1)


@sabotage("one write keeps the greatest timestamp's offset", "append-codecs-in-place")
def _(patch):
    """The offset is one higher."""
    change(patch, "offset_of_greatest", 1)

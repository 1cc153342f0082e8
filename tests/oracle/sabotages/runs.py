"""Sabotages of what a run of plain appends is told of its log, number by number.

A run is written in one go, by a kernel. It ends where something else is to happen.
"""

from kafkalog.log.append_runs import RunWriter

from tests.log import test_append_runs, test_writing
from tests.oracle.sabotages.register import sabotage

LIMITS = (
    *("epoch", "epoch_start", "base", "most_bytes", "most_ms", "created_ms"),
    *("interval", "index_room", "time_room", "flush_at"),
)
STATE = (
    *("next_offset", "size", "first_timestamp", "last_time"),
    *("since", "timestamp", "timestamp_offset"),
)


def tell(patch, name, by):
    """Tell runs a number that is wrong by so much."""
    method, names = ("_limits", LIMITS) if name in LIMITS else ("_state", STATE)
    numbers, place = getattr(RunWriter, method), names.index(name)

    def wrong(self, *where):
        found = numbers(self, *where)
        assert len(found) == len(names)
        return (*found[:place], found[place] + by, *found[place + 1 :])

    patch.setattr(RunWriter, method, wrong)


# Where a run ends


@sabotage("a run ends where another epoch begins", "epochs-cut-front")
def _(patch):
    """It is told of the epoch to come."""
    tell(patch, "epoch", 1)


@sabotage(
    "a run fills its segment just to segment.bytes",
    test_append_runs.test_a_segment_is_filled_to_its_last_byte_and_no_further,
    append="many",
)
def _(patch):
    """It may fill it further."""
    tell(patch, "most_bytes", 300)


@sabotage("a run ends where its segment is too old", "roll-by-time")
def _(patch):
    """The segment may be a millisecond older."""
    tell(patch, "most_ms", 1)


@sabotage("a run without timestamps ends by the clock", "roll-by-clock")
def _(patch):
    """The segment is a millisecond younger."""
    tell(patch, "created_ms", 1)


@sabotage("a run ends where the offset index is full", "roll-offset-index-full")
def _(patch):
    """There is room for one entry more."""
    tell(patch, "index_room", 1)


@sabotage("a run ends where the time index is full", "roll-time-index-full")
def _(patch):
    """There is room for one entry more."""
    tell(patch, "time_room", 1)


@sabotage(
    "a run ends where a flush is due",
    test_writing.test_flush_messages_forces_as_often_as_it_says,
)
def _(patch):
    """It ends later."""
    tell(patch, "flush_at", 3)


# What a run begins with


@sabotage("a run gives the next offsets", "append-offsets-and-epoch")
def _(patch):
    """It leaves one out."""
    tell(patch, "next_offset", 1)


@sabotage("a run counts offsets of entries from the base", "roll-index-interval")
def _(patch):
    """It counts from one behind."""
    tell(patch, "base", 1)


@sabotage("a run counts positions from the segment's end", "roll-index-interval")
def _(patch):
    """It counts from one behind."""
    tell(patch, "size", 1)


@sabotage("a run's records span from the first batch's time", "roll-by-time")
def _(patch):
    """That is a millisecond later."""
    tell(patch, "first_timestamp", 1)


@sabotage("a run makes an entry once enough bytes have come", "append-codecs-in-place")
def _(patch):
    """It takes one more."""
    tell(patch, "interval", 1)


@sabotage("a run counts the bytes since the last entry", "append-codecs-in-place")
def _(patch):
    """It takes them for a thousand more."""
    tell(patch, "since", 1000)


@sabotage(
    "a run makes a time entry above the last one",
    test_append_runs.test_a_run_goes_on_behind_the_last_entry_as_the_long_way_does,
    step_ms=1,
)
def _(patch):
    """It takes the last one to be a millisecond higher."""
    tell(patch, "last_time", 1)


@sabotage("a run goes on from the greatest timestamp", "append-codecs-in-place")
def _(patch):
    """It takes that for a millisecond higher."""
    tell(patch, "timestamp", 1)


@sabotage("a run knows the offset of the greatest timestamp", "append-codecs-in-place")
def _(patch):
    """It takes that for one higher."""
    tell(patch, "timestamp_offset", 1)

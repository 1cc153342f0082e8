"""Sabotages of reads, of the high watermark, and of lookups by time."""

from kafkalog.errors import LogArgumentError
from kafkalog.log import fetch_data as engine
from kafkalog.log import log_fetch, time_lookup, watermarks, writable_log
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.watermarks import sight_of
from kafkalog.segment.growing_segment import GrowingSegment
from tests.log import test_edges, test_time_lookup
from tests.oracle.sabotages.register import Made, sabotage


def seen_as(patch, isolation, instead):
    """Let readers of one isolation see what those of another do."""
    patch.setattr(
        log_fetch,
        "sight_of",
        lambda asked: sight_of(instead if asked == isolation else asked),
    )


# The high watermark


@sabotage("no high watermark is beyond the log's end", "read-high-watermark")
def _(patch):
    """The caller is believed."""

    def update(log, wanted):
        wanted = OffsetMetadata(max(wanted.offset, log.log_start_offset))
        watermarks._set_high_watermark(log, wanted)
        return wanted.offset

    patch.setattr(watermarks, "update_high_watermark", update)


@sabotage("no high watermark is before the log's start", "read-high-watermark")
def _(patch):
    """The caller is believed."""

    def update(log, wanted):
        wanted = log.end if wanted.offset >= log.log_end_offset else wanted
        watermarks._set_high_watermark(log, wanted)
        return wanted.offset

    patch.setattr(watermarks, "update_high_watermark", update)


@sabotage("a leader does not lower the high watermark", "read-high-watermark")
def _(patch):
    """It does."""

    def increment(log, wanted):
        if wanted.offset > log.log_end_offset:
            raise LogArgumentError("beyond the end")
        watermarks.update_high_watermark(log, wanted)
        return True

    patch.setattr(watermarks, "increment_high_watermark", increment)


@sabotage("a leader's high watermark beyond the end is an error", "read-high-watermark")
def _(patch):
    """It is the log's end."""
    increment = watermarks.increment_high_watermark

    def increment_to_end(log, wanted):
        beyond = wanted.offset > log.log_end_offset
        return increment(log, log.end if beyond else wanted)

    patch.setattr(watermarks, "increment_high_watermark", increment_to_end)


@sabotage(
    "a high watermark inside a batch goes back to its beginning, once it is read",
    "read-slices",
)
def _(patch):
    """It stays where it was set."""
    place_of = watermarks.place_of
    patch.setattr(
        watermarks,
        "place_of",
        lambda log, offset: place_of(log, offset)._replace(offset=offset),
    )


# Reads


@sabotage("a consumer reads up to the high watermark", "read-slices")
def _(patch):
    """It reads up to the log's end."""
    seen_as(patch, "high_watermark", "log_end")


@sabotage(
    "a consumer of committed records reads up to the last stable offset",
    "truncation-transaction",
)
def _(patch):
    """It reads up to the high watermark."""
    seen_as(patch, "read_committed", "high_watermark")


@sabotage("a read begins with the batch that holds the offset", "read-slices")
def _(patch):
    """It begins with the next one."""
    find = GrowingSegment.find

    def find_whole(self, offset):
        found = find(self, offset)
        if found is not None and found.offset < offset:
            return find(self, offset + 1)
        return found

    patch.setattr(GrowingSegment, "find", find_whole)


@sabotage("a read gives a whole batch, however few bytes are asked for", "read-slices")
def _(patch):
    """It gives no more than was asked for."""
    read = GrowingSegment.read

    def read_few(self, *where, **_):
        return read(self, *where)

    patch.setattr(GrowingSegment, "read", read_few)


@sabotage("a read says that its only batch is not whole", "read-slices")
def _(patch):
    """It says nothing."""
    read = GrowingSegment.read

    def read_silently(self, *where, **how):
        found = read(self, *where, **how)
        return found and found._replace(first_entry_incomplete=False)

    patch.setattr(GrowingSegment, "read", read_silently)


@sabotage(
    "a read at the end of what it sees lists no abort",
    test_edges.test_a_read_at_the_end_of_what_it_sees_lists_no_abort,
)
def _(patch):
    """It lists those that it would come to."""
    fetch = engine.fetch

    def fetch_on(log, offset, size, limit, **how):
        met = limit._replace(offset=offset + 1) if limit.offset == offset else limit
        return fetch(log, offset, size, met, **how)

    patch.setattr(log_fetch, "fetch", fetch_on)


@sabotage("a read ends where the segment does", "read-slices")
def _(patch):
    """It ends a byte earlier."""
    readable_end = engine._readable_end

    def end(segment, limit):
        return min(readable_end(segment, limit), segment.size - 1)

    patch.setattr(engine, "_readable_end", end)


@sabotage("no read begins before the log's start", "read-slices")
def _(patch):
    """It begins at the start."""
    read_log = writable_log.read_log

    def read_from_start(log, offset, *how, **more):
        return read_log(log, max(offset, log.log_start_offset), *how, **more)

    patch.setattr(writable_log, "read_log", read_from_start)


@sabotage("no read begins beyond the log's end", "read-slices")
def _(patch):
    """It begins at the end."""
    read_log = writable_log.read_log

    def read_from_end(log, offset, *how, **more):
        return read_log(log, min(offset, log.log_end_offset), *how, **more)

    patch.setattr(writable_log, "read_log", read_from_end)


# Lookups by time


@sabotage(
    "a time is looked for in the first segment that reaches it alone",
    "read-by-timestamp",
)
def _(patch):
    """It is looked for in all."""

    def find_record(log, timestamp, start):
        for segment in log.segments:
            found = time_lookup._find_in(segment, timestamp, start)
            if found is not None:
                return found
        return None

    patch.setattr(time_lookup, "find_record", find_record)


@sabotage("a lookup by time finds a record, not its batch", "append-codecs-in-place")
def _(patch):
    """It finds the batch's first record."""
    first_record = time_lookup._first_record

    def first_of_batch(segment, window, place, timestamp, start=0):
        return first_record(segment, window, place, -1, start)

    patch.setattr(time_lookup, "_first_record", first_of_batch)


@sabotage("a lookup by time passes over what is before the start", "read-by-timestamp")
def _(patch):
    """It finds that, too."""
    find_record = time_lookup.find_record
    patch.setattr(
        time_lookup,
        "find_record",
        lambda log, timestamp, _: find_record(log, timestamp, 0),
    )


@sabotage("a lookup tells the epoch of the record's leader", "read-by-timestamp")
def _(patch):
    """It tells none."""
    find_record = time_lookup.find_record

    def find_without(*asked):
        found = find_record(*asked)
        return found and found._replace(leader_epoch=None)

    patch.setattr(time_lookup, "find_record", find_without)


@sabotage(
    "where no epoch is known of the log's start, none is told",
    test_time_lookup.test_where_no_epoch_is_known_of_the_start_none_is_told,
)
def _(patch):
    """The first one known is."""

    def first(self):
        return self._entries[0]._replace(start_offset=0) if self._entries else None

    patch.setattr(LeaderEpochs, "earliest", property(first))


def find_as(patch, special, instead):
    """Let one special timestamp be another."""
    find_offset = time_lookup.find_offset
    patch.setattr(
        time_lookup,
        "find_offset",
        lambda log, asked: find_offset(log, instead if asked == special else asked),
    )


@sabotage("timestamp -1 is the log's end", "read-by-timestamp")
def _(patch):
    """It is its start."""
    find_as(patch, -1, -2)


@sabotage("timestamp -2 is the log's start", "read-by-timestamp")
def _(patch):
    """It is its end."""
    find_as(patch, -2, -1)


@sabotage("timestamp -3 is the record of the greatest time", "read-by-timestamp")
def _(patch):
    """It is the log's end."""
    find_as(patch, -3, -1)


@sabotage("timestamp -4 is the start of what is stored here", "read-by-timestamp")
def _(patch):
    """It is the log's end."""
    find_as(patch, -4, -1)


@sabotage(
    "timestamp -5 is the end of tiered storage, of which there is none",
    "read-by-timestamp",
)
def _(patch):
    """It is the log's end."""
    find_as(patch, -5, -1)


@sabotage(
    "to a consumer no record is told that it does not see",
    test_time_lookup.test_the_record_of_the_greatest_time_is_told_once_it_is_seen,
    log=Made(test_time_lookup.half_seen),
)
def _(patch):
    """All are told."""
    patch.setattr(
        writable_log,
        "tell_offset",
        lambda log, asked, _: time_lookup.find_offset(log, asked),
    )

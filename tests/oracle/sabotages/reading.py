"""Sabotages of reads, of the high watermark, and of lookups by time."""

from kafkalog.errors import LogArgumentError
from kafkalog.log import log_fetch, time_lookup, watermarks, writable_log
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.watermarks import read_limit_of
from kafkalog.segment.growing_segment import GrowingSegment
from tests.log import test_edges, test_time_lookup
from tests.oracle.sabotages.register import Built, sabotage


def seen_as(patch, isolation, instead):
    """Make readers of one isolation level use the bound of another."""
    patch.setattr(
        writable_log,
        "read_limit_of",
        lambda level: read_limit_of(instead if level == isolation else level),
    )


# The high watermark


@sabotage("the high watermark is at most the log end offset", "read-high-watermark")
def _(patch):
    """Any offset is accepted."""

    def update(log, offset):
        offset = OffsetMetadata(max(offset.offset, log.log_start_offset))
        watermarks._set_high_watermark(log, offset)
        return offset.offset

    patch.setattr(watermarks, "update_high_watermark", update)


@sabotage("the high watermark is at least the log start offset", "read-high-watermark")
def _(patch):
    """Any offset is accepted."""

    def update(log, offset):
        offset = log.end if offset.offset >= log.log_end_offset else offset
        watermarks._set_high_watermark(log, offset)
        return offset.offset

    patch.setattr(watermarks, "update_high_watermark", update)


@sabotage("a leader does not lower the high watermark", "read-high-watermark")
def _(patch):
    """It does."""

    def increment(log, offset):
        if offset.offset > log.log_end_offset:
            raise LogArgumentError("beyond the end")
        watermarks.update_high_watermark(log, offset)
        return True

    patch.setattr(watermarks, "increment_high_watermark", increment)


@sabotage("a leader rejects a high watermark beyond the end", "read-high-watermark")
def _(patch):
    """It is set to the log end offset."""
    increment = watermarks.increment_high_watermark

    def increment_to_end(log, offset):
        beyond = offset.offset > log.log_end_offset
        return increment(log, log.end if beyond else offset)

    patch.setattr(watermarks, "increment_high_watermark", increment_to_end)


@sabotage(
    "a high watermark inside a batch is lowered to its base offset when it is read",
    "read-slices",
)
def _(patch):
    """It is not lowered."""
    place_of = watermarks.place_of
    patch.setattr(
        watermarks,
        "place_of",
        lambda log, offset: place_of(log, offset)._replace(offset=offset),
    )


# Reads


@sabotage("a consumer reads up to the high watermark", "read-slices")
def _(patch):
    """It reads up to the log end offset."""
    seen_as(patch, "high_watermark", "log_end")


@sabotage(
    "a consumer of committed records reads up to the last stable offset",
    "truncation-transaction",
)
def _(patch):
    """It reads up to the high watermark."""
    seen_as(patch, "read_committed", "high_watermark")


@sabotage("a read begins with the batch that contains the offset", "read-slices")
def _(patch):
    """It begins with the next batch."""
    find = GrowingSegment.find

    def find_whole(self, offset):
        found = find(self, offset)
        if found is not None and found.offset < offset:
            return find(self, offset + 1)
        return found

    patch.setattr(GrowingSegment, "find", find_whole)


@sabotage("a read returns at least one whole batch", "read-slices")
def _(patch):
    """It returns no more bytes than requested."""
    read = GrowingSegment.read

    def read_few(self, *where, **_):
        return read(self, *where)

    patch.setattr(GrowingSegment, "read", read_few)


@sabotage("a read states that its only batch is incomplete", "read-slices")
def _(patch):
    """It does not."""
    read = GrowingSegment.read

    def read_without_flag(self, *where, **how):
        found = read(self, *where, **how)
        return found and found._replace(first_entry_incomplete=False)

    patch.setattr(GrowingSegment, "read", read_without_flag)


@sabotage(
    "a read at the end of its range lists no aborted transaction",
    test_edges.test_a_read_at_its_limit_lists_no_aborted_transaction,
)
def _(patch):
    """It lists the following ones."""
    fetch = log_fetch.fetch

    def fetch_on(log, offset, size, limit, **how):
        met = limit._replace(offset=offset + 1) if limit.offset == offset else limit
        return fetch(log, offset, size, met, **how)

    patch.setattr(log_fetch, "fetch", fetch_on)


@sabotage("a read ends at the end of the segment", "read-slices")
def _(patch):
    """It ends a byte earlier."""
    readable_end = log_fetch._readable_end

    def end(segment, limit):
        return min(readable_end(segment, limit), segment.size - 1)

    patch.setattr(log_fetch, "_readable_end", end)


@sabotage("a read below the log start offset is an error", "read-slices")
def _(patch):
    """It begins at the log start offset."""
    read_log = writable_log.read_log

    def read_from_start(log, offset, *how, **more):
        return read_log(log, max(offset, log.log_start_offset), *how, **more)

    patch.setattr(writable_log, "read_log", read_from_start)


@sabotage("a read beyond the log end offset is an error", "read-slices")
def _(patch):
    """It begins at the log end offset."""
    read_log = writable_log.read_log

    def read_from_end(log, offset, *how, **more):
        return read_log(log, min(offset, log.log_end_offset), *how, **more)

    patch.setattr(writable_log, "read_log", read_from_end)


# Lookups by time


@sabotage(
    "a timestamp is searched only in the first segment that reaches it",
    "read-by-timestamp",
)
def _(patch):
    """It is searched in all segments."""

    def find_record(log, timestamp, start):
        for segment in log.segments:
            found = time_lookup._find_in(segment, timestamp, start)
            if found is not None:
                return found
        return None

    patch.setattr(time_lookup, "find_record", find_record)


@sabotage(
    "a lookup by timestamp finds a record, not its batch", "append-codecs-in-place"
)
def _(patch):
    """It finds the first record of the batch."""
    first_record = time_lookup._first_record

    def first_of_batch(segment, window, place, timestamp, start=0):
        return first_record(segment, window, place, -1, start)

    patch.setattr(time_lookup, "_first_record", first_of_batch)


@sabotage(
    "a lookup by timestamp skips records before the log start offset",
    "read-by-timestamp",
)
def _(patch):
    """It finds them."""
    find_record = time_lookup.find_record
    patch.setattr(
        time_lookup,
        "find_record",
        lambda log, timestamp, _: find_record(log, timestamp, 0),
    )


@sabotage("a lookup returns the leader epoch of the record", "read-by-timestamp")
def _(patch):
    """It returns none."""
    find_record = time_lookup.find_record

    def find_without(*arguments):
        found = find_record(*arguments)
        return found and found._replace(leader_epoch=None)

    patch.setattr(time_lookup, "find_record", find_without)


@sabotage(
    "without an epoch for the log start offset none is returned",
    test_time_lookup.test_without_an_epoch_of_the_log_start_none_is_returned,
)
def _(patch):
    """The first known epoch is returned."""

    def first(self):
        return self._entries[0]._replace(start_offset=0) if self._entries else None

    patch.setattr(LeaderEpochs, "earliest", property(first))


def find_as(patch, special, instead):
    """Replace one special timestamp by another."""
    find_offset = time_lookup.find_offset
    patch.setattr(
        time_lookup,
        "find_offset",
        lambda log, asked: find_offset(log, instead if asked == special else asked),
    )


@sabotage("timestamp -1 is the log end offset", "read-by-timestamp")
def _(patch):
    """It is the log start offset."""
    find_as(patch, -1, -2)


@sabotage("timestamp -2 is the log start offset", "read-by-timestamp")
def _(patch):
    """It is the log end offset."""
    find_as(patch, -2, -1)


@sabotage("timestamp -3 is the record with the greatest timestamp", "read-by-timestamp")
def _(patch):
    """It is the log end offset."""
    find_as(patch, -3, -1)


@sabotage("timestamp -4 is the local log start offset", "read-by-timestamp")
def _(patch):
    """It is the log end offset."""
    find_as(patch, -4, -1)


@sabotage(
    "timestamp -5 is the end of tiered storage, which is missing",
    "read-by-timestamp",
)
def _(patch):
    """It is the log end offset."""
    find_as(patch, -5, -1)


@sabotage(
    "a lookup for a consumer returns only records that it can read",
    test_time_lookup.test_the_record_with_the_greatest_timestamp_is_found_once_it_is_visible,
    log=Built(test_time_lookup.half_seen),
)
def _(patch):
    """It returns any record."""
    patch.setattr(
        writable_log,
        "find_visible_offset",
        lambda log, asked, _: time_lookup.find_offset(log, asked),
    )

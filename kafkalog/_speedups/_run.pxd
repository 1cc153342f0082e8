# A run of plain batches: what goes into the segment as it is, and the entries it makes.
from libc.stdint cimport int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport Batch
from kafkalog._speedups._due cimport Filling, take_batch

cdef enum:
    INDEX_ENTRY = 8
    TIME_ENTRY = 12
    NO_PRODUCER = -1
    MOST_ENTRIES = 256  # of one run: a longer one is two
    MAX_DELTA = 2147483647


cdef struct Limits:
    int64_t epoch            # the latest, and where it began
    int64_t epoch_start
    int64_t base             # of the segment
    int64_t most_bytes       # that it may have
    int64_t most_ms          # that it may be older than its first batch
    int64_t created_ms       # of the segment, for one whose first batch has none
    int64_t interval         # bytes between index entries
    int64_t index_room       # entries that may be made until it is full
    int64_t time_room
    int64_t flush_at         # offset from which on the log is to be flushed


cdef struct Run:
    int64_t next_offset
    int64_t size             # of the segment
    int64_t first_timestamp  # of its first batch, if it has one
    int64_t last_time        # timestamp of the last entry of the time index
    int64_t index_entries    # made so far
    int64_t time_entries
    Filling filling


cdef struct Entries:
    # The entries made, as they are on disk.
    uint8_t[MOST_ENTRIES * INDEX_ENTRY] index
    uint8_t[MOST_ENTRIES * TIME_ENTRY] time


cdef inline void put_be(uint8_t* at, int64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width - 1, -1, -1):
        at[i] = value & 0xFF
        value >>= 8


cdef inline bint has_room(const Run* run, const Limits* limits) noexcept nogil:
    # Whether one entry more can be made in both indexes.
    return (
        run.index_entries < limits.index_room and run.time_entries < limits.time_room
        and run.index_entries < MOST_ENTRIES
    )


cdef inline void enter(
    Run* run, const Batch* batch, int64_t base, Entries* out
) noexcept nogil:
    # Make the entries of a batch that is due some.
    cdef uint8_t* at = &out.index[run.index_entries * INDEX_ENTRY]
    put_be(at, batch.last_offset - base, 4)
    put_be(at + 4, run.size, 4)
    run.index_entries += 1
    if run.filling.timestamp > run.last_time:
        at = &out.time[run.time_entries * TIME_ENTRY]
        put_be(at, run.filling.timestamp, 8)
        put_be(at + 8, run.filling.timestamp_offset - base, 4)
        run.time_entries += 1
        run.last_time = run.filling.timestamp


cdef inline bint goes_in(
    const Append* append, int64_t size, int64_t now_ms, const Run* run,
    const Limits* limits,
) noexcept nogil:
    # Whether an append follows the log's end and rolls nothing.
    if (
        append.first_offset < run.next_offset
        or append.first_offset < limits.epoch_start
        or append.last_offset < limits.base
        or append.last_offset - limits.base > MAX_DELTA
        or run.size > limits.most_bytes - size
        or run.index_entries >= limits.index_room
        or run.time_entries >= limits.time_room
    ):
        return False
    if run.size == 0:
        return True
    if run.first_timestamp >= 0:
        return append.max_timestamp - run.first_timestamp <= limits.most_ms
    return now_ms - limits.created_ms <= limits.most_ms


cdef inline bint take_batches_of(
    const Batch* batch, Py_ssize_t batches, Py_ssize_t plain, Run* run,
    const Limits* limits, Entries* out,
) noexcept nogil:
    # Take the batches of an append, of which the first `plain` may be of producers;
    # False where one needs more than this.
    cdef Py_ssize_t i
    cdef bint due
    for i in range(batches):
        if (
            batch.magic != 2
            or batch.leader_epoch != limits.epoch
            or batch.last_offset < run.next_offset
            or (batch.producer_id != NO_PRODUCER and i >= plain)
        ):
            return False
        if run.size == 0:
            run.first_timestamp = batch.max_timestamp
        due = take_batch(
            &run.filling, batch.size_in_bytes, batch.max_timestamp, batch.last_offset,
            limits.interval,
        )
        if due:
            if not has_room(run, limits):
                return False
            enter(run, batch, limits.base, out)
        run.size += batch.size_in_bytes
        batch += 1
    return True

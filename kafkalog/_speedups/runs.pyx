"""Runs of appends: how many of a call go into the segment as it is, by one write."""
from libc.stdint cimport int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport Batch
from kafkalog._speedups._due cimport Filling, take_batch

cdef enum:
    INDEX_ENTRY = 8
    TIME_ENTRY = 12
    NO_PRODUCER = -1
    MAX_DELTA = 2147483647


cdef struct Limits:
    int64_t epoch            # the latest, and where it began
    int64_t epoch_start
    int64_t base             # of the segment
    int64_t most_bytes       # that it may have
    int64_t most_ms          # that it may be older than its first batch
    bint too_old             # by the clock, if its first batch has no timestamp
    int64_t interval         # bytes between index entries
    int64_t index_room       # entries that may be made until it is full
    int64_t time_room
    int64_t flush_at         # offset from which on the log is to be flushed
    int64_t plain_rows       # rows before it may be of producers


cdef struct Run:
    int64_t next_offset
    int64_t size             # of the segment
    int64_t first_timestamp  # of its first batch, if it has one
    int64_t last_time        # timestamp of the last entry of the time index
    int64_t index_entries    # made so far
    int64_t time_entries
    Filling filling


cdef struct Entries:
    # Where entries go, as they are on disk, and how many have room there.
    uint8_t* index
    uint8_t* time
    int64_t most


cdef inline void put_be(uint8_t* at, int64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width - 1, -1, -1):
        at[i] = value & 0xFF
        value >>= 8


cdef inline bint has_room(
    const Run* run, const Limits* limits, const Entries* out
) noexcept nogil:
    # Whether one entry more can be made in both indexes.
    return (
        run.index_entries < limits.index_room and run.time_entries < limits.time_room
        and run.index_entries < out.most and run.time_entries < out.most
    )


cdef inline void enter(
    Run* run, const Batch* batch, int64_t base, Entries* out
) noexcept nogil:
    # Make the entries of a batch that is due some.
    cdef uint8_t* at = out.index + run.index_entries * INDEX_ENTRY
    put_be(at, batch.last_offset - base, 4)
    put_be(at + 4, run.size, 4)
    run.index_entries += 1
    if run.filling.timestamp > run.last_time:
        at = out.time + run.time_entries * TIME_ENTRY
        put_be(at, run.filling.timestamp, 8)
        put_be(at + 8, run.filling.timestamp_offset - base, 4)
        run.time_entries += 1
        run.last_time = run.filling.timestamp


cdef inline bint goes_in(
    const Append* append, int64_t size, const Run* run, const Limits* limits
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
    return not limits.too_old


cdef bint take_append(
    const Batch* batch, Py_ssize_t batches, Py_ssize_t first_row,
    Run* run, const Limits* limits, Entries* out,
) noexcept nogil:
    # Take the batches of an append; False where one needs more than this.
    cdef Py_ssize_t i
    cdef bint due
    for i in range(batches):
        if batch.magic != 2 or batch.leader_epoch != limits.epoch or (
            batch.producer_id != NO_PRODUCER and first_row + i >= limits.plain_rows
        ):
            return False
        if run.size == 0:
            run.first_timestamp = batch.max_timestamp
        due = take_batch(
            &run.filling, batch.size_in_bytes, batch.max_timestamp, batch.last_offset,
            limits.interval,
        )
        if due:
            if not has_room(run, limits, out):
                return False
            enter(run, batch, limits.base, out)
        run.size += batch.size_in_bytes
        batch += 1
    return True


def plan_run(
    const uint8_t[::1] rows not None,
    const int64_t[::1] row_bounds not None,
    const int64_t[::1] byte_bounds not None,
    const uint8_t[::1] info not None,
    tuple limits not None,
    tuple state not None,
    uint8_t[::1] index_out not None,
    uint8_t[::1] time_out not None,
    Py_ssize_t first,
):
    """Count the appends from `first` on that go into the segment as it is.

    Such an append has batches of magic 2, of the latest leader epoch, from the log's
    end on; of no producer, but for rows before ``plain_rows``; it rolls nothing, and
    its index entries, which are written to the outs as they are on disk, have room.
    `limits` and `state` are the fields of `Limits` and `Run` (without the numbers of
    entries) in their order.

    Answers the appends; the log's end behind them, the bytes since the last index
    entry, the greatest timestamp and its offset; the entries made in both indexes.
    """
    cdef Py_ssize_t count = row_bounds.shape[0] - 1, i = first
    cdef const Batch* batch = <const Batch*>&rows[0] if rows.shape[0] else NULL
    cdef const Append* append = <const Append*>&info[0] if info.shape[0] else NULL
    cdef Limits asked
    cdef Run run, kept
    cdef Entries out
    out.most = min(index_out.shape[0] // INDEX_ENTRY, time_out.shape[0] // TIME_ENTRY)
    out.index = &index_out[0] if out.most else NULL
    out.time = &time_out[0] if out.most else NULL
    if first < 0 or byte_bounds.shape[0] <= count:
        raise ValueError("bounds without their bytes")
    if info.shape[0] < count * <Py_ssize_t>sizeof(Append):
        raise ValueError("bounds without their appends")
    if count < 0 or rows.shape[0] < row_bounds[count] * <Py_ssize_t>sizeof(Batch):
        raise ValueError("bounds without their rows")
    (
        asked.epoch, asked.epoch_start, asked.base, asked.most_bytes, asked.most_ms,
        asked.too_old, asked.interval, asked.index_room, asked.time_room,
        asked.flush_at, asked.plain_rows,
    ) = limits
    (
        run.next_offset, run.size, run.first_timestamp, run.last_time,
        run.filling.since, run.filling.timestamp, run.filling.timestamp_offset,
    ) = state
    run.index_entries = run.time_entries = 0
    with nogil:
        while i < count and row_bounds[i] < row_bounds[i + 1]:
            kept = run
            if not goes_in(
                &append[i], byte_bounds[i + 1] - byte_bounds[i], &run, &asked
            ):
                break
            if not take_append(
                &batch[row_bounds[i]], row_bounds[i + 1] - row_bounds[i],
                row_bounds[i], &run, &asked, &out,
            ):
                run = kept
                break
            run.next_offset = append[i].last_offset + 1
            i += 1
            if run.next_offset >= asked.flush_at:
                break
    return (
        i - first, run.next_offset, run.filling.since, run.filling.timestamp,
        run.filling.timestamp_offset, run.index_entries, run.time_entries,
    )

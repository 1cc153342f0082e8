"""Runs of appends: how many of a call go into the segment as it is, by one write."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport Batch
from kafkalog._speedups._due cimport Filling, take_batch
from kafkalog._speedups._pieces cimport Pieces, hold_pieces, release_pieces
from kafkalog._speedups.validate cimport (
    Found, Rules, Stamp, Wanted, lead_batch, rules_of, take_append
)

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


cdef bint take_batches_of(
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
            if not has_room(run, limits):
                return False
            enter(run, batch, limits.base, out)
        run.size += batch.size_in_bytes
        batch += 1
    return True


cdef Limits limits_of(tuple limits) except *:
    cdef Limits asked
    (
        asked.epoch, asked.epoch_start, asked.base, asked.most_bytes, asked.most_ms,
        asked.too_old, asked.interval, asked.index_room, asked.time_room,
        asked.flush_at, asked.plain_rows,
    ) = limits
    return asked


cdef Run run_of(tuple state) except *:
    cdef Run run
    (
        run.next_offset, run.size, run.first_timestamp, run.last_time,
        run.filling.since, run.filling.timestamp, run.filling.timestamp_offset,
    ) = state
    run.index_entries = run.time_entries = 0
    return run


cdef tuple made_of(const Run* run, const Entries* out):
    # What a run has come to, and the entries it makes.
    return (
        run.next_offset, run.filling.since,
        (run.filling.timestamp, run.filling.timestamp_offset),
        (<const char*>out.index)[:run.index_entries * INDEX_ENTRY],
        (<const char*>out.time)[:run.time_entries * TIME_ENTRY],
    )


cdef Py_ssize_t take_run(
    const Batch* batch, const Append* append, const int64_t* row_bounds,
    const int64_t* byte_bounds, Py_ssize_t first, Py_ssize_t count,
    Run* run, const Limits* limits, Entries* out,
) noexcept nogil:
    # Take appends, from `first` to below `count`; answers the first that is not taken.
    cdef Py_ssize_t i = first
    cdef Run kept
    while i < count and row_bounds[i] < row_bounds[i + 1]:
        kept = run[0]
        if not goes_in(&append[i], byte_bounds[i + 1] - byte_bounds[i], run, limits):
            break
        if not take_batches_of(
            &batch[row_bounds[i]], row_bounds[i + 1] - row_bounds[i], row_bounds[i],
            run, limits, out,
        ):
            run[0] = kept
            break
        run.next_offset = append[i].last_offset + 1
        i += 1
        if run.next_offset >= limits.flush_at:
            break
    return i


def plan_run(
    list appends not None, tuple limits not None, tuple state not None,
    Py_ssize_t first,
):
    """Count the appends from `first` on that go into the segment as it is.

    Such an append has batches of magic 2, of the latest leader epoch, from the log's
    end on; of no producer, but for rows before ``plain_rows``; it rolls nothing, and
    its index entries have room. `appends` are the buffers of rows, bounds of rows and
    of bytes, and what is known of the appends; `limits` and `state` the fields of
    `Limits` and `Run` (without the numbers of entries) in their order.

    Answers the appends, and what they come to: the log's end behind them, the bytes
    since the last index entry, the greatest timestamp with its offset, and the entries
    of both indexes, as they are on disk.
    """
    cdef Limits asked = limits_of(limits)
    cdef Run run = run_of(state)
    cdef Entries out
    cdef Pieces held
    cdef Py_ssize_t count, end
    cdef const int64_t* row_bounds
    if len(appends) != 4:
        raise ValueError("appends are four buffers")
    hold_pieces(appends, &held)
    try:
        count = held.views[3].len // <Py_ssize_t>sizeof(Append)
        row_bounds = <const int64_t*>held.views[1].buf
        if (
            first < 0 or held.views[1].len < (count + 1) * <Py_ssize_t>sizeof(int64_t)
            or held.views[2].len < (count + 1) * <Py_ssize_t>sizeof(int64_t)
            or held.views[0].len < row_bounds[count] * <Py_ssize_t>sizeof(Batch)
        ):
            raise ValueError("appends without their bounds or rows")
        with nogil:
            end = take_run(
                <const Batch*>held.views[0].buf, <const Append*>held.views[3].buf,
                row_bounds, <const int64_t*>held.views[2].buf, first, count,
                &run, &asked, &out,
            )
    finally:
        release_pieces(&held)
    return end - first, made_of(&run, &out)


def lead_run(
    list pieces not None, tuple wanted not None, tuple rules not None,
    tuple stamp not None, tuple limits not None, tuple state not None,
    uint8_t[::1] data not None, int64_t log_start,
):
    """Make ready to be written what a leader is given: plain batches, one each.

    That is `take_batches`, `stamp_batches`, `place_batches` and `plan_run` in one pass,
    for the appends before the first that needs more, or for which `data` has no room.
    `wanted` are the greatest bytes of a batch, and whether base offsets must be 0;
    `stamp` whether timestamps are of now, the leader's epoch, and now.

    Answers what there is to say of each append, the bytes of them all in `data`, and
    what `plan_run` answers of a run.
    """
    cdef Wanted asked = Wanted(wanted[1], False, -2147483648, 2147483647, wanted[0])
    cdef Rules leading = rules_of(rules)
    cdef Stamp mark = Stamp(stamp[0], stamp[1], stamp[2])
    cdef Limits most = limits_of(limits)
    cdef Run run = run_of(state)
    cdef Run kept
    cdef Entries out
    cdef Pieces held
    cdef Batch row
    cdef Append info
    cdef Py_ssize_t i, size
    cdef int64_t pos = 0
    cdef bint taken
    cdef list told = []
    hold_pieces(pieces, &held)
    try:
        for i in range(held.count):
            size = held.views[i].len
            kept = run
            with nogil:
                taken = (
                    size <= data.shape[0] - pos
                    and run.next_offset < most.flush_at
                    and lead_batch(
                        <const uint8_t*>held.views[i].buf, size, &data[0], pos, &asked,
                        &leading, &mark, run.next_offset, &row, &info,
                    )
                    and goes_in(&info, size, &run, &most)
                    and take_batches_of(&row, 1, 0, &run, &most, &out)
                )
            if not taken:
                run = kept
                break
            run.next_offset = info.last_offset + 1
            pos += size
            told.append((
                info.first_offset, info.last_offset, info.max_timestamp,
                info.log_append_time, log_start,
                None if info.last_leader_epoch == -1 else info.last_leader_epoch,
                "none", info.valid_bytes, False,
            ))
    finally:
        release_pieces(&held)
    return told, pos, made_of(&run, &out)


def follow_run(
    const uint8_t[::1] piece not None, int32_t leader_epoch, tuple limits not None,
    tuple state not None, uint8_t[::1] rows not None,
):
    """Make ready to be written, as it is, what a follower is given in one append.

    That is whole, sound batches, none of an epoch above `leader_epoch`, that go into
    the segment as it is; `rows` is room for their headers. Answers what there is to
    say of them, or None where they need more, and what `plan_run` answers of a run.
    """
    cdef Wanted wanted = Wanted(
        False, True, -2147483648, leader_epoch, 9223372036854775807
    )
    cdef Limits most = limits_of(limits)
    cdef Run run = run_of(state)
    cdef Found found
    cdef Entries out
    cdef Append info
    cdef int64_t size = piece.shape[0]
    cdef bint taken
    found.rows = 0
    found.room = rows.shape[0] // <Py_ssize_t>sizeof(Batch)
    if not size or not found.room:
        return None, made_of(&run, &out)
    found.at = <Batch*>&rows[0]
    with nogil:
        taken = (
            take_append(&piece[0], 0, size, &wanted, &found, &info)
            and goes_in(&info, size, &run, &most)
            and take_batches_of(found.at, found.rows, 0, &run, &most, &out)
        )
    if not taken:
        return None, made_of(&run, &out)
    run.next_offset = info.last_offset + 1
    return (
        info.first_offset, info.last_offset, info.max_timestamp, info.log_append_time,
        info.last_leader_epoch, info.source_codec, info.valid_bytes,
    ), made_of(&run, &out)

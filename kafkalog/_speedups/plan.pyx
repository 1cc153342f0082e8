"""The append plan: which appends one write takes, when to roll, which sequence is next.

Kafka's rules for rolling and for sequences are defined here alone. `plan_run` applies
them to many appends; `must_roll` and `is_next_sequence` expose them for a single one.
"""
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport CONTROL, TRANSACTIONAL, Batch
from kafkalog._speedups._placing cimport place_append
from kafkalog._speedups._rows cimport AppendArrays, address_of, append_arrays_of
from kafkalog._speedups.entries cimport (
    INDEX_ENTRY, MOST_ENTRIES, TIME_ENTRY, Entries, Filling, IndexFault, OffsetEnd,
    TimeEnd, count_batch, is_far, offset_end_of, time_end_of
)

cdef enum:
    LAST_SEQUENCE = 2147483647
    NO_PRODUCER = -1


cdef struct Limits:
    # `log.rolling.SegmentLimits`: what the active segment takes.
    int64_t epoch            # the latest leader epoch, and its start offset
    int64_t epoch_start
    int64_t base             # base offset of the segment
    int64_t most_bytes       # segment.bytes
    int64_t most_ms          # segment.ms without the jitter
    int64_t created_ms       # of the segment, for one whose first batch has no time
    int64_t interval         # index.interval.bytes
    int64_t flush_at         # the log is flushed once it ends here or later


cdef struct End:
    # `log.rolling.SegmentEnd`: where the active segment ends.
    int64_t next_offset
    int64_t size
    int64_t first_timestamp  # greatest timestamp of the first batch, -1 without one
    Filling filling
    OffsetEnd offsets        # of the indexes
    TimeEnd times


cdef packed struct Sequence:
    # A producer without an open transaction: `log.producers.producer_updates.SEQUENCE`.
    int64_t producer_id
    int64_t least            # a sequence below it may be a duplicate
    int32_t last             # of the producer's last batch
    int16_t epoch
    int16_t _unused


cdef Limits limits_of(fields) except *:
    cdef Limits most
    (
        most.epoch, most.epoch_start, most.base, most.most_bytes, most.most_ms,
        most.created_ms, most.interval, most.flush_at,
    ) = fields
    return most


cdef End end_of(fields, int64_t base) except *:
    cdef End end
    (
        end.next_offset, end.size, end.first_timestamp,
        end.filling.since, end.filling.timestamp, end.filling.timestamp_offset,
        offsets, times,
    ) = fields
    end.offsets = offset_end_of(offsets, base)
    end.times = time_end_of(times, base)
    return end


cdef inline bint rolls(
    const Limits* limits, const End* end, int64_t size, int64_t max_timestamp,
    int64_t last_offset, int64_t now_ms,
) noexcept nogil:
    # LogSegment.shouldRoll
    cdef int64_t waited_ms = (
        max_timestamp - end.first_timestamp if end.first_timestamp >= 0
        else now_ms - limits.created_ms
    )
    return (
        end.size > limits.most_bytes - size
        or (end.size > 0 and waited_ms > limits.most_ms)
        or end.offsets.left <= 0
        or end.times.left <= 0
        or is_far(last_offset, limits.base)
    )


def must_roll(
    limits, end, int64_t size, int64_t max_timestamp,
    int64_t last_offset, int64_t now_ms,
):
    """Return whether an append of `size` bytes goes into a new segment."""
    cdef Limits most = limits_of(limits)
    cdef End at = end_of(end, most.base)
    return rolls(&most, &at, size, max_timestamp, last_offset, now_ms)


cdef inline bint is_next(int64_t sequence, int64_t last) noexcept nogil:
    # ProducerAppendInfo.inSequence: 0 follows the greatest.
    return sequence == last + 1 or (sequence == 0 and last == LAST_SEQUENCE)


def is_next_sequence(int64_t sequence, int64_t last):
    """Return whether a batch of base sequence `sequence` follows sequence `last`."""
    return is_next(sequence, last)


cdef inline bint take_sequence(
    const Batch* batch, Sequence* sequences, Py_ssize_t count
) noexcept nogil:
    # Return whether the batch is its producer's next one, outside of transactions.
    cdef int64_t delta = batch.last_offset - batch.base_offset
    cdef Py_ssize_t i
    if batch.attributes & (TRANSACTIONAL | CONTROL):
        return False
    for i in range(count):
        if sequences[i].producer_id == batch.producer_id:
            break
    else:
        return False
    if (
        batch.producer_epoch != sequences[i].epoch
        or not is_next(batch.base_sequence, sequences[i].last)
        or batch.base_sequence < sequences[i].least
        or batch.base_sequence > LAST_SEQUENCE - delta
    ):
        return False
    sequences[i].last = <int32_t>(batch.base_sequence + delta)
    return True


cdef inline bint plan_batches(
    const Batch* batch, Py_ssize_t count, const Limits* limits, Sequence* sequences,
    Py_ssize_t producers, End* end, Entries* out,
) noexcept nogil:
    # Take the batches of one append; False if one needs the general step.
    cdef Py_ssize_t _
    for _ in range(count):
        if (
            batch.magic != 2
            or batch.leader_epoch != limits.epoch
            or batch.base_offset < limits.epoch_start  # it would move the start
            or batch.last_offset < end.next_offset
            or (
                batch.producer_id != NO_PRODUCER
                and not take_sequence(batch, sequences, producers)
            )
        ):
            return False
        if end.size == 0:
            end.first_timestamp = batch.max_timestamp
        if out.offsets >= MOST_ENTRIES or count_batch(
            batch, limits.base, end.size, limits.interval, &end.filling, &end.offsets,
            &end.times, out, False,
        ) != IndexFault.FITS:
            return False
        end.size += batch.size_in_bytes
        batch += 1
    return True


cdef inline bint plan_append(
    const Append* append, const Batch* batch, Py_ssize_t batches, int64_t size,
    const Limits* limits, int64_t now_ms, Sequence* sequences, Py_ssize_t producers,
    End* end, Entries* out,
) noexcept nogil:
    # Take all batches of one append. Returns False, with nothing changed but
    # `sequences`, if the append is rejected, rolls the segment, begins an epoch, or
    # needs the general step for another reason.
    cdef End kept = end[0]
    cdef int64_t offsets = out.offsets, times = out.times
    if (
        batches
        and append.first_offset >= end.next_offset
        and append.last_offset < INT64_MAX
        and not rolls(
            limits, end, size, append.max_timestamp, append.last_offset, now_ms
        )
        and plan_batches(batch, batches, limits, sequences, producers, end, out)
    ):
        end.next_offset = append.last_offset + 1
        return True
    end[0] = kept
    out.offsets, out.times = offsets, times
    return False


cdef inline bint has_rows(const AppendArrays* of, Py_ssize_t i) noexcept nogil:
    # Return whether the bounds of an append are within the rows.
    return 0 <= of.row_bounds[i] <= of.row_bounds[i + 1] <= of.rows.count


def plan_run(
    tuple arrays not None, Py_ssize_t first, bint assigns_offsets, limits, end,
    sequences, int64_t now_ms,
):
    """Find how many appends from `first` on one write takes into the active segment.

    `arrays` are those of `validation.appends.Appends`: data, rows, row bounds, byte
    bounds, info. An append is taken that has batches of magic 2 and the latest leader
    epoch, from the end of the log on; that does not roll; whose index entries fit; and
    whose producers' sequences, in `sequences` (None for no producers), are continued.
    The first that is not ends the run. With `assigns_offsets` each append gets the
    offsets after the one before it.

    Returns the number of the append after the run, the log's end then, the entries of
    the offset and of the time index, as on disk, and the bytes since the last entry,
    the greatest timestamp and its offset.
    """
    cdef AppendArrays of = append_arrays_of(arrays)
    cdef Py_ssize_t count = of.info.count, i = first, producers = 0
    cdef Sequence* sequence = NULL
    cdef Limits most = limits_of(limits)
    cdef End at = end_of(end, most.base)
    cdef Entries made
    if first < 0:
        raise ValueError(f"first append {first}, expected at least 0")
    if sequences is not None:
        sequence = <Sequence*>address_of(sequences, sizeof(Sequence), True, &producers)
    made.offsets = made.times = 0
    with nogil:
        while (
            i < count and at.next_offset < most.flush_at and has_rows(&of, i)
            and (not assigns_offsets or place_append(&of, i, at.next_offset))
            and plan_append(
                &of.info.at[i], of.rows.at + of.row_bounds[i],
                of.row_bounds[i + 1] - of.row_bounds[i],
                of.byte_bounds[i + 1] - of.byte_bounds[i], &most, now_ms,
                sequence, producers, &at, &made,
            )
        ):
            i += 1
    if i < count and not has_rows(&of, i):
        raise ValueError(
            f"rows {of.row_bounds[i]} to {of.row_bounds[i + 1]} of append {i}, "
            f"expected 0 to {of.rows.count}"
        )
    return (
        i,
        at.next_offset,
        (<const char*>made.index)[:made.offsets * INDEX_ENTRY],
        (<const char*>made.time)[:made.times * TIME_ENTRY],
        (at.filling.since, at.filling.timestamp, at.filling.timestamp_offset),
    )

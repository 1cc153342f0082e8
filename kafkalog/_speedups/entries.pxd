# The entries of a segment's indexes: which batches get them, and which are rejected.
# Source: LogSegment.append, OffsetIndex.append, TimeIndex.maybeAppend.
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport Batch
from kafkalog._speedups._cursor cimport be32, be64, put32, put64

cpdef enum IndexFault:
    # In the order of Kafka's checks.
    FITS
    OFFSETS_FULL
    OFFSET_ORDER  # not above the last one
    OFFSET_FAR  # from the base offset
    TIMES_FULL
    TIME_ORDER  # timestamp or offset below that of the last entry
    TIME_FAR

cdef enum:
    INDEX_ENTRY = 8
    TIME_ENTRY = 12
    MOST_ENTRIES = 256  # that one call makes; the batches that follow take another
    MAX_DELTA = 2147483647


cdef struct OffsetEnd:
    int64_t left  # entries that still fit
    int64_t offset  # of the last entry, INT64_MIN without one


cdef struct TimeEnd:
    int64_t left  # without the reserved slot
    int64_t timestamp  # of the last entry, -1 without one
    int64_t offset  # of the last entry, INT64_MIN without one


cdef struct Filling:
    int64_t since  # bytes since the batch of the last entry, itself included
    int64_t timestamp  # the greatest so far
    int64_t timestamp_offset  # and the last offset of its batch


cdef struct Entries:
    # The entries made, as they are on disk.
    int64_t offsets
    int64_t times
    uint8_t[MOST_ENTRIES * INDEX_ENTRY] index
    uint8_t[MOST_ENTRIES * TIME_ENTRY] time


cdef inline OffsetEnd offset_end_of(fields, int64_t base) except *:
    # `GrowingIndex.end` of an offset index.
    cdef OffsetEnd end
    cdef bytes newest
    end.left, newest = fields
    end.offset = INT64_MIN
    if len(newest) >= INDEX_ENTRY:
        end.offset = base + be32(<const uint8_t*>newest + len(newest) - INDEX_ENTRY)
    return end


cdef inline TimeEnd time_end_of(fields, int64_t base) except *:
    # `GrowingIndex.end` of a time index.
    cdef TimeEnd end
    cdef bytes newest
    cdef const uint8_t* at
    end.left, newest = fields
    end.timestamp, end.offset = -1, INT64_MIN
    if len(newest) >= TIME_ENTRY:
        at = <const uint8_t*>newest + len(newest) - TIME_ENTRY
        end.timestamp, end.offset = be64(at), base + be32(at + 8)
    return end


cdef inline bint is_far(int64_t offset, int64_t base) noexcept nogil:
    return offset < base or offset - base > MAX_DELTA


cdef inline IndexFault add_offset(
    OffsetEnd* end, int64_t base, int64_t offset, int64_t position, Entries* out
) noexcept nogil:
    # Make an entry of the offset index.
    cdef uint8_t* at = &out.index[out.offsets * INDEX_ENTRY]
    if end.left <= 0:
        return IndexFault.OFFSETS_FULL
    if offset <= end.offset:
        return IndexFault.OFFSET_ORDER
    if is_far(offset, base):
        return IndexFault.OFFSET_FAR
    put32(at, <int32_t>(offset - base))
    put32(at + 4, <int32_t>position)
    out.offsets += 1
    end.left -= 1
    end.offset = offset
    return IndexFault.FITS


cdef inline IndexFault add_time(
    TimeEnd* end, int64_t base, int64_t timestamp, int64_t offset, Entries* out
) noexcept nogil:
    # Make an entry of the time index, if the timestamp is above the last one.
    cdef uint8_t* at = &out.time[out.times * TIME_ENTRY]
    if end.left <= 0:
        return IndexFault.TIMES_FULL
    if end.offset != INT64_MIN and (offset < end.offset or timestamp < end.timestamp):
        return IndexFault.TIME_ORDER
    if timestamp <= end.timestamp:
        return IndexFault.FITS
    if is_far(offset, base):
        return IndexFault.TIME_FAR
    put64(at, timestamp)
    put32(at + 8, <int32_t>(offset - base))
    out.times += 1
    end.left -= 1
    end.timestamp, end.offset = timestamp, offset
    return IndexFault.FITS


cdef inline IndexFault count_batch(
    const Batch* batch, int64_t base, int64_t position, int64_t interval,
    Filling* state, OffsetEnd* offsets, TimeEnd* times, Entries* out, bint skip_full,
) noexcept nogil:
    # Count the next batch of the segment, and make its entries if it gets them. After a
    # fault the entry of the offset index may be made, as in Kafka, but not that of the
    # time index. With `skip_full` no entries are made while an index is full.
    cdef IndexFault fault = IndexFault.FITS
    if batch.max_timestamp > state.timestamp:
        state.timestamp = batch.max_timestamp
        state.timestamp_offset = batch.last_offset
    if state.since > interval:
        if not skip_full or (offsets.left > 0 and times.left > 0):
            fault = add_offset(offsets, base, batch.last_offset, position, out)
            if fault == IndexFault.FITS:
                fault = add_time(
                    times, base, state.timestamp, state.timestamp_offset, out
                )
        if fault != IndexFault.FITS:
            return fault
        state.since = 0
    state.since += batch.size_in_bytes
    return IndexFault.FITS

# When a batch gets an entry in its segment's indexes: the one place that says so.
from libc.stdint cimport int64_t

cdef struct Filling:
    int64_t since             # bytes since the batch of the last entry, itself included
    int64_t timestamp         # the greatest so far
    int64_t timestamp_offset  # and the last offset of its batch


cdef inline bint take_batch(
    Filling* state, int64_t size, int64_t timestamp, int64_t last_offset,
    int64_t interval,
) noexcept nogil:
    # Take the next batch of the segment; whether it is due an entry.
    cdef bint due = state.since > interval
    if timestamp > state.timestamp:
        state.timestamp = timestamp
        state.timestamp_offset = last_offset
    state.since = size if due else state.since + size
    return due

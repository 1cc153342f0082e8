# The rule by which a batch gets an entry in its segment's indexes, and its only copy.
# Source: LogSegment.append.
from libc.stdint cimport int64_t

cdef struct Filling:
    int64_t since             # bytes since the batch of the last entry, itself included
    int64_t timestamp         # the greatest so far
    int64_t timestamp_offset  # and the last offset of its batch


cdef inline bint count_batch(
    Filling* state, int64_t size, int64_t timestamp, int64_t last_offset,
    int64_t interval,
) noexcept nogil:
    # Count the next batch of the segment; return whether it gets an entry.
    cdef bint due = state.since > interval
    if timestamp > state.timestamp:
        state.timestamp = timestamp
        state.timestamp_offset = last_offset
    state.since = size if due else state.since + size
    return due

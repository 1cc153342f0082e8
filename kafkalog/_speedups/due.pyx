"""The kernel that says which batches of a segment get an entry in its indexes."""
from libc.stdint cimport int64_t

from kafkalog._speedups._due cimport Filling, take_batch


def due_entries(
    const int64_t[:] sizes not None, const int64_t[:] timestamps not None,
    const int64_t[:] offsets not None, int64_t position, int64_t interval,
    int64_t since, int64_t timestamp, int64_t timestamp_offset,
    int64_t[:, ::1] out not None,
):
    """Walk batches that lie behind each other from `position` on; mark those due.

    A batch is due where more than `interval` bytes, `since` being the count so far, lie
    between the last that was, itself included, and it. `timestamp` is the greatest so
    far, of the batch that ends with `timestamp_offset`.

    Fills columns of `out`: last offset, position, greatest timestamp up to the batch,
    its offset, and the bytes counted. Returns how many, and what `since`, `timestamp`
    and `timestamp_offset` have become.
    """
    cdef Py_ssize_t batches = sizes.shape[0], i, due = 0
    cdef Filling state = Filling(since, timestamp, timestamp_offset)
    cdef int64_t counted
    if timestamps.shape[0] != batches or offsets.shape[0] != batches:
        raise ValueError("columns differ in length")
    if out.shape[0] != 5 or out.shape[1] < batches:
        raise ValueError(f"needs room for 5 columns of {batches}")
    with nogil:
        for i in range(batches):
            counted = state.since
            if take_batch(&state, sizes[i], timestamps[i], offsets[i], interval):
                out[0, due] = offsets[i]
                out[1, due] = position
                out[2, due] = state.timestamp
                out[3, due] = state.timestamp_offset
                out[4, due] = counted
                due += 1
            position += sizes[i]
    return due, state.since, state.timestamp, state.timestamp_offset

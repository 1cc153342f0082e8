"""Find the batches of a segment that get an entry in its indexes."""
from libc.stdint cimport int64_t

from kafkalog._speedups._due cimport Filling, count_batch


def due_entries(
    const int64_t[:] sizes not None, const int64_t[:] timestamps not None,
    const int64_t[:] offsets not None, int64_t position, int64_t interval,
    int64_t since, int64_t timestamp, int64_t timestamp_offset,
    int64_t[:, ::1] out not None,
):
    """Fill `out` with the index entries of consecutive batches from `position` on.

    A batch gets an entry if more than `interval` bytes precede it, counted from the
    start of the batch with the entry before. `since` is the count so far; `timestamp`
    is the greatest so far, and `timestamp_offset` the last offset of its batch.

    The columns of `out` are the last offset, the position, the greatest timestamp up to
    the batch, its offset, and the bytes counted. Returns the number of entries, and the
    new `since`, `timestamp` and `timestamp_offset`.
    """
    cdef Py_ssize_t batches = sizes.shape[0], i, due = 0
    cdef Filling state = Filling(since, timestamp, timestamp_offset)
    cdef int64_t counted
    if timestamps.shape[0] != batches or offsets.shape[0] != batches:
        raise ValueError("columns of different lengths")
    if out.shape[0] != 5 or out.shape[1] < batches:
        raise ValueError(
            f"output of shape {out.shape[0]} x {out.shape[1]}, expected 5 x {batches}"
        )
    with nogil:
        for i in range(batches):
            counted = state.since
            if count_batch(&state, sizes[i], timestamps[i], offsets[i], interval):
                out[0, due] = offsets[i]
                out[1, due] = position
                out[2, due] = state.timestamp
                out[3, due] = state.timestamp_offset
                out[4, due] = counted
                due += 1
            position += sizes[i]
    return due, state.since, state.timestamp, state.timestamp_offset

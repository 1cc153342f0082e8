"""Gather kernels: scattered byte strings -> one buffer and its offsets, as Arrow's."""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy


def measure(
    const int32_t[::1] lengths not None,
    int32_t[::1] offsets not None,
    uint8_t[::1] valid not None,
):
    """Sum up `lengths`, -1 being null, into n + 1 `offsets`, and say which are `valid`.

    Answers (bytes in all, nulls). Beyond 2 GiB the offsets do not hold, and the caller
    must not use them.
    """
    cdef Py_ssize_t i
    cdef int64_t total = 0, nulls = 0
    offsets[0] = 0
    with nogil:
        for i in range(lengths.shape[0]):
            total += lengths[i] if lengths[i] > 0 else 0
            nulls += lengths[i] < 0
            valid[i] = lengths[i] >= 0
            offsets[i + 1] = <int32_t>(total if total <= INT32_MAX else INT32_MAX)
    return total, nulls


cdef inline void copy(
    uint8_t* to, const uint8_t* at, int64_t size, int64_t room
) noexcept nogil:
    # `room` bytes may be read and written. Copies of a fixed size are an instruction or
    # two, and overshoot into bytes that the next row then overwrites.
    cdef int64_t done = 0
    if size > 256 or room < size + 31:
        memcpy(to, at, size)
        return
    if size <= 16:
        memcpy(to, at, 16)
        return
    while done < size:
        memcpy(to + done, at + done, 32)
        done += 32


def gather(
    const uint8_t[::1] src not None,
    const int32_t[::1] starts not None,
    const int32_t[::1] lengths not None,
    uint8_t[::1] out not None,
):
    """Copy ``src[start:start + length]`` of each row behind one another into `out`.

    A negative length is nothing. Answers the rows done: fewer than all where one lies
    outside `src` or `out`.
    """
    cdef Py_ssize_t i, done = 0
    cdef int64_t pos = 0, size, room, src_end = src.shape[0], out_end = out.shape[0]
    cdef const uint8_t* data = &src[0] if src_end else NULL
    cdef uint8_t* to = &out[0] if out_end else NULL
    with nogil:
        for i in range(starts.shape[0]):
            size = lengths[i]
            if size > 0:
                if starts[i] < 0 or size > src_end - starts[i] or size > out_end - pos:
                    break
                room = min(src_end - starts[i], out_end - pos)
                copy(to + pos, data + starts[i], size, room)
                pos += size
            done += 1
    return done

"""Gather scattered byte strings into one buffer with offsets, in Arrow's layout."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups._buffers cimport Buffers, hold_buffers, release_buffers
from kafkalog._speedups._strings cimport copy

ctypedef fused place:
    int32_t
    int64_t


def lengths_to_offsets(
    const place[::1] lengths not None,
    place[::1] offsets not None,
    uint8_t[::1] valid not None,
):
    """Fill `offsets` (n + 1) and `valid` from `lengths`, where -1 is null.

    Returns (total bytes, nulls). Above 2 GiB in total, offsets of int32 overflow, and
    must not be used.
    """
    cdef Py_ssize_t i, count = lengths.shape[0]
    cdef int64_t total = 0, nulls = 0
    cdef place length, null
    if offsets.shape[0] <= count or valid.shape[0] < count:
        raise ValueError(
            f"{offsets.shape[0]} offsets and {valid.shape[0]} of valid, expected "
            f"{count + 1} and {count}"
        )
    offsets[0] = 0
    with nogil:
        for i in range(count):
            length = lengths[i]
            null = -(length < 0)
            total += length & ~null
            nulls -= null
            valid[i] = <uint8_t>(null + 1)
            offsets[i + 1] = <place>total
    return total, nulls


def gather_bytes(
    const uint8_t[::1] src not None,
    const place[::1] starts not None,
    const place[::1] lengths not None,
    uint8_t[::1] out not None,
):
    """Copy ``src[start:start + length]`` of each row into `out`, one after another.

    A negative length copies nothing. Returns the rows copied, fewer than all if one is
    outside `src` or does not fit in `out`.
    """
    cdef Py_ssize_t i, done = 0
    cdef int64_t pos = 0, size, available
    cdef int64_t src_end = src.shape[0], out_end = out.shape[0]
    cdef const uint8_t* data = &src[0] if src_end else NULL
    cdef uint8_t* to = &out[0] if out_end else NULL
    if lengths.shape[0] < starts.shape[0]:
        raise ValueError(f"{lengths.shape[0]} lengths of {starts.shape[0]} rows")
    with nogil:
        for i in range(starts.shape[0]):
            size = lengths[i]
            if size > 0:
                if starts[i] < 0 or size > src_end - starts[i] or size > out_end - pos:
                    break
                available = min(src_end - starts[i], out_end - pos)
                copy(to + pos, data + starts[i], size, available)
                pos += size
            done += 1
    return done


def join_buffers(list buffers not None, uint8_t[::1] out not None):
    """Copy bytes-like `buffers` into `out`, one after another, without the GIL.

    Returns the bytes copied; -1, and nothing is copied, if they do not fit.
    """
    cdef Py_ssize_t i
    cdef Buffers held
    cdef int64_t pos = 0, unused = out.shape[0]
    cdef uint8_t* to = &out[0] if unused else NULL
    hold_buffers(buffers, &held)
    with nogil:
        for i in range(held.count):
            unused -= held.views[i].len
        if unused >= 0:
            for i in range(held.count):
                if held.views[i].len:  # the address of an empty buffer may be NULL
                    memcpy(to + pos, held.views[i].buf, held.views[i].len)
                    pos += held.views[i].len
    release_buffers(&held)
    return pos if unused >= 0 else -1

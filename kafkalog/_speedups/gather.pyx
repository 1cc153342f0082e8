"""Gather kernels: scattered byte strings -> one buffer and its offsets, as Arrow's."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups._pieces cimport Pieces, hold_pieces, release_pieces
from kafkalog._speedups._strings cimport copy


def measure(
    const int32_t[::1] lengths not None,
    int32_t[::1] offsets not None,
    uint8_t[::1] valid not None,
):
    """Sum up `lengths`, -1 being null, into n + 1 `offsets`, and say which are `valid`.

    Answers (bytes in all, nulls). Beyond 2 GiB the offsets do not hold, and the caller
    must not use them.
    """
    cdef Py_ssize_t i, count = lengths.shape[0]
    cdef int64_t total = 0, nulls = 0
    cdef int32_t length, null
    offsets[0] = 0
    with nogil:
        for i in range(count):
            length = lengths[i]
            null = length >> 31  # -1 or 0
            total += length & ~null
            nulls -= null
            valid[i] = <uint8_t>(null + 1)
            offsets[i + 1] = <int32_t>total
    return total, nulls


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


def join(list pieces not None, uint8_t[::1] out not None):
    """Copy bytes-like `pieces` behind one another into `out`, the GIL let go of.

    Answers the bytes copied: -1, and nothing is, where they do not fit.
    """
    cdef Py_ssize_t i
    cdef Pieces held
    cdef int64_t pos = 0, room = out.shape[0]
    cdef uint8_t* to = &out[0] if room else NULL
    hold_pieces(pieces, &held)
    with nogil:
        for i in range(held.count):
            room -= held.views[i].len
        if room >= 0:
            for i in range(held.count):
                if held.views[i].len:  # an empty buffer may lie nowhere
                    memcpy(to + pos, held.views[i].buf, held.views[i].len)
                    pos += held.views[i].len
    release_pieces(&held)
    return pos if room >= 0 else -1

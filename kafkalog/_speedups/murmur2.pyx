"""Hash keys as Java's default partitioner does."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kafkalog._speedups._rows cimport check_rows

cdef uint32_t SEED = 0x9747B28C
cdef uint32_t M = 0x5BD1E995


def murmur2_keys(
    const uint8_t[::1] data not None,
    const int64_t[::1] start not None,
    const int32_t[::1] length not None,
    int32_t[::1] out not None,
):
    """Fill `out` with the murmur2 hash of each key; that of a null key is 0.

    Returns the keys hashed, fewer than all if one is outside `data`.
    """
    cdef Py_ssize_t row, done = 0
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    check_rows(min(start.shape[0], length.shape[0]), out.shape[0])
    with nogil:
        for row in range(out.shape[0]):
            out[row] = 0
            if length[row] >= 0:
                if start[row] < 0 or start[row] > data.shape[0] - length[row]:
                    break
                out[row] = <int32_t>murmur2(first + start[row], length[row])
            done += 1
    return done


cdef inline uint32_t murmur2(const uint8_t* key, int32_t length) noexcept nogil:
    """Return the hash of ``org.apache.kafka.common.utils.Utils.murmur2``."""
    cdef uint32_t h = SEED ^ <uint32_t>length
    cdef uint32_t k
    cdef int32_t at = 0
    while at + 4 <= length:
        k = (
            key[at] | <uint32_t>key[at + 1] << 8
            | <uint32_t>key[at + 2] << 16 | <uint32_t>key[at + 3] << 24
        )
        k *= M
        k ^= k >> 24
        h = h * M ^ k * M
        at += 4
    if length - at == 3:
        h ^= <uint32_t>key[at + 2] << 16
    if length - at >= 2:
        h ^= <uint32_t>key[at + 1] << 8
    if length - at >= 1:
        h = (h ^ key[at]) * M
    h = (h ^ h >> 13) * M
    return h ^ h >> 15

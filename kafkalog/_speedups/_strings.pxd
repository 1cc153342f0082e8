# A column of byte strings as it is gathered, in Arrow's form: bytes behind one another.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset


cdef struct Strings:
    # The caller's arrays; none where the column is not asked for.
    uint8_t* data
    int32_t* offsets
    uint8_t* valid
    int64_t size  # bytes of `data` filled
    int64_t room
    Py_ssize_t rows  # that there is room for


cdef inline Strings strings_of(arrays) except *:
    # Pointers into the arrays (data, offsets, valid), which must outlive them.
    cdef Strings strings = Strings(NULL, NULL, NULL, 0, 0, 0)
    cdef uint8_t[::1] data, valid
    cdef int32_t[::1] offsets
    if arrays is None:
        return strings
    data, offsets, valid = arrays
    if offsets.shape[0] != valid.shape[0] + 1:
        raise ValueError("a column of byte strings has one offset more than rows")
    strings.rows, strings.room = valid.shape[0], data.shape[0]
    strings.data = &data[0] if strings.room else NULL
    strings.valid = &valid[0] if strings.rows else NULL
    strings.offsets = &offsets[0]
    offsets[0] = 0
    return strings


cdef inline void copy(
    uint8_t* to, const uint8_t* at, int64_t size, int64_t room
) noexcept nogil:
    # `room` bytes may be read and written. A copy of fixed size is a few instructions
    # without a branch, and overshoots into bytes that the next row then overwrites.
    if size <= 32 and room >= 32:
        memcpy(to, at, 32)
    elif size <= 128 and room >= 128:
        memcpy(to, at, 128)
    else:
        memcpy(to, at, size)


cdef inline bint append(
    Strings* strings, Py_ssize_t row, const uint8_t* at, int32_t length, int64_t behind
) noexcept nogil:
    # A length of -1 is null; `behind` bytes are there from `at` on. False: no room.
    cdef int32_t null = length >> 31  # -1 or 0
    cdef int64_t size = length & ~null, room = strings.room - strings.size
    if row >= strings.rows or size > room:
        return False
    if size:
        copy(strings.data + strings.size, at, size, min(behind, room))
    strings.size += size
    strings.valid[row] = <uint8_t>(null + 1)
    strings.offsets[row + 1] = <int32_t>strings.size
    return True


cdef inline bint append_alike(
    Strings* strings, Py_ssize_t row, const uint8_t* at, int32_t length,
    int64_t behind, int64_t stride, int32_t count
) noexcept nogil:
    # Append `count` of the same length (-1: null), one every `stride` bytes.
    cdef int64_t size = max(length, 0), begin = strings.size
    cdef int32_t i
    if count > strings.rows - row or count * size > strings.room - begin:
        return False
    for i in range(count if size else 0):
        copy(
            strings.data + begin + i * size, at + i * stride, size,
            min(behind - i * stride, strings.room - begin - i * size),
        )
    for i in range(count):
        strings.offsets[row + i + 1] = <int32_t>(begin + (i + 1) * size)
    memset(strings.valid + row, length >= 0, count)
    strings.size = begin + count * size
    return True

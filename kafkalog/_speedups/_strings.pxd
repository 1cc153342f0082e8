# A column of byte strings that is filled row by row, in Arrow's layout: data, offsets
# and validity.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset


cdef struct Strings:
    # Pointers into the caller's arrays; NULL if the column is not requested.
    uint8_t* data
    int32_t* offsets
    uint8_t* valid
    int64_t size  # bytes of `data` in use
    int64_t capacity  # bytes of `data`
    Py_ssize_t rows  # capacity in rows


cdef inline Strings strings_of(arrays) except *:
    # Return pointers into `arrays` (data, offsets, valid), which must outlive them.
    cdef Strings strings = Strings(NULL, NULL, NULL, 0, 0, 0)
    cdef uint8_t[::1] data, valid
    cdef int32_t[::1] offsets
    if arrays is None:
        return strings
    data, offsets, valid = arrays
    if offsets.shape[0] != valid.shape[0] + 1:
        raise ValueError(
            f"{offsets.shape[0]} offsets, expected {valid.shape[0] + 1}: rows + 1"
        )
    strings.rows, strings.capacity = valid.shape[0], data.shape[0]
    strings.data = &data[0] if strings.capacity else NULL
    strings.valid = &valid[0] if strings.rows else NULL
    strings.offsets = &offsets[0]
    offsets[0] = 0
    return strings


cdef inline void copy(
    uint8_t* to, const uint8_t* at, int64_t size, int64_t available
) noexcept nogil:
    # `available` bytes may be read and written. Copies of a fixed size are a few
    # instructions without a branch; the excess is overwritten by the next row.
    if size <= 32 and available >= 32:
        memcpy(to, at, 32)
    elif size <= 128 and available >= 128:
        memcpy(to, at, 128)
    else:
        memcpy(to, at, size)


cdef inline bint append(
    Strings* strings, Py_ssize_t row, const uint8_t* at, int32_t length,
    int64_t available
) noexcept nogil:
    # Append one value, null for length -1. `available` bytes can be read from `at` on.
    # Returns False if the column is full.
    cdef int32_t null = length >> 31  # -1 or 0
    cdef int64_t size = length & ~null, unused = strings.capacity - strings.size
    if row >= strings.rows or size > unused:
        return False
    if size:
        copy(strings.data + strings.size, at, size, min(available, unused))
    strings.size += size
    strings.valid[row] = <uint8_t>(null + 1)
    strings.offsets[row + 1] = <int32_t>strings.size
    return True


cdef inline bint append_strided(
    Strings* strings, Py_ssize_t row, const uint8_t* at, int32_t length,
    int64_t available, int64_t stride, int32_t count
) noexcept nogil:
    # Append `count` values of the same length (-1: null), one every `stride` bytes.
    cdef int64_t size = max(length, 0), begin = strings.size
    cdef int32_t i
    if count > strings.rows - row or count * size > strings.capacity - begin:
        return False
    for i in range(count if size else 0):
        copy(
            strings.data + begin + i * size, at + i * stride, size,
            min(available - i * stride, strings.capacity - begin - i * size),
        )
    for i in range(count):
        strings.offsets[row + i + 1] = <int32_t>(begin + (i + 1) * size)
    memset(strings.valid + row, length >= 0, count)
    strings.size = begin + count * size
    return True

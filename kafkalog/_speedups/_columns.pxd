# A column of byte strings that is read: pointers into the caller's three arrays.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef extern from *:
    int clz64 "__builtin_clzll"(uint64_t raw) noexcept nogil


cdef struct Bytes:
    const uint8_t* data
    int64_t size
    const char* starts
    const char* lengths
    Py_ssize_t starts_stride
    Py_ssize_t lengths_stride
    Py_ssize_t rows


cdef inline Bytes bytes_of(column) except *:
    # Return pointers into the arrays of `column`, which must outlive them.
    cdef const uint8_t[::1] data = column[0]
    cdef const int64_t[:] starts = column[1]
    cdef const int32_t[:] lengths = column[2]
    cdef Bytes of
    if starts.shape[0] != lengths.shape[0]:
        raise ValueError(
            f"{starts.shape[0]} starts and {lengths.shape[0]} lengths, expected as many"
        )
    of.rows = starts.shape[0]
    of.size = data.shape[0]
    of.data = &data[0] if of.size else NULL
    of.starts = <const char*>&starts[0] if of.rows else NULL
    of.lengths = <const char*>&lengths[0] if of.rows else NULL
    of.starts_stride = starts.strides[0]
    of.lengths_stride = lengths.strides[0]
    return of


cdef inline int varlong_size(int64_t value) noexcept nogil:
    # Return ceil(bits / 7): up to 64 bits, 9/64 rounds to the same as 1/7.
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    return ((64 - clz64(raw | 1)) * 9 + 64) >> 6


cdef inline uint8_t* put_varlong(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw >= 0x80:
        at[0] = <uint8_t>(raw & 0x7F) | 0x80
        at += 1
        raw >>= 7
    at[0] = <uint8_t>raw
    return at + 1


cdef inline int32_t length_of(const Bytes* of, Py_ssize_t row) noexcept nogil:
    return (<const int32_t*>(of.lengths + row * of.lengths_stride))[0]


cdef inline int64_t start_of(const Bytes* of, Py_ssize_t row) noexcept nogil:
    return (<const int64_t*>(of.starts + row * of.starts_stride))[0]


cdef inline int64_t bytes_size(const Bytes* of, Py_ssize_t row) noexcept nogil:
    # Return the encoded size of length and bytes; -1 if they are outside the data.
    cdef int64_t start, length = length_of(of, row)
    if length < 0:
        return 1
    start = start_of(of, row)
    if start < 0 or start > of.size - length:
        return -1
    return length + varlong_size(length)

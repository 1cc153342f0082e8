# The one way a kernel reads bytes: each step is bounded before it is taken.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cpdef enum Status:
    OK
    TRUNCATED  # the bytes end inside a field
    OVERLONG  # a varint still continues on its last byte
    ENTRY_INCOMPLETE  # the bytes end before the entry or its size field
    ENTRY_TOO_SMALL  # the size field is below what its magic needs
    ENTRY_MAGIC  # the magic is not 0, 1 or 2
    ENTRY_COUNT  # the record count is negative, or more than the bytes can hold
    RECORD_LENGTH  # a record's fields do not fill its length
    RECORD_LEFTOVER  # bytes remain after the last record
    RECORD_HEADERS  # a header count or header key length is negative or too large
    MESSAGE_SIZE  # a message's key and value do not fill it
    MESSAGE_NESTED  # a compressed message inside a wrapper
    WRAPPER_OFFSET  # a wrapper's offset is below that of its last message
    WRAPPER_EMPTY  # a wrapper without a message
    OUTPUT_FULL  # the caller's arrays are too small for the result
    CHECKSUM  # the stored checksum is not that of the bytes


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* at) noexcept nogil


cdef enum:
    LINE = 64  # bytes of a cache line


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t pos  # next byte to read
    Py_ssize_t end  # first byte that must not be read


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #error "kafkalog's kernels are written for little-endian processors"
    #endif
    static inline int64_t kl_be64(const uint8_t *p) {
        uint64_t v; memcpy(&v, p, 8); return (int64_t)__builtin_bswap64(v);
    }
    static inline int32_t kl_be32(const uint8_t *p) {
        uint32_t v; memcpy(&v, p, 4); return (int32_t)__builtin_bswap32(v);
    }
    static inline int16_t kl_be16(const uint8_t *p) {
        uint16_t v; memcpy(&v, p, 2); return (int16_t)__builtin_bswap16(v);
    }
    static inline uint32_t kl_le32(const uint8_t *p) {
        uint32_t v; memcpy(&v, p, 4); return v;
    }
    static inline void kl_put64(uint8_t *p, int64_t v) {
        uint64_t w = __builtin_bswap64((uint64_t)v); memcpy(p, &w, 8);
    }
    static inline void kl_put32(uint8_t *p, int32_t v) {
        uint32_t w = __builtin_bswap32((uint32_t)v); memcpy(p, &w, 4);
    }
    static inline void kl_put16(uint8_t *p, int16_t v) {
        uint16_t w = __builtin_bswap16((uint16_t)v); memcpy(p, &w, 2);
    }
    static inline int64_t kl_add(int64_t a, int64_t b) {
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
    static inline int64_t kl_sub(int64_t a, int64_t b) {
        return (int64_t)((uint64_t)a - (uint64_t)b);
    }
    """
    # Read or write a field at `p`, big-endian except `le32`. The caller checks bounds.
    int64_t be64 "kl_be64"(const uint8_t* p) noexcept nogil
    int32_t be32 "kl_be32"(const uint8_t* p) noexcept nogil
    int16_t be16 "kl_be16"(const uint8_t* p) noexcept nogil
    uint32_t le32 "kl_le32"(const uint8_t* p) noexcept nogil
    void put64 "kl_put64"(uint8_t* p, int64_t v) noexcept nogil
    void put32 "kl_put32"(uint8_t* p, int32_t v) noexcept nogil
    void put16 "kl_put16"(uint8_t* p, int16_t v) noexcept nogil
    # Sums and differences of numbers from files wrap, as Java's do.
    int64_t wrapping_add "kl_add"(int64_t a, int64_t b) noexcept nogil
    int64_t wrapping_sub "kl_sub"(int64_t a, int64_t b) noexcept nogil


cdef inline Status read_varlong(Cursor* at, int64_t* out) noexcept nogil:
    # Read a zig-zag varint of int64. `at.pos` moves only if OK is returned.
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef Py_ssize_t pos = at.pos
    cdef uint8_t byte
    # Most take one byte.
    if pos < at.end and at.data[pos] < 0x80:
        raw = at.data[pos]
        out[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
        at.pos = pos + 1
        return Status.OK
    while pos < at.end:
        byte = at.data[pos]
        pos += 1
        raw |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
            at.pos = pos
            return Status.OK
        if shift == 63:
            return Status.OVERLONG
        shift += 7
    return Status.TRUNCATED


cdef inline Status read_varint(Cursor* at, int32_t* out) noexcept nogil:
    # Read a zig-zag varint of int32, at most five bytes; bits above 32 are dropped.
    # `at.pos` moves only if OK is returned.
    cdef uint32_t raw = 0
    cdef int shift = 0
    cdef Py_ssize_t pos = at.pos
    cdef uint8_t byte
    # Nearly all take one or two bytes.
    if pos < at.end and at.data[pos] < 0x80:
        raw = at.data[pos]
        out[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
        at.pos = pos + 1
        return Status.OK
    if pos + 1 < at.end and at.data[pos + 1] < 0x80:
        raw = (at.data[pos] & 0x7F) | <uint32_t>at.data[pos + 1] << 7
        out[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
        at.pos = pos + 2
        return Status.OK
    while pos < at.end:
        byte = at.data[pos]
        pos += 1
        raw |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
            at.pos = pos
            return Status.OK
        if shift == 28:
            return Status.OVERLONG
        shift += 7
    return Status.TRUNCATED


cdef inline const uint8_t* short_varint(
    const uint8_t* p, int32_t* out, bint* is_long
) noexcept nogil:
    # Read a zig-zag varint where 4 bytes can be read; set `is_long` if it has more.
    # Returns where the next field begins.
    cdef uint32_t word = le32(p), raw = word & 0x7F
    cdef int size = 1
    if word & 0x80:
        raw |= (word >> 1) & 0x3F80
        size = 2
        if word & 0x8000:
            raw |= (word >> 2) & 0x1FC000
            size = 3
            if word & 0x800000:
                raw |= (word >> 3) & 0xFE00000
                size = 4
                is_long[0] |= word >> 31
    out[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
    return p + size

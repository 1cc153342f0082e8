# Write the values inside Kafka's messages as JSON. The bounds of source and target are
# checked at each step.
#
# False is returned for a value that is not as a broker writes it, and if the target is
# full.
from libc.stdint cimport (
    INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
)
from libc.string cimport memcpy

from kafkalog._speedups._cursor cimport be16, be32, be64
from kafkalog._speedups._text cimport character, put, put_int

cdef enum Kind:  # of a field; for an array, that of its elements plus ARRAY
    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UUID = 7
    STRING = 8
    BYTES = 9
    STRUCT = 10
    OTHER = 11  # not supported here
    PROTOCOL_TYPE = 12  # a string, the protocol type of a group
    CONSUMER_MESSAGE = 13  # bytes; a message if the protocol type is consumer
    ARRAY = 16

cdef enum:
    MOST_STRING = 0x7FFF
    RESERVED = 32  # bytes after `last`, for numbers and punctuation

cdef struct Text:
    int32_t start
    int32_t size

cdef struct Row:  # a field
    int32_t kind
    int32_t nullable
    int32_t struct_at
    int32_t tag  # -1: none
    Text name  # and the punctuation before the value
    Text default  # of a tagged field, as it would be printed

cdef struct SchemaTable:
    const int32_t* code  # kind of table, number of types, types
    const uint8_t* texts

cdef struct Message:
    const SchemaTable* schemas
    const uint8_t* at
    const uint8_t* end
    uint8_t* to
    uint8_t* last  # end of the target, except `RESERVED` bytes
    int32_t unknown_tags
    bint flexible
    bint of_consumers


cdef inline bint put_bytes(
    Message* m, const uint8_t* text, int64_t size
) noexcept nogil:
    if size > m.last - m.to:
        return False
    memcpy(m.to, text, size)
    m.to += size
    return True


cdef inline bint put_known(Message* m, const Text* text) noexcept nogil:
    return put_bytes(m, m.schemas.texts + text.start, text.size)


cdef inline bint put_byte(Message* m, uint8_t byte) noexcept nogil:
    if m.to >= m.last:
        return False
    m.to[0] = byte
    m.to += 1
    return True


cdef inline bint take_varint(Message* m, int64_t* out) noexcept nogil:
    # Read an unsigned varint that fits int32.
    cdef int64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while m.at < m.end and shift < 35:
        byte = m.at[0]
        m.at += 1
        value |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = value
            return value <= INT32_MAX
        shift += 7
    return False


cdef inline bint take_length(Message* m, int width, int64_t* out) noexcept nogil:
    # Read a length or count, -1 for null: a varint in flexible versions, else `width`
    # bytes.
    if m.flexible:
        if not take_varint(m, out):
            return False
        out[0] -= 1
        return True
    if m.end - m.at < width:
        return False
    out[0] = be16(m.at) if width == 2 else be32(m.at)
    m.at += width
    return True


cdef inline int width_of(int kind) noexcept nogil:
    if kind == Kind.BOOL or kind == Kind.INT8:
        return 1
    if kind == Kind.INT16 or kind == Kind.UINT16:
        return 2
    return 4 if kind == Kind.INT32 or kind == Kind.UINT32 else 8


cdef inline bint put_number(Message* m, int kind) noexcept nogil:
    cdef const uint8_t* at = m.at
    cdef int width = width_of(kind)
    cdef int64_t value
    if m.end - at < width or m.to > m.last:
        return False
    m.at += width
    if kind == Kind.BOOL:
        return put_bytes(m, b"true", 4) if at[0] else put_bytes(m, b"false", 5)
    if kind == Kind.INT8:
        value = <int8_t>at[0]
    elif width == 2:
        value = be16(at)
    elif width == 4:
        value = be32(at)
    else:
        value = be64(at)
    if kind == Kind.UINT16:
        value &= 0xFFFF
    elif kind == Kind.UINT32:
        value = <uint32_t>value
    m.to = put_int(m.to, value)
    return True


cdef inline void put_escape(Message* m, uint8_t byte) noexcept nogil:
    # Write a control character, quotation mark or backslash: at most 6 bytes.
    cdef const char* digits = b"0123456789ABCDEF"
    m.to[0] = c"\\"
    m.to[1] = byte
    if byte == c"\b":
        m.to[1] = c"b"
    elif byte == c"\t":
        m.to[1] = c"t"
    elif byte == c"\n":
        m.to[1] = c"n"
    elif byte == c"\f":
        m.to[1] = c"f"
    elif byte == c"\r":
        m.to[1] = c"r"
    elif byte < 0x20:
        memcpy(m.to + 1, b"u00", 3)
        m.to[4] = digits[byte >> 4]
        m.to[5] = digits[byte & 15]
        m.to += 4
    m.to += 2


cdef inline bint put_string(Message* m, int64_t size) noexcept nogil:
    # Write a string; invalid UTF-8 is replaced as Java replaces it.
    cdef const uint8_t* end = m.at + size
    cdef bint is_fault = False
    cdef int taken
    if size > MOST_STRING or size > m.end - m.at or 6 * size >= m.last - m.to:
        return False
    m.to[0] = c'"'
    m.to += 1
    while m.at < end:
        taken = 1
        if m.at[0] < 0x20 or m.at[0] == c'"' or m.at[0] == c"\\":
            put_escape(m, m.at[0])
        elif m.at[0] < 0x80:
            m.to[0] = m.at[0]
            m.to += 1
        else:
            taken = character(m.at, end - m.at, &is_fault)
            if is_fault:
                m.to = put(m.to, b"\xef\xbf\xbd")
            else:
                memcpy(m.to, m.at, taken)
                m.to += taken
        m.at += taken
    m.to[0] = c'"'
    m.to += 1
    return True


cdef inline bint put_base64(Message* m, int64_t size, bint url) noexcept nogil:
    # Write base64; with `url` in the URL-safe alphabet and without padding.
    cdef const char* letters = (
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" if url else
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    )
    cdef uint32_t word
    cdef int64_t left = size
    cdef int i, bytes_here
    if size > m.end - m.at or 2 * size > m.last - m.to:
        return False
    m.to[0] = c'"'
    m.to += 1
    while left > 0:
        bytes_here = 3 if left > 3 else <int>left
        word = <uint32_t>m.at[0] << 16
        if bytes_here > 1:
            word |= <uint32_t>m.at[1] << 8
        if bytes_here > 2:
            word |= m.at[2]
        for i in range(4):
            if i <= bytes_here:
                m.to[0] = letters[word >> (18 - 6 * i) & 63]
                m.to += 1
            elif not url:
                m.to[0] = c"="
                m.to += 1
        m.at += bytes_here
        left -= bytes_here
    m.to[0] = c'"'
    m.to += 1
    return True


cdef inline bint put_sized(Message* m, int kind, bint nullable) noexcept nogil:
    cdef int64_t size = 0
    if not take_length(m, 2 if kind == Kind.STRING else 4, &size):
        return False
    if size < 0:
        return nullable and put_bytes(m, b"null", 4)
    if kind == Kind.STRING:
        return put_string(m, size)
    return put_base64(m, size, False)

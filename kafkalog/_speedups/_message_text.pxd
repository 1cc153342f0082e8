# Records of internal topics -> the JSON that kafka-dump-log prints of them.
#
# What a message holds is told by a book of schemas, made by `formats.message_books`:
# rows of numbers, and the texts they point into. Whatever is not quite as a broker
# writes it is left to the caller: the answer is then False, or NULL.
from libc.stdint cimport (
    INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
)
from libc.string cimport memcmp, memcpy

from kafkalog._speedups._cursor cimport be16, be32, be64
from kafkalog._speedups._text cimport character, put, put_int

cdef enum Kind:  # of a field; an array is its elements' kind and ARRAY
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
    OTHER = 11  # left to the caller, if it is there
    ARRAY = 16

cdef enum:
    MOST_FIELDS = 32  # of a struct
    MOST_STRING = 0x7FFF
    COORDINATOR = 0
    METADATA = 1
    ROOM = 32  # kept behind `last`, for numbers and punctuation

cdef struct Text:
    int32_t start
    int32_t size

cdef struct Row:  # a field
    int32_t kind
    int32_t nullable
    int32_t struct_at
    int32_t tag  # -1: none
    Text name  # with all that stands before the value
    Text default  # of a tagged field, as it would be printed

cdef struct Version:
    int32_t struct_at  # 0: left to the caller
    int32_t flexible
    Text opening

cdef struct Type:
    Version key
    int32_t lowest
    int32_t count  # of versions; 0: there is no such type
    int32_t versions_at
    int32_t _

cdef struct Book:
    const int32_t* code  # its form, how many types; these
    const uint8_t* texts

cdef struct Message:
    const Book* book
    const uint8_t* at
    const uint8_t* end
    uint8_t* to
    uint8_t* last  # `ROOM` bytes behind it are there
    int32_t unknown_tags
    bint flexible


cdef inline bint put_run(
    Message* m, const uint8_t* text, int64_t size
) noexcept nogil:
    if size > m.last - m.to:
        return False
    memcpy(m.to, text, size)
    m.to += size
    return True


cdef inline bint put_known(Message* m, const Text* text) noexcept nogil:
    return put_run(m, m.book.texts + text.start, text.size)


cdef inline bint put_byte(Message* m, uint8_t byte) noexcept nogil:
    if m.to >= m.last:
        return False
    m.to[0] = byte
    m.to += 1
    return True


cdef inline bint take_varint(Message* m, int64_t* out) noexcept nogil:
    # Unsigned, and in an int32.
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
    # A length or count, -1 for null; classic ones have `width` bytes.
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
        return put_run(m, b"true", 4) if at[0] else put_run(m, b"false", 5)
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
    # Of a control character, a quotation mark or a backslash: 6 bytes at most.
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
    # Faults in its UTF-8 are replaced as Java replaces them.
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
    # Three bytes are four letters; with `url` of the other alphabet, and not padded.
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
        return nullable and put_run(m, b"null", 4)
    if kind == Kind.STRING:
        return put_string(m, size)
    return put_base64(m, size, False)


cdef inline bint put_single(
    Message* m, int kind, bint nullable, int32_t struct_at
) noexcept nogil:
    # A value that is no array.
    if kind <= Kind.INT64:
        return put_number(m, kind)
    if kind == Kind.UUID:
        return put_base64(m, 16, True)
    if kind == Kind.STRUCT:
        return put_struct(m, struct_at)
    return kind != Kind.OTHER and put_sized(m, kind, nullable)


cdef inline bint put_array(Message* m, const Row* row) noexcept nogil:
    cdef int64_t count = 0, i
    if not take_length(m, 4, &count):
        return False
    if count < 0:
        return row.nullable and put_run(m, b"null", 4)
    if count > m.end - m.at or not put_byte(m, c"["):
        return False
    for i in range(count):
        if i and not put_byte(m, c","):
            return False
        if not put_single(m, row.kind - Kind.ARRAY, False, row.struct_at):
            return False
    return put_byte(m, c"]")


cdef inline bint put_value(Message* m, const Row* row) noexcept nogil:
    cdef int64_t there = 0
    if row.kind >= Kind.ARRAY:
        return put_array(m, row)
    if row.kind == Kind.STRUCT and row.nullable:
        if row.tag < 0:
            if m.at == m.end:
                return False
            there = 0 if m.at[0] & 0x80 else 1
            m.at += 1
        elif not take_varint(m, &there):
            return False
        if not there:
            return put_run(m, b"null", 4)
    return put_single(m, row.kind, row.nullable, row.struct_at)


cdef inline void reverse(uint8_t* first, uint8_t* end) noexcept nogil:
    cdef uint8_t byte
    while end - first > 1:
        end -= 1
        byte = first[0]
        first[0] = end[0]
        end[0] = byte
        first += 1


cdef inline bint put_tagged(
    Message* m, const Row* row, uint8_t* mark
) noexcept nogil:
    # The text of a tagged field, moved to `mark`: fields have the schema's order. One
    # that equals its default is not printed.
    cdef uint8_t* start = m.to
    cdef uint8_t* value
    cdef int32_t unknown = m.unknown_tags
    if not put_known(m, &row.name):
        return False
    value = m.to
    if not put_value(m, row):
        return False
    if (
        m.to - value == row.default.size
        and not memcmp(value, m.book.texts + row.default.start, row.default.size)
    ):
        m.to = start
        return unknown == m.unknown_tags
    reverse(mark, start)
    reverse(start, m.to)
    reverse(mark, m.to)
    return True


cdef inline bint put_tags(
    Message* m, const Row* rows, int32_t fields, uint8_t** marks
) noexcept nogil:
    cdef int64_t count = 0, tag = 0, size = 0, _tag
    cdef uint32_t seen = 0
    cdef int32_t i, later
    cdef uint8_t* before
    if not take_varint(m, &count):
        return False
    for _tag in range(count):
        if not take_varint(m, &tag) or not take_varint(m, &size):
            return False
        for i in range(fields):
            if rows[i].tag == tag:
                break
        else:
            if size > m.end - m.at:
                return False
            m.at += size
            m.unknown_tags += 1
            continue
        before = m.to
        if seen & <uint32_t>1 << i or not put_tagged(m, &rows[i], marks[i]):
            return False
        seen |= <uint32_t>1 << i
        for later in range(i + 1, fields):
            marks[later] += m.to - before
    return True


cdef inline bint put_struct(Message* m, int32_t struct_at) noexcept nogil:
    # Each field begins with a comma, of which the first becomes the brace.
    cdef const int32_t* code = m.book.code + struct_at
    cdef const Row* rows = <const Row*>(code + 1)
    cdef uint8_t* marks[MOST_FIELDS]
    cdef uint8_t* start = m.to
    cdef int32_t i
    for i in range(code[0]):
        marks[i] = m.to
        if rows[i].tag < 0:
            if not put_known(m, &rows[i].name) or not put_value(m, &rows[i]):
                return False
    if m.flexible and not put_tags(m, rows, code[0], marks):
        return False
    if m.to == start:
        return put_run(m, b"{}", 2)
    start[0] = c"{"
    return put_byte(m, c"}")


cdef inline bint put_message(Message* m, const Version* version) noexcept nogil:
    m.flexible = version.flexible
    return (
        version.struct_at != 0
        and put_known(m, &version.opening)
        and put_struct(m, version.struct_at)
        and put_byte(m, c"}")
    )


cdef inline const Version* version_of(
    const Book* book, const Type* of, int64_t version
) noexcept nogil:
    if not of.lowest <= version < of.lowest + of.count:
        return NULL
    return <const Version*>(book.code + of.versions_at) + version - of.lowest


cdef inline bint put_metadata_record(Message* m) noexcept nogil:
    cdef const Type* types = <const Type*>(m.book.code + 2)
    cdef const Version* version
    cdef int64_t frame = 0, number = 0, said = 0
    if not take_varint(m, &frame) or frame != 1 or not take_varint(m, &number):
        return False
    if number >= m.book.code[1] or not take_varint(m, &said):
        return False
    version = version_of(m.book, &types[number], said)
    return version != NULL and put_message(m, version) and m.at == m.end


cdef inline bint put_key(Message* m, const Type** of) noexcept nogil:
    cdef int16_t number
    if m.end - m.at < 2:
        return False
    number = be16(m.at)
    m.at += 2
    if not 0 <= number < m.book.code[1]:
        return False
    of[0] = <const Type*>(m.book.code + 2) + number
    return of[0].count and put_message(m, &of[0].key)


cdef inline bint put_versioned(Message* m, const Type* of) noexcept nogil:
    cdef const Version* version
    if m.end - m.at < 2:
        return False
    version = version_of(m.book, of, be16(m.at))
    m.at += 2
    return version != NULL and put_message(m, version)


cdef inline uint8_t* put_internal(
    const Book* book,
    const uint8_t* key,
    int32_t key_length,
    const uint8_t* value,
    int32_t value_length,
    bint bare,
    uint8_t* to,
    uint8_t* end,
) noexcept nogil:
    # A record's key and payload, up to `end`; NULL where that is left to the caller.
    cdef Message m
    cdef const Type* of = NULL
    m.book, m.to, m.last, m.unknown_tags = book, to, end - ROOM, 0
    if end - to < 2 * ROOM:
        return NULL
    if book.code[0] == METADATA:
        m.at, m.end = value, value + max(value_length, 0)
        m.to = put(to, b"| payload: ") if bare else put(to, b" payload: ")
        return m.to if put_metadata_record(&m) else NULL
    if key_length < 0:
        return NULL
    m.at, m.end = key, key + key_length
    m.to = put(to, b"| key: ") if bare else put(to, b" key: ")
    if not put_key(&m, &of) or not put_run(&m, b" payload: ", 10):
        return NULL
    if value_length < 0:
        return m.to if put_run(&m, b"<DELETE>", 8) else NULL
    m.at, m.end = value, value + value_length
    return m.to if put_versioned(&m, of) else NULL

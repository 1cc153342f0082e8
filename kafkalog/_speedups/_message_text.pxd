# Records of internal topics -> the JSON that kafka-dump-log prints of them.
#
# What a message holds is told by a book of schemas, made by `formats.message_books`:
# rows of numbers, and the texts they point into. Whatever is not quite as a broker
# writes it is left to the caller: the answer is then False, or NULL.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from kafkalog._speedups._cursor cimport be16
from kafkalog._speedups._message_values cimport (
    ROOM,
    Book,
    Kind,
    Message,
    Row,
    Text,
    put_base64,
    put_byte,
    put_known,
    put_number,
    put_run,
    put_sized,
    take_length,
    take_varint,
)
from kafkalog._speedups._text cimport put

cdef enum:
    MOST_FIELDS = 32  # of a struct
    METADATA = 1  # form of a book; others are of coordinators

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


cdef inline const Version* version_of(
    const Book* book, const Type* of, int64_t version
) noexcept nogil:
    if not of.lowest <= version < of.lowest + of.count:
        return NULL
    return <const Version*>(book.code + of.versions_at) + version - of.lowest


cdef inline bint put_group(Message* m) noexcept nogil:
    cdef uint8_t* start = m.to
    if not put_sized(m, Kind.STRING, False):
        return False
    m.of_consumers = m.to - start == 10 and not memcmp(start, b'"consumer"', 10)
    return True


cdef inline bint put_told(Message* m, int32_t type_at) noexcept nogil:
    # What a member of a group told, behind its length. It need not fill that.
    cdef int64_t size = 0
    cdef const uint8_t* end = m.end
    cdef const uint8_t* behind
    cdef const Version* version
    cdef bint flexible = m.flexible, done
    if not take_length(m, 4, &size) or not 0 <= size <= end - m.at:
        return False
    if not m.of_consumers or size < 2:
        return put_base64(m, size, False)
    behind = m.at + size
    version = version_of(m.book, <const Type*>(m.book.code + type_at), be16(m.at))
    if version == NULL:
        return False
    m.at, m.end, m.flexible = m.at + 2, behind, version.flexible
    done = put_struct(m, version.struct_at)
    m.at, m.end, m.flexible = behind, end, flexible
    return done


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
    if kind == Kind.GROUP:
        return put_group(m)
    if kind == Kind.TOLD:
        return put_told(m, struct_at)
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
    m.book, m.to, m.last = book, to, end - ROOM
    m.unknown_tags, m.of_consumers = 0, False
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

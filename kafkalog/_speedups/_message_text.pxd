# Write records of internal topics as the JSON that kafka-dump-log prints.
#
# The schemas of the messages come as a table of numbers and the texts they refer to,
# made by `messages.schema_compiler`. For a message that is not exactly as a broker
# writes it, False or NULL is returned, and the caller writes it by the general code.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from kafkalog._speedups._cursor cimport be16
from kafkalog._speedups._message_values cimport (
    RESERVED,
    SchemaTable,
    Kind,
    Message,
    Row,
    Text,
    put_base64,
    put_byte,
    put_known,
    put_number,
    put_bytes,
    put_sized,
    take_length,
    take_varint,
)
from kafkalog._speedups._text cimport put

cdef enum:
    MOST_FIELDS = 32  # of a struct
    METADATA = 1  # table of __cluster_metadata; others are of the coordinators

cdef struct Version:
    int32_t struct_at  # 0: not supported here
    int32_t flexible
    Text opening

cdef struct Type:
    Version key
    int32_t lowest
    int32_t count  # of versions; 0: no such type
    int32_t versions_at
    int32_t _


cdef inline const Version* version_of(
    const SchemaTable* schemas, const Type* of, int64_t version
) noexcept nogil:
    if not of.lowest <= version < of.lowest + of.count:
        return NULL
    return <const Version*>(schemas.code + of.versions_at) + version - of.lowest


cdef inline bint put_protocol_type(Message* m) noexcept nogil:
    cdef uint8_t* start = m.to
    if not put_sized(m, Kind.STRING, False):
        return False
    m.of_consumers = m.to - start == 10 and not memcmp(start, b'"consumer"', 10)
    return True


cdef inline bint put_nested_message(Message* m, int32_t type_at) noexcept nogil:
    # Write the bytes of a group member: a message of the consumer protocol, or base64.
    # The message may be shorter than its length field states.
    cdef int64_t size = 0
    cdef const uint8_t* end = m.end
    cdef const uint8_t* after
    cdef const Version* version
    cdef bint flexible = m.flexible, done
    if not take_length(m, 4, &size) or not 0 <= size <= end - m.at:
        return False
    if not m.of_consumers or size < 2:
        return put_base64(m, size, False)
    after = m.at + size
    version = version_of(m.schemas, <const Type*>(m.schemas.code + type_at), be16(m.at))
    if version == NULL:
        return False
    m.at, m.end, m.flexible = m.at + 2, after, version.flexible
    done = put_struct(m, version.struct_at)
    m.at, m.end, m.flexible = after, end, flexible
    return done


cdef inline bint put_single(
    Message* m, int kind, bint nullable, int32_t struct_at
) noexcept nogil:
    # Write a value that is not an array.
    if kind <= Kind.INT64:
        return put_number(m, kind)
    if kind == Kind.UUID:
        return put_base64(m, 16, True)
    if kind == Kind.STRUCT:
        return put_struct(m, struct_at)
    if kind == Kind.PROTOCOL_TYPE:
        return put_protocol_type(m)
    if kind == Kind.CONSUMER_MESSAGE:
        return put_nested_message(m, struct_at)
    return kind != Kind.OTHER and put_sized(m, kind, nullable)


cdef inline bint put_array(Message* m, const Row* row) noexcept nogil:
    cdef int64_t count = 0, i
    if not take_length(m, 4, &count):
        return False
    if count < 0:
        return row.nullable and put_bytes(m, b"null", 4)
    if count > m.end - m.at or not put_byte(m, c"["):
        return False
    for i in range(count):
        if i and not put_byte(m, c","):
            return False
        if not put_single(m, row.kind - Kind.ARRAY, False, row.struct_at):
            return False
    return put_byte(m, c"]")


cdef inline bint put_value(Message* m, const Row* row) noexcept nogil:
    cdef int64_t present = 0
    if row.kind >= Kind.ARRAY:
        return put_array(m, row)
    if row.kind == Kind.STRUCT and row.nullable:
        if row.tag < 0:
            if m.at == m.end:
                return False
            present = 0 if m.at[0] & 0x80 else 1
            m.at += 1
        elif not take_varint(m, &present):
            return False
        if not present:
            return put_bytes(m, b"null", 4)
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
    # Write a tagged field and move its text to `mark`, as fields are printed in the
    # schema's order. A field that equals its default is not printed.
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
        and not memcmp(value, m.schemas.texts + row.default.start, row.default.size)
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
    # The text of each field begins with a comma; the first becomes the brace.
    cdef const int32_t* code = m.schemas.code + struct_at
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
        return put_bytes(m, b"{}", 2)
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
    cdef const Type* types = <const Type*>(m.schemas.code + 2)
    cdef const Version* version
    cdef int64_t frame = 0, number = 0, stated_version = 0
    if not take_varint(m, &frame) or frame != 1 or not take_varint(m, &number):
        return False
    if number >= m.schemas.code[1] or not take_varint(m, &stated_version):
        return False
    version = version_of(m.schemas, &types[number], stated_version)
    return version != NULL and put_message(m, version) and m.at == m.end


cdef inline bint put_key(Message* m, const Type** of) noexcept nogil:
    cdef int16_t number
    if m.end - m.at < 2:
        return False
    number = be16(m.at)
    m.at += 2
    if not 0 <= number < m.schemas.code[1]:
        return False
    of[0] = <const Type*>(m.schemas.code + 2) + number
    return of[0].count and put_message(m, &of[0].key)


cdef inline bint put_versioned(Message* m, const Type* of) noexcept nogil:
    cdef const Version* version
    if m.end - m.at < 2:
        return False
    version = version_of(m.schemas, of, be16(m.at))
    m.at += 2
    return version != NULL and put_message(m, version)


cdef inline uint8_t* put_internal(
    const SchemaTable* schemas,
    const uint8_t* key,
    int32_t key_length,
    const uint8_t* value,
    int32_t value_length,
    bint bare,
    uint8_t* to,
    uint8_t* end,
) noexcept nogil:
    # Write a record's key and payload up to `end`; returns NULL if not supported here.
    cdef Message m
    cdef const Type* of = NULL
    m.schemas, m.to, m.last = schemas, to, end - RESERVED
    m.unknown_tags, m.of_consumers = 0, False
    if end - to < 2 * RESERVED:
        return NULL
    if schemas.code[0] == METADATA:
        m.at, m.end = value, value + max(value_length, 0)
        m.to = put(to, b"| payload: ") if bare else put(to, b" payload: ")
        return m.to if put_metadata_record(&m) else NULL
    if key_length < 0:
        return NULL
    m.at, m.end = key, key + key_length
    m.to = put(to, b"| key: ") if bare else put(to, b" key: ")
    if not put_key(&m, &of) or not put_bytes(&m, b" payload: ", 10):
        return NULL
    if value_length < 0:
        return m.to if put_bytes(&m, b"<DELETE>", 8) else NULL
    m.at, m.end = value, value + value_length
    return m.to if put_versioned(&m, of) else NULL

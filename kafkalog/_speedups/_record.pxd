# Read one record of magic 2: its fields, by position.
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport LOG_APPEND_TIME, Batch
from kafkalog._speedups._cursor cimport (
    Cursor, Status, read_varint, read_varlong, short_varint, wrapping_add
)


cdef struct Record:
    int64_t offset
    int64_t timestamp
    int32_t key_start  # positions in `src`, which is smaller than 2 GiB
    int32_t key_length  # -1 null
    int32_t value_start
    int32_t value_length  # -1 null
    int32_t headers_start
    int32_t header_count


cdef inline Status read_bytes(
    Cursor* at, int32_t* start, int32_t* length
) noexcept nogil:
    # Read a varint length, where any negative one is null, and that many bytes.
    cdef int32_t size = 0
    cdef Status status = read_varint(at, &size)
    if status != Status.OK:
        return status
    start[0] = <int32_t>at.pos
    length[0] = size
    if size < 0:
        length[0] = -1
        return Status.OK
    if size > at.end - at.pos:
        return Status.TRUNCATED
    at.pos += size
    return Status.OK


cdef inline Status read_header(
    Cursor* at, int32_t* key, int32_t* key_length, int32_t* value, int32_t* value_length
) noexcept nogil:
    cdef Status status = read_bytes(at, key, key_length)
    if status == Status.OK and key_length[0] < 0:
        return Status.RECORD_HEADERS
    if status == Status.OK:
        status = read_bytes(at, value, value_length)
    return status


cdef inline Status read_headers(Cursor* body, Record* out) noexcept nogil:
    # Read the header count and all headers, which must end where the record ends.
    cdef Status status = read_varint(body, &out.header_count)
    cdef int32_t _header, ignored = 0
    if status != Status.OK:
        return status
    if out.header_count < 0 or out.header_count > body.end - body.pos:
        return Status.RECORD_HEADERS
    out.headers_start = <int32_t>body.pos
    for _header in range(out.header_count):
        status = read_header(body, &ignored, &ignored, &ignored, &ignored)
        if status != Status.OK:
            return status
    return Status.OK if body.pos == body.end else Status.RECORD_LENGTH


cdef inline bint read_short_record(
    Cursor* at, const Batch* batch, Record* out
) noexcept nogil:
    # Fast path for a record whose lengths and deltas are short, which most are. Returns
    # False, with nothing read, for any other, and near the end of the bytes.
    cdef const uint8_t* p = at.data + at.pos
    cdef const uint8_t* end = at.data + at.end
    cdef const uint8_t* body_end
    cdef int32_t length = 0, timestamp_delta = 0, offset_delta = 0
    cdef bint is_long = False
    cdef Cursor body
    if end - p < 17:
        return False
    p = short_varint(p, &length, &is_long)
    if length > end - p:
        return False
    body_end = p + length
    p = short_varint(p + 1, &timestamp_delta, &is_long)
    p = short_varint(p, &offset_delta, &is_long)
    p = short_varint(p, &out.key_length, &is_long)
    out.key_start = <int32_t>(p - at.data)
    if out.key_length > 0:
        if out.key_length > end - p:
            return False
        p += out.key_length
    if end - p < 4:
        return False
    p = short_varint(p, &out.value_length, &is_long)
    out.value_start = <int32_t>(p - at.data)
    if out.value_length > 0:
        if out.value_length > end - p:
            return False
        p += out.value_length
    if is_long or p >= body_end:
        return False
    out.header_count = 0
    out.headers_start = <int32_t>(body_end - at.data)
    if p + 1 != body_end or p[0]:
        body = Cursor(data=at.data, pos=p - at.data, end=body_end - at.data)
        if read_headers(&body, out) != Status.OK:
            return False
    out.key_length = max(out.key_length, -1)
    out.value_length = max(out.value_length, -1)
    out.offset = wrapping_add(batch.base_offset, offset_delta)
    out.timestamp = wrapping_add(batch.base_timestamp, timestamp_delta)
    if batch.attributes & LOG_APPEND_TIME:
        out.timestamp = batch.max_timestamp
    at.pos = body_end - at.data
    return True


cdef inline Status read_record(
    Cursor* at, const Batch* batch, Record* out
) noexcept nogil:
    # Read one record: its length, and fields that must end where it ends.
    cdef Status status
    cdef Cursor body = Cursor(data=at.data, pos=0, end=0)
    cdef int32_t length = 0, offset_delta = 0
    cdef int64_t timestamp_delta = 0
    if read_short_record(at, batch, out):
        return Status.OK
    status = read_varint(at, &length)
    if status != Status.OK:
        return status
    if length < 1 or length > at.end - at.pos:
        return Status.TRUNCATED
    body.pos = at.pos + 1  # after the attributes, which are unused
    body.end = at.pos + length
    status = read_varlong(&body, &timestamp_delta)
    if status == Status.OK:
        status = read_varint(&body, &offset_delta)
    if status == Status.OK:
        status = read_bytes(&body, &out.key_start, &out.key_length)
    if status == Status.OK:
        status = read_bytes(&body, &out.value_start, &out.value_length)
    if status == Status.OK:
        status = read_headers(&body, out)
    if status != Status.OK:
        return status
    out.offset = wrapping_add(batch.base_offset, offset_delta)
    out.timestamp = wrapping_add(batch.base_timestamp, timestamp_delta)
    if batch.attributes & LOG_APPEND_TIME:
        out.timestamp = batch.max_timestamp
    at.pos = body.end
    return Status.OK

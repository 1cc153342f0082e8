# Where records go: their places, or the columns that are gathered of them.
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

from kafkalog._speedups._alike cimport Layout, le64, offset_in, timestamp_in
from kafkalog._speedups._batch cimport LOG_APPEND_TIME, Batch
from kafkalog._speedups._cursor cimport Cursor, Status
from kafkalog._speedups._record cimport Record, read_header
from kafkalog._speedups._strings cimport Strings, append, append_alike


cdef struct Bounds:
    int64_t first_offset
    int64_t last_offset
    int64_t first_timestamp
    int64_t last_timestamp
    bint bounded  # whether anything is left out at all
    bint timed


cdef struct Places:
    int32_t* key_start
    int32_t* key_length
    int32_t* value_start
    int32_t* value_length
    int32_t* headers_start
    int32_t* header_count


cdef struct Headers:
    int32_t* offsets
    Strings key
    Strings value


cdef struct Sink:
    # The row that comes next, how many there may be, and what is filled of each.
    Py_ssize_t row
    Py_ssize_t capacity
    Bounds bounds
    int64_t* offset
    int64_t* timestamp
    bint gathers  # columns, else places
    Places places
    Strings key
    Strings value
    Headers* headers  # NULL where they are not asked for


cdef inline bint wanted(
    int64_t offset, int64_t timestamp, const Bounds* bounds
) noexcept nogil:
    if not bounds.bounded:
        return True
    if offset < bounds.first_offset or offset > bounds.last_offset:
        return False
    if not bounds.timed:
        return True
    return (
        timestamp != -1
        and timestamp >= bounds.first_timestamp
        and timestamp <= bounds.last_timestamp
    )


cdef inline void put_places(
    const Record* record, Places* places, Py_ssize_t row
) noexcept nogil:
    places.key_start[row] = record.key_start
    places.key_length[row] = record.key_length
    places.value_start[row] = record.value_start
    places.value_length[row] = record.value_length
    places.headers_start[row] = record.headers_start
    places.header_count[row] = record.header_count


cdef inline bint put_bytes(
    const Cursor* at, int32_t start, int32_t length, Strings* out, Py_ssize_t row
) noexcept nogil:
    return append(out, row, at.data + start, length, at.end - start)


cdef inline bint put_headers(
    const Cursor* at, const Record* record, Headers* out, Py_ssize_t row
) noexcept nogil:
    # Copy headers that were found sound; False where there is no room.
    cdef Cursor body = Cursor(data=at.data, pos=record.headers_start, end=at.end)
    cdef int32_t key = 0, key_length = 0, value = 0, value_length = 0, place
    cdef int32_t first = out.offsets[row], behind = first + record.header_count
    out.offsets[row + 1] = behind
    for place in range(first, behind):
        if read_header(&body, &key, &key_length, &value, &value_length) != Status.OK:
            return False
        if not put_bytes(at, key, key_length, &out.key, place):
            return False
        if not put_bytes(at, value, value_length, &out.value, place):
            return False
    return True


cdef inline bint put_columns(
    const Cursor* at, const Record* record, Sink* sink, Py_ssize_t row
) noexcept nogil:
    # Copy what is asked for of a record; False where there is no room.
    if sink.key.offsets != NULL and not put_bytes(
        at, record.key_start, record.key_length, &sink.key, row
    ):
        return False
    if sink.value.offsets != NULL and not put_bytes(
        at, record.value_start, record.value_length, &sink.value, row
    ):
        return False
    return sink.headers == NULL or put_headers(at, record, sink.headers, row)


cdef inline Status put(
    const Cursor* at, const Record* record, Sink* sink, bint gathers
) noexcept nogil:
    # Write the record where the next one goes, which stays there unless it is wanted.
    cdef Py_ssize_t row = sink.row
    sink.offset[row] = record.offset
    sink.timestamp[row] = record.timestamp
    if not wanted(record.offset, record.timestamp, &sink.bounds):
        return Status.OK
    if not gathers:
        put_places(record, &sink.places, row)
    elif not put_columns(at, record, sink, row):
        return Status.NO_ROOM
    sink.row += 1
    return Status.OK


cdef inline void put_alike_longs(
    const Cursor* at, const Batch* batch, const Layout* lies, int32_t count, Sink* sink
) noexcept nogil:
    # Write the offsets and timestamps of `count` records that lie as `lies` says.
    cdef bint stamped = batch.attributes & LOG_APPEND_TIME
    cdef int64_t* offset = sink.offset + sink.row
    cdef int64_t* timestamp = sink.timestamp + sink.row
    cdef uint64_t front
    cdef int32_t i
    for i in range(count):
        front = le64(at.data + at.pos + i * lies.size)
        offset[i] = offset_in(front, batch, lies)
        timestamp[i] = timestamp_in(front, batch, lies)
        if stamped:
            timestamp[i] = batch.max_timestamp


cdef inline bint all_wanted(const Sink* sink, int32_t count) noexcept nogil:
    # Whether the next `count` rows, offsets and timestamps being there, are wanted.
    cdef Py_ssize_t row
    if sink.bounds.bounded:
        for row in range(sink.row, sink.row + count):
            if not wanted(sink.offset[row], sink.timestamp[row], &sink.bounds):
                return False
    return True


cdef inline void put_alike_places(
    const Record* last, int32_t size, int32_t count, Places* places, Py_ssize_t row
) noexcept nogil:
    cdef int32_t i
    for i in range(count):
        places.key_start[row + i] = last.key_start + (i + 1) * size
        places.key_length[row + i] = last.key_length
        places.value_start[row + i] = last.value_start + (i + 1) * size
        places.value_length[row + i] = last.value_length
        places.headers_start[row + i] = last.headers_start + (i + 1) * size
        places.header_count[row + i] = 0


cdef inline bint put_alike_bytes(
    const Cursor* at, int64_t size, int32_t count, int32_t start, int32_t length,
    Strings* out, Py_ssize_t row
) noexcept nogil:
    cdef int64_t first = start + size
    if out.offsets == NULL:
        return True
    return append_alike(
        out, row, at.data + first, length, at.end - first, size, count
    )


cdef inline Status put_alike(
    Cursor* at, const Layout* lies, int32_t count, Record* last, Sink* sink,
    bint gathers
) noexcept nogil:
    # Write what else there is of `count` records that lie as the `last` before them.
    cdef Py_ssize_t row = sink.row
    cdef int32_t i, size = <int32_t>lies.size
    if not gathers:
        put_alike_places(last, size, count, &sink.places, row)
    elif not (
        put_alike_bytes(
            at, size, count, last.key_start, last.key_length, &sink.key, row
        )
        and put_alike_bytes(
            at, size, count, last.value_start, last.value_length, &sink.value, row
        )
    ):
        return Status.NO_ROOM
    elif sink.headers != NULL:
        for i in range(count):
            sink.headers.offsets[row + i + 1] = sink.headers.offsets[row]
    last.key_start += count * size
    last.value_start += count * size
    last.headers_start += count * size
    at.pos += count * lies.size
    sink.row += count
    return Status.OK

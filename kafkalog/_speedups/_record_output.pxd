# Write decoded records: the positions of their fields, or columns gathered from them.
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

from kafkalog._speedups._record_layout cimport Layout, le64, offset_in, timestamp_in
from kafkalog._speedups._batch cimport LOG_APPEND_TIME, Batch
from kafkalog._speedups._cursor cimport Cursor, Status
from kafkalog._speedups._record cimport Record, read_header
from kafkalog._speedups._strings cimport Strings, append, append_strided


cdef struct Bounds:
    int64_t first_offset
    int64_t last_offset
    int64_t first_timestamp
    int64_t last_timestamp
    bint bounded  # False: all records are in bounds
    bint timed  # whether the timestamps apply


cdef struct Positions:
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


cdef struct RecordOutput:
    # The next row, the number of rows, and the arrays that are filled.
    Py_ssize_t row
    Py_ssize_t capacity
    Bounds bounds
    int64_t* offset
    int64_t* timestamp
    bint gathers  # columns, else positions
    Positions positions
    Strings key
    Strings value
    Headers* headers  # NULL if they are not requested


cdef inline bint in_bounds(
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


cdef inline void put_positions(
    const Record* record, Positions* positions, Py_ssize_t row
) noexcept nogil:
    positions.key_start[row] = record.key_start
    positions.key_length[row] = record.key_length
    positions.value_start[row] = record.value_start
    positions.value_length[row] = record.value_length
    positions.headers_start[row] = record.headers_start
    positions.header_count[row] = record.header_count


cdef inline bint copy_field(
    const Cursor* at, int32_t start, int32_t length, Strings* out, Py_ssize_t row
) noexcept nogil:
    return append(out, row, at.data + start, length, at.end - start)


cdef inline bint put_headers(
    const Cursor* at, const Record* record, Headers* out, Py_ssize_t row
) noexcept nogil:
    # Copy headers that were validated before; False if the columns are full.
    cdef Cursor body = Cursor(data=at.data, pos=record.headers_start, end=at.end)
    cdef int32_t key = 0, key_length = 0, value = 0, value_length = 0, place
    cdef int32_t first = out.offsets[row], end = first + record.header_count
    out.offsets[row + 1] = end
    for place in range(first, end):
        if read_header(&body, &key, &key_length, &value, &value_length) != Status.OK:
            return False
        if not copy_field(at, key, key_length, &out.key, place):
            return False
        if not copy_field(at, value, value_length, &out.value, place):
            return False
    return True


cdef inline bint put_columns(
    const Cursor* at, const Record* record, RecordOutput* out, Py_ssize_t row
) noexcept nogil:
    # Copy the requested fields of a record; False if a column is full.
    if out.key.offsets != NULL and not copy_field(
        at, record.key_start, record.key_length, &out.key, row
    ):
        return False
    if out.value.offsets != NULL and not copy_field(
        at, record.value_start, record.value_length, &out.value, row
    ):
        return False
    return out.headers == NULL or put_headers(at, record, out.headers, row)


cdef inline Status put(
    const Cursor* at, const Record* record, RecordOutput* out, bint gathers
) noexcept nogil:
    # Write the record to the next row, and keep that row if the record is in bounds.
    cdef Py_ssize_t row = out.row
    out.offset[row] = record.offset
    out.timestamp[row] = record.timestamp
    if not in_bounds(record.offset, record.timestamp, &out.bounds):
        return Status.OK
    if not gathers:
        put_positions(record, &out.positions, row)
    elif not put_columns(at, record, out, row):
        return Status.OUTPUT_FULL
    out.row += 1
    return Status.OK


cdef inline void put_same_layout_longs(
    const Cursor* at, const Batch* batch, const Layout* layout, int32_t count,
    RecordOutput* out
) noexcept nogil:
    # Write the offsets and timestamps of `count` records of this layout.
    cdef bint log_append_time = batch.attributes & LOG_APPEND_TIME
    cdef int64_t* offset = out.offset + out.row
    cdef int64_t* timestamp = out.timestamp + out.row
    cdef uint64_t front
    cdef int32_t i
    for i in range(count):
        front = le64(at.data + at.pos + i * layout.size)
        offset[i] = offset_in(front, batch, layout)
        timestamp[i] = timestamp_in(front, batch, layout)
        if log_append_time:
            timestamp[i] = batch.max_timestamp


cdef inline bint all_in_bounds(const RecordOutput* out, int32_t count) noexcept nogil:
    # Return whether the offsets and timestamps of the next `count` rows are in bounds.
    cdef Py_ssize_t row
    if out.bounds.bounded:
        for row in range(out.row, out.row + count):
            if not in_bounds(out.offset[row], out.timestamp[row], &out.bounds):
                return False
    return True


cdef inline void put_same_layout_positions(
    const Record* last, int32_t size, int32_t count, Positions* positions,
    Py_ssize_t row
) noexcept nogil:
    cdef int32_t i
    for i in range(count):
        positions.key_start[row + i] = last.key_start + (i + 1) * size
        positions.key_length[row + i] = last.key_length
        positions.value_start[row + i] = last.value_start + (i + 1) * size
        positions.value_length[row + i] = last.value_length
        positions.headers_start[row + i] = last.headers_start + (i + 1) * size
        positions.header_count[row + i] = 0


cdef inline bint put_same_layout_bytes(
    const Cursor* at, int64_t size, int32_t count, int32_t start, int32_t length,
    Strings* out, Py_ssize_t row
) noexcept nogil:
    cdef int64_t first = start + size
    if out.offsets == NULL:
        return True
    return append_strided(
        out, row, at.data + first, length, at.end - first, size, count
    )


cdef inline Status put_same_layout(
    Cursor* at, const Layout* layout, int32_t count, Record* last, RecordOutput* out,
    bint gathers
) noexcept nogil:
    # Write the other fields of `count` records that have the layout of the `last` one.
    cdef Py_ssize_t row = out.row
    cdef int32_t i, size = <int32_t>layout.size
    if not gathers:
        put_same_layout_positions(last, size, count, &out.positions, row)
    elif not (
        put_same_layout_bytes(
            at, size, count, last.key_start, last.key_length, &out.key, row
        )
        and put_same_layout_bytes(
            at, size, count, last.value_start, last.value_length, &out.value, row
        )
    ):
        return Status.OUTPUT_FULL
    elif out.headers != NULL:
        for i in range(count):
            out.headers.offsets[row + i + 1] = out.headers.offsets[row]
    last.key_start += count * size
    last.value_start += count * size
    last.headers_start += count * size
    at.pos += count * layout.size
    out.row += count
    return Status.OK

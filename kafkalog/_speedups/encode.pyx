"""Encoding kernels: columns of records -> the bytes of many batches, in one nogil call.

A column of bytes is three arrays: data, and where each row starts and how long it is,
-1 for null. Headers are two such columns, flat, and the bounds of each record's share.
First sizes are measured, then bytes are written: so buffers are exact.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafkalog._speedups._batch cimport (
    BATCH_CRC_FROM, BATCH_HEADER, LOG_OVERHEAD, MESSAGE_0_OVERHEAD,
    MESSAGE_1_OVERHEAD, MESSAGE_CRC_FROM, Batch
)
from kafkalog._speedups._crc cimport CRC32, CRC32C, crc, crc_setup
from kafkalog._speedups._cursor cimport put16, put32, put64

crc_setup()


cdef struct Bytes:
    const uint8_t* data
    int64_t size
    const char* starts
    const char* lengths
    Py_ssize_t starts_stride
    Py_ssize_t lengths_stride
    Py_ssize_t rows


cdef struct Columns:
    const int64_t* offset
    const int64_t* timestamp
    const int64_t* header_bounds  # NULL: no record has headers
    Bytes key
    Bytes value
    Bytes header_key
    Bytes header_value
    int64_t base_offset  # of the batch being written
    int64_t base_timestamp


cdef Bytes bytes_of(column) except *:
    # Pointers into the arrays of `column`, which must outlive them.
    cdef const uint8_t[::1] data = column[0]
    cdef const int64_t[:] starts = column[1]
    cdef const int32_t[:] lengths = column[2]
    cdef Bytes of
    if starts.shape[0] != lengths.shape[0]:
        raise ValueError("a column of bytes has a start and a length for each row")
    of.rows = starts.shape[0]
    of.size = data.shape[0]
    of.data = &data[0] if of.size else NULL
    of.starts = <const char*>&starts[0] if of.rows else NULL
    of.lengths = <const char*>&lengths[0] if of.rows else NULL
    of.starts_stride = starts.strides[0]
    of.lengths_stride = lengths.strides[0]
    return of


cdef void check_batches(
    const int64_t[::1] bounds, Py_ssize_t batches, Py_ssize_t per_batch
) except *:
    if bounds.shape[0] != batches + 1 or per_batch != batches:
        raise ValueError("batches have a bound more, and a place each")


cdef Columns columns_of(
    const int64_t[::1] offset, const int64_t[::1] timestamp, key, value, headers
) except *:
    # `headers` is (bounds, keys, values), or None.
    cdef Columns of
    cdef const int64_t[::1] bounds
    cdef Py_ssize_t rows = offset.shape[0]
    of.key = bytes_of(key)
    of.value = bytes_of(value)
    if timestamp.shape[0] != rows or of.key.rows != rows or of.value.rows != rows:
        raise ValueError("the columns of records differ in length")
    of.offset = &offset[0] if rows else NULL
    of.timestamp = &timestamp[0] if rows else NULL
    of.header_bounds = NULL
    if headers is not None:
        bounds = headers[0]
        of.header_key = bytes_of(headers[1])
        of.header_value = bytes_of(headers[2])
        if bounds.shape[0] != rows + 1 or of.header_key.rows != of.header_value.rows:
            raise ValueError("the columns of headers differ in length")
        of.header_bounds = &bounds[0]
    return of


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    # Deltas wrap, as Java's do.
    return <int64_t>(<uint64_t>a - <uint64_t>b)


cdef inline int varlong_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


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
    # Of the length and the bytes, or -1 where they do not lie in the column's data.
    cdef int64_t start, length = length_of(of, row)
    if length < 0:
        return 1
    start = start_of(of, row)
    if start < 0 or start > of.size - length:
        return -1
    return length + varlong_size(length)


cdef inline uint8_t* put_bytes(
    uint8_t* at, const Bytes* of, Py_ssize_t row
) noexcept nogil:
    cdef int32_t length = length_of(of, row)
    if length < 0:
        at[0] = 1
        return at + 1
    at = put_varlong(at, length)
    if length:
        memcpy(at, of.data + start_of(of, row), length)
    return at + length


cdef int64_t headers_size(const Columns* of, Py_ssize_t row) noexcept nogil:
    # Of the count and the headers, or -1: not in the data, or a key that is null.
    cdef int64_t i, key, value
    cdef int64_t begin = of.header_bounds[row], end = of.header_bounds[row + 1]
    cdef int64_t size
    if begin < 0 or end < begin or end > of.header_key.rows:
        return -1
    size = varlong_size(end - begin)
    for i in range(begin, end):
        key = bytes_size(&of.header_key, i)
        value = bytes_size(&of.header_value, i)
        if key < 0 or value < 0 or length_of(&of.header_key, i) < 0:
            return -1
        size += key + value
    return size


cdef inline int64_t body_size(const Columns* of, Py_ssize_t row) noexcept nogil:
    # Of a record without its length, or -1 where there can be no such record.
    cdef int64_t delta = minus(of.offset[row], of.base_offset)
    cdef int64_t key = bytes_size(&of.key, row), value = bytes_size(&of.value, row)
    cdef int64_t headers = 1 if of.header_bounds == NULL else headers_size(of, row)
    cdef int64_t size = 1 + varlong_size(minus(of.timestamp[row], of.base_timestamp))
    if key < 0 or value < 0 or headers < 0 or delta < 0 or delta > INT32_MAX:
        return -1
    size += varlong_size(delta) + key + value + headers
    return size if size <= INT32_MAX else -1


cdef inline uint8_t* put_record(
    uint8_t* at, const Columns* of, Py_ssize_t row, int32_t size
) noexcept nogil:
    cdef int64_t i
    at = put_varlong(at, size)
    at[0] = 0
    at = put_varlong(at + 1, minus(of.timestamp[row], of.base_timestamp))
    at = put_varlong(at, minus(of.offset[row], of.base_offset))
    at = put_bytes(at, &of.key, row)
    at = put_bytes(at, &of.value, row)
    if of.header_bounds == NULL:
        at[0] = 0
        return at + 1
    at = put_varlong(at, of.header_bounds[row + 1] - of.header_bounds[row])
    for i in range(of.header_bounds[row], of.header_bounds[row + 1]):
        at = put_bytes(at, &of.header_key, i)
        at = put_bytes(at, &of.header_value, i)
    return at


def split_records(
    const int64_t[::1] offset not None,
    const int64_t[::1] timestamp not None,
    key not None,
    value not None,
    headers,
    int64_t most_bytes,
    int64_t most_rows,
    int64_t[::1] bounds not None,
):
    """Fill `bounds` with the first row of each batch and the end of the last.

    A batch takes records while it stays within `most_bytes`, header included, and
    `most_rows`; one at least. Answers batches and rows: fewer than all where a row
    cannot be written.
    """
    cdef Columns of = columns_of(offset, timestamp, key, value, headers)
    cdef Py_ssize_t row, batches = 0, rows = offset.shape[0]
    cdef int64_t size, used = 0
    with nogil:
        for row in range(rows):
            size = -1
            if batches:
                size = body_size(&of, row)
                size += varlong_size(size) if size >= 0 else 0
            if (
                size < 0 or size > most_bytes - used
                or row - bounds[batches - 1] >= most_rows
            ):
                bounds[batches] = row
                batches += 1
                of.base_offset = of.offset[row]
                of.base_timestamp = of.timestamp[row]
                size = body_size(&of, row)
                if size < 0:
                    rows = row
                    break
                size += varlong_size(size)
                used = BATCH_HEADER
            used += size
        bounds[batches] = rows
    return batches, rows


def measure_records(
    const int64_t[::1] offset not None,
    const int64_t[::1] timestamp not None,
    key not None,
    value not None,
    headers,
    const int64_t[::1] bounds not None,
    const Batch[::1] batches not None,
    int32_t[::1] sizes not None,
    int64_t[::1] payloads not None,
):
    """Fill `sizes` with each record's length field, `payloads` with each batch's bytes.

    Batch i has the rows from ``bounds[i]`` to ``bounds[i + 1]``; its base offset and
    timestamp are what deltas are taken from. Answers rows measured: fewer than all
    where a row cannot be written.
    """
    cdef Columns of = columns_of(offset, timestamp, key, value, headers)
    cdef Py_ssize_t i, row, done = 0
    cdef int64_t size, total
    check_batches(bounds, batches.shape[0], payloads.shape[0])
    with nogil:
        for i in range(batches.shape[0]):
            of.base_offset = batches[i].base_offset
            of.base_timestamp = batches[i].base_timestamp
            total = 0
            if bounds[i] != done or bounds[i + 1] > offset.shape[0]:
                break
            for row in range(bounds[i], bounds[i + 1]):
                size = body_size(&of, row)
                if size < 0:
                    break
                sizes[row] = <int32_t>size
                total += size + varlong_size(size)
                done += 1
            payloads[i] = total
            if done < bounds[i + 1]:
                break
    return done


def write_records(
    const int64_t[::1] offset not None,
    const int64_t[::1] timestamp not None,
    key not None,
    value not None,
    headers,
    const int64_t[::1] bounds not None,
    const Batch[::1] batches not None,
    const int32_t[::1] sizes not None,
    const int64_t[::1] starts not None,
    uint8_t[::1] out not None,
):
    """Write each batch's records from ``out[starts[i]]`` on.

    All else as `measure_records` measured it, which is what bounds the writing.
    Answers rows written.
    """
    cdef Columns of = columns_of(offset, timestamp, key, value, headers)
    cdef Py_ssize_t i, row, done = 0
    cdef uint8_t* at
    cdef uint8_t* end = &out[0] + out.shape[0] if out.shape[0] else NULL
    check_batches(bounds, batches.shape[0], starts.shape[0])
    with nogil:
        for i in range(batches.shape[0]):
            of.base_offset = batches[i].base_offset
            of.base_timestamp = batches[i].base_timestamp
            at = end - (out.shape[0] - starts[i])
            if bounds[i] != done or bounds[i + 1] > offset.shape[0] or starts[i] < 0:
                break
            for row in range(bounds[i], bounds[i + 1]):
                if sizes[row] + varlong_size(sizes[row]) > end - at:
                    break
                at = put_record(at, &of, row, sizes[row])
                done += 1
    return done


def write_headers(const Batch[::1] rows not None, uint8_t[::1] out not None):
    """Write the 61 bytes before each batch's payload, which lies in `out` already.

    The CRC is computed, that of the rows not looked at. Answers rows written: fewer
    than all where a batch does not lie in `out`.
    """
    cdef Py_ssize_t i, done = 0
    cdef uint8_t* at
    cdef uint32_t checksum
    cdef const Batch* row
    with nogil:
        for i in range(rows.shape[0]):
            row = &rows[i]
            if (
                row.position < 0 or row.size_in_bytes < BATCH_HEADER
                or row.size_in_bytes - LOG_OVERHEAD > INT32_MAX
                or row.position > out.shape[0] - row.size_in_bytes
            ):
                break
            at = &out[row.position]
            put64(at, row.base_offset)
            put32(at + 8, <int32_t>(row.size_in_bytes - LOG_OVERHEAD))
            put32(at + 12, row.leader_epoch)
            at[16] = 2
            put16(at + 21, row.attributes)
            put32(at + 23, <int32_t>(row.last_offset - row.base_offset))
            put64(at + 27, row.base_timestamp)
            put64(at + 35, row.max_timestamp)
            put64(at + 43, row.producer_id)
            put16(at + 51, row.producer_epoch)
            put32(at + 53, row.base_sequence)
            put32(at + 57, row.count)
            checksum = crc(
                CRC32C, at + BATCH_CRC_FROM, row.size_in_bytes - BATCH_CRC_FROM
            )
            put32(at + 17, <int32_t>checksum)
            done += 1
    return done


cdef inline uint8_t* put_field(
    uint8_t* at, const Bytes* of, Py_ssize_t row
) noexcept nogil:
    # A message's key or value: a length of 4 bytes, -1 for null, and the bytes.
    cdef int32_t length = length_of(of, row)
    put32(at, -1 if length < 0 else length)
    if length > 0:
        memcpy(at + 4, of.data + start_of(of, row), length)
        at += length
    return at + 4


def write_messages(
    const int64_t[::1] offset not None,
    const int64_t[::1] timestamp not None,
    key not None,
    value not None,
    int magic,
    int attributes,
    uint8_t[::1] out not None,
):
    """Write messages of `magic` 0 or 1, one behind the other, CRC and all.

    Answers messages and bytes written: fewer than all where a key or value does not
    lie in its data, or the next message does not fit in `out`.
    """
    cdef Columns of = columns_of(offset, timestamp, key, value, None)
    cdef int64_t least = LOG_OVERHEAD
    cdef Py_ssize_t row, done = 0, pos = 0
    cdef int64_t size
    cdef uint8_t* at
    cdef uint8_t* field
    least += MESSAGE_1_OVERHEAD if magic else MESSAGE_0_OVERHEAD
    with nogil:
        for row in range(offset.shape[0]):
            size = least + max(length_of(&of.key, row), 0)
            size += max(length_of(&of.value, row), 0)
            if (
                bytes_size(&of.key, row) < 0 or bytes_size(&of.value, row) < 0
                or size - LOG_OVERHEAD > INT32_MAX or size > out.shape[0] - pos
            ):
                break
            at = &out[pos]
            put64(at, of.offset[row])
            put32(at + 8, <int32_t>(size - LOG_OVERHEAD))
            at[16] = <uint8_t>magic
            at[17] = <uint8_t>attributes
            field = at + 18
            if magic:
                put64(field, of.timestamp[row])
                field += 8
            put_field(put_field(field, &of.key, row), &of.value, row)
            put32(at + 12, <int32_t>crc(
                CRC32, at + MESSAGE_CRC_FROM, size - MESSAGE_CRC_FROM
            ))
            pos += size
            done += 1
    return done, pos

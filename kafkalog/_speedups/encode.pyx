"""Encode columns of records to many batches of magic 2, without the GIL.

The columns of records are offsets, timestamps, keys, values and headers. A column of
bytes is three arrays: data, the start of each row, and its length, -1 for null. Headers
are None, or n + 1 bounds and two such columns: record i has the headers from
``bounds[i]`` to ``bounds[i + 1]``. Batches are measured before they are written, so
that the buffer has the exact size.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kafkalog._speedups._batch cimport (
    BATCH_CRC_FROM, BATCH_HEADER, LOG_OVERHEAD, Batch
)
from kafkalog._speedups._columns cimport (
    Bytes, bytes_of, bytes_size, length_of, put_varlong, start_of, varlong_size
)
from kafkalog._speedups._crc cimport CRC32C, crc, crc_setup
from kafkalog._speedups._cursor cimport put16, put32, put64, wrapping_sub
from kafkalog._speedups._rows cimport Rows, rows_of

crc_setup()


cdef struct Columns:
    Py_ssize_t rows
    const int64_t* offset
    const int64_t* timestamp
    const int64_t* header_bounds  # NULL if no record has headers
    Bytes key
    Bytes value
    Bytes header_key
    Bytes header_value
    int64_t base_offset  # of the batch being written
    int64_t base_timestamp


cdef void check_bounds(
    const int64_t[::1] bounds, Py_ssize_t batches, Py_ssize_t per_batch
) except *:
    if bounds.shape[0] != batches + 1 or per_batch != batches:
        raise ValueError(
            f"{bounds.shape[0]} bounds and {per_batch} values for {batches} batches, "
            f"expected {batches + 1} and {batches}"
        )


cdef Columns columns_of(columns) except *:
    # Return pointers into the arrays of `encoding.record_columns.RecordColumns`, which
    # must outlive them.
    cdef Columns of
    cdef const int64_t[::1] offset, timestamp, bounds
    cdef Py_ssize_t rows
    offset, timestamp, key, value, headers = columns
    rows = of.rows = offset.shape[0]
    of.key = bytes_of(key)
    of.value = bytes_of(value)
    if not rows == timestamp.shape[0] == of.key.rows == of.value.rows:
        raise ValueError(
            f"{timestamp.shape[0]} timestamps, {of.key.rows} keys and {of.value.rows} "
            f"values, expected {rows}: one for each offset"
        )
    of.offset = &offset[0] if rows else NULL
    of.timestamp = &timestamp[0] if rows else NULL
    of.header_bounds = NULL
    if headers is not None:
        bounds = headers[0]
        of.header_key = bytes_of(headers[1])
        of.header_value = bytes_of(headers[2])
        if bounds.shape[0] != rows + 1 or of.header_key.rows != of.header_value.rows:
            raise ValueError(
                f"{bounds.shape[0]} bounds, {of.header_key.rows} keys and "
                f"{of.header_value.rows} values of headers, expected {rows + 1} bounds "
                "and as many values as keys"
            )
        of.header_bounds = &bounds[0]
    return of


cdef inline uint8_t* put_with_length(
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
    # Return the bytes of the count and the headers; -1 if one is outside the data, or
    # its key is null.
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
    # Return the bytes of a record after its length field; -1 if it cannot be encoded.
    cdef int64_t delta = wrapping_sub(of.offset[row], of.base_offset)
    cdef int64_t key = bytes_size(&of.key, row), value = bytes_size(&of.value, row)
    cdef int64_t headers = 1 if of.header_bounds == NULL else headers_size(of, row)
    cdef int64_t time_delta = wrapping_sub(of.timestamp[row], of.base_timestamp)
    cdef int64_t size = 1 + varlong_size(time_delta)
    if key < 0 or value < 0 or headers < 0 or delta < 0 or delta > INT32_MAX:
        return -1
    size += varlong_size(delta) + key + value + headers
    return size if size <= INT32_MAX else -1


cdef inline uint8_t* put_record(
    uint8_t* at, const Columns* of, Py_ssize_t row, int64_t size
) noexcept nogil:
    cdef int64_t i
    at = put_varlong(at, size)
    at[0] = 0
    at = put_varlong(at + 1, wrapping_sub(of.timestamp[row], of.base_timestamp))
    at = put_varlong(at, wrapping_sub(of.offset[row], of.base_offset))
    at = put_with_length(at, &of.key, row)
    at = put_with_length(at, &of.value, row)
    if of.header_bounds == NULL:
        at[0] = 0
        return at + 1
    at = put_varlong(at, of.header_bounds[row + 1] - of.header_bounds[row])
    for i in range(of.header_bounds[row], of.header_bounds[row + 1]):
        at = put_with_length(at, &of.header_key, i)
        at = put_with_length(at, &of.header_value, i)
    return at


def split_records(
    columns not None,
    int64_t most_bytes,
    int64_t most_rows,
    int64_t[::1] bounds not None,
    int64_t[::1] payloads not None,
):
    """Fill `bounds` with the first row of each batch, and the end of the last one.

    A batch has as many records as fit in `most_bytes`, header included, and in
    `most_rows`, but at least one. Its base offset and timestamp are those of the first
    record. Fills `payloads` as `measure_records` does. Returns (batches, rows), fewer
    rows than all if one cannot be encoded.
    """
    cdef Columns of = columns_of(columns)
    cdef Py_ssize_t row, batches = 0, rows = of.rows
    cdef int64_t size, total = 0, used = 0
    check_bounds(bounds, rows, payloads.shape[0])
    with nogil:
        for row in range(rows):
            size = body_size(&of, row) if batches else -1
            total = size + varlong_size(size)
            if (
                size < 0 or total > most_bytes - BATCH_HEADER - used
                or row - bounds[batches - 1] >= most_rows
            ):
                bounds[batches] = row
                of.base_offset = of.offset[row]
                of.base_timestamp = of.timestamp[row]
                size = body_size(&of, row)
                if size < 0:
                    rows = row
                    break
                total = size + varlong_size(size)
                batches += 1
                used = 0
            used += total
            payloads[batches - 1] = used
        bounds[batches] = rows
    return batches, rows


def measure_records(
    columns not None,
    const int64_t[::1] bounds not None,
    batches not None,
    int64_t[::1] payloads not None,
):
    """Fill `payloads` with the encoded size of each batch's records.

    Batch i has the rows from ``bounds[i]`` to ``bounds[i + 1]``. Deltas are relative to
    its base offset and timestamp. Returns the rows measured, fewer than all if one
    cannot be encoded.
    """
    cdef Columns of = columns_of(columns)
    cdef Rows entries = rows_of(batches)
    cdef Py_ssize_t i, row, done = 0
    cdef int64_t size, total
    check_bounds(bounds, entries.count, payloads.shape[0])
    with nogil:
        for i in range(entries.count):
            of.base_offset = entries.at[i].base_offset
            of.base_timestamp = entries.at[i].base_timestamp
            total = 0
            if bounds[i] != done or bounds[i + 1] > of.rows:
                break
            for row in range(bounds[i], bounds[i + 1]):
                size = body_size(&of, row)
                if size < 0:
                    break
                total += size + varlong_size(size)
                done += 1
            payloads[i] = total
            if done < bounds[i + 1]:
                break
    return done


def write_records(
    columns not None,
    const int64_t[::1] bounds not None,
    batches not None,
    const int64_t[::1] starts not None,
    uint8_t[::1] out not None,
):
    """Write the records of batch i to `out` from ``starts[i]`` on.

    The other arguments are those of `measure_records`. Returns the rows written, fewer
    than all if one cannot be encoded or does not fit.
    """
    cdef Columns of = columns_of(columns)
    cdef Rows entries = rows_of(batches)
    cdef Py_ssize_t i, row, done = 0
    cdef int64_t size
    cdef uint8_t* at
    cdef uint8_t* end = &out[0] + out.shape[0] if out.shape[0] else NULL
    check_bounds(bounds, entries.count, starts.shape[0])
    with nogil:
        for i in range(entries.count):
            of.base_offset = entries.at[i].base_offset
            of.base_timestamp = entries.at[i].base_timestamp
            if bounds[i] != done or bounds[i + 1] > of.rows:
                break
            if starts[i] < 0 or starts[i] > out.shape[0]:
                break
            at = end - (out.shape[0] - starts[i])
            for row in range(bounds[i], bounds[i + 1]):
                size = body_size(&of, row)
                if size < 0 or size + varlong_size(size) > end - at:
                    break
                at = put_record(at, &of, row, size)
                done += 1
    return done


def write_headers(rows not None, uint8_t[::1] out not None):
    """Write the 61 bytes of each batch's header before its payload, already in `out`.

    The CRC is computed; that of the rows is ignored. Returns the headers written, fewer
    than all if a batch is outside `out`.
    """
    cdef Rows entries = rows_of(rows)
    cdef Py_ssize_t i, done = 0
    cdef uint8_t* at
    cdef uint32_t checksum
    cdef const Batch* row
    with nogil:
        for i in range(entries.count):
            row = &entries.at[i]
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
            put32(at + 23, <int32_t>wrapping_sub(row.last_offset, row.base_offset))
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

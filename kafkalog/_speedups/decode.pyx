"""Decode the records of many batches to columns, or to the positions of their fields.

`src` has the payloads: the records of a batch of magic 2, the messages in a wrapper, or
an uncompressed message itself. Payload i is that of ``rows[i]``; it begins at
``starts[i]`` and has ``lengths[i]`` bytes. If CRCs are checked, each is checked right
before its records are decoded, while the bytes are in the cache.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memset

from kafkalog._speedups._batch cimport BATCH_HEADER, CODEC_MASK, Batch
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport (
    LINE, Cursor, Status, be64, prefetch, wrapping_add, wrapping_sub
)
from kafkalog._speedups._entry cimport crc_matches
from kafkalog._speedups._payload cimport next_message, read_payload
from kafkalog._speedups._record cimport Record, read_header, read_record
from kafkalog._speedups._rows cimport Rows, check_rows, row_of, rows_of
from kafkalog._speedups._record_output cimport Bounds, Headers, RecordOutput
from kafkalog._speedups._strings cimport strings_of

cdef enum:
    RECORDS_AHEAD = 8  # whose headers are prefetched

crc_setup()


cdef inline bint outside(int64_t start, int64_t length, int64_t size) noexcept nogil:
    return start < 0 or length < 0 or start > size or length > size - start


cdef inline Status measure_messages(
    Cursor* at, int32_t* count, int64_t* first, int64_t* last
) noexcept nogil:
    # Count the messages at `at`, and read the offsets of the first and the last one.
    cdef Cursor body
    cdef Status status = next_message(at, &body)
    count[0] = 0
    while status == Status.OK and count[0] < INT32_MAX:
        last[0] = be64(body.data + body.pos)
        if count[0] == 0:
            first[0] = last[0]
        count[0] += 1
        status = next_message(at, &body)
    if count[0] == 0:
        return Status.WRAPPER_EMPTY
    return Status.OK if status == Status.TRUNCATED else status


def measure_wrappers(
    const uint8_t[::1] src not None,
    rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    int64_t[::1] base_offsets not None,
):
    """Set the record count and base offset of each wrapper from the messages inside.

    For each wrapper (magic 0 or 1, compressed) ``count`` and ``base_offset`` of `rows`
    are set, and `base_offsets` gets the number to add to the offsets inside; 0 for all
    other rows. Returns (status, row it stopped at).
    """
    cdef Status status = Status.OK
    cdef Cursor at
    cdef int64_t first = 0, last = 0
    cdef int32_t count = 0
    cdef Rows entries = rows_of(rows, True)
    cdef Batch* row
    cdef Py_ssize_t i, stopped = 0
    check_rows(
        min(starts.shape[0], lengths.shape[0], base_offsets.shape[0]),
        entries.count,
    )
    with nogil:
        for i in range(entries.count):
            row = &entries.at[i]
            stopped = i
            base_offsets[i] = 0
            if row.magic == 2 or row.attributes & CODEC_MASK == 0:
                continue
            if outside(starts[i], lengths[i], src.shape[0]):
                status = Status.TRUNCATED
                break
            at.data = &src[0] if src.shape[0] else NULL
            at.pos = starts[i]
            at.end = starts[i] + lengths[i]
            status = measure_messages(&at, &count, &first, &last)
            if status != Status.OK:
                break
            if row.magic == 1 and row.last_offset != 0:
                if row.last_offset < last:
                    status = Status.WRAPPER_OFFSET
                    break
                base_offsets[i] = wrapping_sub(row.last_offset, last)
            row.count = count
            row.base_offset = wrapping_add(base_offsets[i], first)
    return <int>status, stopped


cdef inline bint has_valid_crc(
    const uint8_t* data, int64_t start, int64_t length, const Batch* row
) noexcept nogil:
    # Check the CRC of a batch of magic 2, the payload of which must be complete.
    return (
        row.magic == 2 and start >= BATCH_HEADER
        and length == row.size_in_bytes - BATCH_HEADER
        and crc_matches(data + start - BATCH_HEADER, row)
    )


cdef struct Payloads:
    const uint8_t* data
    int64_t size
    Rows rows
    const int64_t* starts
    const int64_t* lengths
    const int64_t* base_offsets
    int64_t* emitted


cdef Payloads payloads_of(
    const uint8_t[::1] src, rows, tuple places, int64_t[::1] emitted
) except *:
    # Return pointers into the arrays, which must outlive them.
    cdef Payloads of
    cdef const int64_t[::1] starts, lengths, base_offsets
    starts, lengths, base_offsets = places
    memset(&of, 0, sizeof(Payloads))
    of.data, of.size = &src[0] if src.shape[0] else NULL, src.shape[0]
    of.rows = rows_of(rows)
    if of.size > INT32_MAX:
        raise ValueError(f"{of.size} bytes, expected at most {INT32_MAX}")
    check_rows(
        min(starts.shape[0], lengths.shape[0], base_offsets.shape[0], emitted.shape[0]),
        of.rows.count,
    )
    if of.rows.count:
        of.starts, of.lengths = &starts[0], &lengths[0]
        of.base_offsets, of.emitted = &base_offsets[0], &emitted[0]
    return of


cdef RecordOutput new_output(tuple within) except *:
    # Return an empty output with the given bounds.
    cdef RecordOutput out
    cdef const int64_t[::1] bounds
    cdef bint timed
    bounds, timed = within
    if bounds.shape[0] != 4:
        raise ValueError(f"{bounds.shape[0]} bounds, expected 4")
    memset(&out, 0, sizeof(RecordOutput))
    out.bounds = Bounds(bounds[0], bounds[1], bounds[2], bounds[3], True, timed)
    out.bounds.bounded = timed or bounds[0] > INT64_MIN or bounds[1] < INT64_MAX
    return out


cdef tuple read_payloads(const Payloads* of, bint check, RecordOutput* out):
    # Decode every payload to `out`; the return value is that of both kernels.
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=of.data, pos=0, end=0)
    cdef Py_ssize_t i, before, stopped = 0
    cdef const Batch* row
    with nogil:
        for i in range(of.rows.count):
            stopped, before = i, out.row
            row = &of.rows.at[i]
            of.emitted[i] = 0
            if outside(of.starts[i], of.lengths[i], of.size):
                status = Status.TRUNCATED
                break
            if check and not has_valid_crc(of.data, of.starts[i], of.lengths[i], row):
                status = Status.CHECKSUM
                break
            at.pos = of.starts[i]
            at.end = of.starts[i] + of.lengths[i]
            status = read_payload(&at, row, of.base_offsets[i], out)
            of.emitted[i] = out.row - before
            if status != Status.OK:
                break
    return <int>status, stopped, at.pos, out.row


def decode_records(
    const uint8_t[::1] src not None,
    rows not None,
    tuple places not None,
    tuple within not None,
    bint check,
    tuple spans not None,
    int64_t[::1] emitted not None,
):
    """Decode the records within bounds to the positions of their fields.

    `places` are the starts, lengths and base offsets of the payloads. `within` is an
    array of the first and last offset and the first and last timestamp, and whether the
    timestamps apply. `spans` are two arrays, of which rows are filled: int64 (offset,
    timestamp) and int32 (key start and length, value start and length, headers start
    and count). Fills `emitted` with the number of records of each payload. With `check`
    the CRC of each batch is checked; all must be complete in `src` and of magic 2.
    Returns (status, row it stopped at, position in `src`, records).
    """
    cdef Payloads payloads = payloads_of(src, rows, places, emitted)
    cdef RecordOutput out = new_output(within)
    cdef int64_t[:, ::1] longs
    cdef int32_t[:, ::1] ints
    longs, ints = spans
    if longs.shape[0] != 2 or ints.shape[0] != 6:
        raise ValueError(
            f"{longs.shape[0]} and {ints.shape[0]} columns, expected 2 and 6"
        )
    out.capacity = min(longs.shape[1], ints.shape[1])
    if out.capacity:
        out.offset, out.timestamp = &longs[0, 0], &longs[1, 0]
        out.positions.key_start, out.positions.key_length = &ints[0, 0], &ints[1, 0]
        out.positions.value_start, out.positions.value_length = &ints[2, 0], &ints[3, 0]
        out.positions.headers_start = &ints[4, 0]
        out.positions.header_count = &ints[5, 0]
    return read_payloads(&payloads, check, &out)


def gather_records(
    const uint8_t[::1] src not None,
    rows not None,
    tuple places not None,
    tuple within not None,
    bint check,
    tuple columns not None,
    int64_t[::1] emitted not None,
):
    """Decode the records within bounds, and copy the requested fields to columns.

    `columns` are arrays of the offset and the timestamp, then the key, value and
    headers, each None if it is not requested. A key or value is three arrays: data, n +
    1 offsets into it, and validity. Headers are n + 1 offsets into the headers, and the
    columns of their keys and values. All else is as in `decode_records`. The status is
    OUTPUT_FULL if a column is too small.
    """
    cdef Payloads payloads = payloads_of(src, rows, places, emitted)
    cdef RecordOutput out = new_output(within)
    cdef Headers found
    cdef int64_t[::1] offset, timestamp
    cdef int32_t[::1] header_offsets
    offset, timestamp, key, value, headers = columns
    out.gathers = True
    out.capacity = min(offset.shape[0], timestamp.shape[0])
    if out.capacity:
        out.offset, out.timestamp = &offset[0], &timestamp[0]
    out.key, out.value = strings_of(key), strings_of(value)
    if headers is not None:
        header_offsets = headers[0]
        if header_offsets.shape[0] <= out.capacity:
            raise ValueError(
                f"{header_offsets.shape[0]} header offsets, expected at least "
                f"{out.capacity + 1}"
            )
        header_offsets[0] = 0
        found.offsets = &header_offsets[0]
        found.key, found.value = strings_of(headers[1]), strings_of(headers[2])
        out.headers = &found
    return read_payloads(&payloads, check, &out)


def skip_records(
    const uint8_t[::1] src not None,
    rows not None,
    int64_t start,
    int64_t end,
    int64_t most_records,
    int64_t most_bytes,
):
    """Skip records of one batch of magic 2, whose header is the only one of `rows`.

    They begin at `start`. Stops after `most_records`, after the record that reaches
    `most_bytes`, and at the first that is invalid or extends past `end`. Returns
    (status, position in `src`, records skipped).
    """
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=NULL, pos=start, end=end)
    cdef Record record
    cdef const Batch* batch = row_of(rows)
    cdef int64_t skipped = 0
    if outside(start, end - start, src.shape[0]) or src.shape[0] > INT32_MAX:
        raise ValueError(
            f"range {start}..{end}, expected within {src.shape[0]} bytes and int32"
        )
    at.data = &src[0] if src.shape[0] else NULL
    with nogil:
        while skipped < most_records and at.pos - start < most_bytes:
            status = read_record(&at, batch, &record)
            if status != Status.OK:
                break
            skipped += 1
    return <int>status, at.pos, skipped


def decode_headers(
    const uint8_t[::1] src not None,
    const int32_t[::1] headers_start not None,
    const int32_t[::1] offsets not None,
    int32_t[:, ::1] out not None,
):
    """Decode the headers of records that `decode_records` has validated.

    Those of record i begin at ``headers_start[i]`` and fill columns ``offsets[i]`` to
    ``offsets[i + 1]`` of `out`, whose rows are key start and length, value start and
    length. Returns a status.
    """
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=NULL, pos=0, end=src.shape[0])
    cdef Py_ssize_t i
    cdef int32_t place
    if out.shape[0] != 4 or offsets.shape[0] != headers_start.shape[0] + 1:
        raise ValueError(
            f"{out.shape[0]} rows and {offsets.shape[0]} offsets, expected 4 and "
            f"{headers_start.shape[0] + 1}"
        )
    at.data = &src[0] if src.shape[0] else NULL
    with nogil:
        for i in range(headers_start.shape[0]):
            if i + RECORDS_AHEAD < headers_start.shape[0]:
                prefetch(at.data + headers_start[i + RECORDS_AHEAD])
                prefetch(at.data + headers_start[i + RECORDS_AHEAD] + LINE)
            at.pos = headers_start[i]
            if at.pos < 0 or offsets[i] < 0 or offsets[i + 1] > out.shape[1]:
                status = Status.RECORD_HEADERS
                break
            for place in range(offsets[i], offsets[i + 1]):
                status = read_header(
                    &at, &out[0, place], &out[1, place], &out[2, place], &out[3, place]
                )
                if status != Status.OK:
                    break
            if status != Status.OK:
                break
    return <int>status

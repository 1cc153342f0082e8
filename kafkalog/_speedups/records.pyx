"""Record kernels: many batches' records -> columns of places, in one nogil call.

`src` holds the payloads: of a magic 2 batch its records, of a magic 0 or 1 message the
message itself or, of a wrapper, the messages inside. Payload i is that of ``rows[i]``
and lies at ``starts[i]``, ``lengths[i]`` long.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    CODEC_MASK, LEAST_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD, MESSAGE_0_OVERHEAD,
    MESSAGE_1_OVERHEAD, Batch
)
from kafkalog._speedups._cursor cimport Cursor, Status, be32, be64, wrapping_add
from kafkalog._speedups._record cimport Record, read_header, read_record


cdef struct Bounds:
    int64_t first_offset
    int64_t last_offset
    int64_t first_timestamp
    int64_t last_timestamp
    bint bounded  # whether anything is left out at all
    bint timed


cdef struct Sink:
    # The columns, the row that comes next, and how many there are.
    int64_t* offset
    int64_t* timestamp
    int32_t* key_start
    int32_t* key_length
    int32_t* value_start
    int32_t* value_length
    int32_t* headers_start
    int32_t* header_count
    Py_ssize_t row
    Py_ssize_t capacity
    Bounds bounds


cdef inline bint wanted(const Record* record, const Bounds* bounds) noexcept nogil:
    if not bounds.bounded:
        return True
    if record.offset < bounds.first_offset or record.offset > bounds.last_offset:
        return False
    if not bounds.timed:
        return True
    return (
        record.timestamp != -1
        and record.timestamp >= bounds.first_timestamp
        and record.timestamp <= bounds.last_timestamp
    )


cdef inline void put(const Record* record, Sink* sink) noexcept nogil:
    # Write the record where the next one goes, which stays there unless it is wanted.
    cdef Py_ssize_t row = sink.row
    sink.offset[row] = record.offset
    sink.timestamp[row] = record.timestamp
    sink.key_start[row] = record.key_start
    sink.key_length[row] = record.key_length
    sink.value_start[row] = record.value_start
    sink.value_length[row] = record.value_length
    sink.headers_start[row] = record.headers_start
    sink.header_count[row] = record.header_count
    sink.row += wanted(record, &sink.bounds)


cdef inline Status read_batch_records(
    Cursor* at, const Batch* batch, Sink* sink
) noexcept nogil:
    cdef Status status
    cdef Record record
    cdef int32_t _i
    if batch.count < 0 or batch.count > sink.capacity - sink.row:
        return Status.ENTRY_COUNT
    for _i in range(batch.count):
        status = read_record(at, batch, &record)
        if status != Status.OK:
            return status
        put(&record, sink)
    if batch.count > 0 and at.pos != at.end:
        return Status.RECORD_LEFTOVER
    return Status.OK


cdef inline Status read_field(
    Cursor* at, int32_t* start, int32_t* length
) noexcept nogil:
    # An int32 length, any negative one being null, and that many bytes.
    cdef int32_t size
    if at.end - at.pos < 4:
        return Status.MESSAGE_SIZE
    size = be32(at.data + at.pos)
    if size > at.end - at.pos - 4:
        return Status.MESSAGE_SIZE
    start[0] = <int32_t>(at.pos + 4)
    length[0] = -1 if size < 0 else size
    at.pos += 4 + length[0] * (size >= 0)
    return Status.OK


cdef inline Status next_message(Cursor* at, Cursor* body) noexcept nogil:
    # The message at `at`; TRUNCATED where the set ends, whole or in mid-message.
    cdef int32_t size, least
    if at.end - at.pos < LOG_OVERHEAD:
        return Status.TRUNCATED
    size = be32(at.data + at.pos + 8)
    if size < LEAST_SIZE:
        return Status.ENTRY_TOO_SMALL
    if size > at.end - at.pos - LOG_OVERHEAD:
        return Status.TRUNCATED
    if at.data[at.pos + 16] > 1:
        return Status.ENTRY_MAGIC
    least = MESSAGE_1_OVERHEAD if at.data[at.pos + 16] else MESSAGE_0_OVERHEAD
    if size < least:
        return Status.ENTRY_TOO_SMALL
    body.data = at.data
    body.pos = at.pos
    body.end = at.pos + LOG_OVERHEAD + size
    at.pos = body.end
    return Status.OK


cdef inline Status read_message(
    Cursor* body, const Batch* batch, int64_t base_offset, Record* out
) noexcept nogil:
    # One message of magic 0 or 1; in a wrapper the time may be the wrapper's.
    cdef Status status
    cdef bint stamped = body.data[body.pos + 16] == 1
    cdef bint inner = batch.attributes & CODEC_MASK != 0
    if inner and body.data[body.pos + 17] & CODEC_MASK:
        return Status.MESSAGE_NESTED
    out.offset = wrapping_add(base_offset, be64(body.data + body.pos))
    out.timestamp = be64(body.data + body.pos + 18) if stamped else -1
    if stamped and batch.attributes & LOG_APPEND_TIME and batch.magic == 1:
        out.timestamp = batch.max_timestamp
    out.header_count = 0
    out.headers_start = <int32_t>body.pos
    body.pos += 26 if stamped else 18
    status = read_field(body, &out.key_start, &out.key_length)
    if status == Status.OK:
        status = read_field(body, &out.value_start, &out.value_length)
    return status


cdef inline Status read_messages(
    Cursor* at, const Batch* batch, int64_t base_offset, Sink* sink
) noexcept nogil:
    cdef Cursor body = Cursor(data=at.data, pos=0, end=0)
    cdef Record record
    cdef Status status
    while True:
        status = next_message(at, &body)
        if status == Status.TRUNCATED:
            return Status.OK
        if status == Status.OK and sink.row == sink.capacity:
            status = Status.ENTRY_COUNT
        if status == Status.OK:
            status = read_message(&body, batch, base_offset, &record)
        if status != Status.OK:
            return status
        put(&record, sink)


cdef inline bint outside(int64_t start, int64_t length, int64_t size) noexcept nogil:
    return start < 0 or length < 0 or start > size or length > size - start


def measure_wrappers(
    const uint8_t[::1] src not None,
    Batch[::1] rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    int64_t[::1] base_offsets not None,
):
    """Count the messages in each wrapper, and find what their offsets count from.

    Of each wrapper (magic 0 or 1, a codec) sets ``count`` and ``base_offset``, that of
    its first message, in `rows`, and in `base_offsets` what is to be added to a
    message's own offset; 0 for all other rows. Answers (status, row it stopped at).
    """
    cdef Status status = Status.OK
    cdef Cursor at, body
    cdef int64_t first = 0, last = 0
    cdef int32_t count
    cdef Py_ssize_t i, n = rows.shape[0], stopped = 0
    with nogil:
        for i in range(n):
            stopped = i
            base_offsets[i] = 0
            if rows[i].magic == 2 or rows[i].attributes & CODEC_MASK == 0:
                continue
            if outside(starts[i], lengths[i], src.shape[0]):
                status = Status.TRUNCATED
                break
            at.data = &src[0] if src.shape[0] else NULL
            at.pos = starts[i]
            at.end = starts[i] + lengths[i]
            count = 0
            status = next_message(&at, &body)
            while status == Status.OK and count < INT32_MAX:
                last = be64(body.data + body.pos)
                first = first if count else last
                count += 1
                status = next_message(&at, &body)
            if status != Status.TRUNCATED or count == 0:
                status = Status.WRAPPER_EMPTY if count == 0 else status
                break
            status = Status.OK
            if rows[i].magic == 1 and rows[i].last_offset != 0:
                if rows[i].last_offset < last:
                    status = Status.WRAPPER_OFFSET
                    break
                base_offsets[i] = rows[i].last_offset - last
            rows[i].count = count
            rows[i].base_offset = wrapping_add(base_offsets[i], first)
    return <int>status, stopped


cdef inline Status read_payload(
    Cursor* at, const Batch* batch, int64_t base_offset, Sink* sink
) noexcept nogil:
    if batch.magic == 2:
        return read_batch_records(at, batch, sink)
    return read_messages(at, batch, base_offset, sink)


def decode_records(
    const uint8_t[::1] src not None,
    const Batch[::1] rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] base_offsets not None,
    const int64_t[::1] bounds not None,
    bint timed,
    int64_t[:, ::1] longs not None,
    int32_t[:, ::1] ints not None,
    int64_t[::1] emitted not None,
):
    """Find every record of every payload, and keep those within `bounds`.

    `bounds` is the first and last offset, first and last timestamp wanted, the latter
    two heeded where `timed`. Fills the columns, rows of `longs` (offset, timestamp) and
    of `ints` (key start and length, value start and length, headers start and count),
    and `emitted` with the number of records kept of each payload. Answers (status, row
    it stopped at, place in `src`, records kept).
    """
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=NULL, pos=0, end=0)
    cdef Sink sink = Sink(
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, Bounds(0, 0, 0, 0, 0, 0)
    )
    cdef Py_ssize_t i, before, stopped = 0
    if src.shape[0] > INT32_MAX or longs.shape[0] != 2 or ints.shape[0] != 6:
        raise ValueError("2 and 6 columns, and places that fit int32")
    sink.capacity = min(longs.shape[1], ints.shape[1])
    sink.bounds = Bounds(bounds[0], bounds[1], bounds[2], bounds[3], True, timed)
    sink.bounds.bounded = timed or bounds[0] > INT64_MIN or bounds[1] < INT64_MAX
    if sink.capacity:
        sink.offset, sink.timestamp = &longs[0, 0], &longs[1, 0]
        sink.key_start, sink.key_length = &ints[0, 0], &ints[1, 0]
        sink.value_start, sink.value_length = &ints[2, 0], &ints[3, 0]
        sink.headers_start, sink.header_count = &ints[4, 0], &ints[5, 0]
    at.data = &src[0] if src.shape[0] else NULL
    with nogil:
        for i in range(rows.shape[0]):
            stopped, before = i, sink.row
            if outside(starts[i], lengths[i], src.shape[0]):
                status = Status.TRUNCATED
                break
            at.pos = starts[i]
            at.end = starts[i] + lengths[i]
            status = read_payload(&at, &rows[i], base_offsets[i], &sink)
            emitted[i] = sink.row - before
            if status != Status.OK:
                break
    return <int>status, stopped, at.pos, sink.row


def decode_headers(
    const uint8_t[::1] src not None,
    const int32_t[::1] headers_start not None,
    const int32_t[::1] offsets not None,
    int32_t[:, ::1] out not None,
):
    """Find the headers of records that `decode_records` has found sound.

    Record i's headers begin at ``headers_start[i]`` and fill columns ``offsets[i]`` to
    ``offsets[i + 1]`` of `out`, whose rows are key start and length, value start and
    length. Answers a status.
    """
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=NULL, pos=0, end=src.shape[0])
    cdef Py_ssize_t i
    cdef int32_t place
    if out.shape[0] != 4 or offsets.shape[0] != headers_start.shape[0] + 1:
        raise ValueError("4 rows of places, and one offset more than records")
    at.data = &src[0] if src.shape[0] else NULL
    with nogil:
        for i in range(headers_start.shape[0]):
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

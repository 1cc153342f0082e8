# Decode every record of a payload, and write it to a `RecordOutput`.
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    CODEC_MASK, LEAST_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD, MESSAGE_0_OVERHEAD,
    MESSAGE_1_OVERHEAD, Batch
)
from kafkalog._speedups._cursor cimport (
    LINE, Cursor, Status, be32, be64, prefetch, wrapping_add
)
from kafkalog._speedups._record cimport Record, read_record
from kafkalog._speedups._record_layout cimport (
    Layout, count_same_layout, layout_of_record
)
from kafkalog._speedups._record_output cimport (
    RecordOutput, all_in_bounds, put, put_same_layout, put_same_layout_longs
)


cdef enum:
    AHEAD = 16384  # bytes to prefetch ahead, across batches
    MOST_AHEAD = 512  # of them before a record; for more, its own loads would wait
    GROUP = 16  # records of one layout that are written at once, while in the cache


cdef inline Status read_batch_records(
    Cursor* payload, const Batch* batch, RecordOutput* out, bint gathers
) noexcept nogil:
    cdef Status status = Status.OK
    cdef Record record
    cdef Cursor at = payload[0]  # the compiler keeps local copies in registers
    cdef RecordOutput output = out[0]
    cdef Layout layout = Layout(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    cdef int64_t start, size = 0, near = at.pos + AHEAD, target
    cdef bint has_layout = False
    cdef int32_t i = 0, group
    if batch.count < 0 or batch.count > output.capacity - output.row:
        return Status.ENTRY_COUNT
    while i < batch.count and status == Status.OK:
        target = near + (GROUP if has_layout else 1) * MOST_AHEAD
        while near < min(target, at.pos + AHEAD):
            prefetch(at.data + near)
            near += LINE
        if has_layout:
            group = count_same_layout(&at, &layout, min(GROUP, batch.count - i))
            put_same_layout_longs(&at, batch, &layout, group, &output)
            has_layout = all_in_bounds(&output, group)
            if has_layout:
                status = put_same_layout(
                    &at, &layout, group, &record, &output, gathers
                )
                has_layout = group == GROUP
                i += group
            continue
        start = at.pos
        status = read_record(&at, batch, &record)
        if status == Status.OK:
            status = put(&at, &record, &output, gathers)
        i += 1
        # After two records of the same size the next ones often have their layout.
        has_layout = (
            at.pos - start == size and status == Status.OK
            and layout_of_record(&at, start, &record, &layout)
        )
        size = at.pos - start
    if status == Status.OK and batch.count > 0 and at.pos != at.end:
        status = Status.RECORD_LEFTOVER
    payload[0] = at
    out[0] = output
    return status


cdef inline Status read_field(
    Cursor* at, int32_t* start, int32_t* length
) noexcept nogil:
    # Read an int32 length, where any negative one is null, and that many bytes.
    cdef int32_t size
    if at.end - at.pos < 4:
        return Status.MESSAGE_SIZE
    size = be32(at.data + at.pos)
    if size > at.end - at.pos - 4:
        return Status.MESSAGE_SIZE
    start[0] = <int32_t>(at.pos + 4)
    length[0] = -1 if size < 0 else size
    at.pos += 4 + max(size, 0)
    return Status.OK


cdef inline Status next_message(Cursor* at, Cursor* body) noexcept nogil:
    # Find the message at `at`; TRUNCATED at the end of the set, and inside its last
    # message.
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
    # Read a message of magic 0 or 1. One in a wrapper of log append time has the
    # wrapper's timestamp.
    cdef Status status
    cdef bint timestamped = body.data[body.pos + 16] == 1
    cdef bint inner = batch.attributes & CODEC_MASK != 0
    if inner and body.data[body.pos + 17] & CODEC_MASK:
        return Status.MESSAGE_NESTED
    out.offset = wrapping_add(base_offset, be64(body.data + body.pos))
    out.timestamp = be64(body.data + body.pos + 18) if timestamped else -1
    if timestamped and batch.attributes & LOG_APPEND_TIME and batch.magic == 1:
        out.timestamp = batch.max_timestamp
    out.header_count = 0
    out.headers_start = <int32_t>body.pos
    body.pos += 26 if timestamped else 18
    status = read_field(body, &out.key_start, &out.key_length)
    if status == Status.OK:
        status = read_field(body, &out.value_start, &out.value_length)
    return status


cdef inline Status read_messages(
    Cursor* at, const Batch* batch, int64_t base_offset, RecordOutput* out
) noexcept nogil:
    cdef Cursor body = Cursor(data=at.data, pos=0, end=0)
    cdef Record record
    cdef Status status
    while True:
        status = next_message(at, &body)
        if status == Status.TRUNCATED:
            return Status.OK
        if status == Status.OK and out.row == out.capacity:
            status = Status.ENTRY_COUNT
        if status == Status.OK:
            status = read_message(&body, batch, base_offset, &record)
        if status == Status.OK:
            status = put(at, &record, out, out.gathers)
        if status != Status.OK:
            return status


cdef inline Status read_payload(
    Cursor* at, const Batch* batch, int64_t base_offset, RecordOutput* out
) noexcept nogil:
    if batch.magic < 2:
        return read_messages(at, batch, base_offset, out)
    if out.gathers:
        return read_batch_records(at, batch, out, True)
    return read_batch_records(at, batch, out, False)

# Every record of a payload, found, and put into a sink.
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._alike cimport Layout, count_alike, lay_out_record
from kafkalog._speedups._batch cimport (
    CODEC_MASK, LEAST_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD, MESSAGE_0_OVERHEAD,
    MESSAGE_1_OVERHEAD, Batch
)
from kafkalog._speedups._cursor cimport (
    LINE, Cursor, Status, be32, be64, prefetch, wrapping_add
)
from kafkalog._speedups._record cimport Record, read_record
from kafkalog._speedups._sink cimport (
    Sink, all_wanted, put, put_alike, put_alike_longs
)


cdef enum:
    AHEAD = 16384  # bytes: into what follows, where that is the next batch
    RUN = 16  # records alike that are put at once, while their lines are near


cdef inline Status read_batch_records(
    Cursor* payload, const Batch* batch, Sink* out, bint gathers
) noexcept nogil:
    cdef Status status = Status.OK
    cdef Record record
    cdef Cursor at = payload[0]  # copies, which the compiler holds in registers
    cdef Sink sink = out[0]
    cdef Layout lies = Layout(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    cdef int64_t start, size = 0, near = at.pos + AHEAD
    cdef bint laid_out = False
    cdef int32_t i = 0, run
    if batch.count < 0 or batch.count > sink.capacity - sink.row:
        return Status.ENTRY_COUNT
    while i < batch.count and status == Status.OK:
        while near < at.pos + AHEAD:
            prefetch(at.data + near)
            near += LINE
        if laid_out:
            run = count_alike(&at, &lies, min(RUN, batch.count - i))
            put_alike_longs(&at, batch, &lies, run, &sink)
            laid_out = all_wanted(&sink, run)
            if laid_out:
                status = put_alike(&at, &lies, run, &record, &sink, gathers)
                laid_out = run == RUN
                i += run
            continue
        start = at.pos
        status = read_record(&at, batch, &record)
        if status == Status.OK:
            status = put(&at, &record, &sink, gathers)
        i += 1
        # Two of the same size: the third may well lie as they do.
        laid_out = (
            at.pos - start == size and status == Status.OK
            and lay_out_record(&at, start, &record, &lies)
        )
        size = at.pos - start
    if status == Status.OK and batch.count > 0 and at.pos != at.end:
        status = Status.RECORD_LEFTOVER
    payload[0] = at
    out[0] = sink
    return status


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
        if status == Status.OK:
            status = put(at, &record, sink, sink.gathers)
        if status != Status.OK:
            return status


cdef inline Status read_payload(
    Cursor* at, const Batch* batch, int64_t base_offset, Sink* sink
) noexcept nogil:
    if batch.magic < 2:
        return read_messages(at, batch, base_offset, sink)
    if sink.gathers:
        return read_batch_records(at, batch, sink, True)
    return read_batch_records(at, batch, sink, False)

"""Record kernels: many batches' records -> their places, or columns gathered of them.

`src` holds the payloads: of a magic 2 batch its records, of a magic 0 or 1 message the
message itself or, of a wrapper, the messages inside. Payload i is that of ``rows[i]``
and lies at ``starts[i]``, ``lengths[i]`` long. Where checksums are to be looked at too,
each is right before its batch is read: so the bytes are fetched from memory but once.
"""
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memset

from kafkalog._speedups._batch cimport BATCH_HEADER, CODEC_MASK, Batch
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport Cursor, Status, be64, wrapping_add
from kafkalog._speedups._entry cimport is_sound
from kafkalog._speedups._payload cimport next_message, read_payload
from kafkalog._speedups._record cimport Record, read_header, read_record
from kafkalog._speedups._rows cimport Rows, hold_rows, release_rows
from kafkalog._speedups._sink cimport Bounds, Headers, Sink
from kafkalog._speedups._strings cimport strings_of

crc_setup()


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


cdef inline bint is_whole(
    const uint8_t* data, int64_t start, int64_t length, const Batch* row
) noexcept nogil:
    # Whether a payload is all of its batch, of magic 2, whose checksum is right.
    return (
        row.magic == 2 and start >= BATCH_HEADER
        and length == row.size_in_bytes - BATCH_HEADER
        and is_sound(data + start - BATCH_HEADER, row)
    )


cdef inline Sink new_sink(const int64_t[::1] bounds, bint timed) except *:
    # An empty one, with the bounds that both kernels are given.
    cdef Sink sink
    memset(&sink, 0, sizeof(Sink))
    sink.bounds = Bounds(bounds[0], bounds[1], bounds[2], bounds[3], True, timed)
    sink.bounds.bounded = timed or bounds[0] > INT64_MIN or bounds[1] < INT64_MAX
    return sink


cdef inline tuple read_payloads(
    const uint8_t[::1] src,
    rows,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    const int64_t[::1] base_offsets,
    bint check,
    Sink* sink,
    int64_t[::1] emitted,
):
    # Put every payload's records into `sink`; what both kernels answer.
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=NULL, pos=0, end=0)
    cdef Py_ssize_t i, before, stopped = 0
    cdef Rows held
    if src.shape[0] > INT32_MAX:
        raise ValueError("places that do not fit int32")
    if min(
        starts.shape[0], lengths.shape[0], base_offsets.shape[0], emitted.shape[0]
    ) < len(rows):
        raise ValueError("a start, a length, a base and a count for each row")
    at.data = &src[0] if src.shape[0] else NULL
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            stopped, before = i, sink.row
            emitted[i] = 0
            if outside(starts[i], lengths[i], src.shape[0]):
                status = Status.TRUNCATED
                break
            if check and not is_whole(at.data, starts[i], lengths[i], &held.at[i]):
                status = Status.CHECKSUM
                break
            at.pos = starts[i]
            at.end = starts[i] + lengths[i]
            status = read_payload(&at, &held.at[i], base_offsets[i], sink)
            emitted[i] = sink.row - before
            if status != Status.OK:
                break
    release_rows(&held)
    return <int>status, stopped, at.pos, sink.row


def decode_records(
    const uint8_t[::1] src not None,
    rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] base_offsets not None,
    const int64_t[::1] bounds not None,
    bint timed,
    bint check,
    int64_t[:, ::1] longs not None,
    int32_t[:, ::1] ints not None,
    int64_t[::1] emitted not None,
):
    """Find every record of every payload, and keep those within `bounds`.

    `bounds` is the first and last offset, first and last timestamp wanted, the latter
    two heeded where `timed`. Fills the columns, rows of `longs` (offset, timestamp) and
    of `ints` (key start and length, value start and length, headers start and count),
    and `emitted` with the number of records kept of each payload. With `check`, that a
    batch of magic 2 is whole before its payload, and its checksum right, is looked at.
    Answers (status, row it stopped at, place in `src`, records kept).
    """
    cdef Sink sink = new_sink(bounds, timed)
    if longs.shape[0] != 2 or ints.shape[0] != 6:
        raise ValueError("2 columns of int64, and 6 of int32")
    sink.capacity = min(longs.shape[1], ints.shape[1])
    if sink.capacity:
        sink.offset, sink.timestamp = &longs[0, 0], &longs[1, 0]
        sink.places.key_start, sink.places.key_length = &ints[0, 0], &ints[1, 0]
        sink.places.value_start, sink.places.value_length = &ints[2, 0], &ints[3, 0]
        sink.places.headers_start, sink.places.header_count = &ints[4, 0], &ints[5, 0]
    return read_payloads(
        src, rows, starts, lengths, base_offsets, check, &sink, emitted
    )


def gather_records(
    const uint8_t[::1] src not None,
    rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    const int64_t[::1] base_offsets not None,
    const int64_t[::1] bounds not None,
    bint timed,
    bint check,
    int64_t[::1] offset not None,
    int64_t[::1] timestamp not None,
    key,
    value,
    headers,
    int64_t[::1] emitted not None,
):
    """Find every record as `decode_records` does, and copy what is asked for of it.

    `key` and `value` are None or the arrays of a column: data, n + 1 offsets into it,
    and which rows are valid. `headers` is None or n + 1 offsets, between which a
    record's headers lie, and such arrays of their keys and of their values. Answers
    as `decode_records`; NO_ROOM where the arrays of bytes or headers do not suffice.
    """
    cdef Sink sink = new_sink(bounds, timed)
    cdef Headers found
    cdef int32_t[::1] header_offsets
    sink.gathers = True
    sink.capacity = min(offset.shape[0], timestamp.shape[0])
    if sink.capacity:
        sink.offset, sink.timestamp = &offset[0], &timestamp[0]
    sink.key, sink.value = strings_of(key), strings_of(value)
    if headers is not None:
        header_offsets = headers[0]
        if header_offsets.shape[0] <= sink.capacity:
            raise ValueError("headers have one offset more than there are records")
        header_offsets[0] = 0
        found.offsets = &header_offsets[0]
        found.key, found.value = strings_of(headers[1]), strings_of(headers[2])
        sink.headers = &found
    return read_payloads(
        src, rows, starts, lengths, base_offsets, check, &sink, emitted
    )


def pass_records(
    const uint8_t[::1] src not None,
    rows not None,
    int64_t start,
    int64_t end,
    int64_t most_records,
    int64_t most_bytes,
):
    """Pass over records of a batch of magic 2, that of the one row in `rows`.

    They begin at `start`. Stops behind `most_records`, or behind the record that makes
    it `most_bytes`, or at what is no record that ends by `end`. Answers (status, place
    in `src`, records passed).
    """
    cdef Status status = Status.OK
    cdef Cursor at = Cursor(data=NULL, pos=start, end=end)
    cdef Record record
    cdef Rows held
    cdef int64_t passed = 0
    if outside(start, end - start, src.shape[0]) or src.shape[0] > INT32_MAX:
        raise ValueError("records outside of the bytes, or places that do not fit")
    if len(rows) != 1:
        raise ValueError("records of one batch")
    at.data = &src[0] if src.shape[0] else NULL
    hold_rows(rows, &held)
    with nogil:
        while passed < most_records and at.pos - start < most_bytes:
            status = read_record(&at, &held.at[0], &record)
            if status != Status.OK:
                break
            passed += 1
    release_rows(&held)
    return <int>status, at.pos, passed


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

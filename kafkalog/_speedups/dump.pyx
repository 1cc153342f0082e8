"""Dump kernels: entries of a log -> the lines that kafka-dump-log prints of them.

A run goes on where the last one stopped, which the caller keeps as the one row of an
array of `Run`. Whatever it stops for is said by a `Halt`; all that was written until
then holds.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    BATCH_HEADER, CODEC_MASK, HEADER_UP_TO_MAGIC, LEAST_SIZE, LOG_OVERHEAD, Batch
)
from kafkalog._speedups._batch_text cimport (
    CONTROL, LINE_ROOM, add_sequence, put_batch, put_clock
)
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport Cursor, Status, be32, wrapping_add
from kafkalog._speedups._entry cimport read_batch, read_message
from kafkalog._speedups._message_text cimport put_internal
from kafkalog._speedups._message_values cimport Book
from kafkalog._speedups._record cimport Record, read_header, read_record
from kafkalog._speedups._text cimport put, put_int, put_text

crc_setup()

cpdef enum Halt:
    DONE  # the records of a batch given by itself
    FULL  # room is needed: `need` bytes for the line, or for more pairs
    MORE  # the bytes end before, or in, an entry
    SIZE  # an entry's size field is below the least
    HEADER  # no such compression type, or magic; what stands before was written
    RECORDS  # an entry's line is written, its records are the caller's to give
    CONTENTS  # a record's metadata are written; key and value are the caller's to give
    FAULT  # the next record cannot be
    LEFTOVER  # bytes remain behind the last record

cdef packed struct Run:
    int64_t entry  # place of the entry at hand in the bytes given
    int64_t origin  # position of the first of these in the log
    int64_t record  # records of the entry done; -1: not even its line
    int64_t next  # place of the next record in its payload
    int64_t last_offset
    int64_t written
    int64_t pairs  # of offsets that do not follow each other, so far
    int64_t need
    int64_t max_timestamp  # of the records so far
    int32_t key_start
    int32_t key_length
    int32_t value_start
    int32_t value_length
    int32_t headers_start
    int32_t header_count

cpdef enum Want:
    DEEP = 1  # records, too
    PRINT = 2  # their contents
    BARE = 4  # without metadata
    ASK = 8  # halt at each record's contents

cdef struct Output:
    uint8_t* start
    int64_t room
    Run* run
    int64_t* pairs
    int64_t most_pairs
    int want
    Book book  # of the records' schemas, or its `code` is NULL


cdef void read_header_of(const uint8_t* at, Batch* out) noexcept nogil:
    # The header at `at`, of which the caller knows that it is there.
    out.size_in_bytes = LOG_OVERHEAD + <int64_t>be32(at + 8)
    out.magic = <int8_t>at[16]
    if out.magic < 2:
        read_message(at, out)
    else:
        read_batch(at, out)


cdef uint8_t* put_header_keys(
    uint8_t* to, const Cursor* payload, const Record* record
) noexcept nogil:
    # Of headers that were found sound when the record was read.
    cdef Cursor at = Cursor(
        data=payload.data, pos=record.headers_start, end=payload.pos
    )
    cdef int32_t i, key = 0, key_length = 0, ignored = 0
    for i in range(record.header_count):
        if i:
            to = put(to, b",")
        read_header(&at, &key, &key_length, &ignored, &ignored)
        to = put_text(to, at.data + key, key_length)
    return to


cdef uint8_t* put_metadata(
    uint8_t* to, const Batch* batch, const Record* record, const Cursor* payload
) noexcept nogil:
    cdef int32_t sequence = -1
    if batch.base_sequence >= 0:
        sequence = add_sequence(
            batch.base_sequence, <int32_t>(record.offset - batch.base_offset)
        )
    to = put_int(put(to, b"| offset: "), record.offset)
    to = put_int(put_clock(put(to, b" "), batch), record.timestamp)
    to = put_int(put(to, b" keySize: "), record.key_length)
    to = put_int(put(to, b" valueSize: "), record.value_length)
    to = put_int(put(to, b" sequence: "), sequence)
    to = put_header_keys(put(to, b" headerKeys: ["), payload, record)
    return put(to, b"]")


cdef uint8_t* put_contents(
    uint8_t* to, const uint8_t* data, const Record* record, bint bare
) noexcept nogil:
    if record.key_length >= 0:
        to = put(to, b"| key: ") if bare else put(to, b" key: ")
        to = put_text(to, data + record.key_start, record.key_length)
        bare = False
    if record.value_length >= 0:
        to = put(to, b"| payload: ") if bare else put(to, b" payload: ")
        to = put_text(to, data + record.value_start, record.value_length)
    return to


cdef inline void note_gap(int64_t offset, Output* out) noexcept nogil:
    # Remember what does not follow the offset before. Room was seen to.
    cdef int64_t before = out.run.last_offset
    cdef int64_t count = out.run.pairs
    if offset != wrapping_add(before, 1):
        out.pairs[2 * count] = before
        out.pairs[2 * count + 1] = offset
        out.run.pairs = count + 1
    out.run.last_offset = offset


cdef Halt write_record(
    const Cursor* payload, const Batch* batch, const Record* record, Output* out
) noexcept nogil:
    # `payload` stands behind the record.
    cdef Run* run = out.run
    cdef uint8_t* start = out.start + run.written
    cdef uint8_t* to = start
    cdef uint8_t* described = NULL
    note_gap(record.offset, out)
    run.max_timestamp = max(run.max_timestamp, record.timestamp)
    if not out.want & Want.BARE:
        to = put_metadata(to, batch, record, payload)
    if not out.want & Want.ASK:
        if out.want & Want.PRINT:
            to = put_contents(to, payload.data, record, out.want & Want.BARE)
        to = put(to, b"\n")
    elif out.book.code != NULL:
        described = put_internal(
            &out.book,
            payload.data + record.key_start,
            record.key_length,
            payload.data + record.value_start,
            record.value_length,
            out.want & Want.BARE,
            to,
            out.start + out.room - 1,
        )
        if described != NULL:
            to = put(described, b"\n")
    run.written += to - start
    run.record += 1
    run.next = payload.pos
    if described != NULL or not out.want & Want.ASK:
        return Halt.DONE
    run.key_start = record.key_start
    run.key_length = record.key_length
    run.value_start = record.value_start
    run.value_length = record.value_length
    run.headers_start = record.headers_start
    run.header_count = record.header_count
    return Halt.CONTENTS


cdef Halt write_records(
    const uint8_t* data, int64_t end, const Batch* batch, Output* out
) noexcept nogil:
    # The records of a payload that ends at `end`, from where the last run stopped.
    cdef Cursor at = Cursor(data=data, pos=out.run.next, end=end)
    cdef Record record
    cdef Halt halt
    cdef int64_t before
    if batch.count < 0:
        return Halt.FAULT
    while out.run.record < batch.count:
        before = at.pos
        if read_record(&at, batch, &record) != Status.OK:
            return Halt.FAULT
        if out.run.record + 1 == batch.count and at.pos != end:
            return Halt.LEFTOVER
        out.run.need = LINE_ROOM + 3 * (at.pos - before)
        if (
            out.room - out.run.written < out.run.need
            or out.run.pairs == out.most_pairs
        ):
            return Halt.FULL
        halt = write_record(&at, batch, &record, out)
        if halt != Halt.DONE:
            return halt
    return Halt.DONE


cdef Halt check_records(
    const uint8_t* data, int64_t end, const Batch* batch, Run* run
) noexcept nogil:
    # Whether all of a payload's records can be read; where not, NEXT is at the first.
    cdef Cursor at = Cursor(data=data, pos=0, end=end)
    cdef Record record
    cdef int32_t _record
    if batch.count < 0:
        return Halt.FAULT
    for _record in range(batch.count):
        run.next = at.pos
        if read_record(&at, batch, &record) != Status.OK:
            return Halt.FAULT
    run.next = 0
    return Halt.LEFTOVER if batch.count and at.pos != end else Halt.DONE


cdef Halt next_batch(
    const uint8_t* data, int64_t end, Batch* batch, Output* out
) noexcept nogil:
    # Read the header of the entry at hand, and write its line if that is not done.
    cdef Run* run = out.run
    cdef int64_t at = run.entry, least = BATCH_HEADER
    cdef uint8_t* to
    run.need = HEADER_UP_TO_MAGIC + 1
    if end - at < run.need:
        return Halt.MORE
    if be32(data + at + 8) < LEAST_SIZE:
        return Halt.SIZE
    if <int8_t>data[at + 16] < 2:
        least = 0  # its size was seen to hold a header
    run.need = max(least, LOG_OVERHEAD + <int64_t>be32(data + at + 8))
    if run.need > end - at:
        return Halt.MORE
    read_header_of(data + at, batch)
    if run.record >= 0:
        return Halt.DONE
    if out.room - run.written < LINE_ROOM:
        run.need = LINE_ROOM
        return Halt.FULL
    to = put_batch(out.start + run.written, data + at, batch, run.origin + at)
    run.written = to - out.start
    if batch.magic < 0 or batch.attributes & CODEC_MASK > 4:
        return Halt.HEADER
    run.record = 0
    run.next = at + BATCH_HEADER
    if out.want & Want.DEEP and (
        batch.magic < 2
        or batch.size_in_bytes < BATCH_HEADER
        or batch.attributes & (CONTROL | CODEC_MASK)
    ):
        return Halt.RECORDS
    return Halt.DONE


cdef void next_entry(Run* run, const Batch* batch) noexcept nogil:
    run.entry += batch.size_in_bytes
    run.record = -1


cdef Output output_of(
    Run[::1] run, uint8_t[::1] out, int64_t[:, ::1] pairs, int want, tuple book
) except *:
    cdef Output of
    cdef const int32_t[::1] code
    cdef const uint8_t[::1] texts
    if run.shape[0] != 1 or not pairs.shape[0] or pairs.shape[1] != 2:
        raise ValueError("a run is one row, and needs room for pairs of offsets")
    if not out.shape[0] or not 0 <= run[0].written <= out.shape[0]:
        raise ValueError("what is written lies in the room for it")
    of.start, of.room = &out[0], out.shape[0]
    of.run, of.want = &run[0], want
    of.pairs, of.most_pairs = &pairs[0, 0], pairs.shape[0]
    of.book.code = NULL
    of.book.texts = NULL
    if book is not None:
        code, texts = book
        of.book.code, of.book.texts = &code[0], &texts[0]
    return of


def dump_batches(
    const uint8_t[::1] src not None,
    Run[::1] run not None,
    uint8_t[::1] out not None,
    int64_t[:, ::1] pairs not None,
    int want,
    tuple book=None,
):
    """Write the lines of the entries in `src`, from `run` on, and say why it ended.

    Records are those of plain batches of magic 2 without the control flag; at others
    the run halts, and the caller goes on with `dump_records` or by itself. With a
    `book` of schemas (`formats.message_books`) the kernel writes contents by it, as far
    as it can, where it would else halt and ASK.
    """
    cdef Batch batch
    cdef Halt halt = Halt.DONE
    cdef Output to = output_of(run, out, pairs, want, book)
    cdef int64_t end = src.shape[0]
    cdef const uint8_t* data = &src[0] if end else NULL
    if run[0].entry < 0:
        raise ValueError("an entry lies in the bytes given")
    with nogil:
        while halt == Halt.DONE:
            halt = next_batch(data, end, &batch, &to)
            if halt == Halt.DONE and want & Want.DEEP:
                halt = write_records(
                    data, to.run.entry + batch.size_in_bytes, &batch, &to
                )
            if halt == Halt.DONE:
                next_entry(to.run, &batch)
    return halt


def dump_records(
    const uint8_t[::1] header not None,
    const uint8_t[::1] payload not None,
    Run[::1] run not None,
    uint8_t[::1] out not None,
    int64_t[:, ::1] pairs not None,
    int want,
    tuple book=None,
):
    """Write the lines of one batch's records, which lie in `payload`, behind its own.

    Where that was compressed, nothing is written if one of them cannot be. `DONE`
    leaves `run` at the entry behind; `header` is the batch, or its first 61 bytes.
    """
    cdef Batch batch
    cdef Halt halt = Halt.DONE
    cdef Output to = output_of(run, out, pairs, want, book)
    cdef int64_t end = payload.shape[0]
    cdef const uint8_t* data = &payload[0] if end else NULL
    if header.shape[0] < BATCH_HEADER or not 0 <= run[0].next <= end:
        raise ValueError("a batch has 61 bytes of header, and a record its place")
    with nogil:
        read_header_of(&header[0], &batch)
        if run[0].record == 0 and batch.attributes & CODEC_MASK:
            halt = check_records(data, end, &batch, to.run)
        if halt == Halt.DONE:
            halt = write_records(data, end, &batch, &to)
        if halt == Halt.DONE:
            next_entry(to.run, &batch)
    return halt

"""Write the lines that kafka-dump-log prints of the entries of a log.

The caller owns the position and counts, a `Run` in an array of one row. Each call
continues there, and returns a `Halt`, the reason why it stopped. All lines written
until then are complete.

Other kernels process whole arrays. This one stops and continues, since lines may be
longer than any buffer, and since compressed batches, old formats and invalid records
are in the midst of others and are left to Python. What it writes is text in the order
of the log, so it cannot first do all entries of one kind.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    BATCH_HEADER, CODEC_MASK, CONTROL, HEADER_UP_TO_MAGIC, LAST_CODEC, LEAST_SIZE,
    LOG_OVERHEAD, Batch
)
from kafkalog._speedups._batch_text cimport (
    LINE_BYTES, add_sequence, put_batch, put_timestamp_type
)
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport (
    Cursor, Status, be32, wrapping_add, wrapping_sub
)
from kafkalog._speedups._entry cimport read_batch, read_message
from kafkalog._speedups._message_text cimport put_internal
from kafkalog._speedups._message_values cimport SchemaTable
from kafkalog._speedups._record cimport Record, read_header, read_record
from kafkalog._speedups._text cimport put, put_int, put_text

crc_setup()

cpdef enum Halt:
    DONE  # all records of a single batch are written
    FULL  # `out` needs `need` bytes for the next line, or `pairs` is full
    MORE  # the bytes end before an entry, or inside it
    SIZE  # an entry's size field is below the least value
    HEADER  # unknown compression type or magic; the line is written up to there
    RECORDS  # an entry's line is written; the caller writes its records
    CONTENTS  # a record's metadata are written; the caller writes key and value
    FAULT  # the next record is invalid
    LEFTOVER  # bytes remain after the last record

cdef packed struct Run:
    int64_t entry  # position of the current entry in the bytes
    int64_t origin  # position of the bytes in the log
    int64_t record  # records of the entry written; -1 before its line is
    int64_t next  # position of the next record in its payload
    int64_t last_offset
    int64_t written
    int64_t pairs  # of consecutive records whose offsets are not, so far
    int64_t need
    int64_t max_timestamp  # of the records so far
    int32_t key_start
    int32_t key_length
    int32_t value_start
    int32_t value_length
    int32_t headers_start
    int32_t header_count

cpdef enum DumpFlag:
    DEEP = 1  # the records
    PRINT = 2  # their keys and values
    BARE = 4  # without their metadata
    STOP = 8  # before each key and value

cdef struct Output:
    uint8_t* start
    int64_t capacity
    Run* run
    int64_t* pairs
    int64_t most_pairs
    int flags
    SchemaTable schemas  # of the records; `code` is NULL if there is none


cdef void read_header_of(const uint8_t* at, Batch* out) noexcept nogil:
    # Read the header at `at`, all of which can be read.
    out.size_in_bytes = LOG_OVERHEAD + <int64_t>be32(at + 8)
    out.magic = <int8_t>at[16]
    if out.magic < 2:
        read_message(at, out)
    else:
        read_batch(at, out)


cdef uint8_t* put_header_keys(
    uint8_t* to, const Cursor* payload, const Record* record
) noexcept nogil:
    # Write the keys of headers that were validated with their record.
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
            batch.base_sequence,
            <int32_t>wrapping_sub(record.offset, batch.base_offset),
        )
    to = put_int(put(to, b"| offset: "), record.offset)
    to = put_int(put_timestamp_type(put(to, b" "), batch), record.timestamp)
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
    # Add a pair if the offset does not follow the last one. `pairs` has space for it.
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
    # Write the line of a record; `payload` is at the end of it.
    cdef Run* run = out.run
    cdef uint8_t* start = out.start + run.written
    cdef uint8_t* to = start
    cdef uint8_t* described = NULL
    note_gap(record.offset, out)
    run.max_timestamp = max(run.max_timestamp, record.timestamp)
    if not out.flags & DumpFlag.BARE:
        to = put_metadata(to, batch, record, payload)
    if not out.flags & DumpFlag.STOP:
        if out.flags & DumpFlag.PRINT:
            to = put_contents(to, payload.data, record, out.flags & DumpFlag.BARE)
        to = put(to, b"\n")
    elif out.schemas.code != NULL:
        described = put_internal(
            &out.schemas,
            payload.data + record.key_start,
            record.key_length,
            payload.data + record.value_start,
            record.value_length,
            out.flags & DumpFlag.BARE,
            to,
            out.start + out.capacity - 1,
        )
        if described != NULL:
            to = put(described, b"\n")
    run.written += to - start
    run.record += 1
    run.next = payload.pos
    if described != NULL or not out.flags & DumpFlag.STOP:
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
    # Write the records of a payload that ends at `end`, from `next` on.
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
        out.run.need = LINE_BYTES + 3 * (at.pos - before)
        if (
            out.capacity - out.run.written < out.run.need
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
    # Check that all records of a payload can be read; `next` is then 0, else the
    # position of the first that cannot.
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
    # Read the header of the current entry, and write its line if it is not written.
    cdef Run* run = out.run
    cdef int64_t at = run.entry, least = BATCH_HEADER
    cdef uint8_t* to
    run.need = HEADER_UP_TO_MAGIC + 1
    if end - at < run.need:
        return Halt.MORE
    if be32(data + at + 8) < LEAST_SIZE:
        return Halt.SIZE
    if <int8_t>data[at + 16] < 2:
        least = 0  # the size field was found large enough for the header
    run.need = max(least, LOG_OVERHEAD + <int64_t>be32(data + at + 8))
    if run.need > end - at:
        return Halt.MORE
    read_header_of(data + at, batch)
    if run.record >= 0:
        return Halt.DONE
    if out.capacity - run.written < LINE_BYTES:
        run.need = LINE_BYTES
        return Halt.FULL
    to = put_batch(out.start + run.written, data + at, batch, run.origin + at)
    run.written = to - out.start
    if batch.magic < 0 or batch.attributes & CODEC_MASK > LAST_CODEC:
        return Halt.HEADER
    run.record = 0
    run.next = at + BATCH_HEADER
    if out.flags & DumpFlag.DEEP and (
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
    Run[::1] run, uint8_t[::1] out, int64_t[:, ::1] pairs, int flags, tuple schemas
) except *:
    cdef Output of
    cdef const int32_t[::1] code
    cdef const uint8_t[::1] texts
    if run.shape[0] != 1 or not pairs.shape[0] or pairs.shape[1] != 2:
        raise ValueError(
            f"{run.shape[0]} rows of run, pairs of shape {pairs.shape[0]} x "
            f"{pairs.shape[1]}, expected 1, and at least 1 x 2"
        )
    if not out.shape[0] or not 0 <= run[0].written <= out.shape[0]:
        raise ValueError(
            f"written {run[0].written}, expected within {out.shape[0]} bytes"
        )
    of.start, of.capacity = &out[0], out.shape[0]
    of.run, of.flags = &run[0], flags
    of.pairs, of.most_pairs = &pairs[0, 0], pairs.shape[0]
    of.schemas.code = NULL
    of.schemas.texts = NULL
    if schemas is not None:
        code, texts = schemas
        of.schemas.code, of.schemas.texts = &code[0], &texts[0]
    return of


def dump_batches(
    const uint8_t[::1] src not None,
    Run[::1] run not None,
    uint8_t[::1] out not None,
    int64_t[:, ::1] pairs not None,
    int flags,
    tuple schemas=None,
):
    """Write the lines of the entries in `src` from `run` on; return why it stopped.

    Records are written of uncompressed data batches of magic 2. At any other the kernel
    stops, and the caller continues with `dump_records` or by itself. With `schemas`
    (`messages.schema_compiler`) keys and values of internal topics are written where
    the kernel would otherwise stop, as far as their schemas are supported.
    """
    cdef Batch batch
    cdef Halt halt = Halt.DONE
    cdef Output to = output_of(run, out, pairs, flags, schemas)
    cdef int64_t end = src.shape[0]
    cdef const uint8_t* data = &src[0] if end else NULL
    if run[0].entry < 0:
        raise ValueError(f"entry {run[0].entry}, expected at least 0")
    with nogil:
        while halt == Halt.DONE:
            halt = next_batch(data, end, &batch, &to)
            if halt == Halt.DONE and flags & DumpFlag.DEEP:
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
    int flags,
    tuple schemas=None,
):
    """Write the lines of one batch's records, which are in `payload`.

    If the batch is compressed, no line is written unless all records are valid. After
    DONE `run` is at the next entry. `header` is the batch, or its first 61 bytes.
    """
    cdef Batch batch
    cdef Halt halt = Halt.DONE
    cdef Output to = output_of(run, out, pairs, flags, schemas)
    cdef int64_t end = payload.shape[0]
    cdef const uint8_t* data = &payload[0] if end else NULL
    if header.shape[0] < BATCH_HEADER or not 0 <= run[0].next <= end:
        raise ValueError(
            f"header of {header.shape[0]} bytes, record at {run[0].next}, expected at "
            f"least {BATCH_HEADER}, and within {end} bytes"
        )
    with nogil:
        read_header_of(&header[0], &batch)
        if run[0].record == 0 and batch.attributes & CODEC_MASK:
            halt = check_records(data, end, &batch, to.run)
        if halt == Halt.DONE:
            halt = write_records(data, end, &batch, &to)
        if halt == Halt.DONE:
            next_entry(to.run, &batch)
    return halt

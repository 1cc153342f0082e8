"""Validation kernels: many appends judged, stamped and given offsets, a call for all.

They know what is plainly right, and stop at the first append that is not: what is wrong
with it, and whether it is wrong at all, is said elsewhere, one append at a time.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport (
    BATCH_CRC_FROM, BATCH_HEADER, CODEC_MASK, LOG_APPEND_TIME, Batch
)
from kafkalog._speedups._crc cimport CRC32C, crc, crc_setup
from kafkalog._speedups._cursor cimport (
    Cursor, Status, be32, put16, put32, put64, wrapping_add
)
from kafkalog._speedups._entry cimport is_sound, read_entry
from kafkalog._speedups._record cimport Record, read_record

crc_setup()

cdef enum:
    LAST_CODEC = 4
    CONTROL = 0x20
    KNOWN_ATTRIBUTES = 0x7F


cdef struct Wanted:
    # Of a batch that comes in.
    bint from_zero
    bint rising
    int32_t least_epoch
    int32_t greatest_epoch
    int64_t most_bytes


cdef struct Rules:
    # Of a batch that a leader takes.
    bint from_client
    bint keyed
    int codec  # -1 any
    int64_t least_timestamp
    int64_t greatest_timestamp


cdef struct Stamp:
    bint at_append
    int32_t leader_epoch
    int64_t now_ms


cdef inline void begin_append(Append* info) noexcept nogil:
    # What is said of an append without a batch.
    info.first_offset = info.last_offset = info.last_offset_of_first_batch = -1
    info.max_timestamp = info.log_append_time = info.last_leader_epoch = -1
    info.valid_bytes = info.records = info.source_codec = info.rebuilt = 0


cdef inline void note_batch(const Batch* row, bint first, Append* info) noexcept nogil:
    cdef int codec = row.attributes & CODEC_MASK
    if first:
        info.first_offset = row.base_offset if row.magic == 2 else -1
        info.last_offset_of_first_batch = row.last_offset
    info.last_offset = row.last_offset
    info.last_leader_epoch = row.leader_epoch
    info.max_timestamp = max(info.max_timestamp, row.max_timestamp)
    info.valid_bytes += row.size_in_bytes
    info.source_codec = codec if codec else info.source_codec


cdef inline bint take_batch(
    const uint8_t* src, int64_t pos, int64_t end, const Wanted* wanted, Batch* row,
    const Append* info
) noexcept nogil:
    # Whether a batch lies whole and sound at `pos`, and is as wanted.
    if read_entry(src, pos, end, row) != Status.OK:
        return False
    return (
        row.size_in_bytes <= wanted.most_bytes
        and row.leader_epoch >= wanted.least_epoch
        and row.leader_epoch <= wanted.greatest_epoch
        and row.attributes & CODEC_MASK <= LAST_CODEC
        and not (wanted.from_zero and row.magic == 2 and row.base_offset != 0)
        and not (wanted.rising and row.last_offset <= info.last_offset)
        and is_sound(src + pos, row)
    )


def take_batches(
    const uint8_t[::1] data not None,
    const int64_t[::1] byte_bounds not None,
    bint from_zero,
    bint rising,
    int32_t least_epoch,
    int32_t greatest_epoch,
    int64_t most_bytes,
    Batch[::1] rows not None,
    Append[::1] info not None,
    int64_t[::1] row_bounds not None,
):
    """Fill `rows` with the headers of each append's batches, `info` with what they say.

    Append i is ``data[byte_bounds[i]:byte_bounds[i + 1]]``. It is plain if it is whole,
    sound batches, each of `most_bytes` at most, in the range of epochs, with a base
    offset of 0 where `from_zero`, and with last offsets that rise where `rising`.
    Answers how many appends are plain before the first that is not, and rows filled.
    """
    cdef Wanted wanted = Wanted(
        from_zero, rising, least_epoch, greatest_epoch, most_bytes
    )
    cdef const uint8_t* src = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t i, row = 0, done = 0
    cdef int64_t pos = 0, end = data.shape[0]
    if row_bounds.shape[0] != info.shape[0] + 1 or len(byte_bounds) != len(row_bounds):
        raise ValueError("appends have a bound more")
    with nogil:
        row_bounds[0] = 0
        for i in range(info.shape[0]):
            begin_append(&info[i])
            pos, end = byte_bounds[i], byte_bounds[i + 1]
            if pos < 0 or end > data.shape[0]:
                break
            while pos < end and row < rows.shape[0]:
                if not take_batch(src, pos, end, &wanted, &rows[row], &info[i]):
                    break
                note_batch(&rows[row], row == row_bounds[i], &info[i])
                pos += rows[row].size_in_bytes
                row += 1
            row_bounds[i + 1] = row
            if pos < end:
                break
            done += 1
    return done, row


cdef inline bint judge_header(const Batch* row, const Rules* rules) noexcept nogil:
    # Whether a batch needs no rebuilding, and says nothing that its origin may not.
    if row.magic != 2 or row.attributes & LOG_APPEND_TIME or (
        rules.codec >= 0 and row.attributes & CODEC_MASK != rules.codec
    ):
        return False
    return not rules.from_client or (
        row.count > 0 and not row.attributes & CONTROL
        and wrapping_add(row.base_offset, row.count - 1) == row.last_offset
        and (row.producer_id < 0 or row.base_sequence >= 0)
    )


cdef inline bint survey_batch(
    Cursor* at, const Batch* batch, const Rules* rules, Append* info
) noexcept nogil:
    # Whether every record of the batch is whole and may be so.
    cdef Record record
    cdef int32_t i
    cdef int64_t found = -1
    for i in range(batch.count):
        if read_record(at, batch, &record) != Status.OK:
            return False
        if rules.keyed and record.key_length < 0:
            return False
        if record.timestamp != -1 and (
            record.timestamp < rules.least_timestamp
            or record.timestamp > rules.greatest_timestamp
        ):
            return False
        if batch.attributes & CODEC_MASK and record.offset != i:
            return False
        found = max(found, record.timestamp)
    info.max_timestamp = found
    info.records = batch.count
    return batch.count == 0 or (batch.count > 0 and at.pos == at.end)


cdef inline bint lies_in(const Batch* row, int64_t size) noexcept nogil:
    return (
        row.position >= 0 and row.size_in_bytes >= BATCH_HEADER
        and row.position <= size - row.size_in_bytes
    )


def survey_batches(
    const uint8_t[::1] src not None,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    const Batch[::1] rows not None,
    const int64_t[::1] row_bounds not None,
    Append[::1] info not None,
    bint from_client,
    bint keyed,
    int codec,
    int64_t least_timestamp,
    int64_t greatest_timestamp,
):
    """Walk the records of appends, and note how many there are and the latest of them.

    The records of ``rows[i]`` are ``src[starts[i]:]``, ``lengths[i]`` long, unpacked;
    or, without `starts`, behind their header in `src`. An append is plain if it is one
    batch of magic 2 and `codec` (-1 any) that says nothing its origin may not, and its
    records are whole, have keys where `keyed`, timestamps in the range or none and,
    where it came packed, offsets from 0 without a gap. Answers how many are plain
    before the first that is not.
    """
    cdef Rules rules = Rules(
        from_client, keyed, codec, least_timestamp, greatest_timestamp
    )
    cdef Cursor at = Cursor(data=NULL, pos=0, end=0)
    cdef Py_ssize_t i, done = 0
    cdef bint placed = starts is not None
    if row_bounds.shape[0] != info.shape[0] + 1:
        raise ValueError("appends have a bound more")
    if placed and (len(starts) != len(rows) or len(lengths) != len(rows)):
        raise ValueError("batches have a place each")
    at.data = &src[0] if src.shape[0] else NULL
    with nogil:
        for i in range(info.shape[0]):
            if i >= rows.shape[0] or row_bounds[i] != i or row_bounds[i + 1] != i + 1:
                break
            at.pos = starts[i] if placed else rows[i].position + BATCH_HEADER
            at.end = at.pos + (
                lengths[i] if placed else rows[i].size_in_bytes - BATCH_HEADER
            )
            if at.pos < 0 or at.end < at.pos or at.end > src.shape[0]:
                break
            if not judge_header(&rows[i], &rules):
                break
            if not survey_batch(&at, &rows[i], &rules, &info[i]):
                break
            done += 1
    return done


cdef inline void stamp_batch(
    uint8_t* at, const Stamp* stamp, Batch* row, Append* info
) noexcept nogil:
    # Write what the leader says; the checksum is made anew only where it covers it.
    cdef int attributes = row.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME
    put32(at + 12, stamp.leader_epoch)
    row.leader_epoch = stamp.leader_epoch
    if stamp.at_append:
        attributes |= LOG_APPEND_TIME
        info.max_timestamp = info.log_append_time = stamp.now_ms
    if (
        (attributes ^ row.attributes) & LOG_APPEND_TIME == 0
        and info.max_timestamp == row.max_timestamp
    ):
        return
    row.attributes = attributes
    row.max_timestamp = info.max_timestamp
    put16(at + 21, row.attributes)
    put64(at + 35, row.max_timestamp)
    row.crc = crc(CRC32C, at + BATCH_CRC_FROM, row.size_in_bytes - BATCH_CRC_FROM)
    put32(at + 17, <int32_t>row.crc)


def stamp_batches(
    Batch[::1] rows not None,
    Append[::1] info not None,
    bint at_append,
    int64_t now_ms,
    int32_t leader_epoch,
    uint8_t[::1] data not None,
):
    """Write leader epoch, timestamp type and max timestamp into the batches in `data`.

    The max timestamp is that of `info`, or `now_ms` where `at_append`. Rows and `info`
    say what was written. Answers rows done: fewer than all where a batch does not lie
    in `data`.
    """
    cdef Stamp stamp = Stamp(at_append, leader_epoch, now_ms)
    cdef Py_ssize_t i, done = 0
    if info.shape[0] != rows.shape[0]:
        raise ValueError("each append has one batch")
    with nogil:
        for i in range(rows.shape[0]):
            if not lies_in(&rows[i], data.shape[0]):
                break
            stamp_batch(&data[rows[i].position], &stamp, &rows[i], &info[i])
            done += 1
    return done


def place_batches(
    Batch[::1] rows not None,
    const int64_t[::1] row_bounds not None,
    Append[::1] info not None,
    int64_t next_offset,
    uint8_t[::1] data not None,
):
    """Give the appends of `info` offsets from `next_offset` on, and their batches.

    Append i has the batch ``rows[row_bounds[i]]`` or none; it takes as many offsets as
    it has records, and its batch ends with the last of them. Answers the offset behind
    all, or -1 where a batch does not lie in `data`.
    """
    cdef Py_ssize_t i, row
    cdef uint8_t* at
    if row_bounds.shape[0] != info.shape[0] + 1:
        raise ValueError("appends have a bound more")
    with nogil:
        for i in range(info.shape[0]):
            row = row_bounds[i]
            if row == row_bounds[i + 1]:
                continue
            if row < 0 or row >= rows.shape[0] or (
                not lies_in(&rows[row], data.shape[0])
            ):
                next_offset = -1
                break
            at = &data[rows[row].position]
            info[i].first_offset = next_offset
            next_offset += info[i].records
            info[i].last_offset = rows[row].last_offset = next_offset - 1
            # Where a batch has gaps, it begins below the offset it was to take first.
            rows[row].base_offset = rows[row].last_offset - be32(at + 23)
            put64(at, rows[row].base_offset)
    return next_offset

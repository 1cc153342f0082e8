"""Validate many appends, stamp their batches and assign offsets, in one call.

The kernels accept ordinary appends, and stop at the first that is not one. Whether
that is valid, and which error it raises, is decided by `kafkalog.validation`, one
append at a time.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkalog._speedups._record_layout cimport (
    Layout, has_layout, layout_of_record, le64, offset_in, timestamp_in
)
from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport (
    BATCH_CRC_FROM, BATCH_HEADER, CODEC_MASK, CONTROL, KNOWN_ATTRIBUTES, LAST_CODEC,
    LOG_APPEND_TIME, LOG_OVERHEAD, Batch
)
from kafkalog._speedups._crc cimport CRC32C, crc, crc_setup
from kafkalog._speedups._cursor cimport (
    Cursor, Status, be32, be64, put16, put32, put64
)
from kafkalog._speedups._entry cimport crc_matches, read_entry
from kafkalog._speedups._buffers cimport Buffers, hold_buffers, release_buffers
from kafkalog._speedups._record cimport Record, read_record, read_short_record
from kafkalog._speedups._placing cimport is_inside, place_append
from kafkalog._speedups._rows cimport (
    AppendArrays, Rows, append_arrays_of, row_of, rows_of
)

crc_setup()

cdef uint64_t LEAST_AGE = <uint64_t>1 << 63
cdef uint64_t ANY_TIME = <uint64_t>-1


cdef struct Requirements:
    # Requirements on a batch's header.
    bint same_epoch  # from a Raft leader: `leader_epoch`
    bint from_zero  # from a client: base offset 0
    bint until_newer  # from another replica: up to a batch above `leader_epoch`
    bint ascending
    int32_t leader_epoch
    int64_t most_bytes


cdef struct Rules:
    # Requirements on a batch that a leader appends.
    bint from_client
    bint keyed
    int codec  # -1 any
    bint at_append  # whether the topic replaces timestamps
    int32_t leader_epoch
    # Timestamps are valid from `earliest` to `earliest + span`; all three wrap.
    uint64_t now
    uint64_t earliest
    uint64_t span


cdef struct Found:
    # The headers found so far, in an array for `capacity` of them.
    Batch* at
    Py_ssize_t rows
    Py_ssize_t capacity


cdef inline void begin_append(Append* info) noexcept nogil:
    # Set the row of an append without batches.
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


cpdef enum EntryFault:
    # In the order of Kafka's UnifiedLog.analyzeAndValidateRecords.
    NO_FAULT
    NO_ENTRY  # no complete entry, or an unknown magic
    LEADER_EPOCH
    BASE_OFFSET
    NEWER_EPOCH  # not an error: this batch and all after it are dropped
    TOO_LARGE
    TOO_SMALL  # for the header of its magic
    WRONG_CRC
    UNKNOWN_CODEC
    NOT_ASCENDING


cdef inline EntryFault read_required(
    const uint8_t* src, int64_t pos, int64_t end, const Requirements* required,
    int64_t last_offset, Batch* row
) noexcept nogil:
    # Read the header of the entry at `pos`, and return its first fault. `last_offset`
    # is that of the entry before it.
    cdef Status status = read_entry(src, pos, end, row, False)
    cdef const uint8_t* at = src + pos
    cdef int32_t epoch
    if status != Status.OK and status != Status.ENTRY_TOO_SMALL:
        return EntryFault.NO_ENTRY
    # Kafka reads these fields of an entry that is too small, too.
    epoch = be32(at + 12) if row.magic == 2 else -1
    if required.same_epoch and epoch != required.leader_epoch:
        return EntryFault.LEADER_EPOCH
    if required.from_zero and row.magic == 2 and be64(at) != 0:
        return EntryFault.BASE_OFFSET
    if required.until_newer and epoch > required.leader_epoch and epoch != -1:
        return EntryFault.NEWER_EPOCH
    if LOG_OVERHEAD + <int64_t>be32(at + 8) > required.most_bytes:
        return EntryFault.TOO_LARGE
    if status != Status.OK:
        return EntryFault.TOO_SMALL
    if not crc_matches(at, row):
        return EntryFault.WRONG_CRC
    if row.attributes & CODEC_MASK > LAST_CODEC:
        return EntryFault.UNKNOWN_CODEC
    if required.ascending and row.last_offset <= last_offset:
        return EntryFault.NOT_ASCENDING
    return EntryFault.NO_FAULT


cdef Requirements requirements_of(fields) except *:
    # `validation.append_analysis.HeaderRequirements`
    cdef Requirements required
    (
        required.same_epoch, required.from_zero, required.until_newer,
        required.ascending, required.leader_epoch, required.most_bytes,
    ) = fields
    return required


def read_required_entry(
    const uint8_t[::1] src not None,
    Py_ssize_t start,
    required,
    int64_t last_offset,
    row not None,
):
    """Read the header of the entry at `start`, and return its first `EntryFault`.

    `row` is filled, unless the entry is incomplete or too small. `required` is as for
    `take_batches`, `last_offset` that of the entry before.
    """
    cdef Requirements requirements = requirements_of(required)
    cdef Rows rows = rows_of(row, True)
    if rows.count != 1:
        raise ValueError(f"{rows.count} rows, expected 1")
    if not 0 <= start < src.shape[0]:
        return EntryFault.NO_ENTRY
    return read_required(
        &src[0], start, src.shape[0], &requirements, last_offset, rows.at
    )


cpdef enum HeaderFault:
    # In the order of Kafka's LogValidator.validateBatch.
    VALID
    OFFSET_RANGE
    NO_RECORDS
    RECORD_COUNT
    CONTROL_BATCH
    NO_SEQUENCE


cdef inline HeaderFault find_fault(const Batch* row) noexcept nogil:
    # Find the first fault that a client's batch must not have.
    cdef int64_t offsets = <int64_t>(
        <uint64_t>row.last_offset - <uint64_t>row.base_offset + 1
    )
    if offsets <= 0:
        return HeaderFault.OFFSET_RANGE
    if row.count <= 0:
        return HeaderFault.NO_RECORDS
    if offsets != row.count:
        return HeaderFault.RECORD_COUNT
    if row.attributes & CONTROL:
        return HeaderFault.CONTROL_BATCH
    if row.producer_id >= 0 and row.base_sequence < 0:
        return HeaderFault.NO_SEQUENCE
    return HeaderFault.VALID


def header_fault(row not None):
    """Return the first `HeaderFault` of a client's batch header."""
    return find_fault(row_of(row))


cdef inline bint keeps_format(const Batch* row, const Rules* rules) noexcept nogil:
    # Return whether a batch is not rebuilt if its offsets are consecutive: it has the
    # topic's codec. A marker is not compressed.
    cdef int codec = row.attributes & CODEC_MASK
    return row.magic == 2 and (
        rules.codec < 0 or codec == rules.codec
        or (codec == 0 and row.attributes & CONTROL)
    )


cdef inline bint accepts_header(const Batch* row, const Rules* rules) noexcept nogil:
    # Return whether a batch keeps its format, and its header is valid. A timestamp type
    # LogAppendTime is valid only for some records: such batches are left to Python.
    return (
        keeps_format(row, rules)
        and not row.attributes & LOG_APPEND_TIME
        and (not rules.from_client or find_fault(row) == HeaderFault.VALID)
    )


cpdef enum RecordFault:
    # Flags of one record.
    NO_KEY = 1
    TIMESTAMP = 2  # out of the topic's range
    TIMESTAMP_TYPE = 4  # LogAppendTime
    UNEVEN_OFFSET = 8  # not its index: the batch must be rebuilt


cdef inline bint needs_consecutive(const Batch* row, const Rules* rules) noexcept nogil:
    # Return whether a batch that keeps its format must have offsets from 0 without
    # gaps: if it is compressed, or a marker in a topic with compression.
    return row.attributes & CODEC_MASK or rules.codec > 0


cdef inline bint has_invalid_time(int64_t timestamp, const Rules* rules) noexcept nogil:
    # LogValidator.recordHasInvalidTimestamp: `now - timestamp` must be at most
    # `before_max_ms`, and its negation at most `after_max_ms`. Both wrap. The valid
    # timestamps are a range, and the one with the least int64, its own negation.
    return (
        timestamp != -1
        and <uint64_t>timestamp - rules.earliest > rules.span
        and <uint64_t>timestamp - rules.now != LEAST_AGE
    )


cdef inline bint lacks_key(int32_t key_length, const Rules* rules) noexcept nogil:
    return rules.keyed and key_length < 0


cdef inline int32_t skip_same_layout(
    Cursor* at, int64_t start, const Record* last, const Batch* batch,
    const Rules* rules, int32_t i, int64_t* latest
) noexcept nogil:
    # Skip the records from index `i` on that have the layout of the `last` one, which
    # began at `start`, and no faults. Returns the index of the first record not
    # skipped. Records of one layout have keys of the same length.
    cdef bint consecutive = needs_consecutive(batch, rules)
    cdef int64_t timestamp, greatest = latest[0]
    cdef uint64_t front
    cdef Layout layout
    if at.end - at.pos < 1 or at.data[at.pos] != at.data[start]:
        return i
    if not layout_of_record(at, start, last, &layout):
        return i
    while i < batch.count and has_layout(at, &layout):
        front = le64(at.data + at.pos)
        timestamp = timestamp_in(front, batch, &layout)
        if has_invalid_time(timestamp, rules):
            break
        if consecutive and offset_in(front, batch, &layout) != i:
            break
        greatest = max(greatest, timestamp)
        at.pos += layout.size
        i += 1
    latest[0] = greatest
    return i


cdef inline bint survey_batch(
    Cursor* at, const Batch* batch, const Rules* rules, Append* info
) noexcept nogil:
    # Return whether all records of the batch are complete and have no faults.
    cdef Record record
    cdef int32_t i = 0
    cdef int64_t start, latest = -1
    cdef bint consecutive = needs_consecutive(batch, rules)
    while i < batch.count:
        start = at.pos
        if not read_short_record(at, batch, &record) and (
            read_record(at, batch, &record) != Status.OK
        ):
            return False
        if (
            lacks_key(record.key_length, rules)
            or has_invalid_time(record.timestamp, rules)
            or (consecutive and record.offset != i)
        ):
            return False
        latest = max(latest, record.timestamp)
        i = skip_same_layout(at, start, &record, batch, rules, i + 1, &latest)
    info.max_timestamp = latest
    info.records = batch.count
    return batch.count == 0 or (batch.count > 0 and at.pos == at.end)


cdef Rules rules_of(fields, int64_t now_ms) except *:
    # `validation.append_policy.RecordRequirements`, at a time.
    cdef Rules rules
    cdef int64_t before, after
    (
        rules.from_client, rules.keyed, rules.codec, rules.at_append, before, after,
        rules.leader_epoch,
    ) = fields
    rules.now = <uint64_t>now_ms
    rules.earliest = rules.now - <uint64_t>before
    rules.span = <uint64_t>before + <uint64_t>after
    if rules.at_append:
        rules.span = ANY_TIME
    return rules


def stays_in_format(row not None, rules not None):
    """Return whether a batch is not rebuilt, if its offsets are consecutive."""
    cdef Rules leader_rules = rules_of(rules, 0)
    return keeps_format(row_of(row), &leader_rules)


def find_record_faults(
    row not None,
    const int32_t[::1] key_lengths not None,
    const int64_t[::1] timestamps not None,
    const int64_t[::1] offsets not None,
    rules not None,
    int64_t now_ms,
    uint8_t[::1] faults not None,
):
    """Set `faults` to the `RecordFault` flags of each record of the batch `row`."""
    cdef Rules leader_rules = rules_of(rules, now_ms)
    cdef Py_ssize_t i, count = faults.shape[0]
    cdef const Batch* batch = row_of(row)
    cdef bint stamped = batch.magic and batch.attributes & LOG_APPEND_TIME != 0
    cdef bint consecutive = needs_consecutive(batch, &leader_rules)
    if not count == key_lengths.shape[0] == timestamps.shape[0] == offsets.shape[0]:
        raise ValueError(
            f"{key_lengths.shape[0]} key lengths, {timestamps.shape[0]} timestamps and "
            f"{offsets.shape[0]} offsets, expected {count}: one for each of `faults`"
        )
    with nogil:
        for i in range(count):
            faults[i] = 0
            if lacks_key(key_lengths[i], &leader_rules):
                faults[i] |= RecordFault.NO_KEY
            if has_invalid_time(timestamps[i], &leader_rules):
                faults[i] |= RecordFault.TIMESTAMP
            if stamped and (leader_rules.at_append or timestamps[i] == -1):
                faults[i] |= RecordFault.TIMESTAMP_TYPE
            if consecutive and offsets[i] != i:
                faults[i] |= RecordFault.UNEVEN_OFFSET


cdef inline bint take_append(
    const uint8_t* src, int64_t pos, int64_t end, const Requirements* required,
    Found* found, Append* info
) noexcept nogil:
    # Return whether `pos` to `end` has complete batches only, all as required.
    cdef Batch* row
    cdef Py_ssize_t first = found.rows
    begin_append(info)
    while pos < end:
        if found.rows == found.capacity:
            return False
        row = found.at + found.rows
        if read_required(src, pos, end, required, info.last_offset, row):
            return False
        note_batch(row, found.rows == first, info)
        pos += row.size_in_bytes
        found.rows += 1
    return True


cdef inline void stamp_batch(
    uint8_t* at, const Rules* rules, Batch* row, Append* info
) noexcept nogil:
    # Write the leader's fields; the CRC is computed only if a field that it covers
    # changes.
    cdef int attributes = row.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME
    put32(at + 12, rules.leader_epoch)
    row.leader_epoch = rules.leader_epoch
    if rules.at_append:
        attributes |= LOG_APPEND_TIME
        info.max_timestamp = info.log_append_time = <int64_t>rules.now
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


cdef inline bint survey_append(
    uint8_t* data, const Rules* rules, const Found* found, Py_ssize_t first,
    Append* info
) noexcept nogil:
    # Return whether an append is one batch that a leader accepts, and stamp it. The
    # records of a compressed one are not read here, and it is not stamped.
    cdef Batch* row = found.at + first
    cdef Cursor at
    if found.rows != first + 1 or not accepts_header(row, rules):
        return False
    if row.attributes & CODEC_MASK:
        return True
    at.data = data
    at.pos = row.position + BATCH_HEADER
    at.end = row.position + row.size_in_bytes
    if not survey_batch(&at, row, rules, info):
        return False
    stamp_batch(data + row.position, rules, row, info)
    return True


def take_batches(
    list buffers not None, required, rules, int64_t now_ms, tuple arrays not None
):
    """Copy appends, and fill the arrays with their headers, bounds and sums.

    `arrays` are those of `validation.appends.Appends`: data, rows, row bounds, byte
    bounds, info. Append i is ``buffers[i]``, copied to ``data[byte_bounds[i]:
    byte_bounds[i + 1]]``, and has the headers ``rows[row_bounds[i]:row_bounds[i +
    1]]``. It is accepted if it consists of complete batches without an `EntryFault`.
    With `rules` it must also be one batch that `survey_batches` accepts, and is
    completed as there; compressed records are not read, nor is their batch completed.
    `required` states whether each batch must have
    `leader_epoch`, whether it must have base offset 0, whether batches above
    `leader_epoch` are dropped, whether last offsets must be ascending, `leader_epoch`,
    and the greatest number of bytes of a batch.

    Returns (appends accepted before the first that is not, rows filled, whether any of
    those accepted is compressed).
    """
    cdef Requirements requirements = requirements_of(required)
    cdef AppendArrays to = append_arrays_of(arrays)
    cdef Found found = Found(to.rows.at, 0, to.rows.count)
    cdef Py_ssize_t i, done = 0, appends = to.info.count
    cdef bint surveyed = rules is not None, is_compressed = False
    cdef Rules leader_rules = Rules(False, False, -1, False, -1, 0, 0, 0)
    cdef Buffers held
    cdef int64_t begin = 0, end
    if surveyed:
        leader_rules = rules_of(rules, now_ms)
    if len(buffers) != appends:
        raise ValueError(f"{len(buffers)} buffers, expected {appends}: appends")
    to.row_bounds[0] = to.byte_bounds[0] = 0
    hold_buffers(buffers, &held)
    with nogil:
        for i in range(appends):
            end = begin + held.views[i].len
            to.byte_bounds[i + 1] = end
            if end > to.size:
                break
            if end > begin:  # the address of an empty buffer may be NULL
                memcpy(to.data + begin, held.views[i].buf, end - begin)
            if not take_append(
                to.data, begin, end, &requirements, &found, &to.info.at[i]
            ):
                break
            if surveyed and not survey_append(
                to.data, &leader_rules, &found, to.row_bounds[i], &to.info.at[i]
            ):
                break
            to.row_bounds[i + 1] = found.rows
            is_compressed |= to.info.at[i].source_codec != 0
            begin = end
            done += 1
    release_buffers(&held)
    return done, found.rows, is_compressed


def survey_batches(
    const uint8_t[::1] src not None,
    const int64_t[::1] bounds not None,
    tuple arrays not None,
    Py_ssize_t first,
    rules not None,
    int64_t now_ms,
):
    """Validate the records of appends from `first` on, and complete those accepted.

    `arrays` are those of `take_batches`, with one batch an append. The records of each,
    decompressed, are between two of the `bounds` in `src`. `rules` are: whether the
    appends are from a client, whether keys are required, the codec (-1 any), whether
    the topic replaces timestamps, how much before and after `now_ms` a timestamp may
    be, and the leader epoch. An append is accepted if it is a batch of
    magic 2 that keeps its format, with a valid header, and all its records are complete
    and have no `RecordFault`. It gets its number of records and greatest timestamp, and
    its batch what `stamp_batches` writes. Returns the appends accepted before the first
    that is not.
    """
    cdef Rules leader_rules = rules_of(rules, now_ms)
    cdef Cursor at = Cursor(data=NULL, pos=0, end=0)
    cdef AppendArrays of = append_arrays_of(arrays)
    cdef Py_ssize_t i, done = 0, count = bounds.shape[0] - 1
    cdef Batch* row
    cdef Append* info
    if of.rows.count != of.info.count or not 0 <= first <= of.info.count - count:
        raise ValueError(
            f"{of.rows.count} rows and {count} bounded from {first}, expected "
            f"{of.info.count} rows: appends"
        )
    at.data = &src[0] if src.shape[0] else NULL
    with nogil:
        for i in range(count):
            row, info = &of.rows.at[first + i], &of.info.at[first + i]
            at.pos = bounds[i]
            at.end = bounds[i + 1]
            if at.pos < 0 or at.end < at.pos or at.end > src.shape[0]:
                break
            if not is_inside(row, of.size) or not accepts_header(row, &leader_rules):
                break
            if not survey_batch(&at, row, &leader_rules, info):
                break
            stamp_batch(of.data + row.position, &leader_rules, row, info)
            done += 1
    return done


def stamp_batches(tuple arrays not None, rules not None, int64_t now_ms):
    """Write leader epoch, timestamp type and max timestamp into the batches.

    `arrays` are those of `take_batches`, with one batch an append, and `rules` those of
    `survey_batches`. The max timestamp is that of the append, or `now_ms` if the topic
    replaces timestamps; rows and info are updated. Returns the batches done, fewer than
    all if one is outside the data.
    """
    cdef AppendArrays of = append_arrays_of(arrays)
    cdef Rules leader_rules = rules_of(rules, now_ms)
    cdef Py_ssize_t i, done = 0
    cdef Batch* row
    if of.rows.count != of.info.count:
        raise ValueError(f"{of.rows.count} rows, expected {of.info.count}: appends")
    with nogil:
        for i in range(of.rows.count):
            row = &of.rows.at[i]
            if not is_inside(row, of.size):
                break
            stamp_batch(of.data + row.position, &leader_rules, row, &of.info.at[i])
            done += 1
    return done


def place_batches(
    tuple arrays not None, Py_ssize_t first, Py_ssize_t end, int64_t next_offset
):
    """Assign offsets from `next_offset` on to the appends from `first` to `end`.

    `arrays` are those of `take_batches`. Append i has the batch
    ``rows[row_bounds[i]]`` or none. Returns the offset after all of them, or -1 if a
    batch is outside the data, or there are too few offsets.
    """
    cdef AppendArrays of = append_arrays_of(arrays)
    cdef Py_ssize_t i
    if not 0 <= first <= end <= of.info.count:
        raise ValueError(f"appends {first} to {end}, expected 0 to {of.info.count}")
    with nogil:
        for i in range(first, end):
            if of.row_bounds[i] == of.row_bounds[i + 1]:
                continue
            if not place_append(&of, i, next_offset):
                next_offset = -1
                break
            next_offset += of.info.at[i].records
    return next_offset

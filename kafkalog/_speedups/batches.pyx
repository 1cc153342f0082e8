"""Read and check the headers of entries, one structured row for each."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    BATCH_HEADER, CODEC_MASK, CONTROL, DELETE_HORIZON, KNOWN_ATTRIBUTES, LEAST_RECORD,
    LOG_APPEND_TIME, Batch
)
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport LINE, Status, be32, prefetch
from kafkalog._speedups._entry cimport crc_matches, read_entry
from kafkalog._speedups._rows cimport Rows, check_rows, rows_of

crc_setup()


cdef inline void prefetch_near(
    const uint8_t* data, int64_t guess, int64_t end
) noexcept nogil:
    # Prefetch the cache lines around the expected position of a header.
    cdef int64_t near = guess - LINE
    while near < guess + 3 * LINE and near < end:
        prefetch(data + near)
        near += LINE


def scan_batches(
    const uint8_t[::1] src not None,
    int64_t start,
    int64_t origin,
    out not None,
    bint any_magic=False,
):
    """Fill `out` with the headers of the complete entries in `src` from `start` on.

    `origin` is the position of ``src[0]`` in the file, and added to positions in the
    rows. Returns (status, rows filled, position in `src` of the next entry). The status
    is OK if `out` is full or `src` ends with an entry, else why there is no entry at
    that position.

    With `any_magic` a magic above 2 is read as 2, and one below 0 as 1, as Kafka's
    storage engine does; the row has that magic.
    """
    cdef Status status = Status.OK
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int64_t pos = start, end = src.shape[0], size, mean = 0
    cdef Py_ssize_t count = 0
    cdef Rows entries = rows_of(out, True)
    if start < 0 or start > end:
        raise ValueError(f"start {start}, expected within {end} bytes")
    with nogil:
        while count < entries.count and pos < end:
            status = read_entry(data, pos, end, &entries.at[count], any_magic)
            if status != Status.OK:
                break
            entries.at[count].position = origin + pos
            size = entries.at[count].size_in_bytes
            pos += size
            # A header states where the next one is, so each read would wait for memory.
            # Batches of a file are of similar sizes: prefetch where the mean size puts
            # the header two entries ahead, and the page of one eight ahead.
            mean += (size - mean) // 8 if count else size
            prefetch(data + min(pos + 8 * mean, end - 1))
            prefetch_near(data, pos + 2 * mean, end)
            count += 1
    return <int>status, count, pos


def offsets_in_order(
    rows not None,
    int64_t least,
    int64_t most,
    int64_t before,
    bint ordered,
):
    """Return whether all offsets are in `least` to `most` and, if `ordered`, ascending.

    `before` is the last offset before the rows.
    """
    cdef bint valid = True
    cdef int64_t base, last
    cdef Py_ssize_t i
    cdef Rows entries = rows_of(rows)
    with nogil:
        for i in range(entries.count):
            last = entries.at[i].last_offset
            base = last if entries.at[i].base_offset < 0 else entries.at[i].base_offset
            valid &= base >= least and last <= most
            valid &= not ordered or (base > before and last >= base)
            before = last
    return valid


def all_uncompressed(rows not None, int64_t most):
    """Return whether all entries are uncompressed data batches of magic 2.

    That is: each has 1 record or more, but no more than its bytes can hold, at most
    `most` bytes of records, and is no control batch.
    """
    cdef bint found = True
    cdef int64_t payload
    cdef Py_ssize_t i
    cdef Rows entries = rows_of(rows)
    cdef const Batch* row
    with nogil:
        for i in range(entries.count):
            row = &entries.at[i]
            payload = row.size_in_bytes - BATCH_HEADER
            found &= row.magic == 2 and row.count > 0 and payload <= most
            found &= row.count <= payload // LEAST_RECORD
            found &= row.attributes & (CODEC_MASK | CONTROL) == 0
    return found


def fill_begin_times(rows not None, int64_t[::1] out not None):
    """Fill `out` with the time of each entry's first record, -1 if it is unknown.

    It is unknown in an entry without records, and with a delete horizon, which replaces
    the base timestamp. Messages and batches under log append time have one time.
    """
    cdef bint is_batch
    cdef int64_t time
    cdef Py_ssize_t i
    cdef Rows entries = rows_of(rows)
    with nogil:
        for i in range(min(entries.count, out.shape[0])):
            is_batch = entries.at[i].magic == 2
            time = entries.at[i].max_timestamp
            if is_batch and not entries.at[i].attributes & LOG_APPEND_TIME:
                time = entries.at[i].base_timestamp
            if entries.at[i].count == 0:
                time = -1
            if is_batch and entries.at[i].attributes & DELETE_HORIZON:
                time = -1
            out[i] = time


cdef enum:
    BLOCK = 64  # positions that are checked together


cdef inline uint8_t may_begin(const uint8_t* at) noexcept nogil:
    # Return whether a batch of magic 2 may begin here: the first bytes of its offset,
    # of its size and of its attributes are small.
    return (at[0] == 0) & (at[8] < 8) & (at[16] == 2) & (at[21] == 0)


cdef inline bint plausible(const Batch* row) noexcept nogil:
    # Cheap checks that reject most bytes that are no header, before a CRC is computed.
    cdef int64_t payload = row.size_in_bytes - BATCH_HEADER
    if row.last_offset < 0 or (row.attributes & ~KNOWN_ATTRIBUTES) != 0:
        return False
    if row.magic < 2:
        return row.attributes & ~(CODEC_MASK | LOG_APPEND_TIME) == 0
    if row.base_offset < 0 or row.last_offset < row.base_offset or row.count < 0:
        return False
    return row.attributes & CODEC_MASK or row.count <= payload // LEAST_RECORD


cdef inline int64_t next_candidate(
    const uint8_t* data, int64_t pos, int64_t stop
) noexcept nogil:
    # Return the first position from `pos` on, below `stop`, where a batch of magic 2
    # may begin; else `stop`. The 22 bytes from there on can be read. Blocks without a
    # candidate are passed with a few instructions of SIMD.
    cdef int64_t i
    cdef uint8_t hit
    while pos < stop:
        hit = 0
        if pos + BLOCK <= stop:
            for i in range(BLOCK):
                hit |= may_begin(data + pos + i)
            if not hit:
                pos += BLOCK
                continue
        for pos in range(pos, min(pos + BLOCK, stop)):
            if may_begin(data + pos):
                return pos
        pos += 1
    return stop


def find_batch(
    const uint8_t[::1] src not None,
    int64_t start,
    int64_t stop,
    int64_t budget,
    bint newest,
):
    """Return the position of the first valid entry in `src` that begins before `stop`.

    With `newest`, only batches of magic 2 are found, at the speed of memory. Returns
    (position or -1, rest of `budget`). `budget` limits the bytes whose CRC is computed,
    so that crafted bytes cannot make the search quadratic.
    """
    cdef Batch row
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int64_t pos = start, found = -1, end = src.shape[0]
    if not 0 <= start <= end or stop > end:
        raise ValueError(f"{start} to {stop}, expected within {end} bytes")
    with nogil:
        if newest:
            stop = min(stop, end - BATCH_HEADER + 1)
        while pos < stop:
            if newest:
                pos = next_candidate(data, pos, stop)
                if pos == stop:
                    break
            if (
                read_entry(data, pos, end, &row, False) == Status.OK
                and plausible(&row)
            ):
                budget -= row.size_in_bytes
                if budget < 0:
                    break
                if crc_matches(data + pos, &row):
                    found = pos
                    break
            pos += 1
    return found, budget


cdef inline Status locate_wrapped(
    const uint8_t* at, const Batch* row, int64_t* start, int64_t* length
) noexcept nogil:
    # Find the value of a wrapper message, relative to the start of its entry.
    cdef int64_t pos = 26 if row.magic else 18
    cdef int32_t size = be32(at + pos)
    pos += 4
    if size > row.size_in_bytes - pos - 4:
        return Status.MESSAGE_SIZE
    pos += size if size > 0 else 0
    size = be32(at + pos)
    pos += 4
    if size > row.size_in_bytes - pos:
        return Status.MESSAGE_SIZE
    start[0] = pos
    length[0] = size
    return Status.WRAPPER_EMPTY if size < 0 else Status.OK


def locate_payloads(
    const uint8_t[::1] src not None,
    int64_t origin,
    rows not None,
    int64_t[::1] starts not None,
    int64_t[::1] lengths not None,
):
    """Fill `starts` and `lengths` with the position of each entry's payload in `src`.

    The payload of a batch of magic 2 is what follows its header, that of a wrapper its
    value, still compressed, and that of any other message the whole entry. Returns
    (status, row it stopped at).
    """
    cdef Status status = Status.OK
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef Py_ssize_t i, stopped = 0
    cdef int64_t start
    cdef Rows entries = rows_of(rows)
    check_rows(min(starts.shape[0], lengths.shape[0]), entries.count)
    with nogil:
        for i in range(entries.count):
            stopped = i
            start = entries.at[i].position - origin
            if start < 0 or entries.at[i].size_in_bytes > src.shape[0] - start:
                status = Status.ENTRY_INCOMPLETE
                break
            starts[i] = 0
            lengths[i] = entries.at[i].size_in_bytes
            if entries.at[i].magic == 2:
                starts[i] = BATCH_HEADER
                lengths[i] -= BATCH_HEADER
            elif entries.at[i].attributes & CODEC_MASK:
                status = locate_wrapped(
                    data + start, &entries.at[i], &starts[i], &lengths[i]
                )
                if status != Status.OK:
                    break
            starts[i] += start
    return <int>status, stopped


def check_counts(rows not None, const int64_t[::1] lengths not None):
    """Count the entries before the first batch whose payload cannot hold its records.

    `lengths` are those of the decompressed payloads. Returns (entries, whether wrappers
    are among them).
    """
    cdef bint wrapped = False
    cdef Py_ssize_t i, good = 0
    cdef Rows entries = rows_of(rows)
    check_rows(lengths.shape[0], entries.count)
    with nogil:
        for i in range(entries.count):
            if entries.at[i].magic == 2 and not (
                0 <= entries.at[i].count <= lengths[i] // LEAST_RECORD
            ):
                break
            wrapped |= entries.at[i].count < 0
            good += 1
    return good, wrapped


def sum_counts(rows not None, const int64_t[::1] lengths not None):
    """Return the sum of the entries' record counts, and that of `lengths`."""
    cdef int64_t count = 0, length = 0
    cdef Py_ssize_t i
    cdef Rows entries = rows_of(rows)
    check_rows(lengths.shape[0], entries.count)
    with nogil:
        for i in range(entries.count):
            count += entries.at[i].count
            length += lengths[i]
    return count, length

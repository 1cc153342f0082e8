"""Header kernels: bytes -> batch headers, one structured row each."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kafkalog._speedups._batch cimport (
    BATCH_CRC_FROM, BATCH_HEADER, CODEC_MASK, HEADER_UP_TO_MAGIC, LEAST_RECORD,
    LEAST_SIZE, LOG_OVERHEAD, MESSAGE_0_OVERHEAD, MESSAGE_1_OVERHEAD,
    MESSAGE_CRC_FROM, Batch
)
from kafkalog._speedups._crc cimport CRC32, CRC32C, crc, crc_setup
from kafkalog._speedups._cursor cimport Status, be16, be32, be64, wrapping_add

crc_setup()


cdef inline void read_batch(const uint8_t* at, Batch* row) noexcept nogil:
    # The fields of a magic 2 header whose 61 bytes are there.
    row.base_offset = be64(at)
    row.leader_epoch = be32(at + 12)
    row.crc = <uint32_t>be32(at + 17)
    row.attributes = be16(at + 21)
    row.last_offset = wrapping_add(row.base_offset, be32(at + 23))
    row.base_timestamp = be64(at + 27)
    row.max_timestamp = be64(at + 35)
    row.producer_id = be64(at + 43)
    row.producer_epoch = be16(at + 51)
    row.base_sequence = be32(at + 53)
    row.count = be32(at + 57)


cdef inline void read_message(const uint8_t* at, Batch* row) noexcept nogil:
    # The fields of a magic 0 or 1 message whose overhead is there.
    cdef bint wrapper
    row.leader_epoch = row.base_sequence = row.producer_epoch = -1
    row.producer_id = -1
    row.crc = <uint32_t>be32(at + 12)
    row.attributes = at[17]
    row.last_offset = be64(at)
    row.max_timestamp = be64(at + 18) if row.magic == 1 else -1
    row.base_timestamp = row.max_timestamp
    wrapper = row.attributes & CODEC_MASK != 0
    row.base_offset = -1 if wrapper else row.last_offset
    row.count = -1 if wrapper else 1


cdef Status read_entry(
    const uint8_t* src, int64_t pos, int64_t end, Batch* row
) noexcept nogil:
    # The header of the entry at `pos`, which must lie whole before `end`.
    cdef int32_t size
    cdef int32_t least
    if end - pos < HEADER_UP_TO_MAGIC:
        return Status.ENTRY_INCOMPLETE
    size = be32(src + pos + 8)
    row.magic = <signed char>src[pos + 16]
    if size < LEAST_SIZE:
        return Status.ENTRY_TOO_SMALL
    if row.magic < 0 or row.magic > 2:
        return Status.ENTRY_MAGIC
    least = BATCH_HEADER - LOG_OVERHEAD
    if row.magic < 2:
        least = MESSAGE_1_OVERHEAD if row.magic else MESSAGE_0_OVERHEAD
    if size < least:
        return Status.ENTRY_TOO_SMALL
    row.size_in_bytes = LOG_OVERHEAD + <int64_t>size
    if row.size_in_bytes > end - pos:
        return Status.ENTRY_INCOMPLETE
    row.position = pos
    if row.magic == 2:
        read_batch(src + pos, row)
    else:
        read_message(src + pos, row)
    return Status.OK


def scan_batches(
    const uint8_t[::1] src not None,
    int64_t start,
    int64_t origin,
    Batch[::1] out not None,
):
    """Fill `out` with the headers of the entries that lie whole in `src` from `start`.

    Positions in the rows count from `origin`, the position of ``src[0]``. Answers
    (status, rows filled, where the next entry begins in `src`): OK when `out` is full
    or `src` ends with an entry, else why no entry is at that place.
    """
    cdef Status status = Status.OK
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int64_t pos = start, end = src.shape[0]
    cdef Py_ssize_t count = 0
    if start < 0 or start > end:
        raise ValueError(f"start {start} lies outside {end} bytes")
    with nogil:
        while count < out.shape[0] and pos < end:
            status = read_entry(data, pos, end, &out[count])
            if status != Status.OK:
                break
            out[count].position = origin + pos
            pos += out[count].size_in_bytes
            count += 1
    return <int>status, count, pos


cdef inline bint plausible(const Batch* row) noexcept nogil:
    # Cheap signs that a header is one, before its checksum is worth computing.
    cdef int64_t room = row.size_in_bytes - BATCH_HEADER
    if row.last_offset < 0 or (row.attributes & ~0x7F) != 0:
        return False
    if row.magic < 2:
        return row.attributes & ~0x0F == 0
    if row.base_offset < 0 or row.last_offset < row.base_offset or row.count < 0:
        return False
    return row.attributes & CODEC_MASK or row.count <= room // LEAST_RECORD


def find_batch(
    const uint8_t[::1] src not None,
    int64_t start,
    int64_t budget,
):
    """Find the first place from `start` on where a sound entry lies whole in `src`.

    Answers (place or -1, how much of `budget` is left): `budget` bounds the bytes that
    may be checksummed, so that hostile bytes cannot make it quadratic.
    """
    cdef Batch row
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int64_t pos, covered, found = -1, end = src.shape[0]
    if start < 0 or start > end:
        raise ValueError(f"start {start} lies outside {end} bytes")
    with nogil:
        for pos in range(start, end):
            if (
                read_entry(data, pos, end, &row) != Status.OK
                or not plausible(&row)
            ):
                continue
            covered = BATCH_CRC_FROM if row.magic == 2 else MESSAGE_CRC_FROM
            budget -= row.size_in_bytes
            if budget < 0:
                break
            if row.crc == crc(
                CRC32C if row.magic == 2 else CRC32,
                data + pos + covered,
                row.size_in_bytes - covered,
            ):
                found = pos
                break
    return found, budget


cdef inline Status locate_wrapped(
    const uint8_t* at, const Batch* row, int64_t* start, int64_t* length
) noexcept nogil:
    # The value of a wrapper message, from the start of its entry.
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
    const Batch[::1] rows not None,
    int64_t[::1] starts not None,
    int64_t[::1] lengths not None,
):
    """Say where in `src` each entry's payload lies, still compressed where it is so.

    Of magic 2 that is what follows the header, of a plain message the whole entry, of
    a wrapper its value. Answers (status, row it stopped at).
    """
    cdef Status status = Status.OK
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef Py_ssize_t i, stopped = 0
    cdef int64_t start
    with nogil:
        for i in range(rows.shape[0]):
            stopped = i
            start = rows[i].position - origin
            if start < 0 or rows[i].size_in_bytes > src.shape[0] - start:
                status = Status.ENTRY_INCOMPLETE
                break
            starts[i] = 0
            lengths[i] = rows[i].size_in_bytes
            if rows[i].magic == 2:
                starts[i] = BATCH_HEADER
                lengths[i] -= BATCH_HEADER
            elif rows[i].attributes & CODEC_MASK:
                status = locate_wrapped(
                    data + start, &rows[i], &starts[i], &lengths[i]
                )
                if status != Status.OK:
                    break
            starts[i] += start
    return <int>status, stopped

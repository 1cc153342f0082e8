"""Header kernels: bytes -> batch headers, one structured row each."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    BATCH_HEADER, CODEC_MASK, LEAST_RECORD, Batch
)
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport Status, be32
from kafkalog._speedups._entry cimport is_sound, read_entry

crc_setup()


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
    cdef int64_t pos, found = -1, end = src.shape[0]
    if start < 0 or start > end:
        raise ValueError(f"start {start} lies outside {end} bytes")
    with nogil:
        for pos in range(start, end):
            if (
                read_entry(data, pos, end, &row) != Status.OK
                or not plausible(&row)
            ):
                continue
            budget -= row.size_in_bytes
            if budget < 0:
                break
            if is_sound(data + pos, &row):
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

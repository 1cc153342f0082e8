"""Header kernels: bytes -> batch headers, one structured row each."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._batch cimport (
    BATCH_HEADER, CODEC_MASK, CONTROL, LEAST_RECORD, Batch
)
from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._cursor cimport LINE, Status, be32, prefetch
from kafkalog._speedups._entry cimport is_sound, read_entry
from kafkalog._speedups._rows cimport Rows, hold_rows, release_rows

crc_setup()


cdef inline void ask_for(
    const uint8_t* data, int64_t guess, int64_t end
) noexcept nogil:
    # The lines about a place where a header should be.
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
    """Fill `out` with the headers of the entries that lie whole in `src` from `start`.

    Positions in the rows count from `origin`, the position of ``src[0]``. Answers
    (status, rows filled, where the next entry begins in `src`): OK when `out` is full
    or `src` ends with an entry, else why no entry is at that place.

    With `any_magic` a magic above 2 is read as 2, and one below 0 as 1, as Kafka's
    storage engine does; the row has that magic.
    """
    cdef Status status = Status.OK
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int64_t pos = start, end = src.shape[0], size, mean = 0
    cdef Py_ssize_t count = 0
    cdef Rows held
    if start < 0 or start > end:
        raise ValueError(f"start {start} lies outside {end} bytes")
    hold_rows(out, &held, True)
    with nogil:
        while count < held.count and pos < end:
            status = read_entry(data, pos, end, &held.at[count], any_magic)
            if status != Status.OK:
                break
            held.at[count].position = origin + pos
            size = held.at[count].size_in_bytes
            pos += size
            # Each header tells where the next is, and would be waited for; but batches
            # are mostly of about a size, so where they lie ahead can be guessed: the
            # page of one far ahead, and the lines of a near one.
            mean += (size - mean) // 8 if count else size
            prefetch(data + min(pos + 8 * mean, end - 1))
            ask_for(data, pos + 2 * mean, end)
            count += 1
    release_rows(&held)
    return <int>status, count, pos


def in_order(
    rows not None,
    int64_t least,
    int64_t most,
    int64_t before,
    bint ordered,
):
    """Whether all offsets lie in `least` to `most` and, if `ordered`, rise.

    `before` is the last offset of what precedes the rows.
    """
    cdef bint fit = True
    cdef int64_t base, last
    cdef Py_ssize_t i
    cdef Rows held
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            last = held.at[i].last_offset
            base = last if held.at[i].base_offset < 0 else held.at[i].base_offset
            fit &= base >= least and last <= most
            fit &= not ordered or (base > before and last >= base)
            before = last
    release_rows(&held)
    return fit


def all_plain(rows not None, int64_t most):
    """Whether all are batches of magic 2 with data records, and none is compressed.

    Their counts are ones that their bytes can hold, which are `most` at most.
    """
    cdef bint plain = True
    cdef int64_t room
    cdef Py_ssize_t i
    cdef Rows held
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            room = held.at[i].size_in_bytes - BATCH_HEADER
            plain &= held.at[i].magic == 2 and held.at[i].count > 0 and room <= most
            plain &= held.at[i].count <= room // LEAST_RECORD
            plain &= held.at[i].attributes & (CODEC_MASK | CONTROL) == 0
    release_rows(&held)
    return plain


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
                read_entry(data, pos, end, &row, False) != Status.OK
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
    rows not None,
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
    cdef Rows held
    if min(starts.shape[0], lengths.shape[0]) < len(rows):
        raise ValueError("a start and a length for each row")
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            stopped = i
            start = held.at[i].position - origin
            if start < 0 or held.at[i].size_in_bytes > src.shape[0] - start:
                status = Status.ENTRY_INCOMPLETE
                break
            starts[i] = 0
            lengths[i] = held.at[i].size_in_bytes
            if held.at[i].magic == 2:
                starts[i] = BATCH_HEADER
                lengths[i] -= BATCH_HEADER
            elif held.at[i].attributes & CODEC_MASK:
                status = locate_wrapped(
                    data + start, &held.at[i], &starts[i], &lengths[i]
                )
                if status != Status.OK:
                    break
            starts[i] += start
    release_rows(&held)
    return <int>status, stopped


def countable(rows not None, const int64_t[::1] lengths not None):
    """Find the first batch whose payload, not compressed, cannot hold its count.

    Answers (entries before it, or all, whether wrappers are among these).
    """
    cdef bint wrapped = False
    cdef Py_ssize_t i, good = 0
    cdef Rows held
    if lengths.shape[0] < len(rows):
        raise ValueError("a length for each row")
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            if held.at[i].magic == 2 and not (
                0 <= held.at[i].count <= lengths[i] // LEAST_RECORD
            ):
                break
            wrapped |= held.at[i].count < 0
            good += 1
    release_rows(&held)
    return good, wrapped


def add_up(rows not None, const int64_t[::1] lengths not None):
    """Add up the counts of entries, and their payloads' lengths."""
    cdef int64_t count = 0, length = 0
    cdef Py_ssize_t i
    cdef Rows held
    if lengths.shape[0] < len(rows):
        raise ValueError("a length for each row")
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            count += held.at[i].count
            length += lengths[i]
    release_rows(&held)
    return count, length

"""Hash keys by MD5, and keep the last offset of each in a table that the caller owns.

A slot of the table is 24 bytes: the hash of a key, then its offset. A slot of zeros is
empty. The slots of a key are tried in this order: the number in four bytes of the hash,
the first of them at byte 0, then at byte 1 and so on to byte 12; then that number plus
1, 2 and so on; each time its absolute value modulo the number of slots.

A second array has a state of two bits for each offset from `start` on: whether it was
put, and whether a higher offset of the same key was put after it. All other cases are
`MARK_UNKNOWN`, and the table has to be searched.

Source: ``SkimpyOffsetMap.java``, ``Utils.abs``.
"""
from libc.stdint cimport (
    INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
)
from libc.string cimport memcpy

from kafkalog._speedups._columns cimport (
    Bytes, bytes_of, bytes_size, length_of, start_of
)
from kafkalog._speedups._cursor cimport prefetch
from kafkalog._speedups._rows cimport check_rows

cdef extern from "md5.h" nogil:
    enum:
        LANES "KL_MD5_LANES"
        MD5_SIZE "KL_MD5_SIZE"
        SHORT "KL_MD5_SHORT"
        BLOCK "KL_MD5_BLOCK"
        PADDED "KL_MD5_PADDED"
    const uint8_t* padding "kl_md5_padding"
    int find_path "kl_md5_find_path"() noexcept
    void md5 "kl_md5"(const uint8_t* data, uint64_t size, uint8_t* out) noexcept
    void md5_short "kl_md5_short"(
        int path, uint8_t (*blocks)[PADDED], const int32_t* sizes, int longest,
        uint8_t (*out)[MD5_SIZE]
    ) noexcept

cdef enum:
    SLOT_BYTES = 24
    OFFSET_SIZE = 8
    LAST_WINDOW = 12  # the last four bytes of a hash
    NONE = -1  # the offset of a new key
    STEP = 64  # keys hashed before their slots are read


cdef int best_path = find_path()


cdef struct Table:
    uint8_t* slots
    uint32_t count


cpdef enum Mark:
    MARK_NEW  # the offset was not put
    MARK_LATEST  # it was put once, and its key has no higher offset
    MARK_SUPERSEDED  # it was put once, and its key has a higher offset
    MARK_UNKNOWN  # offsets were put in another order, or twice


cdef struct Marks:
    uint8_t* states  # four in a byte
    int64_t start
    int64_t count


cdef struct Hashes:
    # Of the keys of some rows; a null key has none.
    uint8_t hashes[STEP][MD5_SIZE]
    int64_t rows[STEP]
    uint8_t* slots[STEP]  # the next to try, then the one found
    int count


cdef struct ShortKeys:
    # Padded keys that are hashed together.
    uint8_t blocks[LANES][PADDED]
    int32_t sizes[LANES]
    int places[LANES]
    int count
    int longest


cdef inline void pad(
    uint8_t* block, const uint8_t* key, int32_t size, int64_t available
) noexcept nogil:
    # Set a block to a short key and its padding. `available` bytes can be read. Copies
    # of a fixed size are a few instructions without a branch.
    if available >= BLOCK:
        memcpy(block, key, BLOCK)
    elif size:  # the address of an empty key may be NULL
        memcpy(block, key, size)
    memcpy(block + size, padding, BLOCK)


cdef inline void hash_short(
    ShortKeys* keys, Hashes* out, const Table* table
) noexcept nogil:
    # With fewer keys than lanes, the other lanes hash what their blocks have.
    cdef uint8_t hashed[LANES][MD5_SIZE]
    cdef int i
    md5_short(best_path, keys.blocks, keys.sizes, keys.longest, hashed)
    for i in range(keys.count):
        memcpy(out.hashes[keys.places[i]], hashed[i], MD5_SIZE)
        choose_slot(out, keys.places[i], 0, table)
    keys.count = keys.longest = 0


cdef int hash_step(
    const Bytes* keys, Py_ssize_t first, Py_ssize_t end, Hashes* out,
    const Table* table
) noexcept nogil:
    # Hash the keys from row `first` on, at most STEP rows. Returns -1 if a key is
    # outside the data.
    #
    # The first slot to try is chosen here: it is read from memory while the following
    # keys are hashed.
    cdef ShortKeys short_keys
    cdef int64_t start
    cdef int32_t size
    cdef Py_ssize_t row
    short_keys.count = short_keys.longest = 0
    out.count = 0
    for row in range(first, min(first + STEP, end)):
        size = length_of(keys, row)
        if size < 0:
            continue
        if bytes_size(keys, row) < 0:
            return -1
        start = start_of(keys, row)
        out.rows[out.count] = row
        if size > SHORT:
            md5(keys.data + start, size, out.hashes[out.count])
            choose_slot(out, out.count, 0, table)
        else:
            short_keys.places[short_keys.count] = out.count
            short_keys.sizes[short_keys.count] = size
            pad(
                short_keys.blocks[short_keys.count], keys.data + start, size,
                keys.size - start,
            )
            short_keys.longest = max(short_keys.longest, size)
            short_keys.count += 1
            if short_keys.count == LANES:
                hash_short(&short_keys, out, table)
        out.count += 1
    if short_keys.count:
        hash_short(&short_keys, out, table)
    return 0


cdef inline int64_t probe(
    const uint8_t* hashed, int64_t attempt, uint32_t slots
) noexcept nogil:
    cdef int window = <int>min(attempt, LAST_WINDOW)
    cdef const uint8_t* at = hashed + window
    cdef uint32_t raw = (
        <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]
    )
    cdef int32_t value = <int32_t>(raw + <uint32_t>(attempt - window))
    if value == INT32_MIN:
        return 0
    return <uint32_t>(-value if value < 0 else value) % slots


cdef inline void choose_slot(
    Hashes* step, int i, int64_t attempt, const Table* table
) noexcept nogil:
    # Set the slot to try next, and prefetch the cache lines that it is in.
    cdef uint8_t* slot
    slot = table.slots + SLOT_BYTES * probe(step.hashes[i], attempt, table.count)
    prefetch(slot)
    prefetch(slot + SLOT_BYTES - 1)
    step.slots[i] = slot


cdef int64_t find_slots(Hashes* step, const Table* table, bint takes) noexcept nogil:
    # Find the slot of each key; NULL if there is none. If `takes`, a new key takes an
    # empty slot, with offset NONE. Returns the number of new keys.
    #
    # Each round tries one slot for each key that has none, so that the reads from
    # memory overlap. Equal keys try the same slots in the same rounds, in order.
    cdef int waiting[STEP]
    cdef int i, j, count = step.count, left
    cdef int64_t attempt = 0, taken = 0, none = NONE
    cdef uint64_t key[2]
    cdef uint64_t slot[3]
    for i in range(count):
        waiting[i] = i
    while count and attempt < 3 * <int64_t>table.count + MD5_SIZE:
        attempt += 1
        left = 0
        for j in range(count):
            i = waiting[j]
            memcpy(slot, step.slots[i], SLOT_BYTES)
            memcpy(key, step.hashes[i], MD5_SIZE)
            if slot[0] | slot[1] | slot[2] == 0:
                if takes:
                    memcpy(step.slots[i], key, MD5_SIZE)
                    memcpy(step.slots[i] + MD5_SIZE, &none, OFFSET_SIZE)
                    taken += 1
                else:
                    step.slots[i] = NULL
            elif slot[0] != key[0] or slot[1] != key[1]:
                choose_slot(step, i, attempt, table)
                waiting[left] = i
                left += 1
        count = left
    for j in range(count):
        step.slots[waiting[j]] = NULL
    return taken


cdef inline bint is_marked(const Marks* marks, int64_t offset) noexcept nogil:
    # Return whether an offset has a state.
    return offset >= marks.start and offset - marks.start < marks.count


cdef inline int read_mark(const Marks* marks, int64_t offset) noexcept nogil:
    cdef int64_t place = offset - marks.start
    return marks.states[place >> 2] >> 2 * (place & 3) & 3


cdef inline void set_mark(Marks* marks, int64_t offset, int mark) noexcept nogil:
    cdef int64_t place = offset - marks.start
    cdef int shift = 2 * <int>(place & 3)
    cdef uint8_t* byte = marks.states + (place >> 2)
    byte[0] = <uint8_t>(byte[0] & ~(3 << shift) | mark << shift)


cdef inline void set_offset(uint8_t* slot, int64_t offset, Marks* marks) noexcept nogil:
    # Set the offset of a key, and the states of the old and the new offset.
    cdef int64_t old
    cdef int mark
    memcpy(&old, slot + MD5_SIZE, OFFSET_SIZE)
    memcpy(slot + MD5_SIZE, &offset, OFFSET_SIZE)
    if old != NONE and is_marked(marks, old) and read_mark(marks, old) == MARK_LATEST:
        mark = MARK_SUPERSEDED if old < offset else MARK_UNKNOWN
        set_mark(marks, old, mark)
    if is_marked(marks, offset):
        mark = read_mark(marks, offset)
        set_mark(marks, offset, MARK_LATEST if mark == MARK_NEW else MARK_UNKNOWN)


cdef Marks marks_of(uint8_t[::1] states, int64_t start) except *:
    cdef Marks marks = Marks(NULL, start, 4 * states.shape[0])
    if start < 0:
        raise ValueError(f"first offset {start}, expected at least 0")
    if states.shape[0]:
        marks.states = &states[0]
    return marks


cdef Table table_of(uint8_t[::1] slots) except *:
    cdef Py_ssize_t count = slots.shape[0] // SLOT_BYTES
    if not 0 < count <= INT32_MAX:
        raise ValueError(
            f"a table of {slots.shape[0]} bytes has {count} slots, expected 1 to "
            f"{INT32_MAX}"
        )
    return Table(&slots[0], <uint32_t>count)


def put_offsets(
    uint8_t[::1] slots not None,
    int64_t entries,
    int64_t most,
    keys not None,
    const int64_t[:] offsets not None,
    uint8_t[::1] states not None,
    int64_t start,
):
    """Put the offset of each key, in order, until the table has `most` entries.

    `entries` is the number that the table has. The offset of a key that is there is
    replaced; a null key is skipped. `states` gets the `Mark` of each offset from
    `start` on, four in a byte.

    Returns the rows done and the entries then. A table with `most` entries takes no
    key, not even one that it has. The rows done are -1 if a key is outside the data, or
    if the table has no empty slot.
    """
    cdef Bytes of = bytes_of(keys)
    cdef Table table = table_of(slots)
    cdef Marks marks = marks_of(states, start)
    cdef Hashes step
    cdef Py_ssize_t row = 0, next_row
    cdef int i
    if offsets.shape[0] != of.rows:
        raise ValueError(f"{offsets.shape[0]} offsets for {of.rows} keys")
    with nogil:
        while row < of.rows and row >= 0 and entries < most:
            # Even if all keys of a step are new, they fit.
            next_row = min(row + min(<int64_t>STEP, most - entries), of.rows)
            if hash_step(&of, row, next_row, &step, &table) < 0:
                row = -1
                break
            entries += find_slots(&step, &table, True)
            row = next_row
            for i in range(step.count):
                if step.slots[i] == NULL:
                    row = -1
                    break
                set_offset(step.slots[i], offsets[step.rows[i]], &marks)
        while 0 <= row < of.rows and length_of(&of, row) < 0:
            row += 1
    return row, entries


def find_offsets(
    uint8_t[::1] slots not None, keys not None, int64_t[::1] out not None
):
    """Fill `out` with the offset of each key, -1 for a null or unknown key.

    Returns the number of rows done, fewer than all if a key is outside the data.
    """
    cdef Bytes of = bytes_of(keys)
    cdef Table table = table_of(slots)
    cdef Hashes step
    cdef Py_ssize_t row = 0
    cdef int i
    if out.shape[0] < of.rows:
        raise ValueError(f"output of {out.shape[0]} rows, expected {of.rows}")
    with nogil:
        out[:of.rows] = -1
        while row < of.rows:
            if hash_step(&of, row, of.rows, &step, &table) < 0:
                break
            find_slots(&step, &table, False)
            for i in range(step.count):
                if step.slots[i] != NULL:
                    memcpy(&out[step.rows[i]], step.slots[i] + MD5_SIZE, OFFSET_SIZE)
            row = min(row + STEP, of.rows)
    return row


def read_marks(
    uint8_t[::1] states not None,
    int64_t start,
    const int64_t[:] offsets not None,
    uint8_t[::1] out not None,
):
    """Fill `out` with the `Mark` of each offset, `MARK_NEW` if it has no state."""
    cdef Marks marks = marks_of(states, start)
    cdef Py_ssize_t row
    if out.shape[0] < offsets.shape[0]:
        raise ValueError(f"output of {out.shape[0]}, expected {offsets.shape[0]}")
    with nogil:
        for row in range(offsets.shape[0]):
            out[row] = MARK_NEW
            if is_marked(&marks, offsets[row]):
                out[row] = <uint8_t>read_mark(&marks, offsets[row])


def find_superseded(
    uint8_t[::1] states not None,
    int64_t start,
    const int64_t[:] first not None,
    const int64_t[:] last not None,
    uint8_t[::1] out not None,
):
    """Fill `out` with whether each offset from `first` to `last` is superseded.

    A range without an offset is not, and neither is one beyond the states.
    """
    cdef Marks marks = marks_of(states, start)
    cdef Py_ssize_t row
    cdef int64_t offset
    check_rows(min(last.shape[0], out.shape[0]), first.shape[0])
    with nogil:
        for row in range(first.shape[0]):
            out[row] = 0
            if not is_marked(&marks, first[row]) or not is_marked(&marks, last[row]):
                continue
            offset = first[row]
            while (
                offset <= last[row] and read_mark(&marks, offset) == MARK_SUPERSEDED
            ):
                offset += 1
            out[row] = first[row] <= last[row] < offset

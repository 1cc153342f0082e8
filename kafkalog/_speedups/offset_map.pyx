"""Hash keys by MD5, and keep the last offset of each in a table that the caller owns.

A slot of the table is 24 bytes: the hash of a key, then its offset. A slot of zeros is
empty. The slots of a key are tried in this order: the number in four bytes of the hash,
the first of them at byte 0, then at byte 1 and so on to byte 12; then that number plus
1, 2 and so on; each time its absolute value modulo the number of slots.

Source: ``SkimpyOffsetMap.java``, ``Utils.abs``.
"""
from libc.stdint cimport INT32_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from kafkalog._speedups._columns cimport (
    Bytes, bytes_of, bytes_size, length_of, start_of
)

cdef extern from "md5.h" nogil:
    enum:
        LANES "KL_MD5_LANES"
        MD5_SIZE "KL_MD5_SIZE"
        SHORT "KL_MD5_SHORT"
    void md5 "kl_md5"(const uint8_t* data, uint64_t size, uint8_t* out) noexcept
    void md5_short "kl_md5_short"(
        const uint8_t* const* data, const int32_t* size, uint8_t* out
    ) noexcept

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef enum:
    SLOT_BYTES = 24
    LAST_WINDOW = 12  # the last four bytes of a hash
    STEP = 64  # keys hashed before their slots are read


cdef struct Table:
    uint8_t* slots
    int64_t count


cdef struct Hashes:
    # Of the keys of some rows; a null key has none.
    uint8_t hashes[STEP][MD5_SIZE]
    int64_t rows[STEP]
    int count


cdef int hash_step(
    const Bytes* keys, Py_ssize_t first, Py_ssize_t end, Hashes* out
) noexcept nogil:
    # Hash the keys from row `first` on, at most STEP rows. Returns -1 if a key is
    # outside the data.
    cdef const uint8_t* short_keys[LANES]
    cdef int32_t lengths[LANES]
    cdef int places[LANES]
    cdef uint8_t hashed[LANES][MD5_SIZE]
    cdef const uint8_t* key
    cdef int32_t length
    cdef int waiting = 0, i
    cdef Py_ssize_t row
    out.count = 0
    for row in range(first, min(first + STEP, end)):
        length = length_of(keys, row)
        if length < 0:
            continue
        if bytes_size(keys, row) < 0:
            return -1
        key = keys.data + start_of(keys, row) if length else NULL
        out.rows[out.count] = row
        if length > SHORT:
            md5(key, length, out.hashes[out.count])
        else:
            short_keys[waiting], lengths[waiting] = key, length
            places[waiting] = out.count
            waiting += 1
            if waiting == LANES:
                md5_short(short_keys, lengths, hashed[0])
                for i in range(LANES):
                    memcpy(out.hashes[places[i]], hashed[i], MD5_SIZE)
                waiting = 0
        out.count += 1
    for i in range(waiting):
        md5(short_keys[i], lengths[i], out.hashes[places[i]])
    return 0


cdef inline int64_t probe(
    const uint8_t* hashed, int64_t attempt, int64_t slots
) noexcept nogil:
    cdef int window = <int>min(attempt, LAST_WINDOW)
    cdef const uint8_t* at = hashed + window
    cdef uint32_t raw = (
        <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]
    )
    cdef int32_t value = <int32_t>(raw + <uint32_t>(attempt - window))
    if value == INT32_MIN:
        return 0
    return (-value if value < 0 else value) % slots


cdef inline bint is_empty(const uint8_t* slot) noexcept nogil:
    cdef uint64_t parts[3]
    memcpy(parts, slot, SLOT_BYTES)
    return parts[0] | parts[1] | parts[2] == 0


cdef inline void prefetch_slots(const Hashes* found, const Table* table) noexcept nogil:
    cdef int i
    for i in range(found.count):
        prefetch(table.slots + SLOT_BYTES * probe(found.hashes[i], 0, table.count))


cdef inline int put(
    const Table* table, const uint8_t* hashed, int64_t offset
) noexcept nogil:
    # Returns whether the key is new; -1 if there is no empty slot.
    cdef int64_t attempt = 0
    cdef uint8_t* slot
    while attempt < 3 * table.count + MD5_SIZE:
        slot = table.slots + SLOT_BYTES * probe(hashed, attempt, table.count)
        if is_empty(slot):
            memcpy(slot, hashed, MD5_SIZE)
            memcpy(slot + MD5_SIZE, &offset, sizeof(offset))
            return 1
        if memcmp(slot, hashed, MD5_SIZE) == 0:
            memcpy(slot + MD5_SIZE, &offset, sizeof(offset))
            return 0
        attempt += 1
    return -1


cdef inline int64_t find(const Table* table, const uint8_t* hashed) noexcept nogil:
    cdef int64_t attempt = 0, offset
    cdef const uint8_t* slot
    while attempt < table.count + LAST_WINDOW:
        slot = table.slots + SLOT_BYTES * probe(hashed, attempt, table.count)
        if is_empty(slot):
            return -1
        if memcmp(slot, hashed, MD5_SIZE) == 0:
            memcpy(&offset, slot + MD5_SIZE, sizeof(offset))
            return offset
        attempt += 1
    return -1


cdef Table table_of(uint8_t[::1] slots) except *:
    cdef Table table
    table.count = slots.shape[0] // SLOT_BYTES
    if not table.count:
        raise ValueError(f"a table of {slots.shape[0]} bytes, expected at least 24")
    table.slots = &slots[0]
    return table


def hash_keys(keys not None, uint8_t[:, ::1] out not None):
    """Fill the rows of `out` with the MD5 of each key, and with zeros for null.

    `keys` are data, starts and lengths. Returns the number of rows done, fewer than all
    if a key is outside the data.
    """
    cdef Bytes of = bytes_of(keys)
    cdef Hashes step
    cdef Py_ssize_t row = 0
    cdef int i
    if out.shape[0] < of.rows or out.shape[1] != MD5_SIZE:
        raise ValueError(f"output of {out.shape[0]} rows, expected {of.rows} of 16")
    with nogil:
        out[:of.rows] = 0
        while row < of.rows:
            if hash_step(&of, row, of.rows, &step) < 0:
                break
            for i in range(step.count):
                memcpy(&out[step.rows[i], 0], step.hashes[i], MD5_SIZE)
            row = min(row + STEP, of.rows)
    return row


def put_offsets(
    uint8_t[::1] slots not None,
    int64_t entries,
    int64_t most,
    keys not None,
    const int64_t[:] offsets not None,
):
    """Put the offset of each key, in order, until the table has `most` entries.

    `entries` are those that it has. The offset of a key that is there is replaced; a
    null key is skipped. Returns the rows done, and the entries there are then: a table
    that has `most` takes no key, not even one that it has.

    The rows done are -1 if a key is outside the data, or if the table is full.
    """
    cdef Bytes of = bytes_of(keys)
    cdef Table table = table_of(slots)
    cdef Hashes step
    cdef Py_ssize_t row = 0
    cdef int i, is_new
    if offsets.shape[0] != of.rows:
        raise ValueError(f"{offsets.shape[0]} offsets for {of.rows} keys")
    with nogil:
        while row < of.rows:
            if hash_step(&of, row, of.rows, &step) < 0:
                row = -1
                break
            prefetch_slots(&step, &table)
            row = min(row + STEP, of.rows)
            for i in range(step.count):
                if entries >= most:
                    row = step.rows[i]
                    break
                is_new = put(&table, step.hashes[i], offsets[step.rows[i]])
                if is_new < 0:
                    row = -1
                    break
                entries += is_new
            else:
                continue
            break
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
            if hash_step(&of, row, of.rows, &step) < 0:
                break
            prefetch_slots(&step, &table)
            for i in range(step.count):
                out[step.rows[i]] = find(&table, step.hashes[i])
            row = min(row + STEP, of.rows)
    return row

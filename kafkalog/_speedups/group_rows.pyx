"""Find the groups of rows in a hash table that the caller owns, and add up measures.

A group is a row of numbers and, if groups have keys, a byte string or null. The arrays
of a table, in which the groups are numbered as they are found:

    slots    the numbers of groups, -1 for none; a power of two of them. The slots of a
             group are tried from the one that its hash names on.
    entries  of each group the hash, where its key begins in `keys`, and the length of
             the key, -1 for null. They are side by side, so that a group is read from
             memory at once.
    codes    the numbers of each group
    keys     the bytes of all keys, one after another
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from kafkalog._speedups._cursor cimport prefetch
from kafkalog._speedups._rows cimport check_rows

cdef enum:
    HASH = 0
    BEGIN = 1
    LENGTH = 2
    ENTRY = 3  # fields of an entry
    WORD = 8
    AHEAD = 24  # rows whose slots are read from memory meanwhile
    SOON = 16  # rows whose groups are, if they are the first in their slots
    NEXT = 8  # rows whose keys are

cdef uint64_t FACTOR = 0x9E3779B97F4A7C15u


cdef inline uint64_t mixed(uint64_t hash, uint64_t word) noexcept nogil:
    hash = (hash ^ word) * FACTOR
    return hash ^ (hash >> 32)


cdef inline uint64_t hash_of(
    const int64_t* codes, Py_ssize_t count, const uint8_t* key, int64_t length,
    uint64_t seed
) noexcept nogil:
    # Read the key in words, the last of which is filled up with zeros.
    cdef uint64_t hash = mixed(seed, <uint64_t>length), word
    cdef Py_ssize_t i
    for i in range(count):
        hash = mixed(hash, <uint64_t>codes[i])
    while length >= WORD:
        memcpy(&word, key, WORD)
        hash = mixed(hash, word)
        key += WORD
        length -= WORD
    if length > 0:
        word = 0
        memcpy(&word, key, length)
        hash = mixed(hash, word)
    return mixed(hash, hash >> 29)


def hash_rows(
    const uint8_t[::1] data not None,
    const int32_t[::1] starts not None,
    const int32_t[::1] lengths not None,
    const int64_t[:, ::1] codes not None,
    uint64_t seed,
    uint64_t[::1] hashes not None,
):
    """Fill `hashes` with those of rows, whose keys are spans of `data`.

    Returns the number of rows hashed, fewer than all if a key is outside the data.
    """
    cdef Py_ssize_t i, done = 0, width = codes.shape[1]
    cdef int64_t end = data.shape[0], length
    cdef const uint8_t* key = NULL
    cdef const uint8_t* bytes = &data[0] if end else NULL
    cdef const int64_t* numbers = &codes[0, 0] if codes.size else NULL
    check_rows(min(starts.shape[0], lengths.shape[0], codes.shape[0]), hashes.shape[0])
    with nogil:
        for i in range(hashes.shape[0]):
            length = lengths[i]
            if length > 0:
                if starts[i] < 0 or length > end - starts[i]:
                    break
                key = bytes + starts[i]
            hashes[i] = hash_of(numbers + i * width, width, key, length, seed)
            done += 1
    return done


cdef struct Groups:
    # Pointers into the arrays of a table.
    int32_t* slots
    uint64_t mask
    int64_t* entries
    int64_t* codes
    uint8_t* keys
    Py_ssize_t width  # numbers of a group
    Py_ssize_t count
    Py_ssize_t most  # groups that the arrays take
    int64_t key_bytes  # in use
    int64_t key_capacity


cdef struct GroupRow:
    # The row whose group is searched.
    int64_t hash
    const int64_t* codes
    const uint8_t* key
    int64_t length  # -1: null


cdef Groups groups_of(tuple table, Py_ssize_t count, Py_ssize_t width) except *:
    cdef int32_t[::1] slots = table[0]
    cdef int64_t[:, ::1] entries = table[1]
    cdef int64_t[:, ::1] codes = table[2]
    cdef uint8_t[::1] keys = table[3]
    cdef Groups groups
    groups.mask = slots.shape[0] - 1
    if slots.shape[0] < 1 or slots.shape[0] & groups.mask:
        raise ValueError(f"{slots.shape[0]} slots, expected a power of two")
    if (
        entries.shape[1] != ENTRY or codes.shape[1] != width
        or codes.shape[0] < entries.shape[0] or not 0 <= count <= entries.shape[0]
    ):
        raise ValueError(
            f"{count} groups in entries of shape {entries.shape[0]} x "
            f"{entries.shape[1]}, codes of {codes.shape[0]} x {codes.shape[1]}, "
            f"expected {ENTRY} fields and {width} codes"
        )
    groups.slots = &slots[0]
    groups.entries = &entries[0, 0] if entries.shape[0] else NULL
    groups.codes = &codes[0, 0] if width and codes.shape[0] else NULL
    groups.keys = &keys[0] if keys.shape[0] else NULL
    groups.width, groups.count, groups.key_bytes = width, count, 0
    groups.most = min(entries.shape[0], slots.shape[0] // 2)
    groups.key_capacity = keys.shape[0]
    if count:
        groups.key_bytes = entries[count - 1, BEGIN]
        groups.key_bytes += max(entries[count - 1, LENGTH], 0)
    return groups


cdef inline void prefetch_groups(
    const Groups* groups, const uint64_t* hashes
) noexcept nogil:
    # Prefetch what the rows after the one at `hashes` compare: slot, group, key.
    cdef int32_t group
    prefetch(&groups.slots[hashes[AHEAD] & groups.mask])
    group = groups.slots[hashes[SOON] & groups.mask]
    if group >= 0:
        prefetch(groups.entries + ENTRY * group)
    group = groups.slots[hashes[NEXT] & groups.mask]
    if group >= 0:
        prefetch(groups.keys + groups.entries[ENTRY * group + BEGIN])


cdef inline bint is_group(
    const Groups* groups, int32_t group, const GroupRow* row
) noexcept nogil:
    # Return whether a row is of the group.
    cdef const int64_t* entry = groups.entries + ENTRY * group
    cdef size_t codes_size = groups.width * sizeof(int64_t)
    if entry[HASH] != row.hash or entry[LENGTH] != row.length:
        return False
    if codes_size and memcmp(
        groups.codes + groups.width * group, row.codes, codes_size
    ):
        return False
    return row.length <= 0 or not memcmp(
        groups.keys + entry[BEGIN], row.key, row.length
    )


cdef inline bint append_group(Groups* groups, const GroupRow* row) noexcept nogil:
    # Append the group of a row; False if an array is full.
    cdef int64_t* entry = groups.entries + ENTRY * groups.count
    cdef int64_t size = max(row.length, 0)
    if groups.count >= groups.most or size > groups.key_capacity - groups.key_bytes:
        return False
    entry[HASH], entry[BEGIN], entry[LENGTH] = row.hash, groups.key_bytes, row.length
    if groups.width:
        memcpy(
            groups.codes + groups.width * groups.count, row.codes,
            groups.width * sizeof(int64_t),
        )
    if size:
        memcpy(groups.keys + groups.key_bytes, row.key, size)
    groups.key_bytes += size
    groups.count += 1
    return True


cdef inline int32_t find_group(Groups* groups, const GroupRow* row) noexcept nogil:
    # Return the number of the row's group, appended if it is new; -1 if it is new and
    # an array is full. Half of the slots are empty, which ends the search.
    cdef uint64_t slot = <uint64_t>row.hash & groups.mask
    while groups.slots[slot] >= 0:
        if is_group(groups, groups.slots[slot], row):
            return groups.slots[slot]
        slot = (slot + 1) & groups.mask
    if not append_group(groups, row):
        return -1
    groups.slots[slot] = <int32_t>(groups.count - 1)
    return groups.slots[slot]


def find_groups(
    const uint8_t[::1] data not None,
    const int32_t[::1] starts not None,
    const int32_t[::1] lengths not None,
    const int64_t[:, ::1] codes not None,
    const uint64_t[::1] hashes not None,
    tuple table not None,
    Py_ssize_t groups,
    int32_t[::1] out not None,
):
    """Fill `out` with the numbers of the groups of rows; append new groups to a table.

    `hashes` are those of `hash_rows`. `table` has the arrays in the order above, and
    `groups` are in it. Returns the number of rows done, and of groups then. It stops
    before a row for which an array is full: of the slots, half may be in use.
    """
    cdef Py_ssize_t i, done = 0, rows = out.shape[0], width = codes.shape[1]
    cdef Groups of = groups_of(table, groups, width)
    cdef GroupRow row
    cdef bint is_outside = False
    cdef const uint8_t* key_bytes = &data[0] if data.shape[0] else NULL
    cdef const int64_t* numbers = &codes[0, 0] if codes.size else NULL
    check_rows(
        min(starts.shape[0], lengths.shape[0], codes.shape[0], hashes.shape[0]),
        rows,
    )
    with nogil:
        for i in range(rows):
            if i + AHEAD < rows:
                prefetch_groups(&of, &hashes[i])
            row.hash, row.length = <int64_t>hashes[i], lengths[i]
            row.codes, row.key = numbers + i * width, key_bytes
            if row.length > 0:
                is_outside = starts[i] < 0 or row.length > data.shape[0] - starts[i]
                if is_outside:
                    break
                row.key += starts[i]
            out[i] = find_group(&of, &row)
            if out[i] < 0:
                break
            done += 1
    if is_outside:
        raise ValueError(
            f"key of {lengths[done]} bytes at {starts[done]}, expected within the "
            f"{data.shape[0]} of data"
        )
    return done, of.count


def fill_slots(
    const int64_t[:, ::1] entries not None, int32_t[::1] slots not None
):
    """Put the groups of entries into empty slots, which are more than the groups."""
    cdef Py_ssize_t group
    cdef uint64_t mask = slots.shape[0] - 1, slot
    if slots.shape[0] <= entries.shape[0] or slots.shape[0] & mask:
        raise ValueError(
            f"{slots.shape[0]} slots for {entries.shape[0]} groups, expected more, and "
            "a power of two"
        )
    with nogil:
        for group in range(entries.shape[0]):
            slot = <uint64_t>entries[group, HASH] & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = <int32_t>group


def add_measures(
    const int32_t[::1] groups not None,
    const int64_t[:, ::1] measures not None,
    Py_ssize_t sums,
    Py_ssize_t leasts,
    int64_t[:, ::1] totals not None,
):
    """Add the measures of rows to the totals of their groups.

    `measures` has a row for each measure, `totals` a column: first `sums` of them that
    are added, then `leasts` of which the least is kept, then those of which the
    greatest is.
    """
    cdef Py_ssize_t i, m, count = measures.shape[0], rows = groups.shape[0]
    cdef int64_t* total
    cdef int64_t value
    cdef int32_t least = 0, greatest = -1
    if (
        measures.shape[1] < rows or totals.shape[1] != count
        or sums < 0 or leasts < 0 or sums + leasts > count
    ):
        raise ValueError(
            f"{count} x {measures.shape[1]} measures and {totals.shape[1]} totals, "
            f"expected {rows} rows, and {sums} sums and {leasts} leasts among them"
        )
    with nogil:
        for i in range(rows):
            least = min(least, groups[i])
            greatest = max(greatest, groups[i])
    if least < 0 or greatest >= totals.shape[0]:
        raise ValueError(
            f"groups {least} to {greatest}, expected 0 to {totals.shape[0] - 1}"
        )
    with nogil:
        for i in range(rows):
            if i + SOON < rows:
                prefetch(&totals[groups[i + SOON], 0])
                prefetch(&totals[groups[i + SOON], count - 1])
            total = &totals[groups[i], 0]
            for m in range(sums):
                total[m] += measures[m, i]
            for m in range(sums, sums + leasts):
                value = measures[m, i]
                total[m] = min(total[m], value)
            for m in range(sums + leasts, count):
                value = measures[m, i]
                total[m] = max(total[m], value)


cdef inline int64_t sum_of(
    const int64_t[::1] weights, Py_ssize_t first, Py_ssize_t end
) noexcept nogil:
    # Return the sum; -1 if one is negative, or it is not below 2**31.
    cdef int64_t whole = 0
    cdef Py_ssize_t i
    for i in range(first, end):
        if not 0 <= weights[i] <= INT32_MAX - whole:
            return -1
        whole += weights[i]
    return whole


def divide_totals(
    const int64_t[::1] totals not None,
    const int64_t[::1] weights not None,
    const int64_t[::1] counts not None,
    int64_t[::1] out not None,
):
    """Divide each total among its rows, `counts` of them, by their weights.

    A row has the difference of the parts up to it and before it, each rounded down, so
    that the parts add up to the total. Returns the rows done, fewer than all if a total
    or the sum of its weights is not below 2**31, a weight is negative, all are 0, or
    there are more counts than rows.
    """
    cdef Py_ssize_t t, i, first = 0, end
    cdef int64_t whole, reached, upper, lower
    if weights.shape[0] < out.shape[0] or counts.shape[0] < totals.shape[0]:
        raise ValueError(
            f"{weights.shape[0]} weights of {out.shape[0]} rows, {counts.shape[0]} "
            f"counts of {totals.shape[0]} totals"
        )
    with nogil:
        for t in range(totals.shape[0]):
            if not 0 <= counts[t] <= out.shape[0] - first:
                break
            if not 0 <= totals[t] <= INT32_MAX:
                break
            end = first + counts[t]
            whole = sum_of(weights, first, end)
            if whole <= 0 and end > first:
                break
            reached = lower = 0
            for i in range(first, end):
                reached += weights[i]
                upper = totals[t] * reached // whole
                out[i] = upper - lower
                lower = upper
            first = end
    return first

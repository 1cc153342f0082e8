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
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from kafkalog._speedups._cursor cimport prefetch

cdef enum:
    HASH = 0
    BEGIN = 1
    LENGTH = 2
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

    The rows have been hashed by `hash_rows`. `table` has the arrays in the order above,
    and `groups` are in it. Returns the number of rows done, and of groups then. It
    stops before a row for which an array is full: of the slots, half may be in use.
    """
    cdef int32_t[::1] slots = table[0]
    cdef int64_t[:, ::1] entries = table[1]
    cdef int64_t[:, ::1] group_codes = table[2]
    cdef uint8_t[::1] keys = table[3]
    cdef Py_ssize_t i, done = 0, width = codes.shape[1]
    cdef Py_ssize_t most = min(entries.shape[0], slots.shape[0] // 2)
    cdef Py_ssize_t rows = out.shape[0]
    cdef uint64_t mask = slots.shape[0] - 1, slot
    cdef int64_t used = 0, size, hash
    cdef int64_t* entry
    cdef uint8_t* key_bytes = &keys[0] if keys.shape[0] else NULL
    cdef int32_t group
    if groups:
        used = entries[groups - 1, BEGIN] + max(entries[groups - 1, LENGTH], 0)
    with nogil:
        for i in range(rows):
            if i + AHEAD < rows:
                prefetch(&slots[hashes[i + AHEAD] & mask])
                group = slots[hashes[i + SOON] & mask]
                if group >= 0:
                    prefetch(&entries[group, 0])
                group = slots[hashes[i + NEXT] & mask]
                if group >= 0:
                    prefetch(key_bytes + entries[group, BEGIN])
            hash = <int64_t>hashes[i]
            slot = hashes[i] & mask
            size = max(lengths[i], 0)
            while True:
                group = slots[slot]
                if group < 0:
                    break
                entry = &entries[group, 0]
                if (
                    entry[HASH] == hash
                    and entry[LENGTH] == lengths[i]
                    and (not width or memcmp(
                        &group_codes[group, 0], &codes[i, 0], width * sizeof(int64_t)
                    ) == 0)
                    and (not size or memcmp(
                        key_bytes + entry[BEGIN], &data[starts[i]], size
                    ) == 0)
                ):
                    break
                slot = (slot + 1) & mask
            if group < 0:
                if groups >= most or size > keys.shape[0] - used:
                    break
                group = <int32_t>groups
                slots[slot] = group
                entry = &entries[group, 0]
                entry[HASH], entry[BEGIN], entry[LENGTH] = hash, used, lengths[i]
                if width:
                    memcpy(
                        &group_codes[group, 0], &codes[i, 0], width * sizeof(int64_t)
                    )
                if size:
                    memcpy(key_bytes + used, &data[starts[i]], size)
                used += size
                groups += 1
            out[i] = group
            done += 1
    return done, groups


def fill_slots(
    const int64_t[:, ::1] entries not None, int32_t[::1] slots not None
):
    """Put the groups of entries into empty slots, which are more than the groups."""
    cdef Py_ssize_t group
    cdef uint64_t mask = slots.shape[0] - 1, slot
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


def divide_totals(
    const int64_t[::1] totals not None,
    const int64_t[::1] weights not None,
    const int64_t[::1] counts not None,
    int64_t[::1] out not None,
):
    """Divide each total among its rows, `counts` of them, by their weights.

    A row has the difference of the parts up to it and before it, each rounded down, so
    that the parts add up to the total. A total is below 2**31, and so is the sum of its
    weights, each of which is positive. Returns the rows done.
    """
    cdef Py_ssize_t t, i, first = 0, end
    cdef int64_t whole, reached, upper, lower
    with nogil:
        for t in range(totals.shape[0]):
            end = first + counts[t]
            if end > out.shape[0]:
                break
            whole = reached = lower = 0
            for i in range(first, end):
                whole += weights[i]
            for i in range(first, end):
                reached += weights[i]
                upper = totals[t] * reached // whole
                out[i] = upper - lower
                lower = upper
            first = end
    return first

"""Make the entries of a segment's indexes, as they are on disk.

`make_entries` makes those of many batches. `offset_entry` and `time_entry` make one.
An entry that an index rejects ends a call; `indexes` makes an error of its fault.
"""
from libc.stdint cimport int64_t

from kafkalog._speedups._rows cimport Rows, rows_of


def offset_entry(int64_t base, end, int64_t offset, int64_t position):
    """Return an entry of an offset index with an `end`, and its `IndexFault`."""
    cdef OffsetEnd index = offset_end_of(end, base)
    cdef Entries made
    made.offsets = 0
    fault = add_offset(&index, base, offset, position, &made)
    return (<const char*>made.index)[:made.offsets * INDEX_ENTRY], fault


def time_entry(int64_t base, end, int64_t timestamp, int64_t offset):
    """Return an entry of a time index with an `end`, and its `IndexFault`.

    Without a fault there is none if the timestamp is not above the last one.
    """
    cdef TimeEnd index = time_end_of(end, base)
    cdef Entries made
    made.times = 0
    fault = add_time(&index, base, timestamp, offset, &made)
    return (<const char*>made.time)[:made.times * TIME_ENTRY], fault


def make_entries(
    rows, Py_ssize_t first, int64_t position, int64_t base, int64_t interval,
    filling, offset_end, time_end, bint skip_full,
):
    """Make the entries of consecutive batches, of which `first` is at `position`.

    `rows` are the headers; those before `first` are ignored. A batch gets entries
    if more than `interval` bytes precede it, counted from the start of the batch with
    the entry before. `filling` is the count so far, the greatest timestamp, and the
    last offset of its batch. The ends state how many entries still fit each index, and
    the entries appended last, as on disk. With `skip_full` no entries are made while an
    index is full.

    Returns the number and the position of the batch at which a fault or a full output
    ends the call, the fault, the entries of both indexes, and `filling` then.
    """
    cdef Filling state
    cdef OffsetEnd offsets = offset_end_of(offset_end, base)
    cdef TimeEnd times = time_end_of(time_end, base)
    cdef IndexFault fault = IndexFault.FITS
    cdef Entries made
    cdef Rows batches = rows_of(rows)
    cdef Py_ssize_t i
    state.since, state.timestamp, state.timestamp_offset = filling
    made.offsets = made.times = 0
    i = first
    with nogil:
        while 0 <= i < batches.count and made.offsets < MOST_ENTRIES:
            fault = count_batch(
                batches.at + i, base, position, interval, &state, &offsets, &times,
                &made, skip_full,
            )
            if fault != IndexFault.FITS:
                break
            position += batches.at[i].size_in_bytes
            i += 1
    return (
        i,
        position,
        fault,
        (<const char*>made.index)[:made.offsets * INDEX_ENTRY],
        (<const char*>made.time)[:made.times * TIME_ENTRY],
        (state.since, state.timestamp, state.timestamp_offset),
    )

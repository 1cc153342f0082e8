"""Compute CRC-32C and CRC-32 of many ranges, and check those of entries.

The checksums are in ``crc.h``: carry-less multiplication if the processor has it, else
tables.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from kafkalog._speedups._crc cimport CRC32, CRC32C, crc_best_path, crc_by, crc_setup
from kafkalog._speedups._entry cimport crc_begin, crc_matches
from kafkalog._speedups._rows cimport Rows, rows_of

crc_setup()


def best_path():
    """Return the fastest path: 0 tables, 1 folding by 128 bits, 2 by 512 bits."""
    return crc_best_path


def crc_many(
    const uint8_t[::1] src not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    uint32_t[::1] out not None,
    bint crc32c,
    int path,
):
    """Fill `out` with the checksums of ``src[start:start + length]``, by `path`.

    Returns the number of ranges done, fewer than all if one is outside `src`.
    """
    cdef Py_ssize_t i, done = 0
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int kind = CRC32C if crc32c else CRC32
    if min(lengths.shape[0], out.shape[0]) < starts.shape[0]:
        raise ValueError(f"lengths or out shorter than the {starts.shape[0]} starts")
    with nogil:
        for i in range(starts.shape[0]):
            if (
                starts[i] < 0 or lengths[i] < 0 or starts[i] > src.shape[0]
                or lengths[i] > src.shape[0] - starts[i]
            ):
                break
            out[i] = crc_by(path, kind, data + starts[i], lengths[i])
            done += 1
    return done


def check_batches(
    const uint8_t[::1] src not None,
    int64_t origin,
    rows not None,
    uint8_t[::1] valid not None,
):
    """Fill `valid` with whether each entry's CRC matches; return how many do not.

    Positions in the rows are relative to `origin`, the position of ``src[0]``. The CRC
    of an entry outside `src` does not match.
    """
    cdef Py_ssize_t i, wrong = 0
    cdef int64_t start
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef Rows entries = rows_of(rows)
    if valid.shape[0] < entries.count:
        raise ValueError(f"valid shorter than the {entries.count} rows")
    with nogil:
        for i in range(entries.count):
            start = entries.at[i].position - origin
            valid[i] = 0
            if (
                start >= 0 and start <= src.shape[0]
                and crc_begin(&entries.at[i]) <= entries.at[i].size_in_bytes
                and entries.at[i].size_in_bytes <= src.shape[0] - start
            ):
                valid[i] = crc_matches(data + start, &entries.at[i])
            wrong += not valid[i]
    return wrong

"""Check the CRCs of many entries in one call.

The checksums are in ``crc.h``: carry-less multiplication or CRC instructions if the
processor has them, else tables. For a single buffer `kafkalog.codecs.checksum` uses the
packages.
"""
from libc.stdint cimport int64_t, uint8_t

from kafkalog._speedups._crc cimport crc_setup
from kafkalog._speedups._entry cimport crc_begin, crc_matches
from kafkalog._speedups._rows cimport Rows, check_rows, rows_of

crc_setup()


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
    check_rows(valid.shape[0], entries.count)
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

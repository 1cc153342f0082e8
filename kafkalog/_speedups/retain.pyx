"""Decide which records compaction keeps, by a table of the decisions for all inputs."""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

cdef enum:
    OTHER_BITS = 64 | 32 | 1


def retain_records(
    const int8_t[::1] decisions not None,
    const uint8_t[::1] batches not None,
    const int64_t[::1] counts not None,
    const int64_t[:] offsets not None,
    const int32_t[:] key_lengths not None,
    const int32_t[:] value_lengths not None,
    const uint8_t[::1] latest not None,
    int64_t end,
    int8_t[::1] out not None,
    int64_t[::1] kept not None,
    int64_t[::1] tombstones not None,
):
    """Fill `out` with the decision about each record, negative if it is dropped.

    Each record has a row in `decisions`, whose number has these bits:

        16   the offset is above `end`
         8   the record has a key
         4   no later record has the key, so that `latest` is 1
         2   the record has a value

    `batches` has the bits 64, 32 and 1 of each batch, and `counts` its number of
    records. `kept` and `tombstones` become the numbers of records, and of records
    without a value, that are kept of each batch.
    """
    cdef Py_ssize_t batch, row = 0, stop, rows = offsets.shape[0]
    cdef uint8_t number
    cdef bint is_kept
    if min(
        key_lengths.shape[0], value_lengths.shape[0], latest.shape[0], out.shape[0]
    ) < rows:
        raise ValueError(f"a column is shorter than the {rows} records")
    if min(counts.shape[0], kept.shape[0], tombstones.shape[0]) < batches.shape[0]:
        raise ValueError(f"a column is shorter than the {batches.shape[0]} batches")
    if decisions.shape[0] != 128:
        raise ValueError(f"{decisions.shape[0]} decisions, expected 128")
    with nogil:
        for batch in range(batches.shape[0]):
            stop = row + max(0, min(counts[batch], rows - row))
            kept[batch] = tombstones[batch] = 0
            while row < stop:
                number = (
                    batches[batch] & OTHER_BITS
                    | (offsets[row] > end) << 4
                    | (key_lengths[row] >= 0) << 3
                    | (latest[row] != 0) << 2
                    | (value_lengths[row] >= 0) << 1
                )
                out[row] = decisions[number]
                is_kept = out[row] >= 0
                kept[batch] += is_kept
                tombstones[batch] += is_kept and value_lengths[row] < 0
                row += 1
    return row

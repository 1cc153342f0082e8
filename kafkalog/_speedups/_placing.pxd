# The offsets that a leader assigns to an append.
from libc.stdint cimport INT64_MAX, int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport BATCH_HEADER, Batch
from kafkalog._speedups._cursor cimport be32, put64
from kafkalog._speedups._rows cimport AppendArrays


cdef inline bint is_inside(const Batch* row, int64_t size) noexcept nogil:
    # Return whether a batch is within `size` bytes.
    return (
        row.position >= 0 and row.size_in_bytes >= BATCH_HEADER
        and row.position <= size - row.size_in_bytes
    )


cdef inline bint place_append(
    const AppendArrays* of, Py_ssize_t i, int64_t next_offset
) noexcept nogil:
    # Assign the offsets from `next_offset` on to an append of one batch, as many as it
    # has records. Returns whether it has a batch, there are as many offsets, and the
    # batch is in the data.
    cdef Append* info = &of.info.at[i]
    cdef Batch* row = of.rows.at + of.row_bounds[i]
    cdef uint8_t* at
    if (
        not 0 <= of.row_bounds[i] < of.row_bounds[i + 1] <= of.rows.count
        or not is_inside(row, of.size)
        or info.records > INT64_MAX - next_offset
    ):
        return False
    at = of.data + row.position
    info.first_offset = next_offset
    info.last_offset = row.last_offset = next_offset + info.records - 1
    # The base offset of a batch with gaps is below `next_offset`.
    row.base_offset = row.last_offset - be32(at + 23)
    put64(at, row.base_offset)
    return True

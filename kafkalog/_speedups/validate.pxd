# What other kernels use of the validation kernels.
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport Batch

cdef struct Wanted:
    # Of a batch that comes in.
    bint from_zero
    bint rising
    int32_t least_epoch
    int32_t greatest_epoch
    int64_t most_bytes


cdef struct Rules:
    # Of a batch that a leader takes.
    bint from_client
    bint keyed
    int codec  # -1 any
    int64_t least_timestamp
    int64_t greatest_timestamp


cdef struct Found:
    Batch* at
    Py_ssize_t rows
    Py_ssize_t room


cdef struct Stamp:
    bint at_append
    int32_t leader_epoch
    int64_t now_ms


cdef Rules rules_of(tuple rules) except *

# Whether there are batches from `pos` to `end` and nothing else, as wanted.
cdef bint take_append(
    const uint8_t* src, int64_t pos, int64_t end, const Wanted* wanted, Found* found,
    Append* info
) noexcept nogil

# Copy one append, a header long at least, to its place and judge it; False where it is
# not one plain batch. The records of one that is packed are not looked at.
cdef bint take_led(
    const uint8_t* piece, Py_ssize_t size, uint8_t* to, int64_t pos,
    const Wanted* wanted, const Rules* rules, Batch* row, Append* info,
) noexcept nogil

# Judge the records of a batch that was packed.
cdef bint survey_unpacked(
    const uint8_t* records, Py_ssize_t size, const Batch* row, const Rules* rules,
    Append* info,
) noexcept nogil

# Stamp a batch that was judged, and give it its offsets; False where it has none.
cdef bint stamp_led(
    uint8_t* at, const Stamp* stamp, int64_t next_offset, Batch* row, Append* info
) noexcept nogil

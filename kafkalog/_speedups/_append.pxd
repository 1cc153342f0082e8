# The row of one append, which kernels fill: the same struct as the NumPy dtype
# `validation.appends.APPEND`.
from libc.stdint cimport int8_t, int32_t, int64_t

cdef packed struct Append:
    int64_t first_offset
    int64_t last_offset
    int64_t last_offset_of_first_batch
    int64_t max_timestamp
    int64_t log_append_time
    int64_t valid_bytes
    int32_t last_leader_epoch
    int32_t records
    int8_t source_codec
    int8_t rebuilt
    int8_t _unused[6]

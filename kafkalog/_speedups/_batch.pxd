# A decoded header, the row that kernels exchange: the same struct as the NumPy dtype
# `formats.layout.BATCH`.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t

cdef packed struct Batch:
    int64_t position
    int64_t size_in_bytes
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    uint32_t crc
    int32_t leader_epoch
    int32_t base_sequence
    int32_t count
    int16_t attributes
    int16_t producer_epoch
    int8_t magic
    int8_t _unused[3]

cdef enum:
    CODEC_MASK = 0x07
    LAST_CODEC = 4  # zstd
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    KNOWN_ATTRIBUTES = 0x7F
    LOG_OVERHEAD = 12
    HEADER_UP_TO_MAGIC = 17
    LEAST_SIZE = 14  # least value of the size field, for any magic
    BATCH_HEADER = 61
    BATCH_CRC_FROM = 21
    MESSAGE_CRC_FROM = 16
    MESSAGE_0_OVERHEAD = 14
    MESSAGE_1_OVERHEAD = 22
    LEAST_RECORD = 7  # bytes of the smallest record of magic 2

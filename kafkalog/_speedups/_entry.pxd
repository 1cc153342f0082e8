# Read the header of one entry, and check its CRC.
# A module that uses `crc_matches` calls `crc_setup` at import.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kafkalog._speedups._batch cimport (
    BATCH_CRC_FROM, BATCH_HEADER, CODEC_MASK, HEADER_UP_TO_MAGIC, LEAST_SIZE,
    LOG_OVERHEAD, MESSAGE_0_OVERHEAD, MESSAGE_1_OVERHEAD, MESSAGE_CRC_FROM, Batch
)
from kafkalog._speedups._crc cimport CRC32, CRC32C, crc
from kafkalog._speedups._cursor cimport Status, be16, be32, be64, wrapping_add


cdef inline void read_batch(const uint8_t* at, Batch* row) noexcept nogil:
    # Read a header of magic 2, all 61 bytes of which can be read.
    row.base_offset = be64(at)
    row.leader_epoch = be32(at + 12)
    row.crc = <uint32_t>be32(at + 17)
    row.attributes = be16(at + 21)
    row.last_offset = wrapping_add(row.base_offset, be32(at + 23))
    row.base_timestamp = be64(at + 27)
    row.max_timestamp = be64(at + 35)
    row.producer_id = be64(at + 43)
    row.producer_epoch = be16(at + 51)
    row.base_sequence = be32(at + 53)
    row.count = be32(at + 57)


cdef inline void read_message(const uint8_t* at, Batch* row) noexcept nogil:
    # Read a header of magic 0 or 1, all of which can be read.
    cdef bint wrapper
    row.leader_epoch = row.base_sequence = row.producer_epoch = -1
    row.producer_id = -1
    row.crc = <uint32_t>be32(at + 12)
    row.attributes = at[17]
    row.last_offset = be64(at)
    row.max_timestamp = be64(at + 18) if row.magic == 1 else -1
    row.base_timestamp = row.max_timestamp
    wrapper = row.attributes & CODEC_MASK != 0
    row.base_offset = -1 if wrapper else row.last_offset
    row.count = -1 if wrapper else 1


cdef inline int8_t layout_of(int8_t magic) noexcept nogil:
    # Return the magic by whose layout Kafka's storage engine reads an entry. The CRC of
    # a batch does not cover its magic. Source: FileLogInputStream.java.
    if magic >= 2:
        return 2
    return 1 if magic < 0 else magic


cdef inline Status read_entry(
    const uint8_t* src, int64_t pos, int64_t end, Batch* row, bint any_magic
) noexcept nogil:
    # Read the header of the entry at `pos`, all of which must be before `end`. With
    # `any_magic` the row gets the magic whose layout was used.
    cdef int32_t size
    cdef int32_t least
    if end - pos < HEADER_UP_TO_MAGIC:
        return Status.ENTRY_INCOMPLETE
    size = be32(src + pos + 8)
    row.magic = <int8_t>src[pos + 16]
    if any_magic:
        row.magic = layout_of(row.magic)
    if size < LEAST_SIZE:
        return Status.ENTRY_TOO_SMALL
    if row.magic < 0 or row.magic > 2:
        return Status.ENTRY_MAGIC
    least = BATCH_HEADER - LOG_OVERHEAD
    if row.magic < 2:
        least = MESSAGE_1_OVERHEAD if row.magic else MESSAGE_0_OVERHEAD
    if size < least:
        return Status.ENTRY_TOO_SMALL
    row.size_in_bytes = LOG_OVERHEAD + <int64_t>size
    if row.size_in_bytes > end - pos:
        return Status.ENTRY_INCOMPLETE
    row.position = pos
    if row.magic == 2:
        read_batch(src + pos, row)
    else:
        read_message(src + pos, row)
    return Status.OK


cdef inline int64_t crc_begin(const Batch* row) noexcept nogil:
    # Return where the bytes that the CRC covers begin; they end with the entry.
    return MESSAGE_CRC_FROM if row.magic < 2 else BATCH_CRC_FROM


cdef inline bint crc_matches(const uint8_t* at, const Batch* row) noexcept nogil:
    # Compare the stored CRC with that of the entry's bytes, all of which can be read.
    cdef int64_t begin = crc_begin(row)
    return row.crc == crc(
        CRC32 if row.magic < 2 else CRC32C, at + begin, row.size_in_bytes - begin
    )

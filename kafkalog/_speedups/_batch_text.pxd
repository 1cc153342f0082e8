# Write the line that kafka-dump-log prints of an entry, from its header.
# A module that uses it calls `crc_setup` at import.
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t

from kafkalog._speedups._batch cimport (
    BATCH_HEADER, CODEC_MASK, CONTROL, DELETE_HORIZON, LAST_CODEC, LOG_APPEND_TIME,
    TRANSACTIONAL, Batch
)
from kafkalog._speedups._cursor cimport wrapping_sub
from kafkalog._speedups._entry cimport crc_matches
from kafkalog._speedups._text cimport put, put_int

cdef enum:
    LINE_BYTES = 768  # most of an entry's line, or of a record's without its contents


cdef inline int32_t add_sequence(int32_t sequence, int32_t delta) noexcept nogil:
    # As `DefaultRecordBatch.incrementSequence`, which wraps as Java's int does.
    cdef uint32_t most = INT32_MAX
    if sequence > <int32_t>(most - <uint32_t>delta):
        return <int32_t>(<uint32_t>delta - (most - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>delta)


cdef inline uint8_t* put_flag(uint8_t* to, bint flag) noexcept nogil:
    return put(to, b"true") if flag else put(to, b"false")


cdef inline uint8_t* put_timestamp_type(uint8_t* to, const Batch* batch) noexcept nogil:
    if batch.magic == 0:
        return put(to, b"NoTimestampType: ")
    if batch.attributes & LOG_APPEND_TIME:
        return put(to, b"LogAppendTime: ")
    return put(to, b"CreateTime: ")


cdef inline uint8_t* put_batch_fields(uint8_t* to, const Batch* batch) noexcept nogil:
    # Write the fields that only magic 2 has.
    cdef int32_t delta = <int32_t>wrapping_sub(batch.last_offset, batch.base_offset)
    cdef int32_t sequence = batch.base_sequence
    if sequence != -1:
        sequence = add_sequence(sequence, delta)
    to = put_int(put(to, b"baseOffset: "), batch.base_offset)
    to = put_int(put(to, b" lastOffset: "), batch.last_offset)
    to = put_int(put(to, b" count: "), batch.count)
    to = put_int(put(to, b" baseSequence: "), batch.base_sequence)
    to = put_int(put(to, b" lastSequence: "), sequence)
    to = put_int(put(to, b" producerId: "), batch.producer_id)
    to = put_int(put(to, b" producerEpoch: "), batch.producer_epoch)
    to = put_int(put(to, b" partitionLeaderEpoch: "), batch.leader_epoch)
    to = put_flag(put(to, b" isTransactional: "), batch.attributes & TRANSACTIONAL)
    to = put_flag(put(to, b" isControl: "), batch.attributes & CONTROL)
    to = put(to, b" deleteHorizonMs: OptionalLong")
    if batch.attributes & DELETE_HORIZON:
        return put(put_int(put(to, b"["), batch.base_timestamp), b"]")
    return put(to, b".empty")


cdef inline bint is_valid(const uint8_t* at, const Batch* batch) noexcept nogil:
    # A batch may state a size below that of its header; a message was checked for it.
    if batch.magic >= 2 and batch.size_in_bytes < BATCH_HEADER:
        return False
    return crc_matches(at, batch)


cdef inline uint8_t* put_codec(uint8_t* to, int codec) noexcept nogil:
    if codec == 0:
        return put(to, b"none")
    if codec == 1:
        return put(to, b"gzip")
    if codec == 2:
        return put(to, b"snappy")
    return put(to, b"lz4") if codec == 3 else put(to, b"zstd")


cdef inline uint8_t* put_batch(
    uint8_t* to, const uint8_t* at, const Batch* batch, int64_t position
) noexcept nogil:
    # Write the line of the entry at `at`. If its compression type or magic is unknown,
    # the line ends before that, without a line break.
    if batch.magic < 2:
        to = put_int(put(to, b"offset: "), batch.last_offset)
    else:
        to = put_batch_fields(to, batch)
    if batch.magic < 0 or batch.attributes & CODEC_MASK > LAST_CODEC:
        return to
    to = put_int(put(to, b" position: "), position)
    to = put_int(put_timestamp_type(put(to, b" "), batch), batch.max_timestamp)
    to = put_int(put(to, b" size: "), batch.size_in_bytes)
    to = put_int(put(to, b" magic: "), batch.magic)
    to = put_codec(put(to, b" compresscodec: "), batch.attributes & CODEC_MASK)
    to = put_int(put(to, b" crc: "), batch.crc)
    to = put_flag(put(to, b" isvalid: "), is_valid(at, batch))
    return put(to, b"\n")

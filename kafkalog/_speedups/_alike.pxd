# Records that lie as the one before them does, read without parsing each.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafkalog._speedups._batch cimport CODEC_MASK, Batch
from kafkalog._speedups._cursor cimport Cursor, le32, wrapping_add
from kafkalog._speedups._record cimport Record


cdef struct Layout:
    # Where a record has its parts: others that have them there, too, are read at once.
    # Length, attributes, deltas and the key's length are its first 8 bytes; of the
    # deltas, only their widths need be the same.
    int64_t size
    uint64_t mask
    uint64_t front
    int timestamp_at
    int offset_at
    uint32_t timestamp_mask
    uint32_t offset_mask
    int64_t value_at
    uint32_t value_mask
    uint32_t value_front


cdef inline int short_width(const uint8_t* p) noexcept nogil:
    # Of a varint: 1 or 2, or 0 where it is longer.
    if not p[0] & 0x80:
        return 1
    return 0 if p[1] & 0x80 else 2


cdef inline uint64_t le64(const uint8_t* p) noexcept nogil:
    return le32(p) | <uint64_t>le32(p + 4) << 32


cdef inline uint32_t le16(const uint8_t* p) noexcept nogil:
    return p[0] | <uint32_t>p[1] << 8


cdef inline int64_t delta_in(uint64_t front, int at, uint32_t mask) noexcept nogil:
    # A zig-zag varint of 1 or 2 bytes.
    cdef uint32_t word = <uint32_t>(front >> at) & mask
    cdef uint32_t raw = (word & 0x7F) | (word >> 1) & 0x3F80
    return <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)


cdef inline int64_t offset_in(
    uint64_t front, const Batch* batch, const Layout* lies
) noexcept nogil:
    return wrapping_add(
        batch.base_offset, delta_in(front, lies.offset_at, lies.offset_mask)
    )


cdef inline int64_t timestamp_in(
    uint64_t front, const Batch* batch, const Layout* lies
) noexcept nogil:
    # As its producer gave it.
    return wrapping_add(
        batch.base_timestamp, delta_in(front, lies.timestamp_at, lies.timestamp_mask)
    )


cdef inline bint lay_out(
    const uint8_t* at, int64_t size, int64_t value_at, Layout* out
) noexcept nogil:
    # Note how a record of `size` bytes lies; False where its parts are too long.
    cdef int length = short_width(at)
    cdef int timestamp, offset, key, value
    if not length:
        return False
    timestamp = short_width(at + length + 1)
    offset = short_width(at + length + 1 + timestamp)
    key = short_width(at + length + 1 + timestamp + offset)
    value = short_width(at + value_at)
    if not (timestamp and offset and key and value):
        return False
    if length + 1 + timestamp + offset + key > 8:
        return False
    out.size = size
    out.timestamp_at = 8 * (length + 1)
    out.offset_at = out.timestamp_at + 8 * timestamp
    out.timestamp_mask = 0x7F if timestamp == 1 else 0x7F7F
    out.offset_mask = 0x7F if offset == 1 else 0x7F7F
    out.mask = (
        <uint64_t>(0xFF if length == 1 else 0xFFFF)
        | <uint64_t>(0x80 if timestamp == 1 else 0x8080) << out.timestamp_at
        | <uint64_t>(0x80 if offset == 1 else 0x8080) << out.offset_at
        | <uint64_t>(0xFF if key == 1 else 0xFFFF) << (out.offset_at + 8 * offset)
    )
    out.front = le64(at) & out.mask
    out.value_at = value_at
    out.value_mask = 0xFF if value == 1 else 0xFFFF
    out.value_front = le16(at + value_at) & out.value_mask
    return True


cdef inline bint lay_out_record(
    const Cursor* at, int64_t start, const Record* last, Layout* out
) noexcept nogil:
    # Note how the `last` record lies, which began at `start`, if it is plain enough.
    cdef int64_t size = at.pos - start
    cdef int64_t key_end = last.key_start + max(last.key_length, 0)
    if size < 8:
        return False
    if last.value_start + max(last.value_length, 0) + 1 != at.pos:
        return False  # headers, or their number 0 in more bytes than it needs
    return lay_out(at.data + start, size, key_end - start, out)


cdef inline bint is_alike(const Cursor* at, const Layout* lies) noexcept nogil:
    # Whether the record at `at` has its parts where those of the laid out one are.
    cdef const uint8_t* p = at.data + at.pos
    return (
        at.end - at.pos >= lies.size
        and le64(p) & lies.mask == lies.front
        and le16(p + lies.value_at) & lies.value_mask == lies.value_front
        and not p[lies.size - 1]
    )


cdef inline int32_t count_alike(
    const Cursor* at, const Layout* lies, int32_t most
) noexcept nogil:
    # How many records from `at` on have their parts there, `most` at most.
    cdef Cursor next = at[0]
    cdef int32_t count = 0
    while count < most and is_alike(&next, lies):
        next.pos += lies.size
        count += 1
    return count


cdef inline int32_t skip_alike(
    Cursor* at, int64_t start, const Record* last, const Batch* batch,
    int64_t least_timestamp, int64_t greatest_timestamp, int32_t i, int64_t* latest
) noexcept nogil:
    # Pass over the records from number `i` on that lie as the `last` one, which began
    # at `start`, have timestamps in the range or none and, where they came packed, the
    # offsets in their order. Answers the first that is left.
    cdef bint packed = batch.attributes & CODEC_MASK != 0
    cdef int64_t timestamp
    cdef uint64_t front
    cdef Layout lies
    if at.end - at.pos < 1 or at.data[at.pos] != at.data[start]:
        return i
    if not lay_out_record(at, start, last, &lies):
        return i
    while i < batch.count and is_alike(at, &lies):
        front = le64(at.data + at.pos)
        timestamp = timestamp_in(front, batch, &lies)
        if timestamp != -1 and (
            timestamp < least_timestamp or timestamp > greatest_timestamp
        ):
            break
        if packed and i != offset_in(front, batch, &lies):
            break
        latest[0] = max(latest[0], timestamp)
        at.pos += lies.size
        i += 1
    return i

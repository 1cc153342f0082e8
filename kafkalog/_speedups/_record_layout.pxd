# Fast path for consecutive records of the same layout: of the same size, with fields at
# the same positions. They are compared with the record before them, not parsed.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafkalog._speedups._batch cimport Batch
from kafkalog._speedups._cursor cimport Cursor, le32, wrapping_add
from kafkalog._speedups._record cimport Record


cdef struct Layout:
    # Positions of a record's fields. Its length, attributes, deltas and key length are
    # in its first 8 bytes; of the deltas only the widths must be the same.
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
    # Return the bytes of a varint: 1 or 2, or 0 if it is longer.
    if not p[0] & 0x80:
        return 1
    return 0 if p[1] & 0x80 else 2


cdef inline uint64_t le64(const uint8_t* p) noexcept nogil:
    return le32(p) | <uint64_t>le32(p + 4) << 32


cdef inline uint32_t le16(const uint8_t* p) noexcept nogil:
    return p[0] | <uint32_t>p[1] << 8


cdef inline int64_t delta_in(uint64_t front, int at, uint32_t mask) noexcept nogil:
    # Decode a zig-zag varint of 1 or 2 bytes.
    cdef uint32_t word = <uint32_t>(front >> at) & mask
    cdef uint32_t raw = (word & 0x7F) | (word >> 1) & 0x3F80
    return <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)


cdef inline int64_t offset_in(
    uint64_t front, const Batch* batch, const Layout* layout
) noexcept nogil:
    return wrapping_add(
        batch.base_offset, delta_in(front, layout.offset_at, layout.offset_mask)
    )


cdef inline int64_t timestamp_in(
    uint64_t front, const Batch* batch, const Layout* layout
) noexcept nogil:
    # Return the producer's timestamp, whatever the timestamp type.
    return wrapping_add(
        batch.base_timestamp,
        delta_in(front, layout.timestamp_at, layout.timestamp_mask),
    )


cdef inline bint set_layout(
    const uint8_t* at, int64_t size, int64_t value_at, Layout* out
) noexcept nogil:
    # Set the layout of a record of `size` bytes; False if a field is too long for it.
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


cdef inline bint layout_of_record(
    const Cursor* at, int64_t start, const Record* last, Layout* out
) noexcept nogil:
    # Set the layout of the `last` record, which began at `start`; False if it has
    # headers, or is too small or too large for one.
    cdef int64_t size = at.pos - start
    cdef int64_t key_end = last.key_start + max(last.key_length, 0)
    if size < 8:
        return False
    if last.value_start + max(last.value_length, 0) + 1 != at.pos:
        return False  # headers, or a count of 0 in more than one byte
    return set_layout(at.data + start, size, key_end - start, out)


cdef inline bint has_layout(const Cursor* at, const Layout* layout) noexcept nogil:
    # Return whether a complete record at `at` has this layout, and no headers.
    cdef const uint8_t* p = at.data + at.pos
    return (
        at.end - at.pos >= layout.size
        and le64(p) & layout.mask == layout.front
        and le16(p + layout.value_at) & layout.value_mask == layout.value_front
        and not p[layout.size - 1]
    )


cdef inline int32_t count_same_layout(
    const Cursor* at, const Layout* layout, int32_t most
) noexcept nogil:
    # Count the records from `at` on that have this layout, up to `most`.
    cdef Cursor next = at[0]
    cdef int32_t count = 0
    while count < most and has_layout(&next, layout):
        next.pos += layout.size
        count += 1
    return count

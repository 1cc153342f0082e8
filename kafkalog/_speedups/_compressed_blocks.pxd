# Decompress blocks of lz4 and snappy. Bounds of source and target are checked before
# each step.
#
# -1 is returned for any block that is not valid, lz4's rules on the end of a block
# included. The codec's own library then reports what is wrong with it.
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups._cursor cimport le32


cdef enum:
    LZ4_LEAST_MATCH = 4
    LZ4_LAST_LITERALS = 5  # least literals at the end of a block
    LZ4_MATCH_LIMIT = 12  # least bytes from the start of the last match to the end
    SNAPPY_LONG = 60  # longer literals have their length after the tag
    STEP = 16  # bytes copied at a time


cdef inline void copy_literals(
    uint8_t* to, const uint8_t* source, int64_t length, int64_t available
) noexcept nogil:
    # `available` bytes may be read and written. Bytes copied beyond `length` are
    # overwritten later.
    if length <= STEP and available >= STEP:
        memcpy(to, source, STEP)
    elif length <= 4 * STEP and available >= 4 * STEP:
        memcpy(to, source, 4 * STEP)
    else:
        memcpy(to, source, length)


cdef inline void copy_match(
    uint8_t* to, int64_t distance, int64_t length, const uint8_t* buffer_end
) noexcept nogil:
    # Copy `length` bytes from `distance` bytes before `to`; the two may overlap.
    cdef const uint8_t* source = to - distance
    cdef uint8_t* end = to + length
    if distance >= STEP and buffer_end - end >= STEP:
        memcpy(to, source, STEP)
        while length > STEP:
            to += STEP
            source += STEP
            length -= STEP
            memcpy(to, source, STEP)
        return
    while to < end:
        to[0] = source[0]
        to += 1
        source += 1


cdef inline int64_t long_length(
    const uint8_t** ip, const uint8_t* iend, int64_t length
) noexcept nogil:
    # Read the rest of an lz4 length: bytes are added up to the first below 255.
    # Returns -1 if the block ends within it.
    cdef int64_t byte = 255
    while byte == 255:
        if ip[0] == iend:
            return -1
        byte = ip[0][0]
        ip[0] += 1
        length += byte
    return length


cdef inline int64_t decompress_lz4_block(
    const uint8_t* ip, const uint8_t* iend, uint8_t* begin, const uint8_t* oend,
    const uint8_t* buffer_end
) noexcept nogil:
    # Decompress to `begin`, up to `oend`; the buffer ends at `buffer_end`. Returns the
    # decompressed size, or -1.
    cdef uint8_t* op = begin
    cdef int64_t length, distance
    cdef uint8_t token
    while ip < iend:
        token = ip[0]
        ip += 1
        length = token >> 4
        if length < 15 and iend - ip >= 2 * STEP and oend - op >= 2 * STEP:
            memcpy(op, ip, STEP)
            op += length
            ip += length
        else:
            if length == 15:
                length = long_length(&ip, iend, length)
            if length < 0 or length > iend - ip or length > oend - op:
                return -1
            copy_literals(op, ip, length, min(iend - ip, buffer_end - op))
            op += length
            ip += length
            if ip == iend:
                return op - begin
            if iend - ip < 3 + LZ4_LAST_LITERALS or oend - op < LZ4_MATCH_LIMIT:
                return -1
        distance = ip[0] | <int64_t>ip[1] << 8
        ip += 2
        length = token & 15
        if length == 15:
            length = long_length(&ip, iend, length)
            if iend - ip <= LZ4_LAST_LITERALS:  # and the token before these
                return -1
        if length < 0 or length > oend - op - LZ4_LEAST_MATCH - LZ4_LAST_LITERALS:
            return -1
        if distance < 1 or distance > op - begin:
            return -1
        length += LZ4_LEAST_MATCH
        copy_match(op, distance, length, buffer_end)
        op += length
    return -1


cdef inline int64_t snappy_size(const uint8_t** ip, const uint8_t* iend) noexcept nogil:
    # Read the decompressed size, a varint of 32 bits, at the start of a block.
    cdef int64_t size = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 35, 7):
        if ip[0] == iend:
            return -1
        byte = ip[0][0]
        ip[0] += 1
        size |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return size
    return -1


cdef inline int64_t literal_length(
    const uint8_t** ip, const uint8_t* iend, uint8_t tag
) noexcept nogil:
    # Read a literal's length: up to 60 it is in the tag, else in 1 to 4 bytes after it.
    cdef int64_t length = tag >> 2
    cdef int extra = <int>length - SNAPPY_LONG + 1, i
    if extra > 0:
        if extra > iend - ip[0]:
            return -1
        length = 0
        for i in range(extra):
            length |= <int64_t>ip[0][i] << (8 * i)
        ip[0] += extra
    return length + 1


cdef inline int64_t decompress_snappy_block(
    const uint8_t* ip, const uint8_t* iend, uint8_t* begin, const uint8_t* buffer_end
) noexcept nogil:
    cdef int64_t size = snappy_size(&ip, iend), length, distance
    cdef uint8_t* op = begin
    cdef const uint8_t* oend
    cdef uint8_t tag
    cdef bint near
    if size < 0 or size > buffer_end - begin:
        return -1
    oend = begin + size
    while ip < iend:
        tag = ip[0]
        ip += 1
        if tag & 3 == 0:
            length = literal_length(&ip, iend, tag)
            if length < 1 or length > iend - ip or length > oend - op:
                return -1
            copy_literals(op, ip, length, min(iend - ip, buffer_end - op))
            op += length
            ip += length
            continue
        if tag & 3 == 3:
            if iend - ip < 4:
                return -1
            length, distance = (tag >> 2) + 1, le32(ip)
            ip += 4
        else:  # a distance of 11 or 16 bits; both are frequent, so there is no branch
            near = tag & 1
            if iend - ip < 2 - near:
                return -1
            length = (tag >> 2 & 7) + 4 if near else (tag >> 2) + 1
            distance = <int64_t>(tag >> 5 if near else ip[1]) << 8 | ip[0]
            ip += 2 - near
        if distance < 1 or distance > op - begin or length > oend - op:
            return -1
        copy_match(op, distance, length, buffer_end)
        op += length
    return size if op == oend else -1

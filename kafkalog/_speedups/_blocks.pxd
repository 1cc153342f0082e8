# Blocks of lz4 and of snappy, unpacked: each step is bounded on both sides before it is
# taken.
#
# -1 stands for whatever is not plainly sound, lz4's rules on how a block ends included;
# what is wrong with it is for the codec's own library to say.
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups._cursor cimport le32


cdef enum:
    LZ4_LEAST_MATCH = 4
    LZ4_LAST_LITERALS = 5  # a block ends with so many bytes that are no match
    LZ4_MATCH_LIMIT = 12  # and its last match begins so many before its end
    SNAPPY_LONG = 60  # literals above are told in bytes behind the tag
    STEP = 16


cdef inline void copy_literals(
    uint8_t* to, const uint8_t* source, int64_t length, int64_t behind
) noexcept nogil:
    # `behind` bytes may be read and written: what is too much is written over.
    if length <= STEP and behind >= STEP:
        memcpy(to, source, STEP)
    elif length <= 4 * STEP and behind >= 4 * STEP:
        memcpy(to, source, 4 * STEP)
    else:
        memcpy(to, source, length)


cdef inline void copy_match(
    uint8_t* to, int64_t distance, int64_t length, const uint8_t* room_end
) noexcept nogil:
    # Copy what was written `distance` bytes ago, which may overlap what it becomes.
    cdef const uint8_t* source = to - distance
    cdef uint8_t* end = to + length
    if distance >= STEP and room_end - end >= STEP:
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
    # Of lz4: bytes are added up to the first that is not 255. -1 where they are cut.
    cdef int64_t byte = 255
    while byte == 255:
        if ip[0] == iend:
            return -1
        byte = ip[0][0]
        ip[0] += 1
        length += byte
    return length


cdef inline int64_t unpack_lz4_block(
    const uint8_t* ip, const uint8_t* iend, uint8_t* begin, const uint8_t* oend,
    const uint8_t* room_end
) noexcept nogil:
    # Into `begin` to `oend` at most, memory that goes on to `room_end`: its size.
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
            copy_literals(op, ip, length, min(iend - ip, room_end - op))
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
        copy_match(op, distance, length, room_end)
        op += length
    return -1


cdef inline int64_t snappy_size(const uint8_t** ip, const uint8_t* iend) noexcept nogil:
    # What a block begins with: how much it becomes, a varint of 32 bits.
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
    # Of snappy: up to 60 in the tag; above, less 1, in 1 to 4 bytes behind it.
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


cdef inline int64_t unpack_snappy_block(
    const uint8_t* ip, const uint8_t* iend, uint8_t* begin, const uint8_t* room_end
) noexcept nogil:
    cdef int64_t size = snappy_size(&ip, iend), length, distance
    cdef uint8_t* op = begin
    cdef const uint8_t* oend
    cdef uint8_t tag
    cdef bint near
    if size < 0 or size > room_end - begin:
        return -1
    oend = begin + size
    while ip < iend:
        tag = ip[0]
        ip += 1
        if tag & 3 == 0:
            length = literal_length(&ip, iend, tag)
            if length < 1 or length > iend - ip or length > oend - op:
                return -1
            copy_literals(op, ip, length, min(iend - ip, room_end - op))
            op += length
            ip += length
            continue
        if tag & 3 == 3:
            if iend - ip < 4:
                return -1
            length, distance = (tag >> 2) + 1, le32(ip)
            ip += 4
        else:  # a distance of 11 or 16 bits: either comes often, so no branch
            near = tag & 1
            if iend - ip < 2 - near:
                return -1
            length = (tag >> 2 & 7) + 4 if near else (tag >> 2) + 1
            distance = <int64_t>(tag >> 5 if near else ip[1]) << 8 | ip[0]
            ip += 2 - near
        if distance < 1 or distance > op - begin or length > oend - op:
            return -1
        copy_match(op, distance, length, room_end)
        op += length
    return size if op == oend else -1

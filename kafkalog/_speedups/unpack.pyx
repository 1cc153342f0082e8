"""Streams that Kafka packed by lz4 or snappy -> bytes, many in a call, without the GIL.

Only streams in the form that Kafka's own writers give are unpacked here; at any other,
and at what is not sound, the caller's libraries take over.
"""
from libc.stdint cimport INT32_MAX, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from kafkalog._speedups._batch cimport CODEC_MASK
from kafkalog._speedups._blocks cimport unpack_lz4_block, unpack_snappy_block
from kafkalog._speedups._cursor cimport be32, le32
from kafkalog._speedups._rows cimport Rows, hold_rows, release_rows


cdef enum:
    SNAPPY = 2
    LZ4 = 3
    LZ4_HEADER = 7
    LZ4_BLOCK = 65536
    SNAPPY_HEADER = 16

cdef const char* LZ4_USUAL = b"\x04\x22\x4d\x18\x60\x40\x82"  # blocks of 64 KiB
cdef const char* XERIAL = b"\x82SNAPPY\x00"


cdef inline int64_t unpack_lz4(
    const uint8_t* ip, int64_t length, uint8_t* to, int64_t room
) noexcept nogil:
    # One frame of independent blocks without checksums; what follows is ignored.
    cdef const uint8_t* end = ip + length
    cdef uint8_t* op = to
    cdef uint8_t* room_end = to + room
    cdef int64_t size, packed, most
    if length < LZ4_HEADER or memcmp(ip, LZ4_USUAL, LZ4_HEADER):
        return -1
    ip += LZ4_HEADER
    while end - ip >= 4:
        packed = le32(ip)
        ip += 4
        if packed == 0:
            return op - to
        size = packed & 0x7FFFFFFF
        most = min(LZ4_BLOCK, room_end - op)
        if size == 0 or size > end - ip or size > LZ4_BLOCK:
            return -1
        if packed == size:
            packed = unpack_lz4_block(ip, ip + size, op, op + most, room_end)
            if packed < 0:
                return -1
            op += packed
        elif size <= most:
            memcpy(op, ip, size)
            op += size
        else:
            return -1
        ip += size
    return -1


cdef inline int64_t unpack_snappy(
    const uint8_t* ip, int64_t length, uint8_t* to, int64_t room
) noexcept nogil:
    # Blocks behind one header; fewer than 4 bytes behind them are ignored.
    cdef const uint8_t* end = ip + length
    cdef uint8_t* op = to
    cdef int64_t size, unpacked
    if length < SNAPPY_HEADER or memcmp(ip, XERIAL, 8):
        return -1
    ip += SNAPPY_HEADER
    while end - ip >= 4:
        size = be32(ip)
        ip += 4
        if size < 0 or size > end - ip:
            return -1
        unpacked = unpack_snappy_block(ip, ip + size, op, to + room)
        if unpacked < 0:
            return -1
        op += unpacked
        ip += size
    return op - to


def unpack_streams(
    const uint8_t[::1] src not None,
    rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    Py_ssize_t first,
    int64_t limit,
    uint8_t[::1] out not None,
    int64_t filled,
    int64_t[::1] sizes not None,
):
    """Unpack the payloads of rows from `first` on into `out`, behind one another.

    Payload i lies at ``starts[i]`` in `src`, ``lengths[i]`` long; `filled` bytes of
    `out` are in use. Fills `sizes` with what each became, `limit` at most. Stops at a
    stream of another codec, in another form, that is not sound, or for which there is
    no room. Answers the row it stopped at, and how much of `out` is in use then.
    """
    cdef Py_ssize_t i = first
    cdef int64_t size = 0, room
    cdef int codec
    cdef Rows held
    if not (0 <= first and 0 <= filled <= out.shape[0] <= INT32_MAX):
        raise ValueError("a row to begin at, and a place in the room")
    if min(starts.shape[0], lengths.shape[0], sizes.shape[0]) < len(rows):
        raise ValueError("a start, a length and a size for each row")
    hold_rows(rows, &held)
    with nogil:
        while i < held.count and out.shape[0]:
            if lengths[i] < 1 or starts[i] < 0 or starts[i] > src.shape[0] - lengths[i]:
                break
            room = min(limit, out.shape[0] - filled)
            codec = held.at[i].attributes & CODEC_MASK
            size = -1
            if codec == LZ4:
                size = unpack_lz4(&src[starts[i]], lengths[i], &out[0] + filled, room)
            elif codec == SNAPPY:
                size = unpack_snappy(
                    &src[starts[i]], lengths[i], &out[0] + filled, room
                )
            if size < 0:
                break
            sizes[i] = size
            filled += size
            i += 1
    release_rows(&held)
    return i, filled

"""Bound the decompressed size of zstd frames and gzip members, without decompressing.

Of a zstd frame only its header and those of its blocks are read (RFC 8878, 3.1.1), of a
gzip member its first and last bytes (RFC 1952, 2.3).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kafkalog._speedups._batch cimport CODEC_MASK
from kafkalog._speedups._cursor cimport le32
from kafkalog._speedups._rows cimport Rows, check_rows, rows_of


cdef enum:
    GZIP = 1
    ZSTD = 4
    ZSTD_MAGIC = 0xFD2FB528
    ZSTD_LEAST = 6  # magic, descriptor, window
    SIZE_FLAG = 0xC0
    DICTIONARY_FLAG = 0x03
    CHECKSUM_FLAG = 0x04
    SINGLE_FLAG = 0x20  # the header has a content size and no window
    MAX_BLOCK = 131072
    GZIP_USUAL = 0x00088B1F  # deflate, and no optional fields
    GZIP_LEAST = 18

cpdef enum FrameStatus:
    COMPLETE
    HEADER_TRUNCATED  # the bytes end inside the header
    TRUNCATED  # they end inside a block, or the checksum
    DECLARED_SIZE  # the header declares more than the limit
    CONTENT_SIZE  # the uncompressed blocks hold more than the limit
    BLOCK_TYPE  # the reserved block type

cdef enum:
    RAW
    REPEATED
    COMPRESSED

cdef struct Frame:
    int64_t end  # of the header, then of the frame; or where the fault is
    int64_t most  # upper bound of the decompressed size
    uint64_t declared  # size, 0 if there is none


cdef inline FrameStatus read_header(
    const uint8_t* ip, int64_t length, Frame* frame
) noexcept nogil:
    cdef uint8_t descriptor
    cdef bint single
    cdef int size_bytes, i
    if length < 5:
        return FrameStatus.HEADER_TRUNCATED
    descriptor = ip[4]
    single = (descriptor & SINGLE_FLAG) != 0
    size_bytes = 1 << (descriptor >> 6) if descriptor & SIZE_FLAG else single
    # The dictionary ID takes 0, 1, 2 or 4 bytes.
    frame.end = 5 + (not single) + (1 << (descriptor & DICTIONARY_FLAG) >> 1)
    if size_bytes > length - frame.end:
        return FrameStatus.HEADER_TRUNCATED
    for i in range(size_bytes):
        frame.declared |= <uint64_t>ip[frame.end + i] << (8 * i)
    if size_bytes == 2:
        frame.declared += 256
    frame.end += size_bytes
    return FrameStatus.COMPLETE


cdef inline FrameStatus read_blocks(
    const uint8_t* ip, int64_t length, int64_t limit, Frame* frame
) noexcept nogil:
    # Add up the blocks of the frame at `ip`, and find its end.
    cdef int64_t at, size, least = 0
    cdef uint32_t head = 0
    cdef FrameStatus status
    frame.end = frame.most = 0
    frame.declared = 0
    status = read_header(ip, length, frame)
    at, frame.end = frame.end, 0
    if status != FrameStatus.COMPLETE:
        return status
    if frame.declared > <uint64_t>limit:
        return FrameStatus.DECLARED_SIZE
    while not head & 1:
        if length - at < 3:
            return FrameStatus.TRUNCATED
        head = ip[at] | <uint32_t>ip[at + 1] << 8 | <uint32_t>ip[at + 2] << 16
        size = head >> 3
        at += 3
        if head >> 1 & 3 == COMPRESSED:
            at += size
            frame.most += MAX_BLOCK
        elif head >> 1 & 3 <= REPEATED:
            at += size if head >> 1 & 3 == RAW else 1
            frame.most += size
            least += size
            if least > limit:
                return FrameStatus.CONTENT_SIZE
        else:
            frame.end = at - 3
            return FrameStatus.BLOCK_TYPE
    at += 4 if ip[4] & CHECKSUM_FLAG else 0
    if at > length:
        return FrameStatus.TRUNCATED
    frame.end = at
    return FrameStatus.COMPLETE


def measure_frame(const uint8_t[::1] src not None, Py_ssize_t begin, int64_t limit):
    """Return the status, end and largest decompressed size of a zstd frame.

    The frame's magic number is at `begin`. Unless the `FrameStatus` is COMPLETE, the
    numbers are the position of the fault, and the size that the header declares.
    """
    cdef Frame frame
    cdef FrameStatus status
    if not 0 <= begin < src.shape[0] or limit < 0:
        raise ValueError(
            f"begin {begin}, limit {limit}, expected within {src.shape[0]} bytes and "
            "at least 0"
        )
    with nogil:
        status = read_blocks(&src[begin], src.shape[0] - begin, limit, &frame)
    if status == FrameStatus.COMPLETE:
        return status, begin + frame.end, frame.most
    return status, begin + frame.end, frame.declared


cdef inline int64_t bound_zstd(
    const uint8_t* ip, int64_t length, int64_t limit
) noexcept nogil:
    # Bound a single frame whose header has a window and nothing else.
    cdef Frame frame
    if length < ZSTD_LEAST or le32(ip) != ZSTD_MAGIC or ip[4]:
        return -1
    if (
        read_blocks(ip, length, limit, &frame) != FrameStatus.COMPLETE
        or frame.end != length
    ):
        return -1
    return frame.most


cdef inline int64_t bound_gzip(const uint8_t* ip, int64_t length) noexcept nogil:
    # Return the size in the last bytes of a member with the shortest header. Nothing
    # else confirms it.
    if length < GZIP_LEAST or le32(ip) != GZIP_USUAL:
        return -1
    return le32(ip + length - 4)


def bound_decompressed_sizes(
    const uint8_t[::1] src not None,
    rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    int64_t limit,
    int64_t[::1] bounds not None,
):
    """Fill `bounds` with the largest decompressed size of each row's payload.

    Payload i begins at ``starts[i]`` in `src` and has ``lengths[i]`` bytes. Only zstd
    and gzip framed as Kafka's writers frame them are bounded. For any other codec or
    framing, a truncated payload, or a size above `limit` the bound is -1. That of gzip
    is what the stream states, and not verified.
    """
    cdef Py_ssize_t i
    cdef int64_t bound
    cdef int codec
    cdef Rows entries = rows_of(rows)
    if limit < 0:
        raise ValueError(f"limit {limit}, expected at least 0")
    check_rows(min(starts.shape[0], lengths.shape[0], bounds.shape[0]), entries.count)
    with nogil:
        for i in range(entries.count):
            bound = -1
            codec = entries.at[i].attributes & CODEC_MASK
            if lengths[i] < 1 or starts[i] < 0 or starts[i] > src.shape[0] - lengths[i]:
                pass
            elif codec == ZSTD and entries.at[i].magic == 2:
                bound = bound_zstd(&src[starts[i]], lengths[i], limit)
            elif codec == GZIP:
                bound = bound_gzip(&src[starts[i]], lengths[i])
            bounds[i] = bound if bound <= limit else -1

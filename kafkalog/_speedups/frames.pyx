"""zstd and gzip -> how far a frame goes, and what it becomes at most; not unpacked.

Of zstd the frame's header and each block's are read, as RFC 8878 (3.1.1) has them; of
gzip a member's first bytes and its last, as RFC 1952 (2.3).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kafkalog._speedups._batch cimport CODEC_MASK
from kafkalog._speedups._cursor cimport le32
from kafkalog._speedups._rows cimport Rows, hold_rows, release_rows


cdef enum:
    GZIP = 1
    ZSTD = 4
    ZSTD_MAGIC = 0xFD2FB528
    ZSTD_LEAST = 6  # magic, descriptor, window
    SIZE_FLAG = 0xC0
    DICTIONARY_FLAG = 0x03
    CHECKSUM_FLAG = 0x04
    SINGLE_FLAG = 0x20  # no window is told, but a size
    MAX_BLOCK = 131072
    GZIP_USUAL = 0x00088B1F  # deflated, and nothing behind the header
    GZIP_LEAST = 18

cpdef enum Framing:
    WHOLE
    HEADER_CUT  # the bytes end inside the header
    CUT  # they end inside a block, or the checksum
    DECLARED  # the header declares more than the limit
    SWOLLEN  # blocks that are not compressed hold more than the limit
    BLOCK_KIND  # a block of a kind that there is not

cdef enum:
    RAW
    REPEATED
    COMPRESSED

cdef struct Frame:
    int64_t end  # behind its header, then behind all of it; or where the fault is
    int64_t most  # bytes of what it becomes, at most
    uint64_t declared  # 0 where it is not


cdef inline Framing read_header(
    const uint8_t* ip, int64_t length, Frame* frame
) noexcept nogil:
    cdef uint8_t descriptor
    cdef bint single
    cdef int size_bytes, i
    if length < 5:
        return Framing.HEADER_CUT
    descriptor = ip[4]
    single = (descriptor & SINGLE_FLAG) != 0
    size_bytes = 1 << (descriptor >> 6) if descriptor & SIZE_FLAG else single
    # No dictionary is named by 0 bytes, else by 1, 2 or 4.
    frame.end = 5 + (not single) + (1 << (descriptor & DICTIONARY_FLAG) >> 1)
    if size_bytes > length - frame.end:
        return Framing.HEADER_CUT
    for i in range(size_bytes):
        frame.declared |= <uint64_t>ip[frame.end + i] << (8 * i)
    if size_bytes == 2:
        frame.declared += 256
    frame.end += size_bytes
    return Framing.WHOLE


cdef inline Framing walk(
    const uint8_t* ip, int64_t length, int64_t limit, Frame* frame
) noexcept nogil:
    # Over the blocks of the frame at `ip`, all of which must be there.
    cdef int64_t at, size, least = 0
    cdef uint32_t head = 0
    cdef Framing framing
    frame.end = frame.most = 0
    frame.declared = 0
    framing = read_header(ip, length, frame)
    at, frame.end = frame.end, 0
    if framing != Framing.WHOLE:
        return framing
    if frame.declared > <uint64_t>limit:
        return Framing.DECLARED
    while not head & 1:
        if length - at < 3:
            return Framing.CUT
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
                return Framing.SWOLLEN
        else:
            frame.end = at - 3
            return Framing.BLOCK_KIND
    at += 4 if ip[4] & CHECKSUM_FLAG else 0
    if at > length:
        return Framing.CUT
    frame.end = at
    return Framing.WHOLE


def walk_frame(const uint8_t[::1] src not None, Py_ssize_t begin, int64_t limit):
    """Walk the zstd frame whose magic is at `begin`.

    Answers a `Framing`; where it is WHOLE, where the frame ends and how many bytes it
    becomes at most; else where the fault is, and how many bytes it declares.
    """
    cdef Frame frame
    cdef Framing framing
    if not 0 <= begin < src.shape[0] or limit < 0:
        raise ValueError("a place in the bytes, and a limit")
    with nogil:
        framing = walk(&src[begin], src.shape[0] - begin, limit, &frame)
    if framing == Framing.WHOLE:
        return framing, begin + frame.end, frame.most
    return framing, begin + frame.end, frame.declared


cdef inline int64_t bound_zstd(
    const uint8_t* ip, int64_t length, int64_t limit
) noexcept nogil:
    # One frame with no more than a window in its header.
    cdef Frame frame
    if length < ZSTD_LEAST or le32(ip) != ZSTD_MAGIC or ip[4]:
        return -1
    if walk(ip, length, limit, &frame) != Framing.WHOLE or frame.end != length:
        return -1
    return frame.most


cdef inline int64_t bound_gzip(const uint8_t* ip, int64_t length) noexcept nogil:
    # What its last bytes say, of a member that has the shortest of headers.
    if length < GZIP_LEAST or le32(ip) != GZIP_USUAL:
        return -1
    return le32(ip + length - 4)


def bound_streams(
    const uint8_t[::1] src not None,
    rows not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    int64_t limit,
    int64_t[::1] bounds not None,
):
    """Fill `bounds` with how many bytes each row's payload becomes at most.

    Payload i lies at ``starts[i]`` in `src`, ``lengths[i]`` long. Told of zstd and gzip
    in the form that Kafka's writers give; -1 stands for any other codec and form, for
    what is cut, and for more than `limit`. Of gzip it is only what the stream says.
    """
    cdef Py_ssize_t i
    cdef int64_t bound
    cdef int codec
    cdef Rows held
    if limit < 0:
        raise ValueError("a limit")
    if min(starts.shape[0], lengths.shape[0], bounds.shape[0]) < len(rows):
        raise ValueError("a start, a length and a bound for each row")
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            bound = -1
            codec = held.at[i].attributes & CODEC_MASK
            if lengths[i] < 1 or starts[i] < 0 or starts[i] > src.shape[0] - lengths[i]:
                pass
            elif codec == ZSTD and held.at[i].magic == 2:
                bound = bound_zstd(&src[starts[i]], lengths[i], limit)
            elif codec == GZIP:
                bound = bound_gzip(&src[starts[i]], lengths[i])
            bounds[i] = bound if bound <= limit else -1
    release_rows(&held)

"""Decompress many lz4 and snappy streams in one call, without the GIL.

Only streams framed as Kafka's own writers frame them are decompressed here. At any
other, and at an invalid one, the caller uses the codec's own library.
"""
from libc.stdint cimport INT32_MAX, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from kafkalog._speedups._batch cimport CODEC_MASK
from kafkalog._speedups._compressed_blocks cimport (
    decompress_lz4_block, decompress_snappy_block
)
from kafkalog._speedups._cursor cimport be32, le32
from kafkalog._speedups._rows cimport Rows, check_rows, rows_of


cdef enum:
    SNAPPY = 2
    LZ4 = 3
    LZ4_HEADER = 7
    LZ4_BLOCK = 65536
    SNAPPY_HEADER = 16

cdef const char* LZ4_USUAL = b"\x04\x22\x4d\x18\x60\x40\x82"  # blocks of 64 KiB
cdef const char* XERIAL = b"\x82SNAPPY\x00"


cdef inline int64_t decompress_lz4(
    const uint8_t* ip, int64_t length, uint8_t* to, int64_t capacity
) noexcept nogil:
    # Decompress one frame of independent blocks without checksums. Bytes after it are
    # ignored, as Kafka does. Returns the decompressed size, or -1.
    cdef const uint8_t* end = ip + length
    cdef uint8_t* op = to
    cdef uint8_t* buffer_end = to + capacity
    cdef int64_t size, field, written, most
    if length < LZ4_HEADER or memcmp(ip, LZ4_USUAL, LZ4_HEADER):
        return -1
    ip += LZ4_HEADER
    while end - ip >= 4:
        field = le32(ip)
        ip += 4
        if field == 0:
            return op - to
        size = field & 0x7FFFFFFF
        most = min(LZ4_BLOCK, buffer_end - op)
        if size == 0 or size > end - ip or size > LZ4_BLOCK:
            return -1
        if field == size:  # the highest bit marks an uncompressed block
            written = decompress_lz4_block(ip, ip + size, op, op + most, buffer_end)
            if written < 0:
                return -1
            op += written
        elif size <= most:
            memcpy(op, ip, size)
            op += size
        else:
            return -1
        ip += size
    return -1


cdef inline int64_t decompress_snappy(
    const uint8_t* ip, int64_t length, uint8_t* to, int64_t capacity
) noexcept nogil:
    # Decompress the blocks after a header of xerial's snappy-java. Fewer than 4 bytes
    # after the last block are ignored. Returns the decompressed size, or -1.
    cdef const uint8_t* end = ip + length
    cdef uint8_t* op = to
    cdef int64_t size, written
    if length < SNAPPY_HEADER or memcmp(ip, XERIAL, 8):
        return -1
    ip += SNAPPY_HEADER
    while end - ip >= 4:
        size = be32(ip)
        ip += 4
        if size < 0 or size > end - ip:
            return -1
        written = decompress_snappy_block(ip, ip + size, op, to + capacity)
        if written < 0:
            return -1
        op += written
        ip += size
    return op - to


def decompress_streams(
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
    """Decompress the payloads of rows from `first` on into `out`, one after another.

    Payload i begins at ``starts[i]`` in `src` and has ``lengths[i]`` bytes. The first
    `filled` bytes of `out` are kept. Fills `sizes` with the decompressed sizes, each at
    most `limit`. Stops at a stream of another codec or framing, at an invalid one, and
    where `out` is full. Returns the row it stopped at, and the bytes of `out` in use.
    """
    cdef Py_ssize_t i = first
    cdef int64_t size = 0, capacity
    cdef int codec
    cdef Rows entries = rows_of(rows)
    if not (0 <= first and 0 <= filled <= out.shape[0] <= INT32_MAX):
        raise ValueError(
            f"first {first}, filled {filled} of {out.shape[0]}, expected at least 0, "
            "and filled at most the size of `out`"
        )
    check_rows(min(starts.shape[0], lengths.shape[0], sizes.shape[0]), entries.count)
    with nogil:
        while i < entries.count and out.shape[0]:
            if lengths[i] < 1 or starts[i] < 0 or starts[i] > src.shape[0] - lengths[i]:
                break
            capacity = min(limit, out.shape[0] - filled)
            codec = entries.at[i].attributes & CODEC_MASK
            size = -1
            if codec == LZ4:
                size = decompress_lz4(
                    &src[starts[i]], lengths[i], &out[0] + filled, capacity
                )
            elif codec == SNAPPY:
                size = decompress_snappy(
                    &src[starts[i]], lengths[i], &out[0] + filled, capacity
                )
            if size < 0:
                break
            sizes[i] = size
            filled += size
            i += 1
    return i, filled

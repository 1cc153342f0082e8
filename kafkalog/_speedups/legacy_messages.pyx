"""Encode columns of records to messages of magic 0 and 1, which have no headers.

A column of bytes is as in ``encode.pyx``.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups._batch cimport (
    LOG_OVERHEAD, MESSAGE_0_OVERHEAD, MESSAGE_1_OVERHEAD, MESSAGE_CRC_FROM
)
from kafkalog._speedups._columns cimport (
    Bytes, bytes_of, bytes_size, length_of, start_of
)
from kafkalog._speedups._crc cimport CRC32, crc, crc_setup
from kafkalog._speedups._cursor cimport put32, put64

crc_setup()


cdef inline uint8_t* put_field(
    uint8_t* at, const Bytes* of, Py_ssize_t row
) noexcept nogil:
    # Write a key or value: a length of 4 bytes, -1 for null, and the bytes.
    cdef int32_t length = length_of(of, row)
    put32(at, -1 if length < 0 else length)
    if length > 0:
        memcpy(at + 4, of.data + start_of(of, row), length)
        at += length
    return at + 4


def write_messages(
    const int64_t[::1] offset not None,
    const int64_t[::1] timestamp not None,
    key not None,
    value not None,
    int magic,
    int attributes,
    uint8_t[::1] out not None,
):
    """Write messages of `magic` 0 or 1 with their CRCs, one after another.

    Returns (messages, bytes) written, fewer than all if a key or value is outside its
    data, or the next message does not fit in `out`.
    """
    cdef Bytes keys = bytes_of(key)
    cdef Bytes values = bytes_of(value)
    cdef int64_t least = LOG_OVERHEAD
    cdef Py_ssize_t row, done = 0, pos = 0
    cdef int64_t size
    cdef uint8_t* at
    cdef uint8_t* field
    if not offset.shape[0] == timestamp.shape[0] == keys.rows == values.rows:
        raise ValueError(
            f"{timestamp.shape[0]} timestamps, {keys.rows} keys and {values.rows} "
            f"values, expected {offset.shape[0]}: one for each offset"
        )
    least += MESSAGE_1_OVERHEAD if magic else MESSAGE_0_OVERHEAD
    with nogil:
        for row in range(offset.shape[0]):
            size = least + max(length_of(&keys, row), 0)
            size += max(length_of(&values, row), 0)
            if (
                bytes_size(&keys, row) < 0 or bytes_size(&values, row) < 0
                or size - LOG_OVERHEAD > INT32_MAX or size > out.shape[0] - pos
            ):
                break
            at = &out[pos]
            put64(at, offset[row])
            put32(at + 8, <int32_t>(size - LOG_OVERHEAD))
            at[16] = <uint8_t>magic
            at[17] = <uint8_t>attributes
            field = at + 18
            if magic:
                put64(field, timestamp[row])
                field += 8
            put_field(put_field(field, &keys, row), &values, row)
            put32(at + 12, <int32_t>crc(
                CRC32, at + MESSAGE_CRC_FROM, size - MESSAGE_CRC_FROM
            ))
            pos += size
            done += 1
    return done, pos

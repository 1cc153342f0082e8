"""Encode and decode zig-zag varints, as Kafka's ``ByteUtils`` does."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafkalog._speedups._cursor cimport Cursor, Status, read_varint, read_varlong

ctypedef fused number:
    int32_t
    int64_t


def decode_varints(const uint8_t[::1] src not None, number[::1] out not None):
    """Fill `out` from `src`; return (status, values decoded, bytes consumed)."""
    cdef Cursor at = Cursor(data=NULL, pos=0, end=src.shape[0])
    cdef Status status = Status.OK
    cdef Py_ssize_t count = 0
    if at.end:
        at.data = &src[0]
    with nogil:
        while count < out.shape[0]:
            if number is int32_t:
                status = read_varint(&at, &out[count])
            else:
                status = read_varlong(&at, &out[count])
            if status != Status.OK:
                break
            count += 1
    return status, count, at.pos


def encode_varints(const number[::1] values not None, uint8_t[::1] out not None):
    """Write `values` to `out` (5 or 10 bytes for each value); return bytes written."""
    cdef Py_ssize_t i, pos = 0
    cdef uint64_t raw
    with nogil:
        for i in range(values.shape[0]):
            if number is int32_t:
                raw = <uint32_t>((<uint32_t>values[i] << 1) ^ (values[i] >> 31))
            else:
                raw = (<uint64_t>values[i] << 1) ^ <uint64_t>(values[i] >> 63)
            while raw >= 0x80:
                out[pos] = <uint8_t>(raw & 0x7F) | 0x80
                pos += 1
                raw >>= 7
            out[pos] = <uint8_t>raw
            pos += 1
    return pos

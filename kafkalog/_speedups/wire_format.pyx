"""Read Confluent's wire format: a schema's id, and Protobuf's message indexes.

    0       1           5
    | magic | schema id | message indexes, in Protobuf only | payload

The magic is 0, the id an int32. Message indexes are zig-zag varints, a count and as
many indexes; a count of 0 stands for the one index 0. Row i is
``data[begins[i]:ends[i]]``.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t

from kafkalog._speedups._cursor cimport Cursor, Status, be32, read_varint
from kafkalog._speedups._rows cimport check_rows

ctypedef fused place:
    int32_t
    int64_t


cdef enum:
    MAGIC = 0
    HEADER_BYTES = 5


cdef struct Values:
    const uint8_t* data
    int64_t data_end
    const uint8_t* valid  # NULL if no row is null


cdef enum RowKind:
    OUTSIDE  # the row is not within the data
    OTHER  # the row is null, or not in the wire format
    FRAMED


cdef inline Values values_of(
    const uint8_t[::1] data, const uint8_t[::1] valid, Py_ssize_t count,
    Py_ssize_t shortest
) except *:
    # Return pointers into the arrays, which must outlive them. `shortest` is the length
    # of the shortest other column.
    cdef Values values = Values(NULL, data.shape[0], NULL)
    if valid is not None and valid.shape[0] != count:
        raise ValueError(f"validity of {valid.shape[0]} rows, expected {count}")
    check_rows(shortest, count)
    if data.shape[0]:
        values.data = &data[0]
    if valid is not None and count:
        values.valid = &valid[0]
    return values


cdef inline RowKind kind_of(
    const Values* values, Py_ssize_t i, int64_t begin, int64_t end
) noexcept nogil:
    if end <= begin or (values.valid != NULL and not values.valid[i]):
        return RowKind.OTHER
    if begin < 0 or end > values.data_end:
        return RowKind.OUTSIDE
    if end - begin < HEADER_BYTES or values.data[begin] != MAGIC:
        return RowKind.OTHER
    return RowKind.FRAMED


cdef inline int32_t take_indexes(
    Cursor* at, int32_t* out, int32_t capacity
) noexcept nogil:
    # Read message indexes into `out`, unless that is NULL. Returns their number, or -1
    # if they are invalid or more than `capacity`.
    cdef int32_t count = 0, index = 0, i
    if read_varint(at, &count) != Status.OK or count < 0 or max(count, 1) > capacity:
        return -1
    if count > at.end - at.pos:  # each takes a byte or more
        return -1
    if count == 0 and out != NULL:
        out[0] = 0
    for i in range(count):
        if read_varint(at, &index) != Status.OK:
            return -1
        if out != NULL:
            out[i] = index
    return max(count, 1)


def read_schema_ids(
    const uint8_t[::1] data not None,
    const place[::1] begins not None,
    const place[::1] ends not None,
    const uint8_t[::1] valid,
    int32_t missing,
    int32_t[::1] ids not None,
    uint8_t[::1] found not None,
):
    """Fill `ids`, with `missing` for rows not in the wire format, and `found`.

    Returns the rows done, fewer than all if one is not within `data`.
    """
    cdef Py_ssize_t i, done = 0
    cdef Values values = values_of(
        data, valid, begins.shape[0], min(ends.shape[0], ids.shape[0], found.shape[0])
    )
    cdef RowKind kind
    with nogil:
        for i in range(begins.shape[0]):
            kind = kind_of(&values, i, begins[i], ends[i])
            if kind == RowKind.OUTSIDE:
                break
            found[i] = kind == RowKind.FRAMED
            ids[i] = be32(values.data + begins[i] + 1) if found[i] else missing
            done += 1
    return done


def skip_schema_headers(
    const uint8_t[::1] data not None,
    const place[::1] begins not None,
    const place[::1] ends not None,
    const uint8_t[::1] valid,
    bint protobuf,
    place[::1] starts not None,
    place[::1] lengths not None,
):
    """Fill `starts` and `lengths` of payloads; -1 for rows not in the wire format.

    With `protobuf`, message indexes are skipped too, and a row in which they are
    invalid is not in the wire format. Returns the rows done, fewer than all if one is
    not within `data`.
    """
    cdef Py_ssize_t i, done = 0
    cdef Values values = values_of(
        data, valid, begins.shape[0],
        min(ends.shape[0], starts.shape[0], lengths.shape[0]),
    )
    cdef Cursor at = Cursor(values.data, 0, 0)
    cdef RowKind kind
    with nogil:
        for i in range(begins.shape[0]):
            kind = kind_of(&values, i, begins[i], ends[i])
            if kind == RowKind.OUTSIDE:
                break
            if kind == RowKind.FRAMED:
                at.pos, at.end = begins[i] + HEADER_BYTES, ends[i]
                if protobuf and take_indexes(&at, NULL, INT32_MAX) < 0:
                    kind = RowKind.OTHER
            starts[i] = <place>at.pos if kind == RowKind.FRAMED else 0
            lengths[i] = <place>(at.end - at.pos) if kind == RowKind.FRAMED else -1
            done += 1
    return done


def count_message_indexes(
    const uint8_t[::1] data not None,
    const place[::1] begins not None,
    const place[::1] ends not None,
    const uint8_t[::1] valid,
    int32_t[::1] counts not None,
):
    """Fill `counts` with the number of message indexes of each row; -1 if invalid.

    Returns the rows done, fewer than all if one is not within `data`.
    """
    cdef Py_ssize_t i, done = 0
    cdef Values values = values_of(
        data, valid, begins.shape[0], min(ends.shape[0], counts.shape[0])
    )
    cdef Cursor at = Cursor(values.data, 0, 0)
    cdef RowKind kind
    with nogil:
        for i in range(begins.shape[0]):
            kind = kind_of(&values, i, begins[i], ends[i])
            if kind == RowKind.OUTSIDE:
                break
            counts[i] = -1
            if kind == RowKind.FRAMED:
                at.pos, at.end = begins[i] + HEADER_BYTES, ends[i]
                counts[i] = take_indexes(&at, NULL, INT32_MAX)
            done += 1
    return done


def read_message_indexes(
    const uint8_t[::1] data not None,
    const place[::1] begins not None,
    const place[::1] ends not None,
    const int32_t[::1] offsets not None,
    int32_t[::1] indexes not None,
):
    """Fill ``indexes[offsets[i]:offsets[i + 1]]`` with the message indexes of row i.

    `offsets` (n + 1) are the sums of what `count_message_indexes` found. Returns the
    rows done, fewer than all if one does not have that many.
    """
    cdef Py_ssize_t i, done = 0
    cdef Values values = values_of(
        data, None, begins.shape[0], min(ends.shape[0], offsets.shape[0] - 1)
    )
    cdef Cursor at = Cursor(values.data, 0, 0)
    cdef int32_t capacity
    with nogil:
        for i in range(begins.shape[0]):
            capacity = offsets[i + 1] - offsets[i]
            if capacity > 0:
                if offsets[i] < 0 or offsets[i + 1] > indexes.shape[0]:
                    break
                if kind_of(&values, i, begins[i], ends[i]) != RowKind.FRAMED:
                    break
                at.pos, at.end = begins[i] + HEADER_BYTES, ends[i]
                if take_indexes(&at, &indexes[offsets[i]], capacity) != capacity:
                    break
            done += 1
    return done

# Arrays of headers and of appends, used by their addresses. A typed memoryview would
# check the names and types of all fields at each call, which takes longer than most
# loops over the rows.
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
)

from libc.stdint cimport int64_t, uint8_t

from kafkalog._speedups._append cimport Append
from kafkalog._speedups._batch cimport Batch


cdef inline int check_rows(Py_ssize_t shortest, Py_ssize_t count) except -1:
    # Check that the shortest of some columns has a value for each row.
    if shortest < count:
        raise ValueError(f"a column of {shortest} rows, expected {count}")
    return 0


cdef struct Rows:
    Batch* at
    Py_ssize_t count


cdef struct AppendRows:
    Append* at
    Py_ssize_t count


cdef struct AppendArrays:
    # `validation.appends.Appends.arrays`: append i has the bytes and rows between its
    # bounds, and a row of `info`.
    uint8_t* data
    int64_t size
    Rows rows
    int64_t* row_bounds
    int64_t* byte_bounds
    AppendRows info


cdef inline void* address_of(
    array, Py_ssize_t width, bint writable, Py_ssize_t* count
) except? NULL:
    # Return the address of a contiguous array, and the number of its rows.
    cdef Py_buffer buffer
    cdef Py_ssize_t found
    PyObject_GetBuffer(array, &buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
    found = buffer.itemsize
    count[0] = buffer.len // width
    PyBuffer_Release(&buffer)
    if found != width:
        raise ValueError(f"rows of {found} bytes, expected {width}")
    return buffer.buf


cdef inline Rows rows_of(array, bint writable=False) except *:
    # Return the headers in an array, which must outlive them.
    cdef Rows rows = Rows(NULL, 0)
    rows.at = <Batch*>address_of(array, sizeof(Batch), writable, &rows.count)
    return rows


cdef inline const Batch* row_of(array) except? NULL:
    # Return the header in an array of one, or a row of an array.
    cdef Rows rows = rows_of(array)
    if rows.count != 1:
        raise ValueError(f"{rows.count} rows, expected 1")
    return rows.at


cdef inline AppendRows append_rows_of(array) except *:
    # Return the appends in an array, which must outlive them.
    cdef AppendRows rows = AppendRows(NULL, 0)
    rows.at = <Append*>address_of(array, sizeof(Append), True, &rows.count)
    return rows


cdef inline AppendArrays append_arrays_of(tuple arrays) except *:
    # Return pointers into the arrays of appends, which must outlive them. The bounds
    # are as many as they must be; what they state is not checked.
    cdef AppendArrays of
    cdef uint8_t[::1] data
    cdef int64_t[::1] row_bounds, byte_bounds
    data, rows, row_bounds, byte_bounds, info = arrays
    of.data, of.size = &data[0] if data.shape[0] else NULL, data.shape[0]
    of.rows, of.info = rows_of(rows, True), append_rows_of(info)
    if not row_bounds.shape[0] == byte_bounds.shape[0] == of.info.count + 1:
        raise ValueError(
            f"{row_bounds.shape[0]} and {byte_bounds.shape[0]} bounds, expected "
            f"{of.info.count + 1}: appends + 1"
        )
    of.row_bounds, of.byte_bounds = &row_bounds[0], &byte_bounds[0]
    return of

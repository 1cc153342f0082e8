# Rows of headers, held by their address: checking the names and types of their fields
# anew, as a typed view does, costs more than most loops over the rows of a step.
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
)

from kafkalog._speedups._batch cimport Batch


cdef struct Rows:
    Batch* at
    Py_ssize_t count
    Py_buffer held


cdef inline void release_rows(Rows* rows) noexcept:
    PyBuffer_Release(&rows.held)


cdef inline int hold_rows(array, Rows* rows, bint writable=False) except -1:
    # Hold a contiguous array of `Batch`, until it is released.
    PyObject_GetBuffer(
        array, &rows.held, PyBUF_WRITABLE if writable else PyBUF_SIMPLE
    )
    if rows.held.itemsize != sizeof(Batch):
        PyBuffer_Release(&rows.held)
        raise ValueError("rows that are not headers")
    rows.at = <Batch*>rows.held.buf
    rows.count = rows.held.len // sizeof(Batch)
    return 0

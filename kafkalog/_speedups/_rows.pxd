# An array of headers, used by its address. A typed memoryview would check the names and
# types of 18 fields at each call, which takes longer than most loops over the rows.
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
    # Acquire the buffer of a contiguous array of `Batch`, to be released afterwards.
    cdef Py_ssize_t width
    PyObject_GetBuffer(
        array, &rows.held, PyBUF_WRITABLE if writable else PyBUF_SIMPLE
    )
    width = rows.held.itemsize
    if width != sizeof(Batch):
        PyBuffer_Release(&rows.held)
        raise ValueError(f"rows of {width} bytes, expected {sizeof(Batch)}")
    rows.at = <Batch*>rows.held.buf
    rows.count = rows.held.len // sizeof(Batch)
    return 0

# A list of bytes-like objects, held so that they may be read without the GIL.
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc


cdef struct Pieces:
    Py_buffer* views
    Py_ssize_t count


cdef inline void release_pieces(Pieces* held) noexcept:
    cdef Py_ssize_t i
    for i in range(held.count):
        PyBuffer_Release(&held.views[i])
    PyMem_Free(held.views)


cdef inline int hold_pieces(list pieces, Pieces* held) except -1:
    # Hold all, until they are released; or none, and an error is raised.
    cdef Py_ssize_t count = len(pieces)
    held.count = 0
    held.views = <Py_buffer*>PyMem_Malloc(count * sizeof(Py_buffer) or 1)
    if held.views == NULL:
        raise MemoryError
    try:
        while held.count < count:
            PyObject_GetBuffer(
                pieces[held.count], &held.views[held.count], PyBUF_SIMPLE
            )
            held.count += 1
    except BaseException:
        release_pieces(held)
        raise
    return 0

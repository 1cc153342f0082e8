# Acquire the buffers of a list of bytes-like objects, to read them without the GIL.
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc


cdef struct Buffers:
    Py_buffer* views
    Py_ssize_t count


cdef inline void release_buffers(Buffers* held) noexcept:
    cdef Py_ssize_t i
    for i in range(held.count):
        PyBuffer_Release(&held.views[i])
    PyMem_Free(held.views)


cdef inline int hold_buffers(list objects, Buffers* held) except -1:
    # Acquire all, to be released afterwards; or none, if one raises an error.
    cdef Py_ssize_t count = len(objects)
    held.count = 0
    held.views = <Py_buffer*>PyMem_Malloc(count * sizeof(Py_buffer) or 1)
    if held.views == NULL:
        raise MemoryError
    try:
        while held.count < count:
            PyObject_GetBuffer(
                objects[held.count], &held.views[held.count], PyBUF_SIMPLE
            )
            held.count += 1
    except BaseException:
        release_buffers(held)
        raise
    return 0

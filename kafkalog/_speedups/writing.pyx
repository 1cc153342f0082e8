"""Writes to files, several by one call; for a large one space is allocated first."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t
from posix.types cimport off_t
from posix.unistd cimport pwrite


cdef extern from *:
    """
    #include <errno.h>
    #if defined(__linux__)
    #include <fcntl.h>
    #include <linux/falloc.h>
    #define allocate(file, start, length) \\
        fallocate(file, FALLOC_FL_KEEP_SIZE, start, length)
    #else
    #define allocate(file, start, length) (-1)
    #endif

    static int fail(int error, PyObject *path) {
        errno = error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
        return -1;
    }
    """
    int allocate(int file, off_t start, off_t length) nogil
    int fail(int error, str path) except -1  # with what the operating system says


cdef enum:
    MOST = 4  # writes that are made ready together
    LARGE = 1 << 18  # bytes of a write that is sooner done where space is allocated


cdef struct Write:
    int descriptor
    int64_t pos
    Py_buffer piece


cdef int write_one(const Write* one, Py_ssize_t* written) noexcept nogil:
    # Write what is left of a piece; answers 0, or the error of the operating system.
    # Allocating changes neither size nor bytes; if it fails, the write finds out why.
    cdef Py_ssize_t size
    if one.piece.len >= LARGE and written[0] == 0:
        allocate(one.descriptor, one.pos, one.piece.len)
    while written[0] < one.piece.len:
        size = pwrite(
            one.descriptor, <const char*>one.piece.buf + written[0],
            one.piece.len - written[0], one.pos + written[0],
        )
        if size < 0:
            return errno
        if size == 0:
            return EIO  # no headway
        written[0] += size
    return 0


cdef int write_some(list writes, Py_ssize_t first, Py_ssize_t* done) except -1:
    # Write up to MOST from `first` on; adds to `done` how many were.
    cdef Write ready[MOST]
    cdef Py_ssize_t count = min(len(writes) - first, MOST), held = 0, i = 0, written = 0
    cdef int error = 0
    try:
        while held < count:
            file, data, position = writes[first + held]
            ready[held].descriptor, ready[held].pos = file.descriptor, position
            PyObject_GetBuffer(data, &ready[held].piece, PyBUF_SIMPLE)
            held += 1
        while i < count:
            with nogil:
                while i < count:
                    error = write_one(&ready[i], &written)
                    if error:
                        break
                    i, written = i + 1, 0
            if error != EINTR:
                break
            PyErr_CheckSignals()
    finally:
        done[0] += i
        for i in range(held):
            PyBuffer_Release(&ready[i].piece)
    return error


def write_each(list writes not None):
    """Write each piece of bytes to its file.

    A write is a file, which has a `descriptor` and a `path`, bytes, and the position of
    the first. At the first that fails it ends, with the `OSError` of the operating
    system: of that one a part may be written.
    """
    cdef Py_ssize_t done = 0
    cdef int error
    while done < len(writes):
        error = write_some(writes, done, &done)
        if error:
            fail(error, str(writes[done][0].path))

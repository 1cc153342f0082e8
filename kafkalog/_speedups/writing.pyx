"""Writes to files, several by one call; and space set aside for those to come."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t
from posix.types cimport off_t
from posix.unistd cimport pwrite


cdef extern from *:
    """
    #if defined(__linux__)
    #include <fcntl.h>
    #include <linux/falloc.h>
    #define reserve_ahead(file, start, length) \\
        fallocate(file, FALLOC_FL_KEEP_SIZE, start, length)
    #else
    #include <errno.h>
    #define reserve_ahead(file, start, length) (errno = ENOTSUP, -1)
    #endif
    """
    int reserve_ahead(int file, off_t start, off_t length) nogil


cdef int write_piece(int descriptor, const Py_buffer* piece, int64_t pos) except -1:
    # Write all of a piece; answers 0, or the error of the operating system.
    cdef Py_ssize_t written = 0, size
    cdef int error = 0
    while written < piece.len:
        with nogil:
            size = pwrite(
                descriptor, <const char*>piece.buf + written, piece.len - written,
                pos + written,
            )
            if size < 0:
                error = errno
        if size > 0:
            written += size
        elif size == 0:
            return EIO  # no headway
        elif error != EINTR:
            return error
        else:
            PyErr_CheckSignals()
    return 0


def write_each(list writes not None):
    """Write each piece of bytes to its file; answers how many were written, and errno.

    A write is a file, which has a `descriptor`, bytes, and the position of the first.
    At the first that fails it ends: of that one a part may be written. An errno of 0
    says that all were.
    """
    cdef Py_buffer piece
    cdef Py_ssize_t done = 0
    cdef int error = 0, descriptor
    cdef int64_t pos
    for file, data, position in writes:
        descriptor, pos = file.descriptor, position
        PyObject_GetBuffer(data, &piece, PyBUF_SIMPLE)
        try:
            error = write_piece(descriptor, &piece, pos)
        finally:
            PyBuffer_Release(&piece)
        if error:
            break
        done += 1
    return done, error


def reserve(int descriptor, int64_t start, int64_t length):
    """Have the file system set space aside; answers 0, or its errno.

    The file's size and bytes stay as they are. ``ENOTSUP`` where the operating system
    has no such call.
    """
    cdef int failed
    with nogil:
        failed = reserve_ahead(descriptor, start, length)
        if failed:
            failed = errno
    return failed

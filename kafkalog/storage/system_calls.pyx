"""System calls on open files: preadv2, pwrite and fallocate.

Python's own `os` makes one call for each read or write, and takes the GIL after each.
Here a loop over many headers, or over a few writes, is one call from Python.

The files are open already: nothing is opened, closed or kept. On systems other than
Linux preadv2 and fallocate are not called, as if they had failed; only speed depends
on them.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from posix.types cimport off_t
from posix.unistd cimport pwrite

from kafkalog._speedups._batch cimport BATCH_HEADER, LEAST_SIZE, LOG_OVERHEAD
from kafkalog._speedups._cursor cimport be32


cdef extern from *:
    """
    #include <errno.h>
    #if defined(__linux__)
    #include <fcntl.h>
    #include <linux/falloc.h>
    #include <sys/uio.h>
    #endif

    static Py_ssize_t read_cached(int file, void *into, size_t size, off_t start) {
    #if defined(RWF_NOWAIT)
        struct iovec one = {into, size};
        return preadv2(file, &one, 1, start, RWF_NOWAIT);
    #else
        (void)file; (void)into; (void)size; (void)start;
        return -1;
    #endif
    }

    static void allocate(int file, off_t start, off_t length) {
    #if defined(FALLOC_FL_KEEP_SIZE)
        (void)fallocate(file, FALLOC_FL_KEEP_SIZE, start, length);
    #else
        (void)file; (void)start; (void)length;
    #endif
    }

    static int raise_os_error(int error, PyObject *path) {
        errno = error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
        return -1;
    }
    """
    # Read from the page cache only; fewer bytes, or -1, where they are not in it.
    Py_ssize_t read_cached(int file, void* into, size_t size, off_t start) nogil
    # Allocate disk space, which changes neither the size of a file nor its bytes.
    # Failures are ignored: the write that follows meets the same one and reports it.
    void allocate(int file, off_t start, off_t length) nogil
    int raise_os_error(int error, str path) except -1


cdef enum:
    FIRST_ENTRIES = 16  # after these, the mean size of an entry is known
    MIN_MEAN_BYTES = 1 << 13  # files of smaller entries are faster to read whole
    MAX_WRITES = 4  # buffers that are held at a time
    ALLOCATED_BYTES = 1 << 18  # writes of this size are faster into allocated space


cdef struct Write:
    int descriptor
    int64_t position
    Py_buffer data


def read_cached_headers(int descriptor, int64_t origin, uint8_t[::1] into not None):
    """Read only the headers of a file's entries from byte `origin` on.

    Each header is written to `into` where it would be if the whole range were read;
    the bytes between headers are left as they are. Returns whether all headers were
    read. False means that the range should be read whole: a header is not in the page
    cache, the entries are small, or the size of an entry is invalid.
    """
    cdef int64_t pos = 0, end = into.shape[0], need, count = 0
    cdef int32_t size
    cdef bint complete = True
    with nogil:
        while complete and pos < end:
            need = min(<int64_t>BATCH_HEADER, end - pos)
            if read_cached(descriptor, &into[pos], need, origin + pos) != need:
                complete = False
            elif need < LOG_OVERHEAD:
                break  # `into` ends within a size field
            else:
                size = be32(&into[pos + 8])
                pos += LOG_OVERHEAD + <int64_t>size
                count += 1
                complete = size >= LEAST_SIZE
                complete &= count < FIRST_ENTRIES or count * MIN_MEAN_BYTES <= pos
    return complete


cdef int finish_write(const Write* write, Py_ssize_t* written) noexcept nogil:
    # Write the bytes after the first `written`; returns 0 or an errno.
    cdef Py_ssize_t size
    if write.data.len >= ALLOCATED_BYTES and written[0] == 0:
        allocate(write.descriptor, write.position, write.data.len)
    while written[0] < write.data.len:
        size = pwrite(
            write.descriptor, <const char*>write.data.buf + written[0],
            write.data.len - written[0], write.position + written[0],
        )
        if size < 0:
            return errno
        if size == 0:
            return EIO  # no progress, which would otherwise repeat for ever
        written[0] += size
    return 0


cdef int write_some(list writes, Py_ssize_t first, Py_ssize_t* done) except -1:
    # Do up to MAX_WRITES from `first` on, and add their number to `done`.
    # Returns 0 or an errno, that of the write after the last one done.
    cdef Write held[MAX_WRITES]
    cdef Py_ssize_t count = min(len(writes) - first, MAX_WRITES)
    cdef Py_ssize_t buffers = 0, i = 0, written = 0
    cdef int error = 0
    try:
        while buffers < count:
            file, data, position = writes[first + buffers]
            held[buffers].descriptor = file.descriptor
            held[buffers].position = position
            PyObject_GetBuffer(data, &held[buffers].data, PyBUF_SIMPLE)
            buffers += 1
        while i < count:
            with nogil:
                while i < count:
                    error = finish_write(&held[i], &written)
                    if error:
                        break
                    i, written = i + 1, 0
            if error != EINTR:
                break
            PyErr_CheckSignals()
    finally:
        done[0] += i
        for i in range(buffers):
            PyBuffer_Release(&held[i].data)
    return error


def write_each(list writes not None):
    """Write to files in the order of `writes`, each time all of the data.

    A write is an open file (it has a `descriptor` and a `path`), the data, and the
    position of the first byte. The first failure raises `OSError` with the file's
    path: a part of that write may be done, and those after it are not begun.
    """
    cdef Py_ssize_t done = 0
    cdef int error
    while done < len(writes):
        error = write_some(writes, done, &done)
        if error:
            raise_os_error(error, str(writes[done][0].path))

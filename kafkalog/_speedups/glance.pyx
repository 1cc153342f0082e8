"""Headers of a file's entries fetched alone: what lies between them is not read."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from posix.types cimport off_t

from kafkalog._speedups._batch cimport BATCH_HEADER, LEAST_SIZE, LOG_OVERHEAD
from kafkalog._speedups._cursor cimport be32


cdef extern from *:
    """
    #if defined(__linux__)
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
    """
    Py_ssize_t read_cached(int file, void* into, size_t size, off_t start) nogil


cdef enum:
    FEW = 16  # entries that tell how large they are
    LEAST_MEAN = 1 << 13  # bytes of an entry; small ones are read sooner as a whole


def fetch_headers(int descriptor, int64_t origin, uint8_t[::1] into not None):
    """Fetch the headers of the entries of a file, the first of which is at `origin`.

    Each comes to lie in `into` where it would if all were read; bytes between them stay
    as they are. Answers whether all headers are there. They are not where one is not in
    the memory of the operating system: from a disk, all is better read in one go. Nor
    where entries are small, or the size of one cannot be.
    """
    cdef int64_t pos = 0, end = into.shape[0], need, count = 0
    cdef int32_t size
    cdef bint there = True
    with nogil:
        while there and pos < end:
            need = min(<int64_t>BATCH_HEADER, end - pos)
            if read_cached(descriptor, &into[pos], need, origin + pos) != need:
                there = False
            elif need < LOG_OVERHEAD:
                break  # `into` ends within a size
            else:
                size = be32(&into[pos + 8])
                pos += LOG_OVERHEAD + <int64_t>size
                count += 1
                there = size >= LEAST_SIZE
                there &= count < FEW or count * LEAST_MEAN <= pos
    return there

/* Writes less than it is asked, as an operating system may: put before its library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>

typedef ssize_t (*writer)(int, const void *, size_t, off_t);

/* MOST_WRITTEN bytes a call; INTERRUPTED calls before the first are broken off. */
ssize_t pwrite(int file, const void *data, size_t size, off_t position) {
    static int calls = 0;
    const char *most = getenv("MOST_WRITTEN"), *interrupted = getenv("INTERRUPTED");
    if (interrupted && calls++ < atoi(interrupted)) {
        errno = EINTR;
        return -1;
    }
    if (most && size > strtoul(most, NULL, 10)) size = strtoul(most, NULL, 10);
    return ((writer)dlsym(RTLD_NEXT, "pwrite"))(file, data, size, position);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t position) {
    return pwrite(file, data, size, position);
}

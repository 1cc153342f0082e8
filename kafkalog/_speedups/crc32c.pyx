"""CRC-32C and CRC-32 kernels: of many buffers, and of every entry of a scan.

The C of it is in ``crc.h``: hardware where this processor has it, tables last.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from kafkalog._speedups._batch cimport BATCH_CRC_FROM, MESSAGE_CRC_FROM
from kafkalog._speedups._crc cimport CRC32, CRC32C, crc_best_path, crc_by, crc_setup
from kafkalog._speedups._entry cimport is_sound
from kafkalog._speedups._rows cimport Rows, hold_rows, release_rows

crc_setup()


def best_path():
    """Which path this processor takes: 0 tables, 1 folding by 128 bits, 2 by 512."""
    return crc_best_path


def crc_many(
    const uint8_t[::1] src not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] lengths not None,
    uint32_t[::1] out not None,
    bint crc32c,
    int path,
):
    """Fill `out` with the checksums of ``src[start:start + length]``, by `path`.

    Answers the number of ranges done: fewer than all where one lies outside `src`.
    """
    cdef Py_ssize_t i, done = 0
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef int kind = CRC32C if crc32c else CRC32
    with nogil:
        for i in range(starts.shape[0]):
            if (
                starts[i] < 0 or lengths[i] < 0 or starts[i] > src.shape[0]
                or lengths[i] > src.shape[0] - starts[i]
            ):
                break
            out[i] = crc_by(path, kind, data + starts[i], lengths[i])
            done += 1
    return done


def check_batches(
    const uint8_t[::1] src not None,
    int64_t origin,
    rows not None,
    uint8_t[::1] sound not None,
):
    """Fill `sound` with 1 where an entry's checksum is right; answer how many are not.

    `origin` is the position of ``src[0]`` in the rows' positions. An entry that does
    not lie in `src` is not sound.
    """
    cdef Py_ssize_t i, wrong = 0
    cdef int64_t start, covered
    cdef const uint8_t* data = &src[0] if src.shape[0] else NULL
    cdef Rows held
    if sound.shape[0] < len(rows):
        raise ValueError("a place for each row")
    hold_rows(rows, &held)
    with nogil:
        for i in range(held.count):
            start = held.at[i].position - origin
            covered = BATCH_CRC_FROM if held.at[i].magic == 2 else MESSAGE_CRC_FROM
            sound[i] = 0
            if (
                start >= 0 and start <= src.shape[0]
                and covered <= held.at[i].size_in_bytes
                and held.at[i].size_in_bytes <= src.shape[0] - start
            ):
                sound[i] = is_sound(data + start, &held.at[i])
            wrong += not sound[i]
    release_rows(&held)
    return wrong

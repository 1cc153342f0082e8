"""Find byte strings that hold one JSON document, by brackets, strings and commas.

Row i is ``data[begins[i]:ends[i]]``. This is no parser: it only makes sure that a row
put between ``{"v":`` and ``}`` does not end the object, or add another member to it.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._rows cimport check_rows

ctypedef fused place:
    int32_t
    int64_t


cdef inline bint is_single(const uint8_t* at, const uint8_t* end) noexcept nogil:
    # Return whether no bracket closes what the row did not open, no comma is outside of
    # all brackets, and all strings and brackets are closed.
    cdef int64_t depth = 0
    cdef uint8_t byte
    while at < end:
        byte = at[0]
        at += 1
        if byte == c'"':
            while at < end and at[0] != c'"':
                at += 2 if at[0] == c'\\' else 1
            if at >= end:
                return False
            at += 1
        elif byte == c'{' or byte == c'[':
            depth += 1
        elif byte == c'}' or byte == c']':
            depth -= 1
            if depth < 0:
                return False
        elif byte == c',' and depth == 0:
            return False
    return depth == 0


def find_single_documents(
    const uint8_t[::1] data not None,
    const place[::1] begins not None,
    const place[::1] ends not None,
    uint8_t[::1] single not None,
):
    """Fill `single` with whether each row may be one JSON document.

    Returns the rows done, fewer than all if one is not within `data`.
    """
    cdef Py_ssize_t i, done = 0
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    check_rows(min(ends.shape[0], single.shape[0]), begins.shape[0])
    with nogil:
        for i in range(begins.shape[0]):
            if ends[i] <= begins[i]:
                single[i] = False
            elif begins[i] < 0 or ends[i] > data.shape[0]:
                break
            else:
                single[i] = is_single(first + begins[i], first + ends[i])
            done += 1
    return done

# Write text as Java does: decimal numbers, and UTF-8 with invalid bytes replaced.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, strlen


cdef inline uint8_t* put(uint8_t* to, const char* text) noexcept nogil:
    cdef size_t size = strlen(text)  # a constant, as `text` is a literal
    memcpy(to, text, size)
    return to + size


cdef inline uint8_t* put_int(uint8_t* to, int64_t value) noexcept nogil:
    # Write a decimal number of at most 20 bytes.
    cdef uint8_t digits[20]
    cdef int at = 20
    cdef uint64_t rest = <uint64_t>value
    if value < 0:
        to[0] = c"-"
        to += 1
        rest = 0 - rest
    while rest >= 10:
        at -= 1
        digits[at] = <uint8_t>(c"0" + rest % 10)
        rest //= 10
    at -= 1
    digits[at] = <uint8_t>(c"0" + rest)
    memcpy(to, digits + at, 20 - at)
    return to + 20 - at


cdef inline bint continues(uint8_t byte) noexcept nogil:
    return byte & 0xC0 == 0x80


cdef inline bint may_follow(uint8_t first, uint8_t second) noexcept nogil:
    # Return whether `second` may follow the first of three or four bytes. A surrogate
    # is found invalid only when all three of its bytes were read.
    if not continues(second):
        return False
    if first == 0xE0:
        return second >= 0xA0
    if first == 0xF0:
        return second >= 0x90
    return first != 0xF4 or second < 0x90


cdef inline int character(
    const uint8_t* at, Py_ssize_t left, bint* is_fault
) noexcept nogil:
    # Return the bytes of the character at `at`, or of the invalid sequence that Java
    # replaces by one U+FFFD. Source: `String.decodeUTF8_UTF16` of the JDK.
    cdef uint8_t first = at[0]
    cdef int size = 1, known = 1
    is_fault[0] = False
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
    elif 0xF0 <= first <= 0xF4:
        size = 4
    if size == 2 and left >= 2 and continues(at[1]):
        return 2
    if size > 2 and left >= 2 and may_follow(first, at[1]):
        known = 2
        while known < size and known < left and continues(at[known]):
            known += 1
        if known == size and (first != 0xED or at[1] < 0xA0):
            return size
    is_fault[0] = True
    return known


cdef inline uint8_t* put_text(
    uint8_t* to, const uint8_t* at, Py_ssize_t size
) noexcept nogil:
    # Write `size` bytes as text, which takes at most three times as many.
    cdef const uint8_t* end = at + size
    cdef uint64_t words[4]
    cdef uint64_t high = <uint64_t>0x80808080U << 32 | 0x80808080U
    cdef bint is_fault = False
    cdef int taken
    while at < end:
        if end - at >= 32:
            memcpy(words, at, 32)
            if not (words[0] | words[1] | words[2] | words[3]) & high:
                memcpy(to, words, 32)
                at += 32
                to += 32
                continue
        taken = character(at, end - at, &is_fault)
        if is_fault:
            to = put(to, b"\xef\xbf\xbd")
        else:
            memcpy(to, at, taken)
            to += taken
        at += taken
    return to

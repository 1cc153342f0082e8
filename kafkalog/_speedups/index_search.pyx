"""Search the big-endian slots of an index file in place.

A *field* of a slot is three numbers: where it begins in the slot, its width, which is 4
or 8 bytes, and a base that is added to it. A slot has `stride` bytes. NumPy would copy
and byte-swap a column for each search; these kernels read only the fields that a search
compares.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups._cursor cimport be32, be64, wrapping_add

cdef extern from *:
    """
    static inline int64_t kl_saturating_sub(int64_t a, int64_t b) {
        int64_t d;
        if (__builtin_sub_overflow(a, b, &d)) return a < 0 ? INT64_MIN : INT64_MAX;
        return d;
    }
    """
    int64_t saturating_sub "kl_saturating_sub"(int64_t a, int64_t b) noexcept nogil

cdef enum:
    LANES = 16  # searches at a time: their cache misses overlap
    NEAR = 4  # slots compared before galloping
    SPARSE = 8  # slots per target, from which on galloping is slower
    WARM_BYTES = 8192  # at the end of an index; Kafka searches these first

cdef struct Field:
    Py_ssize_t at
    Py_ssize_t width
    int64_t base


ctypedef fused field_t:
    int32_t
    int64_t


cdef inline int64_t load(const uint8_t* at, field_t kind) noexcept nogil:
    # Read a field; only the type of `kind` is used.
    if field_t is int32_t:
        return be32(at)
    else:
        return be64(at)


cdef inline int64_t any_width(const uint8_t* field, bint wide) noexcept nogil:
    return be64(field) if wide else be32(field)


cdef inline int64_t value_of(
    const uint8_t* slot, const Field* field
) noexcept nogil:
    return wrapping_add(any_width(slot + field.at, field.width == 8), field.base)


cdef inline Field field_of(tuple field, Py_ssize_t stride) except *:
    # Return a field that is within the slots.
    cdef Field of = Field(0, 0, 0)
    of.at, of.width, of.base = field
    if (
        of.width not in (4, 8) or stride < of.width
        or not 0 <= of.at <= stride - of.width
    ):
        raise ValueError(
            f"field of {of.width} bytes at byte {of.at}, expected 4 or 8 bytes within "
            f"the {stride} of a slot"
        )
    return of


cdef inline Py_ssize_t bisect(
    const uint8_t* keys, Py_ssize_t stride, Py_ssize_t low, Py_ssize_t high,
    int64_t target, field_t kind,
) noexcept nogil:
    # Return the greatest slot in [low, high) with key <= target, else low - 1. With
    # branches, because the processor then prefetches along the predicted side.
    cdef Py_ssize_t middle
    while low < high:
        middle = low + (high - low) // 2
        if load(keys + middle * stride, kind) <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef inline void interleave(
    const uint8_t* keys, Py_ssize_t stride, Py_ssize_t count, const int64_t* targets,
    int64_t base, int64_t* out, field_t kind,
) noexcept nogil:
    # Run LANES searches in step, without branches. `count` is at least 1.
    cdef Py_ssize_t slots[LANES]
    cdef int64_t relative[LANES]  # targets, relative to the base
    cdef Py_ssize_t left = count, half
    cdef int lane
    for lane in range(LANES):
        slots[lane] = 0
        relative[lane] = saturating_sub(targets[lane], base)
    while left > 1:
        half = left // 2
        for lane in range(LANES):
            slots[lane] += half & -<Py_ssize_t>(
                load(keys + (slots[lane] + half) * stride, kind) <= relative[lane]
            )
        left -= half
    for lane in range(LANES):
        out[lane] = slots[lane] - (
            load(keys + slots[lane] * stride, kind) > relative[lane]
        )


cdef inline Py_ssize_t gallop(
    const uint8_t* keys, Py_ssize_t stride, Py_ssize_t count, Py_ssize_t slot,
    int64_t target, field_t kind,
) noexcept nogil:
    # Search from `slot` on, the key of which is <= target. Targets are often as dense
    # as slots, so the next NEAR keys are compared first, without branches.
    cdef Py_ssize_t step = 1, near = 0
    if slot + NEAR < count:
        for step in range(1, NEAR + 1):
            near += load(keys + (slot + step) * stride, kind) <= target
        slot += near
        if near < NEAR:
            return slot
    step = 1
    while step < count - slot and load(keys + (slot + step) * stride, kind) <= target:
        slot += step
        step *= 2
    return bisect(keys, stride, slot + 1, min(slot + step, count), target, kind)


cdef inline void search_all(
    const uint8_t* keys, Py_ssize_t stride, Py_ssize_t count, const int64_t* targets,
    Py_ssize_t target_count, int64_t base, int64_t* out, field_t kind,
) noexcept nogil:
    # Galloping is faster if targets ascend and are not much rarer than slots.
    cdef Py_ssize_t i = 0, slot = -1
    if count // SPARSE <= target_count:
        while i + 1 < target_count and targets[i] <= targets[i + 1]:
            i += 1
    if i + 1 >= target_count:
        for i in range(target_count):
            slot = gallop(
                keys, stride, count, slot, saturating_sub(targets[i], base), kind
            )
            out[i] = slot
        return
    i = 0
    while i + LANES <= target_count:
        interleave(keys, stride, count, targets + i, base, out + i, kind)
        i += LANES
    for i in range(i, target_count):
        out[i] = bisect(
            keys, stride, 0, count, saturating_sub(targets[i], base), kind
        )


def search_value(
    const uint8_t[::1] data not None, Py_ssize_t stride, tuple key not None,
    tuple value not None, int64_t missing, int64_t target,
):
    """Return the field `value` of the last slot whose field `key` is <= `target`.

    As `search_slots` and then `take_field` would, for a single target.
    """
    cdef Field searched = field_of(key, stride), taken = field_of(value, stride)
    cdef Py_ssize_t slot, count = data.shape[0] // stride
    if not count:
        return missing
    target = saturating_sub(target, searched.base)
    if searched.width == 4:
        slot = bisect(&data[searched.at], stride, 0, count, target, <int32_t>0)
    else:
        slot = bisect(&data[searched.at], stride, 0, count, target, <int64_t>0)
    return missing if slot < 0 else value_of(&data[slot * stride], &taken)


cdef inline Py_ssize_t probe(
    const uint8_t* keys, Py_ssize_t stride, Py_ssize_t low, Py_ssize_t high,
    int64_t target, bint wide, bint* met,
) noexcept nogil:
    # Kafka's binary search in [low, high], comparing the same slots in the same order.
    # The key at `low` is taken to be <= target. `met` is set if an equal key was
    # compared; the key of the returned slot may be equal without that.
    cdef Py_ssize_t middle
    cdef int64_t key
    while low < high:
        middle = (low + high + 1) // 2
        key = any_width(keys + middle * stride, wide)
        if key > target:
            high = middle - 1
        elif key < target:
            low = middle
        else:
            met[0] = True
            return middle
    return low


def find_slot(
    const uint8_t[::1] data not None, Py_ssize_t stride, tuple field not None,
    int64_t target, bint above,
):
    """Return the last slot whose field is <= `target`, else -1.

    With `above` the first slot whose field is >= `target`, else -1; slot 0 is only
    found if it is greater, not if it is equal. The search is Kafka's, which compares
    the last 8 KiB first: even if the field does not ascend, the slot is the one that a
    broker would find.
    """
    cdef Field of = field_of(field, stride)
    cdef Py_ssize_t warm, slot, count = data.shape[0] // stride
    cdef const uint8_t* keys
    cdef bint wide = of.width == 8, met = False
    if not count:
        return -1
    keys = &data[of.at]
    target = saturating_sub(target, of.base)
    warm = max(0, count - 1 - WARM_BYTES // stride)
    if any_width(keys + warm * stride, wide) < target:
        slot = probe(keys, stride, warm, count - 1, target, wide, &met)
    elif any_width(keys, wide) > target:
        return 0 if above else -1
    else:
        slot = probe(keys, stride, 0, warm, target, wide, &met)
    if met or not above:
        return slot
    return -1 if slot == count - 1 else slot + 1


def search_slots(
    const uint8_t[::1] data not None, Py_ssize_t stride, tuple field not None,
    const int64_t[::1] targets not None, int64_t[::1] out not None,
):
    """Fill `out` with the last slot whose field is <= each target, else -1.

    Equal to ``np.searchsorted(field, targets, side="right") - 1`` for a field that
    ascends; for any other, some slot or -1. Sums of a field of 4 bytes and its base do
    not overflow int64. Sorted targets are the fastest.
    """
    cdef Field of = field_of(field, stride)
    cdef Py_ssize_t count = data.shape[0] // stride, target_count = targets.shape[0]
    if out.shape[0] != target_count:
        raise ValueError(f"{out.shape[0]} rows of output, expected {target_count}")
    if not target_count:
        return
    if not count:
        out[:] = -1
        return
    with nogil:
        if of.width == 4:
            search_all(
                &data[of.at], stride, count, &targets[0], target_count, of.base,
                &out[0], <int32_t>0,
            )
        else:
            search_all(
                &data[of.at], stride, count, &targets[0], target_count, of.base,
                &out[0], <int64_t>0,
            )


def take_field(
    const uint8_t[::1] data not None, Py_ssize_t stride, tuple field not None,
    int64_t missing, int64_t[::1] slots not None,
):
    """Replace each slot by its field; one out of range by `missing`."""
    cdef Field of = field_of(field, stride)
    cdef Py_ssize_t i, count = data.shape[0] // stride
    cdef const uint8_t* first = &data[0] if count else NULL
    with nogil:
        for i in range(slots.shape[0]):
            if slots[i] < 0 or slots[i] >= count:
                slots[i] = missing
            else:
                slots[i] = value_of(first + slots[i] * stride, &of)


def count_rising(
    const uint8_t[::1] data not None, Py_ssize_t stride, tuple first not None,
    tuple second not None, bint second_may_repeat,
):
    """Count the ascending slots at the start of `data`: the entries of an index.

    The field `first` is 0 or greater, and ascends strictly. So does the field `second`,
    or it may be equal if `second_may_repeat`. A slot of zeros ends the count, except
    slot 0 if the next one ascends.
    """
    cdef Field of_first = field_of(first, stride), of_second = field_of(second, stride)
    cdef Py_ssize_t slot = 0, count = data.shape[0] // stride
    cdef int64_t key, value, last_key = -1, last_value = -1
    cdef const uint8_t* here = &data[0] if count else NULL
    with nogil:
        while slot < count:
            key, value = value_of(here, &of_first), value_of(here, &of_second)
            if key <= last_key or value < last_value:
                break
            if value == last_value and not second_may_repeat:
                break
            last_key, last_value = key, value
            here += stride
            slot += 1
    if slot == 1 and last_key == 0 and last_value == 0:
        return 0
    return slot


def first_nonzero(const uint8_t[::1] data not None, Py_ssize_t start):
    """Return the position of the first nonzero byte from `start` on, or the length."""
    cdef Py_ssize_t i = max(start, 0), size = data.shape[0]
    with nogil:
        while size - i >= 8 and be64(&data[i]) == 0:
            i += 8
        while i < size and data[i] == 0:
            i += 1
    return i


def widen_slots(
    const uint8_t[::1] data not None, Py_ssize_t stride, tuple first not None,
    tuple second not None, int64_t tag, int64_t base_offset,
    int64_t[:, ::1] out not None,
):
    """Fill rows of `tag`, `base_offset`, and the fields `first` and `second` of a slot.

    Returns the rows filled, which the number of slots and the size of `out` limit.
    """
    cdef Field of_first = field_of(first, stride), of_second = field_of(second, stride)
    cdef Py_ssize_t slot, count = min(data.shape[0] // stride, out.shape[0])
    cdef const uint8_t* here = &data[0] if count else NULL
    if out.shape[1] != 4:
        raise ValueError(f"rows of {out.shape[1]} numbers, expected 4")
    with nogil:
        for slot in range(count):
            out[slot, 0] = tag
            out[slot, 1] = base_offset
            out[slot, 2] = value_of(here, &of_first)
            out[slot, 3] = value_of(here, &of_second)
            here += stride
    return count


def search_ranges(
    const int64_t[:] column not None, const int64_t[:] starts not None,
    const int64_t[:] stops not None, const int64_t[::1] which not None,
    const int64_t[::1] targets not None, int64_t[::1] out not None,
):
    """Search ranges of one native column, for each target the range `which` names.

    Fills `out` with the last row in [starts[k], stops[k]) whose value is <= the target,
    for k in `which`; -1 if there is none, or no such range. Ranges are clipped to the
    column. Ascending targets in one range are faster.
    """
    cdef Py_ssize_t i, k, low, high, middle, step
    cdef Py_ssize_t target_count = targets.shape[0]
    if (
        starts.shape[0] != stops.shape[0]
        or not (which.shape[0] == out.shape[0] == target_count)
    ):
        raise ValueError(
            f"{stops.shape[0]} stops of {starts.shape[0]} starts, {which.shape[0]} "
            f"ranges and {out.shape[0]} of output for {target_count} targets"
        )
    with nogil:
        for i in range(target_count):
            k = which[i]
            out[i] = -1
            if k < 0 or k >= starts.shape[0]:
                continue
            low, high, step = max(starts[k], 0), min(stops[k], column.shape[0]), 1
            if (
                i and which[i - 1] == k and out[i - 1] >= 0
                and targets[i] >= targets[i - 1]
            ):
                low = out[i - 1] + 1
                while step < high - low and column[low + step] <= targets[i]:
                    low += step + 1
                    step *= 2
                high = min(low + step, high)
            while low < high:
                middle = low + (high - low) // 2
                if column[middle] <= targets[i]:
                    low = middle + 1
                else:
                    high = middle
            if low > max(starts[k], 0):
                out[i] = low - 1

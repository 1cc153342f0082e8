"""Memory of dropped arrays is used again, and that of others never."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.decoding.decoded_columns import RECYCLED_FROM, RecycledMemory

SIZES = st.sampled_from([1, RECYCLED_FROM, RECYCLED_FROM + 9, 2 * RECYCLED_FROM])
STEPS = st.lists(st.tuples(SIZES, st.integers(0, 9)), max_size=60)


@given(steps=STEPS)
def test_arrays_that_are_referred_to_share_no_memory(steps):
    memory, live = RecycledMemory(), []
    for number, (size, dropped) in enumerate(steps):
        array = memory.take("value", size, np.int16)
        array[:] = number
        live.append((number, array[::2] if number % 2 else array))
        del array
        del live[dropped : dropped + 1]
    assert all((array == number).all() for number, array in live)
    for (_, one), (_, other) in combinations(live, 2):
        assert not np.shares_memory(one, other)


def test_a_buffer_of_an_array_keeps_its_memory():
    memory = RecycledMemory()
    array = memory.take("value", RECYCLED_FROM, np.uint8)
    array[:] = 7
    buffer = memoryview(array[3:])
    del array
    memory.take("value", RECYCLED_FROM, np.uint8)[:] = 8
    assert set(buffer) == {7}


def test_memory_that_is_much_larger_than_an_array_is_not_used_for_it():
    memory = RecycledMemory()
    memory.take("value", 4 * RECYCLED_FROM, np.uint8)
    small = memory.take("value", RECYCLED_FROM, np.uint8)
    assert len(small.base) < 2 * RECYCLED_FROM


def test_arrays_outlive_the_memory_they_were_taken_from():
    memory = RecycledMemory()
    array = memory.take("value", RECYCLED_FROM, np.uint8)
    array[:] = 7
    del memory
    assert (array == 7).all()
    del array  # its memory has no owner to return to


def test_threads_that_take_and_drop_arrays_share_none():
    memory = RecycledMemory()

    def take_some(number):
        for _ in range(300):
            array = memory.take("value", RECYCLED_FROM // 8, np.int64)
            array[:] = number
            view = array[1:]
            del array
            assert (view == number).all()
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(take_some, range(4))) == list(range(4))

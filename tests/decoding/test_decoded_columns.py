"""New and reused arrays for columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.decoding.decoded_columns import HUGE_PAGES_FROM, ColumnBuffers

DTYPES = st.sampled_from([np.uint8, np.int32, np.int64])


def held_bytes(array):
    """Return the size of the memory that an array keeps alive."""
    return array.nbytes if array.base is None else array.base.nbytes


@given(st.integers(0, 2 * HUGE_PAGES_FROM), DTYPES)
def test_a_new_array_has_the_requested_length_and_at_most_a_third_more(length, dtype):
    array = ColumnBuffers(kept=False).take("value data", length, dtype)
    assert (len(array), array.dtype) == (length, dtype)
    assert held_bytes(array) <= array.nbytes + array.nbytes // 3 + array.itemsize


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_an_array_of_nearly_the_size_for_huge_pages_has_that_size(dtype):
    length = HUGE_PAGES_FROM // np.dtype(dtype).itemsize - 1
    array = ColumnBuffers(kept=False).take("value data", length, dtype)
    assert held_bytes(array) == HUGE_PAGES_FROM


def test_new_arrays_of_one_name_do_not_share_memory():
    buffers = ColumnBuffers(kept=False)
    first, second = (buffers.take("value data", 4_000_000, np.uint8) for _ in range(2))
    assert not np.shares_memory(first, second)


def test_a_kept_array_is_returned_again_while_it_is_large_enough():
    buffers = ColumnBuffers(kept=True)
    first, second = (buffers.take("value data", size, np.uint8) for size in (9, 8))
    assert np.shares_memory(first, second)
    assert (len(first), len(second)) == (9, 8)

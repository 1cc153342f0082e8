"""Gathering byte strings, and the bounds of the kernels that read such columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.formats.layout import BATCH


@given(st.lists(st.none() | st.binary(max_size=200), max_size=40))
def test_gathered_strings_are_those_of_the_rows(strings):
    data = b"".join(b"?" + (each or b"") for each in strings)
    lengths = np.array(
        [-1 if each is None else len(each) for each in strings], np.int32
    )
    sizes = np.maximum(lengths, 0)
    starts = (np.cumsum(sizes + 1) - sizes).astype(np.int32)
    offsets = np.empty(len(strings) + 1, np.int32)
    valid = np.empty(len(strings), np.uint8)
    total, nulls = _speedups.lengths_to_offsets(lengths, offsets, valid)
    assert (total, nulls) == (sizes.sum(), strings.count(None))
    assert offsets.tolist() == [0, *np.cumsum(sizes).tolist()]
    assert valid.tolist() == [each is not None for each in strings]
    out = np.empty(total, np.uint8)
    done = _speedups.gather_bytes(np.frombuffer(data, np.uint8), starts, lengths, out)
    assert done == len(strings)
    assert out.tobytes() == b"".join(each or b"" for each in strings)


def test_columns_of_different_lengths_are_rejected():
    two, data = np.zeros(2, np.int32), np.zeros(8, np.uint8)
    longs = two.astype(np.int64)
    with pytest.raises(ValueError, match="2 offsets and 2 of valid, expected 3 and 2"):
        _speedups.lengths_to_offsets(two, two, data[:2])
    with pytest.raises(ValueError, match="1 lengths of 2 rows"):
        _speedups.gather_bytes(data, two, two[:1], data.copy())
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.murmur2_keys(data, longs, two[:1], two.copy())
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.read_schema_ids(data, two, two, None, -1, two[:1].copy(), data[:2])
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.read_message_indexes(data, two, two, two, two.copy())


def test_wrappers_need_as_many_payloads_as_rows():
    rows, one = np.zeros(2, BATCH), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.measure_wrappers(np.zeros(8, np.uint8), rows, one, one, one)

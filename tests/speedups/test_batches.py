"""Kernels over many headers agree with a loop over them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.layout import BATCH, MIN_RECORD_BYTES
from tests.guarded import at_the_end
from tests.query.batches import KINDS, build

INT32 = st.integers(-(2**31), 2**31 - 1)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2]),
        st.integers(-2, 40) | INT32,
        st.integers(0, 300) | st.integers(0, 2**31),
    ),
    max_size=8,
)


def headers(entries):
    """Return headers of (magic, count) and an array of their payloads' lengths."""
    rows = np.zeros(len(entries), BATCH)
    rows["magic"] = [magic for magic, _, _ in entries]
    rows["count"] = [count for _, count, _ in entries]
    return rows, np.array([length for _, _, length in entries], np.int64)


@given(ENTRIES)
def test_counts_are_valid_where_payloads_can_hold_the_records(entries):
    good, wrapped = 0, False
    for magic, count, length in entries:
        if magic == 2 and (count < 0 or count * MIN_RECORD_BYTES > length):
            break
        wrapped = wrapped or count < 0
        good += 1
    assert _speedups.check_counts(*headers(entries)) == (good, wrapped)


@given(ENTRIES)
def test_counts_and_lengths_are_summed(entries):
    rows, lengths = headers(entries)
    expected = (sum(count for _, count, _ in entries), sum(lengths.tolist()))
    assert _speedups.sum_counts(rows, lengths) == expected


@pytest.mark.parametrize("kernel", [_speedups.check_counts, _speedups.sum_counts])
def test_too_few_lengths_are_rejected(kernel):
    rows, lengths = headers([(2, 1, 9), (2, 1, 9)])
    with pytest.raises(ValueError, match=r"a column of .* rows, expected"):
        kernel(rows, lengths[:1])


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_payloads_are_located(magic, codec):
    data = at_the_end(build(magic, codec, 0, 3) + build(magic, codec, 3, 40))
    rows, _, _ = scan_headers(data, 0, 0, 100)
    starts, lengths = np.full((2, len(rows)), -9, np.int64)
    result = _speedups.locate_payloads(data, 0, rows, starts, lengths)
    assert result == (Status.OK, len(rows) - 1)
    ends = rows["position"] + rows["size_in_bytes"]
    assert (starts >= rows["position"]).all()
    assert (starts + lengths == ends).all()

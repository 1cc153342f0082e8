"""Records of one layout are skipped, but no incomplete or invalid one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.errors import KafkaLogError
from kafkalog.formats.layout import BATCH
from kafkalog.validation.appends import APPEND
from tests.validation.appending import T, batch, patched

DELTAS = st.sampled_from([0, 1, 2, 62, 63, 64, 65, 8191, 8192, 2**31])
SIZES = st.sampled_from([0, 1, 5, 59, 60, 63, 64, 200])
KEYS = st.sampled_from([None, b"", b"k", b"k" * 40, b"k" * 70])


def survey(data, greatest=2**63 - 1):
    """Validate one append; return the number accepted, and its row."""
    info = np.zeros(1, APPEND)
    accepted, *_ = _speedups.take_batches(
        [data],
        (False, False, False, True, -1, 2**63 - 1),
        (True, False, -1, False, 2**63 - 1, greatest, 0),
        0,
        (
            np.zeros(len(data), np.uint8),
            np.zeros(4, BATCH),
            *np.zeros((2, 2), np.int64),
            info,
        ),
    )
    return accepted, info[0]


@st.composite
def batches(draw):
    """Draw a batch with groups of records of one layout."""
    rows, timestamp = [], T
    for _ in range(draw(st.integers(1, 4))):
        key, size, step = draw(KEYS), draw(SIZES), draw(DELTAS)
        for _ in range(draw(st.integers(1, 80))):
            rows.append((key, b"v" * size, timestamp))
            timestamp += step
    return rows, batch(*rows)


@given(drawn=batches())
def test_every_record_counts(drawn):
    rows, data = drawn
    accepted, info = survey(data)
    assert accepted == 1
    assert info["records"] == len(rows)
    latest = max(timestamp for _, _, timestamp in rows)
    assert info["max_timestamp"] == latest
    assert survey(data, greatest=latest)[0] == 1
    assert survey(data, greatest=latest - 1)[0] == 0


@given(drawn=batches(), place=st.integers(0), value=st.integers(0, 255))
def test_an_incomplete_record_is_not_skipped(drawn, place, value):
    _, data = drawn
    damaged = bytearray(data)
    damaged[61 + place % (len(data) - 61)] = value
    data = patched(bytes(damaged), {"length": len(data) - 12})
    try:
        times = [record.timestamp for record in RecordBatch(data)]
    except KafkaLogError:
        times = None
    accepted, info = survey(data)
    assert accepted == (times is not None)
    if accepted:
        assert info["max_timestamp"] == max(max(times), -1)

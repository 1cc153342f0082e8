"""Validation kernels never read outside the bytes, and reject wrong shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.formats.layout import BATCH
from kafkalog.validation.appends import APPEND, as_bytes
from tests.guarded import at_the_end, at_the_start
from tests.query.batches import KINDS, build
from tests.validation.appending import ROWS, T, batch, patched

ANY = (True, False, -1, False, 0, 2**63 - 1, 2**63 - 1)
SAMPLES = [
    batch(*ROWS),
    batch((b"k" * 70, b"v" * 9000, T)),
    *(build(magic, codec, 0) for magic, codec in KINDS),
]


def take(data, *, buffers=None, rules=ANY, rows=4, appends=1):
    """Validate bytes at the position of `data`; return the appends and rows taken."""
    accepted, filled, _ = _speedups.take_batches(
        [bytes(data)] if buffers is None else buffers,
        (False, False, False, True, -1, 2**63 - 1),
        rules,
        data,
        as_bytes(np.zeros(rows, BATCH)),
        as_bytes(np.zeros(appends, APPEND)),
        *np.zeros((2, appends + 1), np.int64),
    )
    return accepted, filled


@st.composite
def damaged(draw):
    """Draw a sample, truncated or with changed bytes, and a valid CRC."""
    data = bytearray(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(57, len(data) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.integers(61, len(data)))
    if data[16] != 2:
        return bytes(data[:cut])
    return patched(data[:cut], {"length": cut - 12})


@given(data=damaged() | st.binary(max_size=90))
def test_validation_never_reads_outside(data):
    for place in (at_the_end, at_the_start):
        for rules in (None, ANY):
            accepted, rows = take(place(data), rules=rules)
            assert 0 <= accepted <= 1
            assert 0 <= rows <= 4


@given(data=damaged(), start=st.integers(-3, 70), length=st.integers(-3, 300))
def test_surveys_never_read_outside(data, start, length):
    rows = np.zeros(1, BATCH)
    _speedups.scan_batches(np.frombuffer(data, np.uint8), 0, 0, rows)
    info = np.zeros(1, APPEND)
    accepted = _speedups.survey_batches(
        at_the_end(data),
        np.array([start, start + length]),
        as_bytes(rows),
        as_bytes(info),
        ANY,
    )
    assert accepted in (0, 1)


INT64S = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [-(2**63), -(2**63) + 1, -1, 0, T, 2**63 - 1]
)
LIMITS = st.integers(0, 2**63 - 1) | st.sampled_from([0, 1, T, 2**63 - 1])


def wrapped(value):
    """Return an integer as an int64 that overflowed."""
    return (value + 2**63) % 2**64 - 2**63


@given(now=INT64S, age=INT64S, before=LIMITS, after=LIMITS, shift=st.integers(-1, 1))
def test_the_range_of_timestamps_wraps_as_in_java(now, age, before, after, shift):
    for near in (age, before + shift, -after + shift):
        timestamp = wrapped(now - near)
        passed = wrapped(now - timestamp)
        invalid = passed > before or wrapped(-passed) > after
        faults = np.empty(1, np.uint8)
        _speedups.find_record_faults(
            as_bytes(np.zeros(1, BATCH)),
            np.zeros(1, np.int32),
            np.array([timestamp]),
            np.zeros(1, np.int64),
            (True, False, -1, False, now, before, after),
            faults,
        )
        expected = _speedups.RecordFault.TIMESTAMP * (invalid and timestamp != -1)
        assert faults.tolist() == [expected]


def test_the_accepted_appends_and_rows_are_counted():
    append = SAMPLES[0]
    whole = np.zeros(3 * len(append), np.uint8)
    buffers = [append, append[:-1] + b"x", append]
    assert take(whole, buffers=buffers, appends=3) == (1, 1)
    assert take(whole, buffers=[append] * 3, appends=3) == (3, 3)
    assert take(whole, buffers=[append] * 3, appends=3, rows=2) == (2, 2)


def test_the_kernel_stops_before_an_append_that_does_not_fit_the_data():
    append = SAMPLES[0]
    short = np.zeros(2 * len(append) - 1, np.uint8)
    assert take(short, buffers=[append] * 2, appends=2) == (1, 1)


def test_arrays_of_wrong_shapes_are_rejected():
    data = np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="bounds"):
        take(data, appends=2)
    with pytest.raises(ValueError, match="bounds"):
        take(data, buffers=[])
    with pytest.raises(TypeError):
        take(data, buffers=["text"])
    rows, info = as_bytes(np.zeros(1, BATCH)), as_bytes(np.zeros(1, APPEND))
    with pytest.raises(ValueError, match="bounds"):
        _speedups.survey_batches(data, np.zeros(1, np.int64), rows, info, ANY)
    bounds = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="appends"):
        _speedups.place_batches(rows, bounds, info, 0, 2, 9, data)


@pytest.mark.parametrize("position", [-1, 10, 2**62])
def test_a_batch_outside_the_data_is_not_written(position):
    rows, info = np.zeros(1, BATCH), np.zeros(1, APPEND)
    rows["position"], rows["size_in_bytes"] = position, 61
    data, bounds = np.zeros(70, np.uint8), np.array([0, 1])
    arrays = (as_bytes(rows), as_bytes(info))
    assert _speedups.stamp_batches(*arrays, False, 5, 5, data) == 0
    arrays = (as_bytes(rows), bounds, as_bytes(info))
    assert _speedups.place_batches(*arrays, 0, 1, 9, data) == -1
    assert not data.any()

"""Validation kernels never read outside the bytes, and reject wrong shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.formats.layout import BATCH
from kafkalog.validation.appends import APPEND
from tests.guarded import at_the_end, at_the_start
from tests.query.batches import KINDS, build
from tests.validation.appending import ROWS, T, batch, patched

ANY = (True, False, -1, False, 2**63 - 1, 2**63 - 1, 5)
SAMPLES = [
    batch(*ROWS),
    batch((b"k" * 70, b"v" * 9000, T)),
    *(build(magic, codec, 0) for magic, codec in KINDS),
]


def arrays_of(data, *, rows=4, appends=1):
    """Return the arrays for appends, without any."""
    bounds = np.zeros((2, appends + 1), np.int64)
    return data, np.zeros(rows, BATCH), *bounds, np.zeros(appends, APPEND)


def take(data, *, buffers=None, rules=ANY, rows=4, appends=1):
    """Validate bytes at the position of `data`; return the appends and rows taken."""
    accepted, filled, _ = _speedups.take_batches(
        [bytes(data)] if buffers is None else buffers,
        (False, False, False, True, -1, 2**63 - 1),
        rules,
        0,
        arrays_of(data, rows=rows, appends=appends),
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
    arrays = arrays_of(np.frombuffer(bytearray(data), np.uint8), rows=1)
    _speedups.scan_batches(arrays[0], 0, 0, arrays[1])
    bounds = np.array([start, start + length])
    accepted = _speedups.survey_batches(at_the_end(data), bounds, arrays, 0, ANY, 0)
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
            np.zeros(1, BATCH),
            np.zeros(1, np.int32),
            np.array([timestamp]),
            np.zeros(1, np.int64),
            (True, False, -1, False, before, after, 5),
            now,
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
    with pytest.raises(ValueError, match="1 buffers, expected 2: appends"):
        take(data, appends=2)
    with pytest.raises(ValueError, match="0 buffers, expected 1: appends"):
        take(data, buffers=[])
    with pytest.raises(TypeError):
        take(data, buffers=["text"])
    _, rows, bounds, _, info = arrays = arrays_of(data, rows=1)
    with pytest.raises(ValueError, match="2 and 1 bounds, expected 2: appends"):
        _speedups.place_batches((data, rows, bounds, bounds[1:], info), 0, 1, 9)
    for first, many in (0, np.zeros(3, np.int64)), (1, bounds), (-1, bounds):
        reason = f"1 rows and {len(many) - 1} bounded from {first}, expected 1 rows"
        with pytest.raises(ValueError, match=reason):
            _speedups.survey_batches(data, many, arrays, first, ANY, 0)
    with pytest.raises(ValueError, match="4 rows and 1 bounded from 0, expected 1"):
        _speedups.survey_batches(data, bounds, arrays_of(data), 0, ANY, 0)
    with pytest.raises(ValueError, match="appends 0 to 2, expected 0 to 1"):
        _speedups.place_batches(arrays, 0, 2, 9)
    with pytest.raises(ValueError, match="4 rows, expected 1: appends"):
        _speedups.stamp_batches(arrays_of(data), ANY, 5)
    with pytest.raises(ValueError, match="2 rows, expected 1"):
        _speedups.header_fault(np.zeros(2, BATCH))
    with pytest.raises(ValueError, match="rows of 1 bytes, expected 80"):
        _speedups.header_fault(data)


def test_a_header_that_cannot_be_written_is_not_filled():
    rows = np.zeros(1, BATCH)
    rows.flags.writeable = False
    required = (False, False, False, True, -1, 2**63 - 1)
    with pytest.raises(ValueError, match="read-only"):
        _speedups.read_required_entry(np.zeros(4, np.uint8), 0, required, -1, rows)


@pytest.mark.parametrize("position", [-1, 10, 2**62])
def test_a_batch_outside_the_data_is_not_written(position):
    data, rows, *_ = arrays = arrays_of(np.zeros(70, np.uint8), rows=1)
    rows["position"], rows["size_in_bytes"] = position, 61
    arrays[2][1] = 1
    assert _speedups.stamp_batches(arrays, ANY, 5) == 0
    assert _speedups.place_batches(arrays, 0, 1, 9) == -1
    assert not data.any()


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 3), (2, 1), (-(2**62), 2**62)])
def test_rows_outside_of_the_array_are_not_planned(bounds):
    arrays = arrays_of(np.zeros(70, np.uint8), rows=2)
    arrays[2][:] = bounds
    limits = (0, 0, 0, 2**30, 2**62, 0, 4096, 2**62)
    end = (0, 0, -1, 0, -1, -1, (9, b""), (9, b""))
    first, last = bounds
    with pytest.raises(ValueError, match=f"rows {first} to {last} of append 0"):
        _speedups.plan_run(arrays, 0, True, limits, end, None, 0)

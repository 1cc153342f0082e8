"""Encoding kernels never write outside, whatever their arguments."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalog import _speedups
from kafkalog.encoding.record_columns import ByteColumn, RecordColumns
from kafkalog.formats.layout import BATCH

ROWS = 6
GUARD = 0xA5


@pytest.fixture
def columns():
    offset = np.arange(ROWS, dtype=np.int64)
    values = ByteColumn.of([b"value %d" % i for i in range(ROWS)])
    return RecordColumns(offset, offset + 1000, ByteColumn.nulls(ROWS), values)


def measured(columns, bounds):
    rows = np.zeros(len(bounds) - 1, BATCH)
    payloads = np.zeros(len(rows), np.int64)
    bounds = np.array(bounds, np.int64)
    done = _speedups.measure_records(columns, bounds, rows, payloads)
    return done, rows, bounds, payloads


@pytest.mark.parametrize("bounds", [[0, 3, 9], [-1, 3], [1, 3], [0, 3, 2], [0, 2**62]])
def test_rows_outside_the_columns_are_not_measured(columns, bounds):
    done, *_ = measured(columns, bounds)
    assert done < ROWS


def test_written_records_have_the_measured_size(columns):
    done, rows, bounds, payloads = measured(columns, [0, 2, ROWS])
    assert done == ROWS
    out = np.full(payloads.sum() + 20, GUARD, np.uint8)
    starts = np.array([10, payloads[0] + 10])
    assert _speedups.write_records(columns, bounds, rows, starts, out) == ROWS
    assert (out[:10] == GUARD).all()
    assert (out[-10:] == GUARD).all()
    assert out[10] == 2 * (len(b"value 0") + 7)


@pytest.mark.parametrize("capacity", [0, 1, 14, 40])
def test_records_that_do_not_fit_are_not_written(columns, capacity):
    _, rows, bounds, payloads = measured(columns, [0, ROWS])
    assert payloads[0] > capacity
    out = np.full(capacity + 100, GUARD, np.uint8)
    starts = np.zeros(1, np.int64)
    done = _speedups.write_records(columns, bounds, rows, starts, out[:capacity])
    assert done < ROWS
    assert (out[capacity:] == GUARD).all()


@pytest.mark.parametrize("start", [-1, 10**6, 2**62])
def test_records_are_not_written_outside(columns, start):
    _, rows, bounds, payloads = measured(columns, [0, ROWS])
    out = np.empty(payloads[0], np.uint8)
    starts = np.array([start])
    assert _speedups.write_records(columns, bounds, rows, starts, out) == 0


@pytest.mark.parametrize(
    ("position", "size"), [(-1, 61), (40, 61), (0, 60), (0, 101), (2**62, 61)]
)
def test_headers_are_not_written_outside(position, size):
    rows = np.zeros(1, BATCH)
    rows["position"], rows["size_in_bytes"] = position, size
    out = np.full(100, GUARD, np.uint8)
    assert _speedups.write_headers(rows, out) == 0
    assert (out == GUARD).all()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("capacity", [0, 30, 100])
def test_messages_that_do_not_fit_are_not_written(columns, magic, capacity):
    out = np.full(capacity + 100, GUARD, np.uint8)
    done, size = _speedups.write_messages(*columns[:4], magic, 0, out[:capacity])
    assert done < ROWS
    assert size <= capacity
    assert (out[capacity:] == GUARD).all()


def test_arrays_of_different_lengths_are_rejected(columns):
    _, rows, bounds, payloads = measured(columns, [0, 2, ROWS])
    with pytest.raises(ValueError, match="bounds and"):
        _speedups.measure_records(columns, bounds[1:], rows, payloads)
    with pytest.raises(ValueError, match="bounds and"):
        _speedups.measure_records(columns, bounds, rows, payloads[1:])
    for short in ("timestamp", "key"):
        part = columns._asdict()
        part[short] = (
            columns.timestamp[1:] if short == "timestamp" else ByteColumn.nulls(2)
        )
        with pytest.raises(ValueError, match="one for each offset"):
            _speedups.measure_records(RecordColumns(**part), bounds, rows, payloads)
        with pytest.raises(ValueError, match="one for each offset"):
            _speedups.write_messages(
                *RecordColumns(**part)[:4], 1, 0, np.empty(0, np.uint8)
            )
    uneven = ByteColumn(
        columns.value.data, columns.value.start, columns.value.length[1:]
    )
    with pytest.raises(ValueError, match="starts and"):
        _speedups.write_messages(
            *columns._replace(value=uneven)[:4], 1, 0, np.empty(0, np.uint8)
        )

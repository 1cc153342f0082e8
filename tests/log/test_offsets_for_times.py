"""`offsets_for_times` returns the same for a log open for reading and for writing."""

import os
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from tests.log.writing import NOW, batch, load

SPECIAL = [-1, -2, -3, -4, -5, -6]


@pytest.fixture
def logs(tmp_path):
    """Return one log, open for writing and for reading, without its first records."""
    with load(tmp_path) as writable:
        for number in range(30):
            writable.append(batch(2, timestamp=NOW + 100 * number))
        writable.update_high_watermark(60)
        writable.delete_records(3)
        writable.delete_old_segments()
        (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
        with kafkalog.open(tmp_path / "t-0") as readable:
            yield writable, readable


@pytest.mark.parametrize("times", [[timestamp] for timestamp in SPECIAL] + [SPECIAL])
def test_times_before_1970_are_no_special_timestamps(logs, times):
    for log in logs:
        assert log.offsets_for_times(times).tolist() == [3] * len(times)
        dates = np.array(times, "datetime64[ms]")
        assert log.offsets_for_times(dates).tolist() == [3] * len(times)


def test_both_kinds_of_log_find_the_same_offset_for_any_time(logs):
    times = [-(2**63), -7, *SPECIAL, 0, *range(NOW - 1, NOW + 3002, 33), 2**63 - 1]
    writable, readable = logs
    found = writable.offsets_for_times(times)
    assert found.tolist() == readable.offsets_for_times(times).tolist()
    assert (found[0], found[-1]) == (3, -1)


def test_an_empty_log_has_no_offset_for_any_time(tmp_path):
    with load(tmp_path) as writable, kafkalog.open(tmp_path / "t-0") as readable:
        for log in (writable, readable):
            assert log.offsets_for_times([*SPECIAL, 0, NOW]).tolist() == [-1] * 8


def test_records_of_old_formats_are_found_by_time(tmp_path):
    with load(tmp_path) as writable, kafkalog.open(tmp_path / "t-0") as readable:
        writable.append_as_follower(batch(2, magic=1))
        times = [*SPECIAL, 0, NOW, NOW + 1, NOW + 2]
        for log in (writable, readable):
            assert log.offsets_for_times(times).tolist() == [0] * 8 + [1, -1]


def test_times_may_be_datetimes(logs):
    at = NOW + 1_000
    utc = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at)
    elsewhere = utc.astimezone(timezone(timedelta(hours=-7)))
    between = timedelta(microseconds=1)
    for log in logs:
        found = int(log.offsets_for_times(at))
        following = int(log.offsets_for_times(at + 1))
        assert found < following
        assert int(log.offsets_for_times(utc)) == found
        mixed = log.offsets_for_times([[utc, elsewhere], [at, utc + between]])
        assert mixed.tolist() == [[found, found], [found, following]]
        finer = np.array([at * 1000, at * 1000 + 1], "datetime64[us]")
        assert log.offsets_for_times(finer).tolist() == [found, following]


@pytest.mark.parametrize(
    ("time", "error"),
    [
        (datetime(2026, 1, 1), ValueError),
        (np.datetime64("NaT", "ms"), ValueError),
        (None, TypeError),
        ("2026-01-01T00:00", ValueError),
        ("yesteryear", ValueError),
        (True, TypeError),
        (1.5, TypeError),
    ],
)
def test_values_that_are_no_times_are_rejected(logs, time, error):
    for log in logs:
        with pytest.raises(error):
            log.offsets_for_times([time])


moments = st.integers(0, 60)


@given(
    batches=st.lists(st.tuples(moments, st.integers(1, 3)), max_size=20),
    asked=st.lists(moments, max_size=8),
)
def test_an_array_of_times_has_the_offsets_of_a_call_for_each_time(batches, asked):
    records = [moment + i for moment, count in batches for i in range(count)]
    times = [NOW + moment for moment in asked]
    with TemporaryDirectory() as root, load(Path(root)) as writable:
        for moment, count in batches:
            writable.append(batch(count, timestamp=NOW + moment, size=150))
        with kafkalog.open(f"{root}/t-0") as readable:
            for log in (readable, writable):
                one_by_one = [int(log.offsets_for_times(each)) for each in times]
                assert log.offsets_for_times(times).tolist() == one_by_one
            first = [
                next((at for at, other in enumerate(records) if other >= moment), -1)
                for moment in asked
            ]
            assert readable.offsets_for_times(times).tolist() == first


def test_the_directory_is_listed_once_for_an_array_of_times(logs, monkeypatch):
    writable, readable = logs
    long_ago = time.time() - 3600
    os.utime(readable.path, (long_ago, long_ago))
    listed, scandir, listdir = [], os.scandir, os.listdir
    monkeypatch.setattr(os, "scandir", lambda *at: listed.append(at) or scandir(*at))
    monkeypatch.setattr(os, "listdir", lambda *at: listed.append(at) or listdir(*at))
    times = np.arange(NOW, NOW + 3000, 50)
    found = readable.offsets_for_times(times)
    assert len(listed) == 1
    listed.clear()
    assert writable.offsets_for_times(times).tolist() == found.tolist()
    assert not listed


def test_damage_before_the_last_of_several_times_is_an_error(logs):
    _, readable = logs
    damaged = sorted(readable.path.glob("*.log"))[3]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    early = NOW + 50 * int(damaged.stem)
    assert readable.offsets_for_times([early]).tolist() == [int(damaged.stem)]
    for times in ([2**62], [early, 2**62], [2**62, early]):
        with pytest.raises(kafkalog.CorruptRecordError):
            readable.offsets_for_times(times)

"""Space is set aside behind a log's end, within bounds, and given back."""

from __future__ import annotations

import errno
import os

import pytest

from kafkalog import LogClosedError, LogConfig
from kafkalog.files.durable_file import Disk
from kafkalog.segment import segment_files
from kafkalog.segment.segment_files import MOST_AHEAD, SLACK_BYTES
from tests.disks import needs_space_ahead
from tests.log.writing import batch, files_of, load, offsets_in

LARGE = LogConfig(segment_bytes=1 << 30)
TIMELESS = {"timestamp": -1}


class ReservingDisk(Disk):
    """Notes from where to where space is asked for; says that it got none, or fails."""

    def __init__(self, error=0):
        self.asked = []
        self.error = error

    def reserve(self, file, start, length):
        self.asked.append((start, start + length))
        if self.error == errno.EIO:
            raise OSError(self.error, os.strerror(self.error), str(file.path))
        return super().reserve(file, start, length) and not self.error


def log_file(directory, base=0):
    return directory / "t-0" / f"{base:020}.log"


def surplus(path):
    found = path.stat()
    return found.st_blocks * 512 - found.st_size


def fill(log, count=4, size=200_000):
    for _ in range(count):
        log.append(batch(1, size=size))


@needs_space_ahead
def test_as_much_as_there_is_is_set_aside_but_not_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_files, "MOST_AHEAD", 1 << 20)
    disk = ReservingDisk()
    with load(tmp_path, LARGE, disk=disk) as log:
        sizes = []
        for _ in range(20):
            fill(log, 1)
            sizes.append(log.growing_segments[0].size)
            assert 0 <= disk.asked[-1][1] - sizes[-1] <= min(sizes[-1], 1 << 20)
        first = sizes[0]
        assert disk.asked[:3] == [
            *((0, 2 * first), (2 * first, 6 * first)),
            (6 * first, 7 * first + (1 << 20)),
        ]
        assert len(disk.asked) < 8
        assert log_file(tmp_path).stat().st_size == sizes[-1]


@needs_space_ahead
@pytest.mark.parametrize("how", ["roll", "close", "truncate", "recover"])
def test_space_is_given_back(tmp_path, how):
    log = load(tmp_path, LARGE)
    fill(log)
    path = log_file(tmp_path)
    assert surplus(path) > 2 * SLACK_BYTES
    content = files_of(tmp_path)[str(path.relative_to(tmp_path))]
    if how == "roll":
        log.roll()
    elif how == "close":
        log.close()
    elif how == "truncate":
        log.truncate_to(3)
        content = content[: len(content) // 4 * 3]
    else:
        log.abandon()
        assert surplus(path) > 2 * SLACK_BYTES
        log = load(tmp_path, LARGE, clean=False)
    assert surplus(path) <= SLACK_BYTES
    assert path.read_bytes() == content
    log.close()


@needs_space_ahead
def test_what_was_truncated_has_space_set_aside_anew(tmp_path):
    disk = ReservingDisk()
    with load(tmp_path, LARGE, disk=disk) as log:
        fill(log)
        log.truncate_to(1)
        asked, size = len(disk.asked), log.growing_segments[0].size
        fill(log, 1)
        assert disk.asked[asked:] == [(size, 4 * size)]
        assert offsets_in(log) == [0, 1]


@pytest.mark.parametrize("how", ["roll", "close"])
def test_giving_back_changes_no_time(tmp_path, how):
    log = load(tmp_path, LARGE)
    for _ in range(4):
        log.append(batch(1, size=200_000, **TIMELESS))
    path, then_ms = log_file(tmp_path), 1_600_000_000_123
    os.utime(path, ns=(then_ms * 10**6, then_ms * 10**6))
    getattr(log, how)()
    assert path.stat().st_mtime_ns == then_ms * 10**6
    log.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_where_there_is_none_it_is_not_asked_for_again(tmp_path, error):
    disk = ReservingDisk(error)
    with load(tmp_path, LARGE, disk=disk) as log:
        fill(log)
        assert len(disk.asked) == 1
        log.roll()
        fill(log)
        assert len(disk.asked) == 2
        assert offsets_in(log) == list(range(8))


def test_a_fault_closes_the_log_and_is_told(tmp_path):
    disk = ReservingDisk(errno.EIO)
    log = load(tmp_path, LARGE, disk=disk)
    with pytest.raises(OSError, match="Input/output"):
        log.append(batch())
    with pytest.raises(LogClosedError):
        log.append(batch())
    log.abandon()
    with load(tmp_path, LARGE, clean=False) as log:
        assert log.log_end_offset == 0


def test_files_are_the_same_as_without(tmp_path, monkeypatch):
    trees = []
    for name, most in (("with", MOST_AHEAD), ("without", 0)):
        monkeypatch.setattr(segment_files, "MOST_AHEAD", most)
        home = tmp_path / name
        home.mkdir()
        with load(home, LogConfig(internal_segment_bytes=500_000)) as log:
            fill(log, 7)
            log.truncate_to(6)
            fill(log, 2)
        trees.append(files_of(home))
    assert trees[0] == trees[1]

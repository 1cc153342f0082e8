"""A log of many segments has few open files, and loses nothing when it closes them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import kafkalog
from kafkalog.errors import LogStateError
from kafkalog.indexes import growing_index
from kafkalog.indexes.growing_index import MOST_OPEN
from kafkalog.indexes.growing_offset_index import GrowingOffsetIndex
from kafkalog.segment import open_files
from kafkalog.segment.open_files import OpenFiles
from kafkalog.testing import FailingDisk, ManualClock, ManualScheduler, TracingDisk
from tests.log.writing import NOW, SMALL, batch, load, offsets_in

SEGMENTS = open_files.MOST + 50


KEEPS_LITTLE = SMALL.with_changes({"retention.bytes": "0"})


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def open_names():
    return [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]


class Holder:
    def __init__(self):
        self.released = 0

    def release(self):
        self.released += 1


def test_the_least_recently_used_file_is_closed():
    first, second, third = Holder(), Holder(), Holder()
    files = OpenFiles(most=2)
    for segment in (first, second, first, third):
        files.use(segment)
    assert [segment.released for segment in (first, second, third)] == [0, 1, 0]
    files.forget(first)
    files.use(second)
    assert first.released == third.released == 0


def test_many_segments_are_written_and_read_with_few_open_files(tmp_path):
    disk, before = TracingDisk(), descriptors()
    with load(tmp_path, disk=disk) as log:
        for _ in range(SEGMENTS):
            log.append(batch())
            log.roll()
        assert descriptors() - before < open_files.MOST + 10
        for offset in range(log.log_end_offset):
            assert log.read(offset, max_bytes=1).next_offset == offset + 1
        assert descriptors() - before < open_files.MOST + 10
    assert descriptors() <= before  # files of other tests may be closed meanwhile


def test_a_segment_that_is_split_is_closed(tmp_path):
    path, before = tmp_path / "t-0" / f"{0:020d}.log", descriptors()
    path.parent.mkdir()
    path.write_bytes(batch(base_offset=0) + batch(base_offset=2**31))
    log = load(tmp_path, clean=False)
    assert log.report.split == [0]
    log.abandon()
    assert descriptors() <= before


def test_a_segment_that_cannot_be_split_is_closed(tmp_path):
    path, before = tmp_path / "t-0" / f"{0:020d}.log", descriptors()
    path.parent.mkdir()
    whole = batch(base_offset=0) + batch(base_offset=2**31)
    path.write_bytes(whole + batch(base_offset=2**31 + 1)[:-1])
    with pytest.raises(LogStateError, match="no complete batch"):
        load(tmp_path, clean=False)
    assert descriptors() <= before


def test_a_file_is_forced_to_disk_before_it_is_closed(tmp_path):
    disk = TracingDisk()
    with load(tmp_path, disk=disk) as log:
        for _ in range(SEGMENTS):
            log.append(batch())
            log.roll()
        forced = {call[1] for call in disk.calls_of("sync")}
        first, *_, last = log.growing_segments
        assert first.path.name in forced
        assert last.path.name not in forced


def test_a_segment_that_was_closed_is_trimmed(tmp_path):
    log = load(tmp_path, SMALL.with_changes({"preallocate": "true"}))
    log.append(batch())
    segment = log.growing_segments[0]
    size = segment.size
    segment.release()
    assert segment.path.stat().st_size > size
    log.close()
    assert segment.path.stat().st_size == size


def test_few_indexes_stay_mapped(tmp_path):
    before, size = descriptors(), 2 * growing_index.SMALL_BYTES
    indexes = [
        GrowingOffsetIndex(tmp_path / f"{base}.index", base, size)
        for base in range(MOST_OPEN + 50)
    ]
    for index in indexes:
        index.append(index.base_offset + 1, 5)
        index.close_handle()
    opened = [GrowingOffsetIndex(one.path, one.base_offset, size) for one in indexes]
    for _ in range(2):
        for index in opened:
            index.lookup(index.base_offset)
    assert descriptors() - before <= MOST_OPEN
    for index in opened:
        index.close_handle()
    assert descriptors() <= before  # files of other tests may be closed meanwhile


def test_a_rolled_segment_is_closed_once_it_is_on_disk(tmp_path):
    scheduler = ManualScheduler(ManualClock(NOW))
    with load(tmp_path, scheduler=scheduler) as log:
        for _ in range(4):
            log.append(batch())
            log.roll()
        before = descriptors()
        scheduler.run_due()
        assert descriptors() == before - 4
        assert offsets_in(log) == [0, 1, 2, 3]


PARTITIONS = """
import resource, sys
from pathlib import Path
from kafkalog import LogConfig, LogManager, RecordBatchBuilder

resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
builder = RecordBatchBuilder()
builder.append(b"key", bytes(100), timestamp=1_700_000_000_000)
batch = builder.build()
config = LogConfig(index_interval_bytes=0, retention_ms=-1)
manager = LogManager(sys.argv[1], config)
logs = [manager.open("t", number) for number in range(400)]
for _ in range(3):
    for log in logs:
        log.append(batch)
        log.append_many([batch] * 2)
for log in logs:
    assert log.log_end_offset == 9
    assert log.find_offset(1_700_000_000_000).offset == 0
print(len(list(Path("/proc/self/fd").iterdir())))
manager.abandon()
"""


def test_400_partitions_are_written_by_a_process_that_may_open_1024_files(tmp_path):
    command = [sys.executable, "-c", PARTITIONS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400 + 2 * MOST_OPEN + 20


def test_a_closed_log_holds_no_file_of_its_deleted_segments_open(tmp_path):
    before = descriptors()
    for _ in range(50):
        with kafkalog.open(tmp_path / "t-0", "a", KEEPS_LITTLE) as log:
            assert not list(log.path.glob("*.deleted"))  # those of the last cycle
            log.append(batch())
            log.roll()
            log.update_high_watermark(log.log_end_offset)
            assert log.delete_old_segments() == 1
        assert list(log.path.glob("*.log.deleted"))
    assert descriptors() <= before  # files of other tests may be closed meanwhile


@pytest.mark.parametrize(
    "remove",
    [
        lambda log: log.delete_old_segments(),
        lambda log: log.truncate_to(0),
        lambda log: log.truncate_fully(7),
        lambda log: log.roll(),  # in place of the active segment, which is empty
    ],
    ids=["retention", "truncation", "full truncation", "roll"],
)
def test_segments_marked_as_deleted_have_no_open_files(tmp_path, remove):
    with load(tmp_path, KEEPS_LITTLE) as log:
        log.append(batch())
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        for segment in log.growing_segments:
            segment.make_indexes()
        remove(log)
        assert list(log.path.glob("*.log.deleted"))
        assert not [name for name in open_names() if name.endswith(".deleted")]


def test_a_disk_that_fails_while_segments_are_removed_leaves_no_file_open(tmp_path):
    for call in count():
        before, disk = descriptors(), FailingDisk()
        (tmp_path / str(call)).mkdir()
        log = load(tmp_path / str(call), KEEPS_LITTLE, disk=disk)
        log.append(batch())
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        disk.fail_at = len(disk.calls) + call
        with suppress(OSError):
            log.delete_old_segments()
        log.abandon()
        assert descriptors() <= before
        if len(disk.calls) <= disk.fail_at:
            break
    assert call > 3

"""Logs that are followed poll by poll: no appended record is missed."""

import os

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.query.scan import scan
from kafkalog.query.sources import bounds_of, find_sources
from kafkalog.query.tailing import Follower, last_records

NOW = 1_700_000_000_000


def batch(offset, value, *, magic=2):
    """Return a batch of one record; all batches have the same size."""
    builder = RecordBatchBuilder(base_offset=offset, magic=magic)
    builder.append(None, b"%s-%03d" % (value, offset), timestamp=NOW)
    return builder.build()


class WrittenLog:
    """A log of one segment with batches of one record."""

    def __init__(self, place, *, magic=2, lone=False):
        place.mkdir()
        self.path = place / "00000000000000000000.log"
        self.followed = self.path if lone else place
        self._magic = magic
        self.path.touch()

    def append(self, value, *offsets):
        with self.path.open("ab") as file:
            for offset in offsets:
                file.write(batch(offset, value, magic=self._magic))

    def truncate(self, batches):
        """Truncate the log after `batches` batches; the file stays the same."""
        os.truncate(self.path, batches * len(batch(0, b"old", magic=self._magic)))


class Polls:
    """A follower, which returns the values of each poll and collects notices."""

    def __init__(self, path, count=1000):
        def parts():
            return [
                (p, bounds_of(p, None, None, (None, None))) for p in find_sources(path)
            ]

        self._follower = Follower(last_records(scan(path), count), parts)
        self._poll = self._follower.first_poll
        self.notices = []

    def poll(self):
        read = []
        for found in self._poll():
            if isinstance(found, str):
                self.notices.append(found.partition(": ")[0])
            else:
                read += found.value.to_list()
        self._poll = self._follower.poll
        return [value.decode() for value in read]


def values(value, *offsets):
    return [f"{value}-{offset:03d}" for offset in offsets]


@pytest.fixture(params=["directory", "lone file"])
def lone(request):
    return request.param == "lone file"


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_replaced_batches_are_returned_after_a_truncation_if_the_log_grew(
    tmp_path, magic, lone
):
    log = WrittenLog(tmp_path / "t-0", magic=magic, lone=lone)
    log.append(b"old", *range(6))
    polls = Polls(log.followed)
    assert polls.poll() == values("old", *range(6))
    log.truncate(3)
    log.append(b"new", *range(3, 8))
    assert polls.poll() == values("new", *range(3, 8))
    assert polls.notices == ["log was truncated to offset 3"]
    assert polls.poll() == []


def test_replaced_batches_are_returned_after_a_truncation_if_the_log_shrank(
    tmp_path, lone
):
    log = WrittenLog(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(8))
    polls = Polls(log.followed)
    polls.poll()
    log.truncate(2)
    log.append(b"new", 2)
    assert polls.poll() == values("new", 2)
    assert polls.notices == ["log was truncated to offset 2"]


def test_replaced_batches_of_the_same_size_and_time_are_returned(tmp_path, lone):
    log = WrittenLog(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(6))
    polls = Polls(log.followed)
    polls.poll()
    before = log.path.stat()
    log.truncate(4)
    log.append(b"new", 4, 5)
    os.utime(log.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert polls.poll() == values("new", 4, 5)
    assert polls.notices == ["log was truncated to offset 4"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_truncation_below_the_start_is_found(tmp_path, count, lone):
    log = WrittenLog(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(20))
    polls = Polls(log.followed, count)
    assert polls.poll() == values("old", *range(20 - count, 20))
    log.truncate(15)
    log.append(b"new", *range(15, 25))
    assert polls.poll() == values("new", *range(15, 25))


def test_no_new_record_is_missed_after_a_truncation_below_the_recorded_batches(
    tmp_path,
):
    log = WrittenLog(tmp_path / "t-0")
    log.append(b"old", *range(1000))
    polls = Polls(log.followed)
    polls.poll()
    log.truncate(400)
    log.append(b"new", *range(400, 1100))
    read = polls.poll()
    assert read[-700:] == values("new", *range(400, 1100))
    assert 200 <= int(read[0].partition("-")[2]) <= 400


def test_a_log_that_was_created_again_is_returned_from_its_start(tmp_path, lone):
    log = WrittenLog(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(6))
    polls = Polls(log.followed)
    polls.poll()
    log.path.unlink()
    log.append(b"new", *range(9))
    assert polls.poll() == values("new", *range(9))
    assert polls.notices == ["log was truncated to offset 0"]


def test_an_emptied_file_is_reported_and_returned_from_its_start(tmp_path):
    log = WrittenLog(tmp_path / "t-0", lone=True)
    log.append(b"old", *range(6))
    log.followed = log.path = log.path.rename(log.path.with_name("copy.log"))
    polls = Polls(log.followed)
    polls.poll()
    log.truncate(0)
    assert polls.poll() == []
    assert polls.notices == ["log was emptied"]
    log.append(b"new", 0, 1)
    assert polls.poll() == values("new", 0, 1)
    assert polls.notices == ["log was emptied"]


def test_a_compacted_segment_is_no_truncation(tmp_path):
    log = WrittenLog(tmp_path / "t-0")
    log.append(b"old", *range(6))
    polls = Polls(log.followed)
    polls.poll()
    log.path.write_bytes(b"".join(batch(at, b"old") for at in (0, 2, 5)))
    newer = log.path.with_name(f"{6:020d}.log")
    newer.write_bytes(batch(6, b"new"))
    assert polls.poll() == values("new", 6)
    assert polls.notices == []


def test_a_compacted_batch_with_fewer_records_is_no_truncation(tmp_path):
    log = WrittenLog(tmp_path / "t-0")
    log.append(b"old", *range(4))
    several = RecordBatchBuilder(base_offset=4)
    fewer = RecordBatchBuilder(base_offset=4)
    for offset in (4, 5):
        several.append(None, b"old-%03d" % offset, timestamp=NOW)
    fewer.append(None, b"old-004", timestamp=NOW)
    before = log.path.read_bytes()
    log.path.write_bytes(before + several.build())
    polls = Polls(log.followed)
    assert polls.poll() == values("old", *range(6))
    log.path.write_bytes(before + fewer.build())
    log.path.with_name(f"{6:020d}.log").write_bytes(batch(6, b"new"))
    assert polls.poll() == values("new", 6)
    assert polls.notices == []


def test_a_truncation_followed_by_a_new_segment_is_found(tmp_path):
    log = WrittenLog(tmp_path / "t-0")
    log.append(b"old", *range(6))
    polls = Polls(log.followed)
    polls.poll()
    log.truncate(3)
    log.append(b"new", *range(3, 6))
    log.path.with_name(f"{6:020d}.log").write_bytes(batch(6, b"new"))
    assert polls.poll() == values("new", *range(3, 7))
    assert polls.notices == ["log was truncated to offset 3"]


def test_segments_deleted_by_retention_are_no_truncation(tmp_path):
    log = WrittenLog(tmp_path / "t-0")
    log.append(b"old", *range(6))
    polls = Polls(log.followed)
    polls.poll()
    log.path.rename(log.path.with_name(f"{log.path.name}.deleted"))
    log.path.with_name(f"{6:020d}.log").write_bytes(batch(6, b"new"))
    assert polls.poll() == values("new", 6)
    assert polls.notices == []

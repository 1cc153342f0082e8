"""Logs that are followed look by look: nothing that comes is lost, whatever went."""

import os

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.query.scan import scan
from kafkalog.query.sources import bounds_of, find_sources
from kafkalog.query.tailing import Follower, last_records

NOW = 1_700_000_000_000


def encoded(offset, value, *, magic=2):
    """Encode a batch of one record; every batch of a value takes as many bytes."""
    batch = RecordBatchBuilder(base_offset=offset, magic=magic)
    batch.append(None, b"%s-%03d" % (value, offset), timestamp=NOW)
    return batch.build()


class Written:
    """A log of one segment, of which a test knows every batch."""

    def __init__(self, place, *, magic=2, lone=False):
        place.mkdir()
        self.path = place / "00000000000000000000.log"
        self.followed = self.path if lone else place
        self._magic = magic
        self.path.touch()

    def append(self, value, *offsets):
        with self.path.open("ab") as file:
            for offset in offsets:
                file.write(encoded(offset, value, magic=self._magic))

    def cut(self, batches):
        """Cut the log behind so many batches, as its file stays the same."""
        os.truncate(self.path, batches * len(encoded(0, b"old", magic=self._magic)))


class Looks:
    """A follower, asked look by look for values, and for what it told."""

    def __init__(self, path, count=1000):
        def parts():
            return [
                (p, bounds_of(p, None, None, (None, None))) for p in find_sources(path)
            ]

        self._follower = Follower(last_records(scan(path), count), parts)
        self._looks = self._follower.first_poll
        self.told = []

    def take(self):
        values = []
        for found in self._looks():
            if isinstance(found, str):
                self.told.append(found.partition(": ")[0])
            else:
                values += found.value.to_list()
        self._looks = self._follower.poll
        return [value.decode() for value in values]


def spelled(value, *offsets):
    return [f"{value}-{offset:03d}" for offset in offsets]


@pytest.fixture(params=["directory", "lone file"])
def lone(request):
    return request.param == "lone file"


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_replaces_a_part_that_was_cut_is_given_though_the_log_grew(
    tmp_path, magic, lone
):
    log = Written(tmp_path / "t-0", magic=magic, lone=lone)
    log.append(b"old", *range(6))
    looks = Looks(log.followed)
    assert looks.take() == spelled("old", *range(6))
    log.cut(3)
    log.append(b"new", *range(3, 8))
    assert looks.take() == spelled("new", *range(3, 8))
    assert looks.told == ["it was truncated to offset 3"]
    assert looks.take() == []


def test_what_replaces_a_part_that_was_cut_is_given_though_the_log_shrank(
    tmp_path, lone
):
    log = Written(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(8))
    looks = Looks(log.followed)
    looks.take()
    log.cut(2)
    log.append(b"new", 2)
    assert looks.take() == spelled("new", 2)
    assert looks.told == ["it was truncated to offset 2"]


def test_what_replaces_as_many_bytes_at_the_same_time_is_given(tmp_path, lone):
    log = Written(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(6))
    looks = Looks(log.followed)
    looks.take()
    before = log.path.stat()
    log.cut(4)
    log.append(b"new", 4, 5)
    os.utime(log.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert looks.take() == spelled("new", 4, 5)
    assert looks.told == ["it was truncated to offset 4"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_cut_below_where_following_began_is_seen(tmp_path, count, lone):
    log = Written(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(20))
    looks = Looks(log.followed, count)
    assert looks.take() == spelled("old", *range(20 - count, 20))
    log.cut(15)
    log.append(b"new", *range(15, 25))
    assert looks.take() == spelled("new", *range(15, 25))


def test_of_a_cut_farther_back_than_is_remembered_nothing_new_is_lost(tmp_path):
    log = Written(tmp_path / "t-0")
    log.append(b"old", *range(1000))
    looks = Looks(log.followed)
    looks.take()
    log.cut(400)
    log.append(b"new", *range(400, 1100))
    given = looks.take()
    assert given[-700:] == spelled("new", *range(400, 1100))
    assert 200 <= int(given[0].partition("-")[2]) <= 400


def test_a_log_made_again_is_given_from_its_start(tmp_path, lone):
    log = Written(tmp_path / "t-0", lone=lone)
    log.append(b"old", *range(6))
    looks = Looks(log.followed)
    looks.take()
    log.path.unlink()
    log.append(b"new", *range(9))
    assert looks.take() == spelled("new", *range(9))
    assert looks.told == ["it was truncated to offset 0"]


def test_a_file_that_is_emptied_is_told_so_and_given_anew(tmp_path):
    log = Written(tmp_path / "t-0", lone=True)
    log.append(b"old", *range(6))
    log.followed = log.path = log.path.rename(log.path.with_name("copy.log"))
    looks = Looks(log.followed)
    looks.take()
    log.cut(0)
    assert looks.take() == []
    assert looks.told == ["it was emptied"]
    log.append(b"new", 0, 1)
    assert looks.take() == spelled("new", 0, 1)
    assert looks.told == ["it was emptied"]


def test_a_sealed_segment_that_is_compacted_is_no_cut(tmp_path):
    log = Written(tmp_path / "t-0")
    log.append(b"old", *range(6))
    looks = Looks(log.followed)
    looks.take()
    log.path.write_bytes(b"".join(encoded(at, b"old") for at in (0, 2, 5)))
    newer = log.path.with_name(f"{6:020d}.log")
    newer.write_bytes(encoded(6, b"new"))
    assert looks.take() == spelled("new", 6)
    assert looks.told == []


def test_a_compacted_batch_with_fewer_records_is_no_cut(tmp_path):
    log = Written(tmp_path / "t-0")
    log.append(b"old", *range(4))
    several = RecordBatchBuilder(base_offset=4)
    fewer = RecordBatchBuilder(base_offset=4)
    for offset in (4, 5):
        several.append(None, b"old-%03d" % offset, timestamp=NOW)
    fewer.append(None, b"old-004", timestamp=NOW)
    before = log.path.read_bytes()
    log.path.write_bytes(before + several.build())
    looks = Looks(log.followed)
    assert looks.take() == spelled("old", *range(6))
    log.path.write_bytes(before + fewer.build())
    log.path.with_name(f"{6:020d}.log").write_bytes(encoded(6, b"new"))
    assert looks.take() == spelled("new", 6)
    assert looks.told == []


def test_a_cut_that_was_written_over_across_a_new_segment_is_seen(tmp_path):
    log = Written(tmp_path / "t-0")
    log.append(b"old", *range(6))
    looks = Looks(log.followed)
    looks.take()
    log.cut(3)
    log.append(b"new", *range(3, 6))
    log.path.with_name(f"{6:020d}.log").write_bytes(encoded(6, b"new"))
    assert looks.take() == spelled("new", *range(3, 7))
    assert looks.told == ["it was truncated to offset 3"]


def test_segments_that_retention_deletes_are_no_cut(tmp_path):
    log = Written(tmp_path / "t-0")
    log.append(b"old", *range(6))
    looks = Looks(log.followed)
    looks.take()
    log.path.rename(log.path.with_name(f"{log.path.name}.deleted"))
    log.path.with_name(f"{6:020d}.log").write_bytes(encoded(6, b"new"))
    assert looks.take() == spelled("new", 6)
    assert looks.told == []

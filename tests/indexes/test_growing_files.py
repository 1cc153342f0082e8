"""The files of indexes that are appended to: created, trimmed, opened again."""

import threading
from struct import Struct

import numpy as np
import pytest

from kafkalog.errors import (
    IndexFullError,
    LogArgumentError,
    LogClosedError,
)
from kafkalog.storage.durable_file import Disk, DurableFile
from kafkalog.testing import FailingDisk, TracingDisk
from tests.indexes.growing import (
    BASE,
    LARGE,
    append_each,
    filled,
    offset_index,
    time_index,
)

SLOT = Struct(">ii")


class MeetingDisk(Disk):
    """A disk whose writes wait until a reader has read."""

    def __init__(self):
        self.writes, self.was_read = threading.Event(), threading.Event()

    def write_each(self, writes):
        self.writes.set()
        assert self.was_read.wait(10)
        super().write_each(writes)


def test_the_file_is_created_at_the_first_use(tmp_path):
    index = offset_index(tmp_path, max_bytes=1001)
    assert not index.is_loaded
    assert not index.path.exists()
    assert not index.is_full
    assert index.is_loaded
    assert index.path.stat().st_size == 1000
    assert (index.entry_count, index.max_entries) == (0, 125)
    assert index.size_in_bytes == 1000
    assert time_index(tmp_path, 1001).size_in_bytes == 996


@pytest.mark.parametrize(
    "act",
    [
        lambda index: index.close(),
        lambda index: index.close_handle(),
        lambda index: index.remove(),
        lambda index: index.rename(index.path.with_suffix(".index.deleted")),
        lambda index: index.move_to(index.path.parent),
    ],
)
def test_methods_about_names_create_no_file(tmp_path, act):
    index = offset_index(tmp_path)
    act(index)
    assert not index.is_loaded
    assert list(tmp_path.iterdir()) == []


def test_a_limit_below_one_entry_is_rejected_after_the_file_is_created(tmp_path):
    with pytest.raises(IndexFullError, match="expected at least"):
        assert offset_index(tmp_path, max_bytes=7).is_full
    again = offset_index(tmp_path, max_bytes=7)
    assert again.is_full
    assert (again.entry_count, again.max_entries) == (0, 0)


def test_closing_trims_the_file_and_opening_reads_it(tmp_path):
    index = filled(tmp_path, [(510, 40), (520, 80)])
    index.close()
    index.close()
    assert index.path.stat().st_size == 16
    again = offset_index(tmp_path)
    assert again.last_offset == 520
    assert again.is_full
    assert [again.entry(0), again.entry(1)] == [(510, 40), (520, 80)]
    with pytest.raises(LogArgumentError, match="entry 2, expected"):
        again.entry(2)


def test_a_file_that_was_not_closed_is_taken_to_be_full(tmp_path):
    index = filled(tmp_path, [(510, 40), (520, 80)])
    index.close_handle()
    again = offset_index(tmp_path)
    assert again.is_full
    assert again.entry_count == 125
    assert again.last_offset == BASE  # zeros
    again.reset()
    assert again.entry_count == 0
    again.append(511, 30)
    assert again.lookup(600) == (511, 30)


def test_a_resized_index_keeps_its_entries(tmp_path):
    filled(tmp_path, [(510, 40), (520, 80)]).close()
    index = offset_index(tmp_path)
    assert index.resize(1000)
    assert not index.resize(1003)
    assert (index.entry_count, index.max_entries) == (2, 125)
    index.append(530, 120)
    index.close()
    expected = Struct(">6i").pack(10, 40, 20, 80, 30, 120)
    assert index.path.read_bytes() == expected


def test_a_limit_below_the_entries_is_rejected(tmp_path):
    filled(tmp_path, [(510, 40), (520, 80)]).close()
    with pytest.raises(IndexFullError, match="2 entries, expected at most 1"):
        offset_index(tmp_path).resize(8)


def test_truncated_entries_stay_in_the_file_until_it_is_trimmed(tmp_path):
    index = filled(tmp_path, [(510, 40), (520, 80), (530, 120)])
    index.truncate_to(520)
    index.resize(1000)
    assert index.path.read_bytes()[:24].hex(" ", 4) == (
        "0000000a 00000028 00000014 00000050 0000001e 00000078"
    )
    index.append(525, 90)
    assert index.path.read_bytes()[:24].hex(" ", 4) == (
        "0000000a 00000028 00000019 0000005a 0000001e 00000078"
    )
    assert index.lookup(1000) == (525, 90)
    index.trim()
    assert index.path.stat().st_size == 16


def test_a_closed_index_raises_an_error(tmp_path):
    index = filled(tmp_path, [(510, 40)])
    index.close()
    assert index.last_offset == 510
    index.trim()
    for act in (
        lambda: index.append(511, 50),
        lambda: index.lookup(511),
        lambda: index.resize(0),
        index.flush,
        index.reset,
    ):
        with pytest.raises(LogClosedError, match="closed"):
            act()


def test_files_are_renamed_and_removed_loaded_or_not(tmp_path):
    index = filled(tmp_path, [(510, 40)])
    target = tmp_path / "500.index.deleted"
    index.rename(target)
    assert index.path == target
    index.append(511, 50)
    index.flush()
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert index.remove()
    assert not index.remove()
    with pytest.raises(FileNotFoundError):
        index.rename(tmp_path / "gone")
    unloaded = offset_index(tmp_path)
    unloaded.path.write_bytes(b"12345678")
    unloaded.rename(target)
    assert target.read_bytes() == b"12345678"
    with pytest.raises(FileNotFoundError):
        unloaded.rename(tmp_path / "no" / "such" / "directory")


def test_a_directory_may_be_renamed_under_an_index(tmp_path):
    (tmp_path / "a").mkdir()
    index = filled(tmp_path / "a", [(510, 40)])
    (tmp_path / "a").rename(tmp_path / "b")
    index.move_to(tmp_path / "b")
    index.append(511, 50)
    index.close()
    assert (tmp_path / "b" / "500.index").stat().st_size == 16


def test_many_entries_take_one_write_and_lookups_none(tmp_path):
    disk = TracingDisk()
    index = offset_index(tmp_path, disk=disk)
    index.extend(Struct(">6i").pack(10, 40, 20, 80, 30, 120))
    index.append(540, 160)
    assert disk.calls == [
        ("open", "500.index"),
        ("open", "500.index"),
        ("truncate", "500.index", 1000),
        ("write", "500.index", 0, 24),
        ("write", "500.index", 24, 8),
    ]
    times = time_index(tmp_path, disk=disk)
    disk.calls.clear()
    times.extend(Struct(">qiqi").pack(7, 10, 9, 30))
    assert disk.calls_of("write") == [("write", "500.timeindex", 0, 24)]


def test_an_index_is_synced_only_after_a_change(tmp_path):
    disk = TracingDisk()
    index = filled(tmp_path, [(510, 40)], disk=disk)
    index.flush()
    index.flush()
    assert len(disk.calls_of("sync")) == 1
    index.append(511, 50)
    index.flush()
    assert len(disk.calls_of("sync")) == 2
    index.trim()
    index.flush()
    assert len(disk.calls_of("sync")) == 3
    again = offset_index(tmp_path, disk=disk)
    again.flush()  # who knows whether it was
    assert len(disk.calls_of("sync")) == 4


@pytest.mark.parametrize("max_bytes", [1000, LARGE])
def test_opening_reads_one_entry_and_closes_the_file(tmp_path, max_bytes):
    index = offset_index(tmp_path, max_bytes)
    count = max_bytes // 8
    append_each(index, BASE + 1 + np.arange(count), np.arange(count) + 1)
    index.close()
    disk = TracingDisk()
    again = offset_index(tmp_path, disk=disk)
    assert again.last_offset == BASE + count
    assert again.lookup(BASE + 7) == (BASE + 7, 7)
    assert again._file is None
    assert [call[0] for call in disk.calls] == ["open", "open"]


@pytest.mark.parametrize("step", range(8))
def test_an_index_can_be_used_after_a_disk_error(tmp_path, step):
    """Entries count once they are written; a failed call can be repeated."""
    disk = FailingDisk(step)
    index = offset_index(tmp_path, disk=disk)
    todo = [
        lambda: index.append(510, 40),
        lambda: index.extend(Struct(">4i").pack(20, 80, 30, 120)),
        index.flush,
        lambda: index.truncate_to(530),
        lambda: index.append(540, 160),
        index.flush,
    ]
    failures = 0
    while todo:
        try:
            todo[0]()
        except OSError:
            failures += 1
            if index.path.exists() and not index.path.stat().st_size:
                index.path.unlink()  # created, without its size yet
        else:
            todo.pop(0)
    assert failures == 1
    index.close()
    expected = Struct(">6i").pack(10, 40, 20, 80, 40, 160)
    assert index.path.read_bytes() == expected


def test_lookups_run_while_the_index_is_appended_to_and_truncated(tmp_path):
    index = offset_index(tmp_path, LARGE)
    wrong, done = [], threading.Event()

    def ask():
        while not done.is_set():
            offset, position = index.lookup(BASE + 5000)
            bound = index.fetch_upper_bound(0, 1)
            if position != 3 * (offset - BASE) or bound not in (None, BASE + 1):
                wrong.append((offset, position, bound))

    readers = [threading.Thread(target=ask) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        append_each(index, BASE + 1 + np.arange(800), 3 + 3 * np.arange(800))
        for offset in range(801, 901):
            index.extend(SLOT.pack(offset, 3 * offset))
        index.trim()
        index.truncate_to(BASE + 400)
        index.resize(LARGE)
        index.append(BASE + 450, 3 * 450)
        index.reset()
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


@pytest.mark.parametrize(("size", "way"), [(80, "read"), (LARGE, "map")])
def test_an_entry_is_written_while_a_reader_opens_the_file_and_closes_it(
    tmp_path, monkeypatch, size, way
):
    disk, full = MeetingDisk(), np.arange(size // 8)
    append_each(offset_index(tmp_path, size), BASE + full, 3 * full)
    index = offset_index(tmp_path, size, disk=disk)
    last = index.last_offset
    index.truncate_to(last)
    writer = threading.Thread(target=index.extend, args=(SLOT.pack(last - BASE, 7),))
    look = getattr(DurableFile, way)

    def meet(*args):
        monkeypatch.undo()
        writer.start()
        assert disk.writes.wait(10)
        return look(*args)

    monkeypatch.setattr(DurableFile, way, meet)
    assert index.lookup(BASE + 2) == (BASE + 2, 6)
    disk.was_read.set()
    writer.join()
    assert index.lookup(last) == (last, 7)
    index.close()

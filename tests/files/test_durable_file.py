"""Durable writes: in which order, and what a failure at each step leaves."""

import os

import numpy as np
import pytest

from kafkalog.files import durable_file
from kafkalog.files.durable_file import DISK, Disk
from tests.disks import EFFECTS, FailingDisk, NotingDisk


def test_a_replacement_is_on_disk_before_it_has_its_name(tmp_path):
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    disk = NotingDisk()
    disk.replace(target, b"new")
    assert target.read_bytes() == b"new"
    assert disk.calls == [
        ("open", "checkpoint.tmp"),
        ("write", "checkpoint.tmp", 0, 3),
        ("sync", "checkpoint.tmp"),
        ("rename", "checkpoint.tmp", "checkpoint"),
        ("sync_directory", tmp_path.name),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("step", range(5))
def test_a_replacement_that_fails_leaves_the_old_or_the_new(tmp_path, step):
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        FailingDisk(step).replace(target, b"newest")
    assert target.read_bytes() == (b"old" if step <= 3 else b"newest")
    DISK.replace(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_what_an_earlier_replacement_left_is_overwritten(tmp_path):
    (tmp_path / "checkpoint.tmp").write_bytes(b"longer than what follows")
    DISK.replace(tmp_path / "checkpoint", b"")
    assert (tmp_path / "checkpoint").read_bytes() == b""


def test_a_file_written_over_keeps_what_lies_behind(tmp_path):
    path = tmp_path / "5.snapshot"
    disk = NotingDisk()
    disk.write_over(path, b"abcdef", sync=True)
    assert disk.calls == [
        ("open", "5.snapshot"),
        ("write", "5.snapshot", 0, 6),
        ("sync", "5.snapshot"),
    ]
    disk.calls.clear()
    disk.write_over(path, b"ABC", sync=False)
    assert path.read_bytes() == b"ABCdef"
    assert not disk.asked("sync")


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(
        durable_file.os, "pwrite", lambda fd, data, at: whole(fd, data[:3], at)
    )
    with DISK.open(tmp_path / "0.log", create=True) as file:
        file.write(b"0123456789", 2)
    assert (tmp_path / "0.log").read_bytes() == b"\0\0" + b"0123456789"


def test_a_write_that_stands_still_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(durable_file.os, "pwrite", lambda fd, data, at: 0)
    with (
        DISK.open(tmp_path / "0.log", create=True) as file,
        pytest.raises(OSError, match="nothing was written"),
    ):
        file.write(b"0123456789", 0)


def test_arrays_are_written_as_the_bytes_they_are(tmp_path):
    with DISK.open(tmp_path / "0.index", create=True) as file:
        file.write(np.arange(3, dtype=np.int32), 0)
        file.write(np.empty(0, np.int32), 100)
        assert file.size() == 12
        assert file.read(0, 100) == np.arange(3, dtype=np.int32).tobytes()


def test_a_file_that_must_be_new_takes_nobodys_place(tmp_path):
    target = tmp_path / "0.log"
    target.write_bytes(b"kept")
    with pytest.raises(FileExistsError):
        DISK.open(target, exclusive=True)
    with pytest.raises(FileNotFoundError):
        DISK.open(tmp_path / "1.log")
    assert target.read_bytes() == b"kept"


def test_an_open_file_knows_its_new_name(tmp_path):
    with DISK.open(tmp_path / "0.log.swap", create=True) as file:
        file.rename(tmp_path / "0.log")
        file.write(b"ab", 0)
    assert file.path == tmp_path / "0.log"
    assert (tmp_path / "0.log").read_bytes() == b"ab"
    file.close()
    assert not file.is_open


def test_names_can_be_made_and_removed(tmp_path):
    disk = NotingDisk()
    directory = tmp_path / "orders-0"
    disk.make_directory(directory)
    disk.create_if_missing(directory / "a")
    disk.create_if_missing(directory / "a")
    disk.set_modified(directory / "a", 1_700_000_000_123)
    assert (directory / "a").stat().st_mtime_ns == 1_700_000_000_123_000_000
    disk.sync_path(directory / "a")
    assert disk.remove_if_there(directory / "a")
    assert not disk.remove_if_there(directory / "a")
    disk.remove_directory(directory)
    assert not directory.exists()
    with pytest.raises(FileNotFoundError):
        disk.sync_path(directory / "a")
    assert {call[0] for call in disk.calls} == {
        "make_directory",
        "open",
        "set_modified",
        "sync",
        "remove",
        "remove_directory",
    }


def test_no_descriptor_is_left_open_by_a_failure(tmp_path, monkeypatch):
    opened, closed = [], []
    real_open, real_close = os.open, os.close

    def noting_open(*args):
        opened.append(real_open(*args))
        return opened[-1]

    def noting_close(descriptor):
        closed.append(descriptor)
        real_close(descriptor)

    def failing_fsync(descriptor):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(durable_file.os, "open", noting_open)
        patched.setattr(durable_file.os, "close", noting_close)
        patched.setattr(durable_file.os, "fsync", failing_fsync)
        with pytest.raises(OSError, match="Input/output"):
            DISK.replace(tmp_path / "checkpoint", b"data")
        with pytest.raises(OSError, match="Input/output"):
            DISK.sync_directory(tmp_path)
    assert opened == closed
    assert len(opened) == 2


def test_every_effect_of_a_disk_can_be_watched():
    composed = {
        "create_if_missing",
        "remove_if_there",
        "replace",
        "sync_path",
        "write_over",
    }
    public = {name for name in vars(Disk) if not name.startswith("_")}
    assert public - composed == set(EFFECTS)

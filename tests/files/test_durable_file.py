"""Durable writes: in which order, and what a failure at each step leaves."""

import os

import pytest

from kafkalog.files import durable_file


class Disk:
    """Notes what the operating system is asked, and fails at one of the questions."""

    def __init__(self, monkeypatch, fail_at=None):
        self.asked = []
        self.fail_at = fail_at
        self.names = {}
        for name in ("open", "write", "fsync", "replace"):
            monkeypatch.setattr(durable_file.os, name, self.watch(getattr(os, name)))
        # pathlib renames by os.replace, which is the same function

    def watch(self, call):
        def watched(*args, **options):
            self.asked.append(self.describe(call.__name__, args))
            if len(self.asked) - 1 == self.fail_at:
                raise OSError(28, "No space left on device")
            answer = call(*args, **options)
            if call.__name__ == "open":
                self.names[answer] = os.path.basename(args[0])  # noqa: PTH119
            return answer

        return watched

    def describe(self, call, args):
        what = args[0]
        named = self.names[what] if isinstance(what, int) else os.path.basename(what)  # noqa: PTH119
        return f"{call} {named}"


def test_a_replacement_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    disk = Disk(monkeypatch)
    durable_file.replace(target, b"new")
    assert target.read_bytes() == b"new"
    assert disk.asked == [
        "open checkpoint.tmp",
        "write checkpoint.tmp",
        "fsync checkpoint.tmp",
        "replace checkpoint.tmp",
        f"open {tmp_path.name}",
        f"fsync {tmp_path.name}",
    ]
    assert os.listdir(tmp_path) == ["checkpoint"]  # noqa: PTH208


@pytest.mark.parametrize("step", range(6))
def test_a_replacement_that_fails_leaves_the_old_or_the_new(
    tmp_path, monkeypatch, step
):
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    with monkeypatch.context() as patched:
        Disk(patched, fail_at=step)
        with pytest.raises(OSError, match="No space left"):
            durable_file.replace(target, b"new")
    assert target.read_bytes() == (b"old" if step <= 3 else b"new")
    durable_file.replace(target, b"newer")
    assert target.read_bytes() == b"newer"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    whole = os.write
    monkeypatch.setattr(durable_file.os, "write", lambda fd, data: whole(fd, data[:3]))
    durable_file.replace(tmp_path / "checkpoint", b"0123456789")
    assert (tmp_path / "checkpoint").read_bytes() == b"0123456789"


def test_what_an_earlier_replacement_left_is_overwritten(tmp_path):
    (tmp_path / "checkpoint.tmp").write_bytes(b"longer than what follows")
    durable_file.replace(tmp_path / "checkpoint", b"")
    assert (tmp_path / "checkpoint").read_bytes() == b""


def test_a_new_file_is_on_disk_with_its_name(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    durable_file.write_new(tmp_path / "5.snapshot", b"data")
    assert (tmp_path / "5.snapshot").read_bytes() == b"data"
    assert disk.asked == [
        "open 5.snapshot",
        "write 5.snapshot",
        "fsync 5.snapshot",
        f"open {tmp_path.name}",
        f"fsync {tmp_path.name}",
    ]


def test_a_new_file_takes_nobodys_place(tmp_path):
    target = tmp_path / "5.snapshot"
    target.write_bytes(b"kept")
    with pytest.raises(FileExistsError):
        durable_file.write_new(target, b"data")
    assert target.read_bytes() == b"kept"


def test_no_descriptor_is_left_open(tmp_path, monkeypatch):
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
            durable_file.replace(tmp_path / "checkpoint", b"data")
    assert opened == closed
    assert opened

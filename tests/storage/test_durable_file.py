"""The order of durable writes, and the files after a failure at each step."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kafkalog.storage import durable_file
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.testing import EFFECTS, FailingDisk, TracingDisk


def test_a_replacement_is_synced_before_it_is_renamed(tmp_path):
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    disk = TracingDisk()
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
def test_a_failed_replacement_leaves_the_old_or_the_new_content(tmp_path, step):
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        FailingDisk(step).replace(target, b"newest")
    assert target.read_bytes() == (b"old" if step <= 3 else b"newest")
    DISK.replace(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_the_temporary_file_of_an_earlier_replacement_is_overwritten(tmp_path):
    (tmp_path / "checkpoint.tmp").write_bytes(b"longer than what follows")
    DISK.replace(tmp_path / "checkpoint", b"")
    assert (tmp_path / "checkpoint").read_bytes() == b""


def test_overwriting_a_file_keeps_the_bytes_after_the_data(tmp_path):
    path = tmp_path / "5.snapshot"
    disk = TracingDisk()
    disk.write_over(path, b"abcdef", sync=True)
    assert disk.calls == [
        ("open", "5.snapshot"),
        ("write", "5.snapshot", 0, 6),
        ("sync", "5.snapshot"),
    ]
    disk.calls.clear()
    disk.write_over(path, b"ABC", sync=False)
    assert path.read_bytes() == b"ABCdef"
    assert not disk.calls_of("sync")


needs_preload = pytest.mark.skipif(
    sys.platform != "linux", reason="LD_PRELOAD, which makes writes short, is Linux's"
)


@pytest.fixture(scope="session")
def short_writes(tmp_path_factory):
    """Return a library to preload whose writes are shorter than requested."""
    library = tmp_path_factory.mktemp("short") / "short_writes.so"
    source = Path(__file__).with_name("short_writes.c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True
    )
    return library


def written_by_another(path, library, **how):
    """Write a file in a process that preloads `library`; return its stderr."""
    script = (
        "import errno, sys; from kafkalog.storage.durable_file import DISK\n"
        "with DISK.open(sys.argv[1], create=True) as file:\n"
        "    try: file.write(b'0123456789', 2)\n"
        "    except OSError as e: print(errno.errorcode[e.errno], e.filename)"
    )
    preload = f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()
    run = subprocess.run(
        [sys.executable, "-c", script, path],
        env=os.environ | {"LD_PRELOAD": preload} | how,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


@needs_preload
def test_a_short_write_is_continued(tmp_path, short_writes):
    path = tmp_path / "0.log"
    for how in ({"MOST_WRITTEN": "3"}, {"INTERRUPTED": "2"}):
        assert not written_by_another(path, short_writes, **how)
        assert path.read_bytes() == b"\0\0" + b"0123456789"
        path.unlink()


@needs_preload
def test_a_write_without_progress_is_an_error(tmp_path, short_writes):
    path = tmp_path / "0.log"
    printed = written_by_another(path, short_writes, MOST_WRITTEN="0")
    assert printed == f"EIO {path}"


def test_writes_after_a_failed_one_are_not_done(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    files = [DISK.open(path, create=True) for path in paths]
    gone, files[1].descriptor = files[1].descriptor, -1
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        DISK.write_each([(file, b"abc", 1) for file in files])
    assert raised.value.filename == str(paths[1])
    assert [path.read_bytes() for path in paths] == [b"\0abc", b"", b""]
    files[1].descriptor = gone
    for file in files:
        file.close()


def test_a_large_write_changes_only_its_own_bytes(tmp_path):
    data = bytes(range(256)) * 4096
    with DISK.open(tmp_path / "0.log", create=True) as file:
        file.write(b"abc", 0)
        file.write(data, 5)
        assert file.size() == 5 + len(data)
        file.write(data[1:], 7)
        assert file.size() == 6 + len(data)
        assert file.read(0, 1 << 21) == b"abc\0\0" + data[:2] + data[1:]


def test_arrays_are_written_as_their_bytes(tmp_path):
    with DISK.open(tmp_path / "0.index", create=True) as file:
        file.write(np.arange(3, dtype=np.int32), 0)
        file.write(np.empty(0, np.int32), 100)
        assert file.size() == 12
        assert file.read(0, 100) == np.arange(3, dtype=np.int32).tobytes()


def test_an_exclusive_create_fails_if_the_file_exists(tmp_path):
    target = tmp_path / "0.log"
    target.write_bytes(b"kept")
    with pytest.raises(FileExistsError):
        DISK.open(target, exclusive=True)
    with pytest.raises(FileNotFoundError):
        DISK.open(tmp_path / "1.log")
    assert target.read_bytes() == b"kept"


def test_renaming_an_open_file_updates_its_path(tmp_path):
    with DISK.open(tmp_path / "0.log.swap", create=True) as file:
        file.rename(tmp_path / "0.log")
        file.write(b"ab", 0)
    assert file.path == tmp_path / "0.log"
    assert (tmp_path / "0.log").read_bytes() == b"ab"
    file.close()
    assert not file.is_open


def test_files_and_directories_are_created_and_removed(tmp_path):
    disk = TracingDisk()
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


def test_a_copy_has_the_bytes_and_the_time_and_is_forced_to_disk(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 5000)
    target.write_bytes(bytes(2_000_000))
    os.utime(source, ns=(0, 1_700_000_000_123_000_000))
    disk = TracingDisk()
    disk.copy_file(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mtime_ns == 1_700_000_000_123_000_000
    assert disk.calls_of("sync") == [("sync", "target")]


def test_no_copy_is_made_of_a_link_or_a_missing_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").touch()
    for name in ("link", "missing"):
        with pytest.raises(FileNotFoundError):
            DISK.copy_file(tmp_path / name, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_removed_tree_leaves_what_its_links_lead_to(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "inner" / "file").touch()
    DISK.make_symbolic_link(tmp_path / "kept", tmp_path / "tree" / "link")
    DISK.make_hard_link(tmp_path / "kept" / "file", tmp_path / "tree" / "name")
    DISK.remove_tree(tmp_path / "tree")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept"]


def test_a_test_disk_can_override_every_change():
    composed = {
        "copy_file",
        "create_if_missing",
        "make_directories",
        "remove_if_there",
        "remove_tree",
        "replace",
        "sync_path",
        "write_over",
    }
    unchanging = {"content_path"}
    public = {name for name in vars(Disk) if not name.startswith("_")}
    assert public - composed - unchanging == {*EFFECTS, "write_each"}


@pytest.mark.parametrize(
    ("call", "use"),
    [
        ("fsync", lambda file: file.sync()),
        ("fsync", lambda file: DISK.sync_directory(file.path.parent)),
        ("ftruncate", lambda file: file.truncate(0)),
        ("pread", lambda file: file.read(0, 1)),
        ("preadv", lambda file: file.read_into(np.empty(1, np.uint8), 0)),
        ("fchmod", lambda file: set_attributes(file)),
    ],
    ids=["sync", "sync_directory", "truncate", "read", "read_into", "attributes"],
)
def test_an_error_of_the_disk_names_the_file(call, use, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    with DISK.open(tmp_path / "0.log", create=True) as file:
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(OSError, match="Read-only file system") as caught:
            use(file)
    assert caught.value.filename in (str(file.path), str(tmp_path))


def set_attributes(file):
    status = os.stat(file.path)  # noqa: PTH116
    owner = status.st_uid, status.st_gid
    DISK.set_attributes(file, mtime_ns=0, mode=0o600, owner=owner)

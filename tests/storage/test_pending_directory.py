"""Copies whose disk fails, or that are interrupted, at each step."""

import errno
from itertools import count
from shutil import rmtree

import pytest

import kafkalog
from kafkalog.copies.log_import import import_logs
from kafkalog.export.file_export import write_files
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.pending_directory import PendingDirectory

CALLS = (
    *("open", "write_each", "truncate", "sync", "sync_directory", "make_directory"),
    *("rename", "remove", "remove_directory", "set_modified", "set_attributes"),
)
REMOVALS = ("rename", "remove", "remove_directory")
"""Calls that succeed on a full disk."""

COMMANDS = {
    "salvage": lambda source, out: kafkalog.salvage(source, out),
    "heal": lambda source, out: kafkalog.heal([source], out),
    "restore": lambda source, out: kafkalog.restore(source, out),
    "compact": lambda source, out: kafkalog.compact(
        source, destination=out, ignore_policy=True
    ),
    "import": lambda source, out: import_logs(source / "table.parquet", out),
}
pytestmark = pytest.mark.filterwarnings("ignore::kafkalog.UnknownSettingsWarning")


class Failure:
    """Failure of one call to the disk, counted from 0, and of `lasting` ones after."""

    def __init__(self, monkeypatch, at, error, lasting):
        self.at, self.error, self.calls = at, error, 0
        for name in CALLS:
            real = getattr(Disk, name)
            monkeypatch.setattr(Disk, name, self.failing(real, name in lasting))

    def failing(self, real, lasts):
        def call(disk, *arguments, **options):
            number, self.calls = self.calls, self.calls + 1
            if number == self.at or (lasts and number > self.at):
                raise self.error
            return real(disk, *arguments, **options)

        return call


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "data"
    with kafkalog.open(directory / "orders-0", "a") as log:
        log.append_records({"value": [b"one", b"two"]})
    scan = kafkalog.scan(directory / "orders-0")
    write_files(scan, directory / "table.parquet", "parquet", reversible=True)
    return directory


def fail_at(at, error, lasting, command, source, tmp_path):
    """Run a command with a failing disk; return the failure and what is left."""
    with pytest.MonkeyPatch.context() as patch:
        failure = Failure(patch, at, error, lasting)
        try:
            COMMANDS[command](source, tmp_path / "out")
        except type(error):
            pass
    return failure, sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (OSError(errno.EIO, "made to fail"), ()),
        (OSError(errno.ENOSPC, "made to fail"), set(CALLS) - set(REMOVALS)),
        (KeyboardInterrupt(), ()),
    ],
    ids=["once", "full", "interrupt"],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_at_any_call_to_the_disk_leaves_no_copy(
    command, error, lasting, source, tmp_path
):
    for at in count():
        failure, left = fail_at(at, error, lasting, command, source, tmp_path)
        if failure.calls <= at:
            assert left == ["data", "out"]
            break
        if left == ["data", "out"]:  # a call that may fail, such as one of a cleanup
            assert kafkalog.verify(tmp_path / "out").ok
            rmtree(tmp_path / "out")
            continue
        assert left == ["data"], at
    assert at > 10


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_fails_for_good_leaves_no_copy_that_is_not_complete(
    command, source, tmp_path
):
    error = OSError(errno.EIO, "made to fail")
    for at in count():
        failure, left = fail_at(at, error, CALLS, command, source, tmp_path)
        if "out" in left:
            assert kafkalog.verify(tmp_path / "out").ok
        for path in left:
            if path != "data":
                rmtree(tmp_path / path)
        if failure.calls <= at:
            assert left == ["data", "out"]
            break
    assert at > 10


@pytest.mark.parametrize("name", ["make_directory", "sync_directory", "rename"])
@pytest.mark.parametrize("happens", [False, True])
def test_each_step_that_fails_leaves_an_empty_destination_empty(
    name, happens, tmp_path, monkeypatch
):
    real = getattr(Disk, name)

    def fail(*arguments):
        if happens:
            real(*arguments)
        monkeypatch.undo()
        raise KeyboardInterrupt

    (tmp_path / "out").mkdir()
    monkeypatch.setattr(Disk, name, fail)
    with pytest.raises(KeyboardInterrupt), PendingDirectory(tmp_path / "out") as copy:
        (copy.path / "file").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_a_sync_that_fails_after_the_rename_leaves_nothing(tmp_path, monkeypatch):
    real = Disk.sync_directory

    def fail(disk, path):
        real(disk, path)
        if path == tmp_path:
            raise OSError(errno.EIO, "made to fail")

    monkeypatch.setattr(Disk, "sync_directory", fail)
    with (
        pytest.raises(OSError, match="made to fail"),
        PendingDirectory(tmp_path / "out") as copy,
    ):
        (copy.path / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_another_process_is_not_removed(tmp_path, monkeypatch):
    def lose_race(_, path):
        path.mkdir()
        (path / "file").touch()
        raise FileExistsError(errno.EEXIST, "File exists", str(path))

    monkeypatch.setattr(Disk, "make_directory", lose_race)
    with pytest.raises(FileExistsError), PendingDirectory(tmp_path / "out"):
        pass
    assert (tmp_path / "out.incomplete" / "file").exists()


def test_a_copy_that_cannot_be_removed_is_named_in_a_note(tmp_path, monkeypatch):
    def fail(_, path):
        raise OSError(errno.EIO, "made to fail", str(path))

    monkeypatch.setattr(Disk, "remove_directory", fail)
    with (
        pytest.raises(ValueError, match="first") as raised,
        PendingDirectory(tmp_path / "out"),
    ):
        raise ValueError("first")
    [note] = raised.value.__notes__
    assert "could not be removed" in note
    assert "out.incomplete" in note

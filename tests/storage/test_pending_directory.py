"""Copies whose disk fails, or that are interrupted, at each step."""

import errno
from itertools import count
from shutil import rmtree

import pytest

import kafkalog
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.pending_directory import PendingDirectory

CALLS = (
    *("open", "write_each", "truncate", "sync", "sync_directory", "rename", "remove"),
    *("make_directory", "remove_directory", "set_modified", "set_attributes"),
)
COMMANDS = {
    "salvage": lambda source, out: kafkalog.salvage(source, out),
    "heal": lambda source, out: kafkalog.heal([source], out),
    "restore": lambda source, out: kafkalog.restore(source, out),
    "compact": lambda source, out: kafkalog.compact(source, output=out, force=True),
}
pytestmark = pytest.mark.filterwarnings("ignore::kafkalog.UnknownSettingsWarning")


class Failure:
    """Failure of one call to the disk, counted from 0; with `lasts` of all after it."""

    def __init__(self, monkeypatch, at, error, *, lasts):
        self.at, self.error, self.lasts, self.calls = at, error, lasts, 0
        for name in CALLS:
            monkeypatch.setattr(Disk, name, self.failing(getattr(Disk, name)))

    def failing(self, real):
        def call(disk, *arguments, **options):
            number, self.calls = self.calls, self.calls + 1
            if number == self.at or (self.lasts and number > self.at):
                raise self.error
            return real(disk, *arguments, **options)

        return call


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "data"
    with kafkalog.open(directory / "orders-0", "a") as log:
        log.append_records({"value": [b"one", b"two"]})
    return directory


@pytest.mark.parametrize(
    ("error", "lasts"),
    [
        (OSError(errno.EIO, "made to fail"), False),
        (OSError(errno.EIO, "made to fail"), True),
        (KeyboardInterrupt(), False),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_at_any_call_to_the_disk_leaves_no_copy(
    command, error, lasts, source, tmp_path
):
    for at in count():
        with pytest.MonkeyPatch.context() as patch:
            failure = Failure(patch, at, error, lasts=lasts)
            try:
                COMMANDS[command](source, tmp_path / "out")
            except type(error):
                pass
        left = sorted(path.name for path in tmp_path.iterdir())
        if failure.calls <= at:
            assert left == ["data", "out"]
            break
        if left == ["data", "out"]:  # a call that may fail, such as one of a cleanup
            assert kafkalog.verify(tmp_path / "out").ok
            rmtree(tmp_path / "out")
            continue
        assert left == ["data"], at
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
    def fail(path):
        raise OSError(errno.EIO, "made to fail", str(path))

    monkeypatch.setattr("kafkalog.storage.pending_directory.rmtree", fail)
    with (
        pytest.raises(ValueError, match="first") as raised,
        PendingDirectory(tmp_path / "out"),
    ):
        raise ValueError("first")
    [note] = raised.value.__notes__
    assert "could not be removed" in note
    assert "out.incomplete" in note

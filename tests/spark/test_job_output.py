"""A run is complete or absent, wherever it was interrupted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from itertools import count

import pytest

from kafkalog.errors import CorruptCheckpointError, LogStateError
from kafkalog.spark import job_output
from kafkalog.spark.job_output import FOLDER, ParquetOutput, StagedParquet, locked
from kafkalog.storage.durable_file import Disk
from tests.spark.lakes import files_of, manifest

FOLDERS = (
    "topic=a/date=2023-11-14",
    "topic=a/date=2023-11-15",
    "topic=b/date=2023-11-14",
)
CALLS = ("replace", "fsync", "mkdir", "write", "unlink", "rmdir")
HOLDER = """
import sys
from pathlib import Path
from kafkalog.spark.job_output import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


class KilledError(BaseException):
    """Ends a run as a kill does: no later call has an effect."""


def content(run, i):
    return b"%d of run %d" % (i, run)


def write_staged(staged, run):
    """Write a file to each folder, as the tasks of a run do; return them."""
    files = []
    for i, folder in enumerate(FOLDERS):
        data = content(run, i)
        (staged.path / f"{i}.staged").write_bytes(data)
        files.append(StagedParquet(f"{i}.staged", folder, 1, len(data)))
    return files


def add_run(out):
    """Make a run of three files; return its number."""
    with locked(out) as folder:
        output = ParquetOutput(folder)
        number = output.next_run
        with folder.staged(number) as staged:
            output.commit(staged, write_staged(staged, number), {})
    return number


def recovered(out):
    """Return the number of the run that the next one completes."""
    with locked(out) as folder:
        return ParquetOutput(folder).finished


def kill_at(monkeypatch, step):
    """Fail all calls from one on; the first to fail writes half its bytes."""
    done = []

    def failing(name, real):
        def call(*arguments, **named):
            done.append(name)
            if len(done) < step:
                return real(*arguments, **named)
            if len(done) == step and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise KilledError(name)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, failing(name, getattr(os, name)))
    return done


def of_run(out, number):
    return [path for path in files_of(out) if f"/run-{number:05d}-" in path]


def all_parquet(out):
    """Return what a reader finds that lists ``**/*.parquet``, and hidden ones."""
    return {path.relative_to(out).as_posix() for path in out.rglob("*.parquet")}


def left_in(out):
    return {path.name for path in (out / FOLDER).iterdir()}


def killed_somewhere(out, step):
    """Kill a run at a step; return whether it reached the step."""
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, step)
        try:
            add_run(out)
        except KilledError:
            return True
    return False


def test_a_run_killed_at_any_step_is_complete_or_absent(tmp_path):
    step, undone, finished = 0, 0, 0
    killed = True
    while killed:
        step += 1
        out = tmp_path / str(step)
        add_run(out)
        before = files_of(out)
        killed = killed_somewhere(out, step)
        committed = {"committed-00002", "manifest-00002.json"} & left_in(out)
        assert committed or not of_run(out, 2), f"step {step}"
        for path in of_run(out, 2):
            i = int(path[-len("0.parquet")])
            assert (out / path).read_bytes() == content(2, i), f"step {step}"
        assert all_parquet(out) <= {*files_of(out)}, f"step {step}"
        completed = recovered(out) == 2
        assert completed == ("committed-00002" in committed)
        whole = manifest(out, 2)["files"] if committed else []
        assert of_run(out, 2) == sorted(file["path"] for file in whole), f"step {step}"
        assert len(whole) in (0, 3)
        expected = {"lock", "manifest-00001.json", "manifest-00002.json"}
        assert left_in(out) <= expected
        undone += not whole
        finished += completed
        assert add_run(out) == (3 if whole else 2)
        assert set(before) < set(files_of(out))
    assert undone > 3
    assert finished > 8


def cut_off_while_moving(tmp_path):
    """Leave a first run in `out` killed after moving one file."""
    for step in count(1):
        out = tmp_path / f"moving-{step}"
        assert killed_somewhere(out, step)
        if len(of_run(out, 1)) == 1 and "committed-00001" in left_in(out):
            return out
    raise AssertionError


def test_recovery_may_be_killed_at_any_step(tmp_path):
    moving = cut_off_while_moving(tmp_path)
    for step in count(1):
        out = tmp_path / f"again-{step}"
        shutil.copytree(moving, out)
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(patch, step)
            with suppress(KilledError):
                recovered(out)
        with locked(out) as folder:
            assert ParquetOutput(folder).last["run"] == 1
        assert len(of_run(out, 1)) == 3
        if len(calls) < step:
            break
    assert step > 8


def test_a_failed_run_leaves_no_files(tmp_path):
    def failing():
        with locked(tmp_path) as folder, folder.staged(1) as staged:
            write_staged(staged, 1)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        failing()
    assert left_in(tmp_path) == {"lock"}
    assert files_of(tmp_path) == []


@pytest.mark.parametrize("size_in_bytes", [4, None])
def test_a_missing_or_short_file_is_not_committed(tmp_path, size_in_bytes):
    def committing():
        with locked(tmp_path) as folder, folder.staged(1) as staged:
            if size_in_bytes:
                (staged.path / "0.staged").write_bytes(b"1234")
            file = StagedParquet("0.staged", FOLDERS[0], 1, 5)
            ParquetOutput(folder).commit(staged, [file], {})

    with pytest.raises(FileNotFoundError, match="must share"):
        committing()
    assert left_in(tmp_path) == {"lock"}


def test_one_job_locks_a_directory_until_it_is_killed(tmp_path):
    arguments = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BlockingIOError, match=f"process {holder.pid} on"):
            add_run(tmp_path)
        holder.kill()
        holder.wait()
    assert add_run(tmp_path) == 1


def test_two_jobs_in_one_process_exclude_each_other(tmp_path):
    with locked(tmp_path), pytest.raises(BlockingIOError, match="another job"):
        add_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}'])
def test_an_error_names_an_invalid_manifest(tmp_path, text):
    add_run(tmp_path)
    path = tmp_path / FOLDER / "manifest-00001.json"
    path.write_text(text)
    with pytest.raises(CorruptCheckpointError, match="manifest-00001"):
        add_run(tmp_path)


def test_a_journal_of_an_earlier_version_is_refused_with_what_to_do(tmp_path):
    add_run(tmp_path)
    folder = tmp_path / FOLDER
    (folder / "manifest-00001.json").rename(folder / "pending-00001.json")
    with pytest.raises(LogStateError, match="run 1 was interrupted") as caught:
        add_run(tmp_path)
    assert "Run the job once with that version" in caught.value.__notes__[0]
    assert len(of_run(tmp_path, 1)) == 3


def test_runs_beyond_five_digits_are_in_order(tmp_path):
    add_run(tmp_path)
    folder = tmp_path / FOLDER
    last = json.loads((folder / "manifest-00001.json").read_text())
    for number in (99_999, 100_000):
        path = folder / f"manifest-{number}.json"
        path.write_text(json.dumps(last | {"run": number}))
    assert add_run(tmp_path) == 100_001


def write_committed(out):
    """Make a committed run as somebody else may have made it; return its data."""
    data = out / FOLDER / "committed-00001" / "data"
    data.mkdir(parents=True)
    (data.parent / "manifest.json").write_text('{"version": 1, "run": 1}')
    return data


def test_no_file_is_moved_through_a_link(tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.mkdir()
    folder = write_committed(out) / FOLDERS[0]
    folder.mkdir(parents=True)
    (folder / "x.staged").write_bytes(b"of an attacker")
    (out / "topic=a").symlink_to(victim)
    with pytest.raises(LogStateError, match="symbolic link"):
        recovered(out)
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("part", ["topic=a", "topic=a/date=2023-11-14"])
def test_no_file_is_moved_out_of_a_link(tmp_path, part):
    out, victim = tmp_path / "out", tmp_path / "victim"
    (victim / "date=2023-11-14").mkdir(parents=True)
    for folder in (victim, victim / "date=2023-11-14"):
        (folder / "x.staged").write_bytes(b"precious")
    link = write_committed(out) / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim)
    with pytest.raises(LogStateError, match="symbolic link"):
        recovered(out)
    assert len(list(victim.rglob("x.staged"))) == 2
    assert files_of(out) == []


def test_the_lock_is_not_taken_through_a_link(tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_bytes(b"precious")
    (out / FOLDER).mkdir(parents=True)
    (out / FOLDER / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), locked(out):
        pass
    other = tmp_path / "other"
    other.mkdir()
    (other / FOLDER).symlink_to(out)
    with pytest.raises(LogStateError, match="symbolic link"), locked(other):
        pass
    assert victim.read_bytes() == b"precious"


def test_the_names_of_staged_files_are_on_disk_before_the_commit(tmp_path, monkeypatch):
    class SyncedDisk(Disk):
        def sync_directory(self, path):
            super().sync_directory(path)
            calls.append(path.name)

        def rename(self, source, target):
            calls.append(target.name)
            super().rename(source, target)

    calls = []
    monkeypatch.setattr(job_output, "DISK", SyncedDisk())
    add_run(tmp_path / "new" / "out")
    before = calls[: calls.index("committed-00001")]
    last = max(i for i, name in enumerate(before) if name.endswith(".staged"))
    synced = {*before[last:]}
    assert {name for folder in FOLDERS for name in folder.split("/")} <= synced
    assert "data" in synced
    assert {tmp_path.name, "new", "out"} <= {*before}

"""What a power cut leaves of a Delta table: what was reported is there."""

import json
import os
from pathlib import Path

import deltalake
import pytest

import kafkalog
from kafkalog.errors import CorruptCheckpointError
from kafkalog.export.delta_table import append_new
from kafkalog.storage.durable_file import Disk
from tests.cli.shell import call


class SyncedDisk(Disk):
    """A disk that records the paths that are synced, in order."""

    def __init__(self):
        self.files, self.directories, self.order = [], [], []

    def sync(self, file):
        super().sync(file)
        self.files.append(file.path)
        self.order.append(file.path)

    def sync_directory(self, path):
        super().sync_directory(path)
        self.directories.append(Path(path))
        self.order.append(Path(path))


@pytest.fixture
def grow(tmp_path):
    """Return a function that appends records to two partitions, and the logs."""
    logs = tmp_path / "logs"

    def append(count=3):
        for partition in range(2):
            with kafkalog.open(logs / f"orders-{partition}", "a") as log:
                log.append_records({"value": [b"v"] * count})
        return kafkalog.scan(logs)

    return append


def paths_in(out):
    files = {path for path in out.rglob("*") if path.is_file()}
    return files, {out.parent, out, *(path.parent for path in files)}


def offsets(out):
    rows = deltalake.DeltaTable(str(out)).to_pyarrow_table()
    return sorted(
        zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    )


def last_commit(out):
    return max((out / "_delta_log").glob("*.json"))


def test_all_files_of_a_table_are_forced_to_disk_before_an_export_returns(
    grow, tmp_path
):
    out, disk = tmp_path / "lake", SyncedDisk()
    append_new(grow(), out, commit_bytes=1, partition_by="date", disk=disk)
    files, directories = paths_in(out)
    assert files <= {*disk.files}
    assert directories <= {*disk.directories}
    after = SyncedDisk()
    append_new(grow(), out, partition_by="date", disk=after)
    new = paths_in(out)[0] - files
    assert new <= {*after.files}
    commit = last_commit(out)
    log = after.order.index(commit.parent)
    data = [after.order.index(path) for path in new - {commit}]
    assert max(data) < after.order.index(commit) < log


def test_a_checkpoint_is_forced_to_disk_before_commits_are_removed(
    grow, tmp_path, monkeypatch
):
    out, removed = tmp_path / "lake", []
    append_new(grow(), out)
    table = deltalake.DeltaTable(str(out))
    table.alter.set_table_properties(
        {
            "delta.checkpointInterval": "2",
            "delta.logRetentionDuration": "interval 0 days",
        }
    )
    disk = SyncedDisk()
    clean = deltalake.DeltaTable.cleanup_metadata

    def cleanup(table):
        removed.append(len(disk.order))
        clean(table)

    monkeypatch.setattr(deltalake.DeltaTable, "cleanup_metadata", cleanup)
    for _ in range(3):
        append_new(grow(), out, disk=disk)
    log = out / "_delta_log"
    checkpoints = [*log.glob("*.checkpoint*"), log / "_last_checkpoint"]
    assert len(checkpoints) > 1
    assert removed
    synced = disk.order[: removed[-1]]
    assert all(path in synced for path in checkpoints)
    assert len(offsets(out)) == kafkalog.scan(tmp_path / "logs").count()


@pytest.mark.parametrize("left", [0, 1, 0.5, -1, "zeros"])
def test_a_torn_last_commit_is_named_and_its_removal_loses_nothing(
    left, grow, tmp_path
):
    out = tmp_path / "lake"
    append_new(grow(), out)
    append_new(grow(), out)
    commit = last_commit(out)
    whole = commit.read_bytes()
    size = int(len(whole) * left) if isinstance(left, float) else left
    torn = bytes(len(whole)) if left == "zeros" else whole[:size]
    commit.write_bytes(torn)
    scan = grow()
    with pytest.raises(CorruptCheckpointError) as caught:
        append_new(scan, out)
    assert caught.value.path == commit
    assert caught.value.position is not None
    assert any("Remove the file" in note for note in caught.value.__notes__)
    assert commit.read_bytes() == torn
    commit.unlink()
    append_new(scan, out)
    assert offsets(out) == [(p, offset) for p in range(2) for offset in range(9)]


@pytest.mark.parametrize("left", ["nothing", "empty", "half"])
def test_a_torn_data_file_of_the_last_commit_is_named(left, grow, tmp_path):
    out = tmp_path / "lake"
    append_new(grow(), out)
    before = paths_in(out)[0]
    append_new(grow(), out)
    data = next(path for path in paths_in(out)[0] - before if path.suffix == ".parquet")
    content = data.read_bytes()
    data.unlink()
    if left != "nothing":
        data.write_bytes(content[: len(content) // 2 * (left == "half")])
    ran = call("export", tmp_path / "logs", out, "--format", "delta")
    assert ran.exit_code == 1
    assert str(data) in ran.stderr
    assert f": {last_commit(out)} at byte " in ran.stderr
    assert "Remove the file, and repeat the export" in ran.stderr
    last_commit(out).unlink()
    assert call("export", tmp_path / "logs", out, "--format", "delta").exit_code == 0
    assert offsets(out) == [(p, offset) for p in range(2) for offset in range(6)]


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_torn_checkpoint_is_named_and_its_removal_loses_nothing(left, grow, tmp_path):
    out = tmp_path / "lake"
    append_new(grow(), out)
    append_new(grow(), out)
    deltalake.DeltaTable(str(out)).create_checkpoint()
    (checkpoint,) = (out / "_delta_log").glob("*.checkpoint.parquet")
    content = checkpoint.read_bytes()
    checkpoint.unlink()
    if left is not None:
        checkpoint.write_bytes(content[:left])
    scan = grow()
    with pytest.raises(CorruptCheckpointError) as caught:
        append_new(scan, out)
    assert caught.value.path == checkpoint
    checkpoint.unlink(missing_ok=True)
    (out / "_delta_log" / "_last_checkpoint").unlink()
    append_new(scan, out)
    assert offsets(out) == [(p, offset) for p in range(2) for offset in range(9)]


def test_files_of_other_writers_are_not_checked(grow, tmp_path):
    out = tmp_path / "lake"
    append_new(grow(), out)
    rows = deltalake.DeltaTable(str(out)).to_pyarrow_table()
    deltalake.write_deltalake(str(out), rows, mode="append")
    added = json.loads(last_commit(out).read_bytes().splitlines()[-1])["add"]["path"]
    os.truncate(out / added, 9)
    assert append_new(grow(), out).records == 6

"""Staged files: written by tasks, read by commits, removed when nobody needs them."""

import os
import subprocess
import time

import pytest

from kafkalog.errors import StagedFileError
from kafkalog.sink import staging
from kafkalog.sink.staging import (
    UNKNOWN_DRIVER,
    CommitIdentity,
    StagingWriter,
    has_ended,
    list_removable,
    list_staged,
    parent_process,
    read_staged,
)
from kafkalog.testing import FailingDisk, TracingDisk
from tests.sink.commits import ROWS, build, stage, staged_names

IDENTITY = CommitIdentity("query:1", 4)


def read_all(root, staged):
    return b"".join(part.data.tobytes() for part in read_staged(root, staged))


def test_a_staged_file_has_the_batches_of_one_partition_in_order(tmp_path):
    files = stage(tmp_path, IDENTITY)
    assert [(file.topic, file.partition) for file in files] == list(ROWS)
    for file, batches in zip(files, ROWS.values(), strict=True):
        content = b"".join(map(build, batches))
        assert read_all(tmp_path, file) == content
        assert file.size_in_bytes == len(content)
        assert (file.batches, file.records) == (len(batches), sum(map(len, batches)))


def test_a_staged_file_is_forced_to_disk_with_its_name(tmp_path):
    disk = TracingDisk()
    files = stage(tmp_path, IDENTITY, disk=disk)
    assert [name for _, name in disk.calls_of("sync")] == [file.name for file in files]
    assert disk.calls[-1] == ("sync_directory", tmp_path.name)


def test_more_partitions_than_open_files_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "OPEN_FILES", 2)
    batches = [build([b"%d" % number]) for number in range(15)]
    with StagingWriter(tmp_path, IDENTITY, 0, 0) as writer:
        for number, batch in enumerate(batches):
            writer.write("orders", number % 5, [batch])
        files = writer.finish()
    assert sorted(file.partition for file in files) == list(range(5))
    for file in files:
        assert read_all(tmp_path, file) == b"".join(batches[file.partition :: 5])


def test_a_writer_that_is_not_finished_leaves_no_file(tmp_path):
    with StagingWriter(tmp_path, IDENTITY, 0, 0) as writer:
        writer.write("orders", 0, [build([b"a"])])
        assert staged_names(tmp_path)
    assert not staged_names(tmp_path)


def test_a_writer_whose_disk_fails_leaves_no_file(tmp_path):
    disk = TracingDisk()
    stage(tmp_path / "whole", IDENTITY, disk=disk)
    assert disk.calls
    for number in range(len(disk.calls)):
        root = tmp_path / str(number)
        with pytest.raises(OSError, match="No space left"):
            stage(root, IDENTITY, disk=FailingDisk(number))
        assert not staged_names(root)


@pytest.mark.parametrize("change", [b"", b"x", None])
def test_a_file_of_another_size_is_an_error_with_its_path(tmp_path, change):
    [file] = stage(tmp_path, IDENTITY, {("orders", 0): [[b"a"]]})
    path = tmp_path / file.name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + change if change else b"")
    with pytest.raises(StagedFileError, match=f"expected {file.size_in_bytes} bytes"):
        read_all(tmp_path, file)


def test_bytes_that_are_no_batch_are_an_error_with_their_position(tmp_path):
    [file] = stage(tmp_path, IDENTITY, {("orders", 0): [[b"a"], [b"b"]]})
    path = tmp_path / file.name
    content = bytearray(path.read_bytes())
    second = len(content) // 2
    for position, byte in ((16, 9), (11, 1), (8, 127)):
        damaged = content.copy()
        damaged[second + position] = byte
        path.write_bytes(damaged)
        with pytest.raises(StagedFileError, match=f"at byte {second}\n"):
            read_all(tmp_path, file)


def test_counts_that_differ_are_an_error(tmp_path):
    [file] = stage(tmp_path, IDENTITY, {("orders", 0): [[b"a"], [b"b"]]})
    for wrong in (file._replace(batches=3), file._replace(records=1)):
        with pytest.raises(StagedFileError, match="2 batches and 2 records, expected"):
            read_all(tmp_path, wrong)


def test_a_batch_larger_than_a_read_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "READ_BYTES", 100)
    rows = {("orders", 0): [[b"a"], [b"x" * 5000], [b"b"] * 20]}
    [file] = stage(tmp_path, IDENTITY, rows)
    assert read_all(tmp_path, file) == b"".join(map(build, rows["orders", 0]))


def test_files_of_an_identity_are_found_by_query_and_epoch(tmp_path):
    files = stage(tmp_path, IDENTITY)
    stage(tmp_path, IDENTITY._replace(epoch=5))
    stage(tmp_path, CommitIdentity("query:2", 4))
    (tmp_path / "kafkalog-staged-by-somebody-else").touch()
    assert list_staged(tmp_path, IDENTITY) == sorted(file.name for file in files)


def test_files_up_to_the_committed_epoch_are_removable(tmp_path):
    names = {
        epoch: {file.name for file in stage(tmp_path, CommitIdentity("query:1", epoch))}
        for epoch in (3, 4, 5)
    }
    stage(tmp_path, CommitIdentity("query:2", 1))
    assert set(list_removable(tmp_path, IDENTITY)) == names[3] | names[4]


def test_files_whose_driver_has_ended_are_removable(tmp_path):
    child = subprocess.Popen(["true"])
    child.wait()
    machine, _, parent = parent_process().partition(".")
    assert not has_ended(f"{machine}.{parent}")
    assert not has_ended(f"0123456789abcdef.{child.pid}")
    assert not has_ended(UNKNOWN_DRIVER)
    names = []
    for driver in (f"{machine}.{child.pid}", f"{machine}.{os.getpid()}", "12ab.7"):
        query = CommitIdentity(f"batch:{driver}")
        with StagingWriter(tmp_path, query, 0, 0, driver=driver) as writer:
            writer.write("t", 0, [build([b"v"])])
            names += [file.name for file in writer.finish()]
    assert list_removable(tmp_path, CommitIdentity("batch:other")) == names[:1]


def test_files_of_another_query_are_removable_an_hour_after_its_last_write(tmp_path):
    other = CommitIdentity("query:2", 9)
    names = [file.name for file in stage(tmp_path, other)]
    long_ago = time.time() - staging.ABANDONED_AFTER_S - 60
    for name in names[1:]:
        os.utime(tmp_path / name, (long_ago, long_ago))
    assert list_removable(tmp_path, IDENTITY) == []
    os.utime(tmp_path / names[0], (long_ago, long_ago))
    assert list_removable(tmp_path, IDENTITY) == sorted(names)

"""An object that was replaced by another of the same size is data loss."""

from __future__ import annotations

import logging
import os

import fsspec
import pytest

from kafkalog.errors import DataLossError
from kafkalog.storage.remote_source import as_path
from tests.query.batches import build
from tests.spark.planned import offsets_of, plan, whole
from tests.storage.remote_stores import fill, in_memory, s3_server

CLOSED, LAST = (f"{base:020d}.log" for base in (0, 30))


def written(directory, producer_id=7):
    """Write a partition of two segments of two batches of equal size."""
    tp = directory / "orders-0"
    tp.mkdir(parents=True, exist_ok=True)
    for name, first in ((CLOSED, 0), (LAST, 30)):
        batches = (
            build(2, "none", first + 15 * number, 15, producer_id=producer_id)
            for number in range(2)
        )
        (tp / name).write_bytes(b"".join(batches))
    return directory


@pytest.fixture
def bucket(tmp_path):
    with s3_server() as options:
        fill(options, "replaced", written(tmp_path))
        yield options


def far_of(options):
    return as_path("s3://replaced/orders-0", options)


@pytest.mark.parametrize("name", [CLOSED, LAST])
def test_a_replaced_object_is_data_loss(bucket, tmp_path, caplog, name):
    far = far_of(bucket)
    tasks = plan(far, *whole(far))
    assert offsets_of(tasks) == list(range(60))
    before = (tmp_path / "orders-0" / name).read_bytes()
    written(tmp_path, producer_id=8)
    kept = LAST if name == CLOSED else CLOSED
    (tmp_path / "orders-0" / kept).unlink()
    after = (tmp_path / "orders-0" / name).read_bytes()
    assert len(after) == len(before)
    assert after != before
    fill(bucket, "replaced", tmp_path)
    with pytest.raises(DataLossError) as caught:
        offsets_of(tasks)
    printed = str(caught.value)
    assert f"s3://replaced/orders-0/{name} was replaced" in printed
    assert [
        value for value in bucket.values() if value in printed.split("://")[1]
    ] == []
    with caplog.at_level(logging.WARNING, "kafkalog"):
        assert offsets_of(tasks, failOnDataLoss="false") == list(range(60))
    assert f"{name} was replaced" in caplog.text


def test_an_object_rewritten_with_the_same_bytes_is_unchanged(bucket, tmp_path):
    far = far_of(bucket)
    tasks = plan(far, *whole(far))
    fill(bucket, "replaced", tmp_path)
    assert offsets_of(tasks) == list(range(60))


def test_an_object_that_grew_is_read_to_the_planned_end(bucket, tmp_path):
    far = far_of(bucket)
    tasks = plan(far, *whole(far))
    with (tmp_path / "orders-0" / LAST).open("ab") as file:
        file.write(build(2, "none", 60, 15))
    fill(bucket, "replaced", tmp_path)
    assert offsets_of(tasks) == list(range(60))


def test_modification_times_identify_closed_segments(tmp_path):
    """The active segment may be written within its size: brokers can preallocate it."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    far = in_memory(written(tmp_path), "replaced") / "orders-0"
    tasks = plan(far, *whole(far))
    written(tmp_path, producer_id=8)

    def replace(name):
        data = (tmp_path / "orders-0" / name).read_bytes()
        memory.pipe_file(f"/replaced/orders-0/{name}", data)

    replace(LAST)
    assert offsets_of(tasks) == list(range(60))
    replace(CLOSED)
    with pytest.raises(DataLossError, match=rf"{CLOSED} was replaced"):
        offsets_of(tasks)


def test_the_modification_time_of_a_local_file_is_ignored(tmp_path):
    local = written(tmp_path) / "orders-0"
    tasks = plan(local, *whole(local))
    for name in (CLOSED, LAST):
        os.utime(local / name, (1, 1))
    assert offsets_of(tasks) == list(range(60))

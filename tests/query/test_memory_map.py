"""A scan of mapped files has the rows, counts and problems of one that copies them."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

import kafkalog
from kafkalog.errors import LogArgumentError
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment import file_records
from tests import golden_data
from tests.query import kafka_rows
from tests.query.batches import KINDS, build

SETS = ["k282-clean", "k431-clean", "k431-crash", "oldclients"]
WAYS = [(threads, views) for threads in (1, 2) for views in (False, True)]


@pytest.fixture
def segment(tmp_path):
    """Return a segment of every magic and codec, of a few steps."""
    path = tmp_path / "mapped-0" / f"{0:020d}.log"
    path.parent.mkdir()
    kinds = KINDS * 40
    text = bytes(range(256)) * 8
    batches = [build(*kind, 3 * i, text=text) for i, kind in enumerate(kinds)]
    path.write_bytes(b"".join(batches))
    return path


@pytest.fixture
def small_steps(monkeypatch):
    made = file_records.FileRecords.__init__

    def with_small_steps(self, **options):
        made(self, **{**options, "step_bytes": 20_000, "first_bytes": 20_000})

    monkeypatch.setattr(file_records.FileRecords, "__init__", with_small_steps)


def rows_of(path, *, threads=1, views=False, **options):
    scan = kafkalog.scan(path, columns=COLUMNS, threads=threads, **options)
    return kafka_rows.from_chunks(scan.chunks(views=views)), scan.problems


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_directories_of_brokers_have_the_same_rows(name, isolation):
    logs = golden_data.logs(name)
    options = {"isolation": isolation, "control_records": True}
    rows, _ = rows_of(logs, **options)
    assert rows
    assert rows_of(logs, memory_map=True, **options)[0] == rows


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("threads", "views"), WAYS)
def test_every_way_to_read_has_the_same_rows(segment, threads, views):
    rows, _ = rows_of(segment)
    way = {"threads": threads, "views": views}
    assert rows_of(segment, memory_map=True, **way)[0] == rows
    count = kafkalog.scan(segment, memory_map=True).count()
    assert count == len(rows) == 3 * 40 * len(KINDS)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("threads", "views"), WAYS)
def test_damage_is_skipped_alike(segment, threads, views):
    data = bytearray(segment.read_bytes())
    for position in range(5_000, len(data), len(data) // 7):
        data[position] ^= 0xFF
    segment.write_bytes(data)
    rows, problems = rows_of(segment, on_corruption="skip")
    assert problems
    way = {"threads": threads, "views": views}
    assert rows_of(segment, on_corruption="skip", memory_map=True, **way) == (
        rows,
        problems,
    )


def test_an_empty_file_has_no_rows(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    path.touch()
    assert rows_of(path, memory_map=True) == ([], [])


def test_a_partial_last_entry_ends_the_reading(segment):
    rows, _ = rows_of(segment)
    with segment.open("ab") as file:
        file.write(build(2, "none", len(rows))[:-1])
    assert rows_of(segment.parent, memory_map=True) == (rows, [])


def test_views_are_of_the_file_itself(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build(2, "none", 0, text=b"before"))
    for memory_map, text in ((False, b"before"), (True, b"behind")):
        [chunk] = kafkalog.scan(path, memory_map=memory_map).chunks(views=True)
        with path.open("r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(data.replace(b"before", b"behind"))
        values = chunk.value.to_list()
        assert values == [b"%s %d" % (text, i) for i in range(3)]
        path.write_bytes(data)


def test_mapped_bytes_stay_valid_after_the_file_is_removed(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build(2, "none", 0))
    [chunk] = kafkalog.scan(path, memory_map=True).chunks(views=True)
    path.unlink()
    assert chunk.value.to_list() == [b"value %d" % i for i in range(3)]
    assert not chunk.value.data.flags.writeable


def test_a_truncated_file_kills_the_process_as_documented(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(build(2, "none", 3 * i) for i in range(100)))
    program = f"""
import os, kafkalog
[chunk] = kafkalog.scan({str(path)!r}, memory_map=True).chunks(views=True)
os.truncate({str(path)!r}, 0)
chunk.value.to_list()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGBUS


def test_datasets_and_splits_take_the_option(segment):
    dataset = pytest.importorskip("pyarrow.dataset")
    offsets = kafkalog.scan(segment).to_arrow()["offset"].to_pylist()
    mapped = kafkalog.dataset(segment, memory_map=True)
    table = mapped.to_table(filter=dataset.field("offset") >= 0)
    assert table["offset"].to_pylist() == offsets
    parts = kafkalog.splits(segment, target_bytes=100_000, memory_map=True)
    assert parts
    read = np.concatenate(
        [chunk.offset for part in parts for chunk in part.scan().chunks()]
    )
    assert read.tolist() == offsets


def test_a_log_is_read_alike(segment):
    copied = kafkalog.open(segment.parent)
    mapped = kafkalog.open(segment.parent, memory_map=True)
    offset, read = 0, []
    while offset < copied.log_end_offset:
        read.append(mapped.read(offset, max_bytes=100_000))
        assert read[-1] == copied.read(offset, max_bytes=100_000)
        offset = read[-1].next_offset
    assert len(read) > 1


def test_a_log_that_is_appended_to_is_not_mapped(segment):
    with pytest.raises(LogArgumentError, match="memory_map"):
        kafkalog.open(segment.parent, "a", memory_map=True)

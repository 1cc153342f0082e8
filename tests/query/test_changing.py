"""A file that is truncated, extended, rewritten or removed during a scan.

Steps are small, so that a scan is running when its file changes. Returned rows do not
change. Rows returned later were in the file at some time, or a typed error is raised.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.reading.transactions import find_stable
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment import file_records
from kafkalog.storage.byte_source import FileSource
from tests.query.batches import build, rows_of
from tests.query.kafka_rows import from_records

BATCHES = 200
STEP_BYTES = 3_000
WAYS = [
    ({"threads": threads}, chunk_options)
    for threads in (1, 2, 4)
    for chunk_options in ({}, {"views": True}, {"reuse": True})
]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    made = file_records.FileRecords.__init__

    def with_small_steps(self, **options):
        sizes = {"step_bytes": STEP_BYTES, "first_bytes": STEP_BYTES}
        made(self, **{**options, **sizes})

    monkeypatch.setattr(file_records.FileRecords, "__init__", with_small_steps)


@pytest.fixture(params=["none", "lz4"])
def segment(request, tmp_path):
    """Return a segment in a partition's directory, its entries and its rows."""
    place = tmp_path / "orders-0"
    place.mkdir()
    path = place / f"{0:020d}.log"
    entries = [build(2, request.param, 3 * i) for i in range(BATCHES)]
    path.write_bytes(b"".join(entries))
    return path, entries, rows_of(scan(path))


def scan(path, **options):
    return kafkalog.scan(path, columns=COLUMNS, control_records=True, **options)


def read_while(chunks, change, *, kept):
    """Read chunks, and change the file after the second; return rows and the error.

    With `kept`, all chunks are kept, and compared again at the end.
    """
    rows, held = [], []
    try:
        for number, chunk in enumerate(chunks):
            if number == 1:
                change()
            found = from_records(chunk)
            rows += found
            if kept:
                held.append((chunk, found))
    except kafkalog.LocatedError as error:
        end = error
    else:
        end = None
    for chunk, found in held:
        assert from_records(chunk) == found
    return rows, end


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
@pytest.mark.parametrize("share", [0, 3, 10, 11])
def test_a_file_truncated_during_a_scan_ends_there(
    segment, options, chunk_options, share
):
    path, entries, intact = segment
    size = path.stat().st_size
    cut = size * share // 20 + 5 * (share % 2)
    rows, end = read_while(
        scan(path, **options).chunks(**chunk_options),
        lambda: os.truncate(path, cut),
        kept="reuse" not in chunk_options,
    )
    assert end is None
    assert rows == intact[: len(rows)]
    whole = cut // max(map(len, entries))
    assert len(rows) >= 3 * whole


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
def test_a_file_that_grows_during_a_scan_has_the_rows_of_its_start(
    segment, options, chunk_options
):
    path, _, intact = segment

    def grow():
        with path.open("ab") as file:
            file.write(build(2, "none", 3 * BATCHES) * 2)

    rows, end = read_while(
        scan(path, **options).chunks(**chunk_options),
        grow,
        kept="reuse" not in chunk_options,
    )
    assert (rows, end) == (intact, None)
    assert len(rows_of(scan(path, on_corruption="skip"))) == len(intact) + 3


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
def test_a_write_into_preallocated_zeros_during_a_scan_is_no_damage(
    segment, options, chunk_options, monkeypatch
):
    path, _, intact = segment
    size, tail_error = path.stat().st_size, file_records.tail_error
    os.truncate(path, size + 10_000)  # as a preallocated file is longer than its data

    def written_meanwhile(*arguments):
        with path.open("r+b") as file:
            file.seek(size)
            file.write(build(2, "none", 3 * BATCHES))
        return tail_error(*arguments)

    monkeypatch.setattr(file_records, "tail_error", written_meanwhile)
    rows, end = read_while(
        scan(path, **options).chunks(**chunk_options), lambda: None, kept=False
    )
    assert end is None
    assert rows[: len(intact)] == intact
    assert [row[2] for row in rows[len(intact) :]] == [
        3 * BATCHES + i for i in range(3)
    ]


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("torn", [0, 1, 5])
def test_a_partial_write_into_preallocated_zeros_is_read_again(
    segment, options, chunk_options, check_crcs, torn, monkeypatch
):
    path, entries, intact = segment
    size, begin = path.stat().st_size, sum(map(len, entries[: BATCHES - torn]))
    os.truncate(path, size + 10_000)
    read, seen = FileSource.read, []

    def read_torn(source, position, length, take=None):
        data = read(source, position, length, take)
        place = begin + 70 - position  # in the first record of the torn part
        if torn and not seen and 0 <= place < len(data):
            seen.append(position)
            data[place : size - position] = 0
        return data

    monkeypatch.setattr(FileSource, "read", read_torn)
    rows, end = read_while(
        scan(path, check_crcs=check_crcs, **options).chunks(**chunk_options),
        lambda: None,
        kept=False,
    )
    assert (rows, end, len(seen)) == (intact, None, min(torn, 1))


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
@pytest.mark.parametrize("whole_directory", [False, True])
def test_a_file_that_is_removed_during_a_scan_is_read_to_its_end(
    segment, options, chunk_options, whole_directory
):
    path, _, intact = segment

    def remove():
        path.unlink()
        if whole_directory:
            path.parent.rmdir()

    source = path.parent if whole_directory else path
    rows, end = read_while(
        scan(source, **options).chunks(**chunk_options),
        remove,
        kept="reuse" not in chunk_options,
    )
    assert (rows, end) == (intact, None)


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
@pytest.mark.parametrize("share", [0, 0.5, 1])
@pytest.mark.parametrize("more", [1, 2])
def test_a_log_truncated_across_segments_during_a_scan_ends_there(
    segment, options, chunk_options, share, more
):
    path, entries, _ = segment
    cut = sum(map(len, entries[: int(share * BATCHES)]))
    bases = [3 * i for i in range(BATCHES, BATCHES + more)]
    later_segments = [path.with_name(f"{base:020d}.log") for base in bases]
    for later, base in zip(later_segments, bases, strict=True):
        later.write_bytes(build(2, "none", base))
    intact = rows_of(scan(path.parent))

    def truncate():
        for later in later_segments:
            later.rename(later.with_name(f"{later.name}.deleted"))
        os.truncate(path, cut)

    rows, end = read_while(
        scan(path.parent, **options).chunks(**chunk_options), truncate, kept=False
    )
    assert end is None
    assert rows == intact[: len(rows)]
    assert len(rows) >= 3 * BATCHES * share


@pytest.mark.parametrize(("options", "chunk_options"), WAYS)
def test_a_file_rewritten_during_a_scan_has_old_rows_new_rows_or_an_error(
    segment, options, chunk_options
):
    path, entries, intact = segment
    half = sum(map(len, entries[: BATCHES // 2]))
    new = [build(2, "none", 3 * i, text=b"new") for i in range(BATCHES // 2, BATCHES)]

    def rewrite():
        os.truncate(path, half)
        with path.open("ab") as file:
            file.write(b"".join(new))

    rows, end = read_while(
        scan(path, **options).chunks(**chunk_options),
        rewrite,
        kept="reuse" not in chunk_options,
    )
    after = {row[2]: row for row in rows_of(scan(path))}
    before = {row[2]: row for row in intact}
    assert [row[2] for row in rows] == list(range(len(rows)))
    value = COLUMNS.index("value")
    for row in rows:
        assert row[value] in (after[row[2]][value], before[row[2]][value])
    assert end is not None or len(rows) >= 3 * BATCHES // 2


def open_below(directory):
    """Return the files below a directory that this process has open."""
    names = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
    return [name for name in names if name.startswith(str(directory))]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_damage_leaves_no_file_open(segment, isolation):
    path, entries, _ = segment
    data = bytearray(path.read_bytes())
    data[len(entries[0]) + 30] ^= 1
    path.write_bytes(data)
    gc.collect()
    gc.disable()  # files must be closed without the garbage collector
    try:
        with pytest.raises(kafkalog.CorruptRecordError):
            rows_of(scan(path.parent, isolation=isolation))
        with pytest.raises(kafkalog.CorruptRecordError):
            find_stable(path.parent, list_segments(path.parent), 0, 3 * BATCHES)
        assert open_below(path.parent) == []
    finally:
        gc.enable()

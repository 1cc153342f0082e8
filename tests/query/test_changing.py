"""A file that shrinks, grows or is gone under a running scan, under views, in threads.

Steps are small, so that a scan is at work while its file changes. What was given stays
as it was; what comes next was in the file at some time, or a typed error ends it.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog.log.log import find_stable
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment import file_records
from kafkalog.storage.byte_source import FileSource
from tests.query.batches import build, rows_of
from tests.query.told import from_records

BATCHES = 200
STEP_BYTES = 3_000
WAYS = [
    ({"threads": threads}, taking)
    for threads in (1, 2, 4)
    for taking in ({}, {"views": True}, {"reuse": True})
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
    """Take chunks; change the file behind the second. Rows, and the error at the end.

    With `kept` all chunks are held, and looked at once more when all is over.
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


@pytest.mark.parametrize(("options", "taking"), WAYS)
@pytest.mark.parametrize("share", [0, 3, 10, 11])
def test_a_file_that_is_cut_ends_there(segment, options, taking, share):
    path, entries, sound = segment
    size = path.stat().st_size
    cut = size * share // 20 + 5 * (share % 2)
    rows, end = read_while(
        scan(path, **options).chunks(**taking),
        lambda: os.truncate(path, cut),
        kept="reuse" not in taking,
    )
    assert end is None
    assert rows == sound[: len(rows)]
    whole = cut // max(map(len, entries))
    assert len(rows) >= 3 * whole


@pytest.mark.parametrize(("options", "taking"), WAYS)
def test_a_file_that_grows_gives_what_was_there(segment, options, taking):
    path, _, sound = segment

    def grow():
        with path.open("ab") as file:
            file.write(build(2, "none", 3 * BATCHES) * 2)

    rows, end = read_while(
        scan(path, **options).chunks(**taking), grow, kept="reuse" not in taking
    )
    assert (rows, end) == (sound, None)
    assert len(rows_of(scan(path, on_corruption="skip"))) == len(sound) + 3


@pytest.mark.parametrize(("options", "taking"), WAYS)
def test_what_is_written_into_zeros_while_they_are_looked_at_is_no_damage(
    segment, options, taking, monkeypatch
):
    path, _, sound = segment
    size, tail_error = path.stat().st_size, file_records.tail_error
    os.truncate(path, size + 10_000)  # as a preallocated file is longer than its data

    def written_meanwhile(*arguments):
        with path.open("r+b") as file:
            file.seek(size)
            file.write(build(2, "none", 3 * BATCHES))
        return tail_error(*arguments)

    monkeypatch.setattr(file_records, "tail_error", written_meanwhile)
    rows, end = read_while(
        scan(path, **options).chunks(**taking), lambda: None, kept=False
    )
    assert end is None
    assert rows[: len(sound)] == sound
    assert [row[2] for row in rows[len(sound) :]] == [3 * BATCHES + i for i in range(3)]


@pytest.mark.parametrize(("options", "taking"), WAYS)
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("torn", [0, 1, 5])
def test_what_is_half_written_into_zeros_is_read_again(
    segment, options, taking, check_crcs, torn, monkeypatch
):
    path, entries, sound = segment
    size, begin = path.stat().st_size, sum(map(len, entries[: BATCHES - torn]))
    os.truncate(path, size + 10_000)
    read, seen = FileSource.read, []

    def read_torn(source, position, length, take=None):
        data = read(source, position, length, take)
        place = begin + 70 - position  # in the first record of what is torn
        if torn and not seen and 0 <= place < len(data):
            seen.append(position)
            data[place : size - position] = 0
        return data

    monkeypatch.setattr(FileSource, "read", read_torn)
    rows, end = read_while(
        scan(path, check_crcs=check_crcs, **options).chunks(**taking),
        lambda: None,
        kept=False,
    )
    assert (rows, end, len(seen)) == (sound, None, min(torn, 1))


@pytest.mark.parametrize(("options", "taking"), WAYS)
@pytest.mark.parametrize("whole_directory", [False, True])
def test_a_file_that_is_removed_is_read_on(segment, options, taking, whole_directory):
    path, _, sound = segment

    def remove():
        path.unlink()
        if whole_directory:
            path.parent.rmdir()

    source = path.parent if whole_directory else path
    rows, end = read_while(
        scan(source, **options).chunks(**taking), remove, kept="reuse" not in taking
    )
    assert (rows, end) == (sound, None)


@pytest.mark.parametrize(("options", "taking"), WAYS)
@pytest.mark.parametrize("share", [0, 0.5, 1])
@pytest.mark.parametrize("more", [1, 2])
def test_a_log_that_is_cut_across_segments_ends_there(
    segment, options, taking, share, more
):
    path, entries, _ = segment
    cut = sum(map(len, entries[: int(share * BATCHES)]))
    bases = [3 * i for i in range(BATCHES, BATCHES + more)]
    behind = [path.with_name(f"{base:020d}.log") for base in bases]
    for later, base in zip(behind, bases, strict=True):
        later.write_bytes(build(2, "none", base))
    sound = rows_of(scan(path.parent))

    def cut_back():
        for later in behind:
            later.rename(later.with_name(f"{later.name}.deleted"))
        os.truncate(path, cut)

    rows, end = read_while(
        scan(path.parent, **options).chunks(**taking), cut_back, kept=False
    )
    assert end is None
    assert rows == sound[: len(rows)]
    assert len(rows) >= 3 * BATCHES * share


@pytest.mark.parametrize(("options", "taking"), WAYS)
def test_a_file_cut_and_written_anew_gives_old_or_new_or_an_error(
    segment, options, taking
):
    path, entries, sound = segment
    half = sum(map(len, entries[: BATCHES // 2]))
    anew = [build(2, "none", 3 * i, text=b"anew") for i in range(BATCHES // 2, BATCHES)]

    def rewrite():
        os.truncate(path, half)
        with path.open("ab") as file:
            file.write(b"".join(anew))

    rows, end = read_while(
        scan(path, **options).chunks(**taking), rewrite, kept="reuse" not in taking
    )
    after = {row[2]: row for row in rows_of(scan(path))}
    before = {row[2]: row for row in sound}
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
    gc.disable()  # a file is closed then and there, not when somebody tidies up
    try:
        with pytest.raises(kafkalog.CorruptRecordError):
            rows_of(scan(path.parent, isolation=isolation))
        with pytest.raises(kafkalog.CorruptRecordError):
            find_stable(path.parent, 3 * BATCHES)
        assert open_below(path.parent) == []
    finally:
        gc.enable()

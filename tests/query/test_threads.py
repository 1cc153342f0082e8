"""With any number of threads, a scan has the same rows, errors and problems."""

from __future__ import annotations

import itertools
import struct
import threading

import pytest

import kafkalog
from kafkalog.codecs.checksum import crc32c
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment import file_records
from tests import golden_data
from tests.query import kafka_rows
from tests.query.batches import build, rows_of

THREADS = [1, 2, 4]


@pytest.fixture(scope="module")
def made():
    """Return the entries of a segment that takes a hundred steps to read."""
    codecs = itertools.cycle(["none", "gzip", "snappy", "lz4", "zstd"])
    text = bytes(range(256)) * 40
    return [build(2, next(codecs), 3 * i, text=text) for i in range(1_500)]


@pytest.fixture
def segment(made, tmp_path):
    """Return the segment as a file, and the positions of its entries."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(made))
    return path, [0, *itertools.accumulate(map(len, made))]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Set the size of a step to 100 KB, so that there are many."""
    made = file_records.FileRecords.__init__

    def with_small_steps(self, **options):
        made(self, **{**options, "step_bytes": 100_000})

    monkeypatch.setattr(file_records.FileRecords, "__init__", with_small_steps)


def scan(path, threads, **options):
    return kafkalog.scan(path, columns=COLUMNS, threads=threads, **options)


def take_offsets(scanned, offsets):
    for chunk in scanned.chunks():
        offsets += chunk.offset.tolist()


def flip_bits(path, *positions):
    data = bytearray(path.read_bytes())
    for position in positions:
        data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("threads", THREADS)
def test_rows_and_their_order_are_the_same(segment, threads):
    path, _ = segment
    rows = rows_of(scan(path, threads))
    assert [row[2] for row in rows] == list(range(4_500))
    assert rows == rows_of(scan(path, 1))
    views = kafka_rows.from_chunks(scan(path, threads).chunks(views=True))
    assert views == rows


@pytest.mark.parametrize("threads", THREADS)
def test_no_record_is_returned_after_an_error_found_while_decoding(segment, threads):
    path, starts = segment
    data = bytearray(path.read_bytes())
    place = starts[200]
    struct.pack_into(
        ">i", data, place + 57, 2
    )  # of three records; the checksum is corrected
    size = starts[201] - place
    covered = bytes(data[place + 21 : place + size])
    struct.pack_into(">I", data, place + 17, crc32c(covered))
    path.write_bytes(data)
    offsets = []
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        take_offsets(scan(path, threads), offsets)
    assert place <= caught.value.position < place + size
    assert offsets == list(range(600))


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("name", golden_data.SETS)
def test_golden_directories_are_the_same(name, threads):
    options = {"control_records": True, "isolation": "read_committed"}
    place = golden_data.logs(name)
    assert rows_of(scan(place, threads, **options)) == rows_of(
        scan(place, 1, **options)
    )


@pytest.mark.parametrize("threads", THREADS)
def test_an_error_is_raised_after_all_valid_records(segment, threads):
    path, starts = segment
    flip_bits(path, starts[1_001] - 1)
    offsets = []
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        take_offsets(scan(path, threads), offsets)
    assert offsets == list(range(3_000))
    assert (caught.value.path, caught.value.position) == (path, starts[1_000])


@pytest.mark.parametrize("threads", THREADS)
def test_an_error_of_the_disk_is_raised_after_all_records_before_it(
    segment, threads, monkeypatch
):
    path, _ = segment
    read = kafkalog.storage.byte_source.FileSource.read

    def failing(self, position, length, take=None):
        if position > 5_000_000:
            raise OSError(5, "Input/output error")
        return read(self, position, length, take)

    monkeypatch.setattr(kafkalog.storage.byte_source.FileSource, "read", failing)
    offsets = []
    with pytest.raises(OSError, match="Input/output"):
        take_offsets(scan(path, threads), offsets)
    assert offsets == list(range(len(offsets)))
    assert len(offsets) > 500


@pytest.mark.parametrize("threads", THREADS)
def test_problems_are_in_the_order_of_the_file(segment, threads):
    path, starts = segment
    damaged = list(range(1, 1_500, 7))
    # Damage of some is found by the checksum, of others by an invalid size.
    places = [starts[i] + (11 if i % 2 else 30) for i in damaged]
    flip_bits(path, *places)
    skipping = scan(path, threads, on_corruption="skip")
    offsets = [row[2] for row in rows_of(skipping)]
    assert offsets == [o for o in range(4_500) if o // 3 not in damaged]
    assert [problem.position for problem in skipping.problems] == [
        starts[i] for i in damaged
    ]


@pytest.mark.parametrize("threads", THREADS)
def test_problems_of_records_and_of_entries_are_in_order(segment, threads):
    path, starts = segment
    limit = 20_000
    flip_bits(path, *(starts[i] + 40 for i in range(0, 1_500, 10)))
    skipping = scan(path, threads, on_corruption="skip", max_batch_bytes=limit)
    rows_of(skipping)
    positions = [problem.position for problem in skipping.problems]
    assert len({problem.reason for problem in skipping.problems}) > 100
    assert positions == sorted(positions)


def test_threads_end_when_a_scan_is_closed(segment):
    path, _ = segment
    before = threading.active_count()
    chunks = scan(path, 4).chunks()
    next(chunks)
    chunks.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", THREADS)
def test_the_progress_is_reported_in_the_thread_of_the_caller(segment, threads):
    path, positions = segment
    calls = []

    def progress(done, total):
        calls.append((threading.current_thread(), done, total))

    take_offsets(scan(path, threads, progress=progress), [])
    callers, done, totals = map(list, zip(*calls, strict=True))
    assert set(callers) == {threading.current_thread()}
    assert set(totals) == {positions[-1]}
    assert done == sorted(done)
    assert len(set(done)) > 50
    assert done[-1] == positions[-1]


@pytest.mark.parametrize("threads", [0, -1])
def test_fewer_than_one_thread_is_an_error(segment, threads):
    with pytest.raises(ValueError, match="expected 1 or more"):
        scan(segment[0], threads)

"""Reading only headers returns the same headers as reading all bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import RecordBatchBuilder
from kafkalog.errors import LocatedError
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import RECORD_BATCH_OVERHEAD
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.query.tailing import last_records
from kafkalog.storage.byte_source import FileSource
from tests.query.batches import build, offsets_until

UNTOUCHED = 0xA5
LARGE = [
    build(magic, codec, 10 * i, magic, text=os.urandom(12_000 + 700 * i))
    for i, (magic, codec) in enumerate([(2, "none"), (2, "lz4"), (1, "none")] * 8)
]
STARTS = np.cumsum([0, *map(len, LARGE)]).tolist()
WHOLE = b"".join(LARGE)


@pytest.fixture(scope="module")
def folder():
    """A directory on a disk, whose files stay in the page cache.

    Of a file system in memory, no file can be read by preadv2 with RWF_NOWAIT.
    """
    folder = Path(tempfile.mkdtemp(prefix="kafkalog-", dir="/var/tmp"))
    try:
        (folder / "tried").write_bytes(b"tried")
        with (folder / "tried").open("rb") as file:
            try:
                os.preadv(file.fileno(), [bytearray(5)], 0, os.RWF_NOWAIT)
            except (AttributeError, OSError) as error:
                pytest.skip(f"preadv2 with RWF_NOWAIT is not supported: {error}")
        yield folder
    finally:
        shutil.rmtree(folder)


def written(folder, data):
    path = folder / f"{0:020d}.log"
    path.write_bytes(data)
    return path


def fetched(path, position, length):
    """Return the headers of a file, in bytes that show which were not written."""
    buffer = np.full(len(WHOLE) + 100, UNTOUCHED, np.uint8)
    with FileSource(path) as source:
        return source.read_headers(position, length, lambda _: buffer)


@given(first=st.integers(0, len(LARGE) - 1), length=st.integers(0, len(WHOLE) + 99))
@settings(max_examples=200)
def test_only_headers_are_read_each_to_its_position(folder, first, length):
    path = written(folder, WHOLE)
    length = min(length, len(WHOLE) - STARTS[first])
    found = fetched(path, STARTS[first], length)
    expected = np.full(length, UNTOUCHED, np.uint8)
    for start in STARTS[first:-1]:
        begin = start - STARTS[first]
        header = WHOLE[start : start + RECORD_BATCH_OVERHEAD][: max(length - begin, 0)]
        expected[begin : begin + len(header)] = np.frombuffer(header, np.uint8)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [1, 15, 16, 100])
def test_files_of_small_entries_are_read_whole(folder, count):
    data = b"".join(build(2, "none", 3 * i) for i in range(count))
    assert (fetched(written(folder, data), 0, len(data)) is None) == (count > 15)


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_an_invalid_entry_size_stops_reading_headers_only(folder, size):
    data = bytearray(WHOLE)
    data[STARTS[3] + 8 : STARTS[3] + 12] = size.to_bytes(4, signed=True)
    path = written(folder, data)
    assert fetched(path, 0, STARTS[3]) is not None
    assert fetched(path, 0, len(data)) is None


def test_a_truncated_file_stops_reading_headers_only(folder):
    path = written(folder, WHOLE)
    with FileSource(path) as source:
        os.truncate(path, STARTS[5] + 30)
        assert source.read_headers(0, STARTS[5], None) is not None
        assert source.read_headers(0, len(WHOLE), None) is None


def outcome(scan):
    """Return the count, or its error, and the problems."""
    try:
        return scan.count(), scan.problems
    except LocatedError as error:
        return (type(error), str(error)), scan.problems


class Bytewise:
    """A source that counts the bytes read."""

    def __init__(self, *, alone):
        self.alone = alone
        self.bytes = 0
        self.read, self.headers = FileSource.read, FileSource.read_headers

    def __enter__(self):
        def read(source, position, length, take=None):
            data = self.read(source, position, length, take)
            self.bytes += len(data)
            return data

        def read_headers(source, position, length, take):
            return self.headers(source, position, length, take) if self.alone else None

        self.patches = [
            patch.object(FileSource, "read", read),
            patch.object(FileSource, "read_headers", read_headers),
        ]
        for one in self.patches:
            one.start()
        return self

    def __exit__(self, *_):
        for one in self.patches:
            one.stop()


@given(
    places=st.lists(
        st.tuples(st.integers(0, len(LARGE) - 1), st.integers(0, 60)), max_size=3
    ),
    bit=st.integers(0, 7),
    cut=st.one_of(st.just(0), st.integers(0, len(WHOLE) - 1)),
    zeros=st.sampled_from([0, 100]),
    bounds=st.tuples(st.integers(-1, 250), st.integers(-1, 250)),
    corruption=st.sampled_from(["raise", "skip"]),
    kind=st.sampled_from(["file", "directory"]),
)
@settings(max_examples=200)
def test_reading_only_headers_has_the_same_result_as_reading_all(
    folder, places, bit, cut, zeros, bounds, corruption, kind
):
    data = bytearray(WHOLE)
    for batch, place in places:
        data[STARTS[batch] + place] ^= 1 << bit
    path = written(folder, bytes(data[: len(data) - cut]) + bytes(zeros))
    if kind == "directory":
        (folder / "t-0").mkdir(exist_ok=True)
        path = path.rename(folder / "t-0" / path.name).parent
    options = {"on_corruption": corruption} | {
        name: at
        for name, at in zip(("start_offset", "end_offset"), bounds, strict=True)
        if at >= 0
    }
    results = []
    for alone in (True, False):
        with Bytewise(alone=alone):
            scan = kafkalog.scan(path, **options)
            quick = kafkalog.scan(path, columns=["offset"], check_crcs=False, **options)
            results.append((outcome(scan), offsets_until(quick), quick.problems))
    assert results[0] == results[1]


@pytest.mark.parametrize("corruption", ["raise", "skip"])
def test_an_offset_out_of_order_is_found_from_headers_only(folder, corruption):
    """Also if the step ends with it."""
    many = [build(2, "none", 10 * i, 2, text=os.urandom(9000)) for i in range(9)]
    for wrong in range(len(many) - 1):  # after the last there may be a gap
        data = bytearray(b"".join(many))
        data[len(b"".join(many[:wrong])) + 6] ^= 0x10
        path = written(folder, data)
        results = []
        for alone in (True, False):
            with Bytewise(alone=alone):
                results.append(outcome(kafkalog.scan(path, on_corruption=corruption)))
        assert results[0] == results[1]
        assert results[0] != (18, [])


def test_the_last_records_are_counted_without_markers(folder):
    key, value = end_transaction_marker(ControlRecordType.COMMIT, 3)
    place, parts = folder / "u-0", []
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for first in range(0, 80, 2):
        options = {"producer_id": 7, "producer_epoch": 1, "is_transactional": True}
        parts.append(build(2, "none", first, 1, text=os.urandom(30_000), **options))
        marker = RecordBatchBuilder(base_offset=first + 1, is_control=True, **options)
        marker.append(key, value)
        parts.append(marker.build())
    for first in range(0, 80, 20):  # a segment
        segment = b"".join(parts[first : first + 20])
        (place / f"{first:020d}.log").write_bytes(segment)
    last = last_records(kafkalog.scan(place, columns=["offset"]), 15)
    assert offsets_until(last) == (list(range(50, 80, 2)), None)


def test_only_headers_of_a_valid_log_are_read(folder):
    data = b"".join(
        build(2, "zstd", 10 * i, 10, text=os.urandom(9000)) for i in range(99)
    )
    path = written(folder, data)
    for take in (
        lambda: kafkalog.scan(path).count(),
        lambda: len(
            offsets_until(kafkalog.scan(path, columns=["offset"], check_crcs=False))[0]
        ),
    ):
        with Bytewise(alone=True) as read:
            assert take() == 990
        assert read.bytes < len(data) // 100


def test_a_step_whose_headers_do_not_suffice_is_read(folder):
    """A bound is inside one batch of many: other steps are not read."""
    data = b"".join(
        build(2, "none", 10 * i, 10, text=os.urandom(4000)) for i in range(500)
    )
    path = written(folder, data)
    with Bytewise(alone=True) as read:
        assert kafkalog.scan(path, end_offset=2505).count() == 2505
    assert 40_000 < read.bytes < len(data) // 2


def test_the_entries_of_these_tests_are_large_enough():
    assert all(b - a > 8192 for a, b in pairwise(STARTS))

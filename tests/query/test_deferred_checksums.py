"""Checksums verified while decoding find the damage that those verified before find.

A scan with a bound on time verifies every checksum before decoding, because it selects
by headers. With a bound that excludes nothing, it returns the expected result.
"""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import _speedups
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.query.conditions import Comparison, Either, Every
from kafkalog.query.narrowing import narrow
from kafkalog.query.partition_reader import PartitionReader
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment import file_records

from .batches import build, rows_of
from .kafka_rows import from_records

FIRST = 100
EACH = 3
BATCHES = [
    build(2, "none", FIRST + EACH * i, EACH, text=b"v" * 2_000) for i in range(300)
]
STARTS = np.cumsum([0, *map(len, BATCHES)]).tolist()
WHOLE = b"".join(BATCHES)
SEGMENTS = (0, 120, 121, len(BATCHES))  # each from one to the next of these batches
WAYS = {
    "in order": ({}, {"reuse": True}),
    "threads": ({"threads": 3}, {}),
    "views": ({}, {"views": True}),
    "views, threads": ({"threads": 2}, {"views": True}),
}
CRCS_FIRST = ({"start_timestamp": 0}, {})


def written(kind, path, data):
    """Return `data` as a source: bytes, a file, or a directory of three segments."""
    if kind == "bytes":
        return bytes(data)
    path.mkdir(exist_ok=True)
    if kind == "file":
        (path / f"{FIRST:020d}.log").write_bytes(data)
        return path / f"{FIRST:020d}.log"
    for first, end in pairwise(SEGMENTS):
        name = f"{FIRST + EACH * first:020d}.log"
        (path / name).write_bytes(data[STARTS[first] : STARTS[end]])
    return path


def ending(source, way, **options):
    """Return the rows, the error and the problems of a reading in this way."""
    scan_options, chunk_options = way
    scan = kafkalog.scan(source, columns=COLUMNS, **scan_options, **options)
    rows = []
    try:
        for chunk in scan.chunks(**chunk_options):
            rows += from_records(chunk)
    except LocatedError as error:
        return rows, (type(error), str(error)), scan.problems
    return rows, None, scan.problems


@pytest.mark.parametrize("kind", ["bytes", "file", "directory"])
@given(
    places=st.lists(st.integers(0, len(WHOLE) - 1), max_size=4),
    bit=st.integers(0, 7),
    bounds=st.sampled_from([{}, {"start_offset": 250}, {"end_offset": 700}]),
)
@settings(max_examples=40)
def test_damage_found_while_decoding_is_reported_as_if_found_before(
    kind, places, bit, bounds, tmp_path_factory
):
    data = bytearray(WHOLE)
    for place in places:
        data[place] ^= 1 << bit
    source = written(kind, tmp_path_factory.getbasetemp() / f"deferred-{kind}", data)
    for corruption in ("raise", "skip"):
        options = {"on_corruption": corruption, **bounds}
        expected = ending(source, CRCS_FIRST, **options)
        for name, way in WAYS.items():
            assert ending(source, way, **options) == expected, name


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["bytes", "file", "directory"])
def test_every_other_batch_may_be_damaged(kind, way, tmp_path):
    data = bytearray(WHOLE)
    for start in STARTS[1::2]:
        data[start - 3] ^= 1  # in the last record of every other batch
    source = written(kind, tmp_path / "t-0", data)
    rows, error, problems = ending(source, WAYS[way], on_corruption="skip")
    assert error is None
    assert [problem.position for problem in problems] == [
        position if kind != "directory" else position - STARTS[of_segment(i)]
        for i, position in enumerate(STARTS[:-1])
        if i % 2 == 0
    ]
    intact = ending(written(kind, tmp_path / "t-0", WHOLE), WAYS[way])[0]
    assert rows == [row for i, row in enumerate(intact) if i // EACH % 2]


def of_segment(batch):
    """Return the first batch of the segment of a batch."""
    return max(first for first in SEGMENTS if first <= batch)


@pytest.mark.parametrize("way", WAYS)
def test_checksums_of_valid_uncompressed_batches_are_verified_once(way, monkeypatch):
    expected = rows_of(kafkalog.scan(WHOLE, columns=COLUMNS))

    def never(*_):
        raise AssertionError("verified before decoding")

    monkeypatch.setattr(file_records, "find_crc_mismatches", never)
    assert ending(WHOLE, WAYS[way])[0] == expected
    compressed = build(2, "lz4", 0)
    with pytest.raises(AssertionError, match="verified before"):
        ending(compressed, WAYS[way])


@pytest.mark.parametrize(
    ("condition", "deferred"),
    [
        (Comparison("partition", "==", -1), True),
        (Every((Comparison("topic", "==", ""), Comparison("offset", "<", 700))), True),
        (Either((Comparison("topic", "==", ""), Comparison("magic", "==", 2))), True),
        (Comparison("magic", "==", 2), False),
    ],
)
def test_a_filter_on_partitions_and_offsets_leaves_checksums_to_the_decoder(
    condition, deferred
):
    scan = narrow(kafkalog.scan(WHOLE), condition)
    source, bounds = scan.sources[0]
    reader = PartitionReader(
        source=source, bounds=bounds, policy=scan.policy, condition=scan.condition
    )
    assert {step.step.crcs_deferred for step in reader.steps()} == {deferred}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("zeros", [0, 5, 1000])
def test_checksums_are_not_verified_with_check_crcs_false(way, zeros):
    data = bytearray(WHOLE)
    data[STARTS[7] - 3] ^= 1
    data[STARTS[-2] + 100] ^= 1
    data += bytes(zeros)
    rows, error, problems = ending(bytes(data), WAYS[way], check_crcs=False)
    assert (len(rows), error, problems) == (EACH * len(BATCHES), None, [])


def test_progress_reaches_the_end_after_damage(tmp_path):
    data = bytearray(WHOLE)
    data[STARTS[130] - 3] ^= 1
    source, calls = written("directory", tmp_path / "t-0", data), []
    scan = kafkalog.scan(
        source, on_corruption="skip", progress=lambda *now: calls.append(now)
    )
    assert sum(map(len, scan.chunks())) == EACH * (len(BATCHES) - 1)
    assert {total for _, total in calls} == {len(WHOLE)}
    assert calls[-1][0] == len(WHOLE)


@pytest.mark.parametrize("wrong", range(3))
def test_the_kernel_stops_at_a_wrong_checksum(wrong):
    data = bytearray(b"".join(BATCHES[:3]))
    data[STARTS[wrong + 1] - 3] ^= 1
    source = np.frombuffer(bytes(data), np.uint8)
    rows, _, _ = scan_headers(source)
    found = list(
        decode(
            source, 0, rows, bounds=Bounds(), limit=1 << 20, workspace=Workspace(),
            check=True,
        )
    )  # fmt: skip
    [error] = [run for run in found if isinstance(run, LocatedError)]
    assert (error.cause, error.position) == ("crc", STARTS[wrong])
    counts = [run.counts.tolist() for run in found if run is not error]
    assert list(chain(*counts)) == [EACH] * 2


@pytest.mark.parametrize("change", ["cut", "moved", "magic"])
def test_a_payload_that_is_not_all_of_its_batch_fails_the_checksum(change):
    source = np.frombuffer(BATCHES[0], np.uint8)
    rows, _, _ = scan_headers(source)
    starts, lengths = np.array([61]), rows["size_in_bytes"] - 61
    if change == "cut":
        lengths = lengths - 1
    elif change == "moved":
        starts = starts - 1
    else:
        rows["magic"] = 1
    base, emitted = np.zeros(1, np.int64), np.full(1, -9)
    spans = Workspace().spans_for(EACH)
    status, *_ = _speedups.decode_records(
        *(source, rows, (starts, lengths, base), (Bounds().as_array(), False), True),
        *((spans.longs, spans.ints), emitted),
    )
    assert status == _speedups.Status.CHECKSUM
    assert emitted.tolist() == [0]

"""Checksums looked at while decoding tell what those looked at before it tell.

A scan bounded by time looks at every checksum first, as it chooses by headers; where
the bound leaves nothing out it gives the same records: so others are held to it.
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
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment import file_records

from .batches import build, rows_of
from .told import from_records

FIRST = 100
EACH = 3
BATCHES = [
    build(2, "none", FIRST + EACH * i, EACH, text=b"v" * 2_000) for i in range(300)
]
STARTS = np.cumsum([0, *map(len, BATCHES)]).tolist()
WHOLE = b"".join(BATCHES)
SEGMENTS = (0, 120, 121, len(BATCHES))  # each from one to the next of these batches
WAYS = {
    "one by one": ({}, {"reuse": True}),
    "side by side": ({"threads": 3}, {}),
    "in place": ({}, {"views": True}),
    "in place, side by side": ({"threads": 2}, {"views": True}),
}
FIRST_LOOK = ({"start_timestamp": 0}, {})


def written(kind, path, data):
    """Write `data` as what a scan is given: bytes, a file, or a directory of three."""
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
    """Return rows, what ended them, and what was left out, of a reading in this way."""
    asked, taken = way
    scan = kafkalog.scan(source, columns=COLUMNS, **asked, **options)
    rows = []
    try:
        for chunk in scan.chunks(**taken):
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
def test_damage_is_told_as_if_looked_for_first(
    kind, places, bit, bounds, tmp_path_factory
):
    data = bytearray(WHOLE)
    for place in places:
        data[place] ^= 1 << bit
    source = written(kind, tmp_path_factory.getbasetemp() / f"deferred-{kind}", data)
    for corruption in ("raise", "skip"):
        asked = {"on_corruption": corruption, **bounds}
        expected = ending(source, FIRST_LOOK, **asked)
        for name, way in WAYS.items():
            assert ending(source, way, **asked) == expected, name


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
    sound = ending(written(kind, tmp_path / "t-0", WHOLE), WAYS[way])[0]
    assert rows == [row for i, row in enumerate(sound) if i // EACH % 2]


def of_segment(batch):
    """Return the first batch of the segment that a batch lies in."""
    return max(first for first in SEGMENTS if first <= batch)


@pytest.mark.parametrize("way", WAYS)
def test_of_sound_plain_batches_checksums_are_looked_at_once(way, monkeypatch):
    expected = rows_of(kafkalog.scan(WHOLE, columns=COLUMNS))

    def never(*_):
        raise AssertionError("looked at before they were decoded")

    monkeypatch.setattr(file_records, "find_crc_mismatches", never)
    assert ending(WHOLE, WAYS[way])[0] == expected
    packed = build(2, "lz4", 0)
    with pytest.raises(AssertionError, match="looked at before"):
        ending(packed, WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("zeros", [0, 5, 1000])
def test_checksums_that_are_not_to_be_looked_at_are_not(way, zeros):
    data = bytearray(WHOLE)
    data[STARTS[7] - 3] ^= 1
    data[STARTS[-2] + 100] ^= 1
    data += bytes(zeros)
    rows, error, problems = ending(bytes(data), WAYS[way], check_crcs=False)
    assert (len(rows), error, problems) == (EACH * len(BATCHES), None, [])


def test_progress_reaches_the_end_behind_damage(tmp_path):
    data = bytearray(WHOLE)
    data[STARTS[130] - 3] ^= 1
    source, told = written("directory", tmp_path / "t-0", data), []
    scan = kafkalog.scan(
        source, on_corruption="skip", progress=lambda *now: told.append(now)
    )
    assert sum(map(len, scan.chunks())) == EACH * (len(BATCHES) - 1)
    assert {total for _, total in told} == {len(WHOLE)}
    assert told[-1][0] == len(WHOLE)


@pytest.mark.parametrize("wrong", range(3))
def test_the_kernel_stops_where_a_checksum_is_wrong(wrong):
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
    [error] = [one for one in found if isinstance(one, LocatedError)]
    assert (error.cause, error.position) == ("crc", STARTS[wrong])
    counts = [one.counts.tolist() for one in found if one is not error]
    assert list(chain(*counts)) == [EACH] * 2


@pytest.mark.parametrize("change", ["cut", "moved", "magic"])
def test_a_payload_that_is_not_all_of_its_batch_is_not_sound(change):
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
    room = Workspace().spans_for(EACH)
    status, *_ = _speedups.decode_records(
        source, rows, starts, lengths, base, Bounds().as_array(), False, True,
        room.longs, room.ints, emitted,
    )  # fmt: skip
    assert status == _speedups.Status.CHECKSUM
    assert emitted.tolist() == [0]

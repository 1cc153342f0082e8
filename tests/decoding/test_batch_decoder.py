"""Many batches are decoded in one call as each alone, with errors in their place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.decoding import decompression
from kafkalog.decoding.batch_decoder import decode, first_records
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.batch_headers import scan_headers
from tests import golden_data, reference
from tests.query.batches import KINDS, T, build

BIG = 64 << 20


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_a_batch_may_be_read_as_if_it_ended_earlier(most):
    data = np.frombuffer(build(2, "none", 0), np.uint8)
    rows, _, _ = scan_headers(data)
    cut = first_records(data, 0, rows[0], most)
    run = next(
        decode(
            data,
            0,
            np.array([cut]),
            bounds=Bounds(),
            limit=BIG,
            workspace=Workspace(),
        )
    )
    assert (
        values_of(run)
        == [record[3] for record in by_reference(build(2, "none", 0))][:most]
    )


@pytest.mark.parametrize("length", [b"\x01", b"\xff\xff\xff\xff\x7f", b"\x7e"])
@pytest.mark.parametrize("valid", [0, 1])
def test_the_first_records_of_a_batch_end_before_a_corrupt_one(length, valid):
    data = bytearray(build(2, "none", 0))
    damaged = 61 + valid * (1 + data[61] // 2)
    data[damaged : damaged + len(length)] = length
    whole = np.frombuffer(bytes(data), np.uint8)
    rows, _, _ = scan_headers(whole)
    cut = first_records(whole, 0, rows[0], 2)
    assert (cut["count"], cut["size_in_bytes"]) == (valid, damaged)


@pytest.mark.parametrize(("magic", "codec", "most"), [(2, "gzip", 1), (2, "none", 3)])
def test_a_compressed_or_short_batch_is_not_shortened(magic, codec, most):
    data = np.frombuffer(build(magic, codec, 0), np.uint8)
    rows, _, _ = scan_headers(data)
    assert first_records(data, 0, rows[0], most) == rows[0]


def values_of(views, part="value"):
    starts, lengths = (views.records[f"{part}_{name}"] for name in ("start", "length"))
    data = views.data.tobytes()
    return [
        None if length < 0 else data[start : start + length]
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]


def decoded(data, bounds=None, limit=BIG):
    """Return (offset, timestamp, key, value) of each record, and errors among them."""
    whole = np.frombuffer(data, np.uint8)
    rows, status, place = scan_headers(whole, 0, 0)
    assert (status, place) == (0, len(data))
    found = []
    workspace = Workspace()
    for views in decode(
        whole, 0, rows, bounds=bounds or Bounds(), limit=limit, workspace=workspace
    ):
        if isinstance(views, LocatedError):
            found.append(views)
            continue
        assert int(views.counts.sum()) == len(views.records)
        offsets, times = views.records["offset"], views.records["timestamp"]
        found += zip(
            offsets.tolist(),
            times.tolist(),
            values_of(views, "key"),
            values_of(views),
            strict=True,
        )
    return found


def by_reference(data):
    return [
        (record["offset"], record["timestamp"], record["key"], record["value"])
        for entry in reference.entries(data)
        for record in entry["records"]
    ]


@pytest.mark.parametrize("buffer_bytes", [1, 1_000, decompression.DECOMPRESSED_BYTES])
@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_golden_record_equals_the_references_for_any_buffer_size(
    name, buffer_bytes, monkeypatch
):
    monkeypatch.setattr(decompression, "DECOMPRESSED_BYTES", buffer_bytes)
    for place in golden_data.partitions(name):
        paths = sorted(place.glob("*.log"))
        assert paths
        for path in paths:
            data = path.read_bytes()
            entries = reference.entries(data)
            end = (
                entries[-1]["position"] + entries[-1]["size_in_bytes"] if entries else 0
            )
            assert decoded(data[:end]) == by_reference(data[:end])


MIXED = [build(*KINDS[i % len(KINDS)], 3 * i) for i in range(40)]
MIXED_RECORDS = by_reference(b"".join(MIXED))
edges = st.integers(-2, 124)


@given(edges, edges, st.none() | edges, st.none() | edges)
def test_bounds_apply_to_each_record(first, end, early, late):
    bounds = Bounds(
        start_offset=first,
        end_offset=end,
        start_timestamp=None if early is None else T + early,
        end_timestamp=None if late is None else T + late,
    )

    def within(record):
        offset, timestamp = record[:2]
        if not first <= offset < end:
            return False
        if early is None and late is None:
            return True
        after = early is None or timestamp >= T + early
        before = late is None or timestamp < T + late
        return timestamp != -1 and after and before

    assert decoded(b"".join(MIXED), bounds) == list(filter(within, MIXED_RECORDS))


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_an_entry_above_the_limit_is_an_error_in_its_place(magic, codec):
    if magic < 2 and codec == "none":
        large = build(magic, codec, 3, 1, text=b"v" * 5_000)
    else:
        large = build(magic, codec, 3, 1, text=bytes(range(256)) * 20)
    parts = [build(magic, codec, 0), large, build(magic, codec, 4, 2)]
    found = decoded(b"".join(parts), limit=2_000)
    error = found.pop(3)
    assert isinstance(error, BatchTooLargeError)
    assert error.position == len(parts[0])
    assert [record[0] for record in found] == [0, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("magic", "codec"), [kind for kind in KINDS if kind[1] != "none"]
)
def test_a_payload_that_cannot_be_decompressed_is_an_error_in_its_place(magic, codec):
    bad = bytearray(build(magic, codec, 3))
    start = {0: 26, 1: 34, 2: 61}[magic]
    bad[start:] = bytes(len(bad) - start)
    parts = [build(magic, codec, 0), bytes(bad), build(magic, codec, 6)]
    found = decoded(b"".join(parts))
    error = found.pop(3)
    assert isinstance(error, LocatedError)
    assert error.position == len(parts[0])
    assert [record[0] for record in found] == [0, 1, 2, 6, 7, 8]


def test_an_error_in_an_uncompressed_batch_has_the_position_of_the_record():
    parts = [build(2, "none", 3 * i) for i in range(3)]
    bad = bytearray(parts[1])
    bad[61] += 2  # the first record's length
    found = decoded(parts[0] + bytes(bad) + parts[2])
    error = found.pop(3)
    assert isinstance(error, LocatedError)
    assert len(parts[0]) + 61 <= error.position < len(parts[0]) + len(bad)
    assert [record[0] for record in found] == [0, 1, 2, 6, 7, 8]


def test_an_error_keeps_no_decompressed_bytes():
    large = build(2, "gzip", 0, 1, text=bytes(10_000))
    [error] = decoded(large, limit=5_000)
    assert error.__traceback__ is None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_kept_bytes_are_not_overwritten_after_a_corrupt_stream(codec):
    parts = [build(2, codec, base, text=b"%d" % base * 9) for base in (0, 10, 20, 30)]
    parts[1] = parts[1][:61] + bytes(len(parts[1]) - 61)
    data = np.frombuffer(b"".join(parts), np.uint8)
    rows, _, _ = scan_headers(data)
    workspace = Workspace(keeps_bytes=False)
    kept = [
        (run.data, run.data.copy())
        for run in decode(
            data, 0, rows, bounds=Bounds(), limit=BIG, workspace=workspace
        )
        if not isinstance(run, LocatedError)
    ]
    assert len(kept) == 2
    for data, copy in kept:
        assert (data == copy).all()

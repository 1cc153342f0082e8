"""Decoding kernels agree with the reference, and never read outside the bytes."""

from __future__ import annotations

import struct
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.decoding.batch_decoder import DecodedRecords, decode, find_headers
from kafkalog.decoding.decoded_columns import ColumnBuffers, ColumnWorkspace
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.decoding.workspace import Workspace
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import find_crc_mismatches, scan_headers
from tests import golden_data, reference
from tests.guarded import at_the_end, at_the_start
from tests.query.batches import KINDS, build

LIMIT = 1 << 20
COLUMNS = ("key", "value", "headers")
SAMPLES = [build(magic, codec, 5) for magic, codec in KINDS]
UNCOMPRESSED = [build(magic, "none", 5, 4, text=b"v" * 9) for magic in (0, 1, 2)]
numbers = st.integers(0, 255)


def read_all(data):
    """Read headers, CRCs and records; return the status of each entry."""
    rows, status, place = scan_headers(data, 0, 0)
    assert 0 <= place <= len(data)
    assert status in list(_speedups.Status)
    find_crc_mismatches(data, 0, rows)
    ends = []
    for views in decode(
        data, 0, rows, bounds=Bounds(), limit=LIMIT, workspace=Workspace()
    ):
        if isinstance(views, LocatedError):
            ends.append(views)
            assert 0 <= views.position <= len(data)
            continue
        ends.append(int(views.counts.sum()))
        for part in ("key", "value"):
            start = views.records[f"{part}_start"].astype(np.int64)
            length = views.records[f"{part}_length"]
            held = length >= 0
            assert (start[held] >= 0).all()
            assert (start[held] + length[held] <= len(views.data)).all()
    return ends


@given(data=st.binary(max_size=400))
def test_arbitrary_bytes_are_never_read_outside(data):
    read_all(at_the_end(data))
    read_all(at_the_start(data))
    for newest in (False, True):
        _speedups.find_batch(at_the_end(data), 0, len(data), 1 << 20, newest)


@st.composite
def damaged(draw, samples):
    """Return valid entries with changed bytes, or truncated."""
    data = bytearray(draw(st.sampled_from(samples)) + draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(
            numbers | st.sampled_from([0, 1, 127, 128, 254, 255])
        )
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@given(data=damaged(SAMPLES))
def test_damaged_entries_are_never_read_outside(data):
    read_all(at_the_end(data))
    read_all(at_the_start(data))


@given(data=damaged(UNCOMPRESSED))
def test_damaged_uncompressed_entries_are_decoded_as_the_reference_or_rejected(data):
    entries = []
    rows, _, _ = scan_headers(np.frombuffer(data, np.uint8), 0, 0)
    for row in rows:
        position, size = int(row["position"]), int(row["size_in_bytes"])
        entries.append(data[position : position + size])
    for entry in entries:
        try:
            found = list(RecordBatch(entry))
        except LocatedError:
            found = None
        read = reference.batch if entry[16] == 2 else reference.message
        try:
            expected = read(entry)["records"]
        except Exception:
            continue  # the reference also rejects trailing bytes of a message
        if found is None:
            # The kernel drops bits above the width of a varint, as Java does.
            continue
        assert [record.value for record in found] == [
            record["value"] for record in expected
        ]
        assert [record.key for record in found] == [
            record["key"] for record in expected
        ]


@pytest.mark.parametrize("count", [-(2**31), -1, 1, 3, 5, 2**31 - 1])
def test_a_wrong_record_count_is_rejected(count):
    data = bytearray(build(2, "none", 0, 4))
    struct.pack_into(">i", data, 57, count)
    [error] = read_all(at_the_end(data))
    assert isinstance(error, LocatedError)


@given(varint=st.binary(min_size=1, max_size=12))
@example(varint=b"\x80")
@example(varint=b"\xff" * 10)
def test_a_record_may_begin_with_any_varint(varint):
    header = bytearray(build(2, "none", 0, 1)[:61])
    struct.pack_into(">i", header, 8, 49 + len(varint))
    assert len(read_all(at_the_end(bytes(header) + varint))) == 1


def deltas(timestamp, offset):
    """Decode a record with these varints as timestamp delta and offset delta."""
    body = b"\0" + timestamp + offset + b"\x01\x01\x00"
    record = reference.varlong(len(body)) + body
    header = bytearray(build(2, "none", 0, 1)[:61])
    struct.pack_into(">i", header, 8, 49 + len(record))
    struct.pack_into(">q", header, 27, 0)
    [found] = RecordBatch(at_the_end(bytes(header) + record))
    return found.timestamp, found.offset


def numbers_of(bits):
    # Uniform integers nearly all have the maximum length: draw by width.
    widths = st.integers(0, bits)
    return widths.flatmap(lambda w: st.integers(-(1 << w), (1 << w) - 1))


@given(timestamp=numbers_of(63), offset=numbers_of(31))
@example(timestamp=-(2**63), offset=-(2**31))
@example(timestamp=2**63 - 1, offset=2**31 - 1)
def test_varints_of_any_width_are_decoded(timestamp, offset):
    varints = reference.varlong(timestamp), reference.varlong(offset)
    assert deltas(*varints) == (timestamp, offset)


@pytest.mark.parametrize(
    ("timestamp", "offset", "decoded"),
    [
        ("00", "8000", (0, 0)),
        ("00", "80808000", (0, 0)),
        ("00", "ffffffff7f", (0, -(2**31))),
        ("00", "ffffffff0f", (0, -(2**31))),
        ("80808000", "00", (0, 0)),
        ("ffffffffffffffffff7f", "00", (-(2**63), 0)),
    ],
)
def test_longer_varints_and_excess_bits_are_read_as_kafka_reads_them(
    timestamp, offset, decoded
):
    assert deltas(bytes.fromhex(timestamp), bytes.fromhex(offset)) == decoded


@pytest.mark.parametrize("more", [0, 1, 50])
@pytest.mark.parametrize("width", [5, 10])
def test_a_varint_must_end_within_its_width(width, more):
    endless = b"\x80" * (width + more) + b"\x01"
    varints = (b"\0", endless) if width == 5 else (endless, b"\0")
    with pytest.raises(LocatedError, match="varint continues after the last byte"):
        deltas(*varints)


GOLDEN = [
    (name, path)
    for name in golden_data.SETS
    for place in golden_data.partitions(name)
    for path in sorted(place.glob("*.log"))
]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_golden_record_equals_that_of_the_reference(name):
    paths = [path for set_name, path in GOLDEN if set_name == name]
    assert paths
    for path in paths:
        data = path.read_bytes()
        for entry in reference.entries(data):
            batch = RecordBatch(data, entry["position"])
            found = [
                (
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    [(key.encode(), value) for key, value in record.headers],
                )
                for record in batch
            ]
            columns = ("offset", "timestamp", "key", "value", "headers")
            assert found == [
                tuple(record[column] for column in columns)
                for record in entry["records"]
            ]


# Columns


def decode_both_ways(data, bounds):
    """Decode the same bytes to positions, and to columns; copy reused buffers."""
    found = []
    for workspace in (Workspace(), ColumnWorkspace(COLUMNS, ColumnBuffers(kept=False))):
        rows, _, _ = scan_headers(data, 0, 0)
        found.append(
            [
                run
                if isinstance(run, LocatedError)
                else (deepcopy(run.records), deepcopy(run.data), run.counts.tolist())
                for run in decode(
                    data, 0, rows, bounds=bounds, limit=LIMIT, workspace=workspace
                )
            ]
        )
    return found


def slices_of(data, starts, lengths):
    """Return the byte strings at these positions, null as None."""
    pairs = list(zip(starts.tolist(), lengths.tolist(), strict=True))
    return [None if n < 0 else data[at : at + n].tobytes() for at, n in pairs]


def column_rows(strings):
    """Return the rows of a column, null as None."""
    data, ends = strings.data.tobytes(), strings.offsets.tolist()
    rows = zip(pairwise(ends), strings.valid.tolist(), strict=True)
    return [data[a:b] if ok else None for (a, b), ok in rows]


def assert_columns_equal_slices(data, bounds):
    spans, columns_of = decode_both_ways(at_the_end(data), bounds)
    assert len(spans) == len(columns_of)
    for span, columns in zip(spans, columns_of, strict=True):
        if isinstance(span, LocatedError):
            assert str(span) == str(columns)
            assert span.position == columns.position
            continue
        (places, source, counts), (columns, _, column_counts) = span, columns
        assert counts == column_counts
        assert columns.offset.tolist() == places["offset"].tolist()
        assert columns.timestamp.tolist() == places["timestamp"].tolist()
        for name in ("key", "value"):
            start, length = places[f"{name}_start"], places[f"{name}_length"]
            expected = slices_of(source, start, length)
            assert column_rows(getattr(columns, name)) == expected
        run = DecodedRecords(source, np.empty(0), places, np.empty(0))
        ends, (key, key_length, value, value_length) = find_headers(run)
        offsets, keys, values = columns.headers
        assert offsets.tolist() == ends.tolist()
        assert column_rows(keys) == slices_of(source, key, key_length)
        assert column_rows(values) == slices_of(source, value, value_length)


bounded = st.builds(
    Bounds,
    start_offset=st.integers(-1, 8),
    end_offset=st.integers(3, 20),
    start_timestamp=st.none() | st.integers(0, 2**41),
)


@given(data=damaged(SAMPLES), bounds=st.just(Bounds()) | bounded)
def test_gathered_columns_equal_the_bytes_at_the_decoded_positions(data, bounds):
    assert_columns_equal_slices(data, bounds)


@given(
    values=st.lists(
        st.tuples(
            st.none() | st.binary(max_size=90),
            st.none() | st.binary(max_size=20),
            st.integers(0, 300),
            st.integers(0, 6),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_records_of_any_sizes_are_gathered(values):
    batch = RecordBatchBuilder(base_offset=3)
    for value, key, delta, headers in values:
        pairs = [("h" * i, key) for i in range(headers)]
        batch.append(key, value, timestamp=1_000 + delta, headers=pairs)
    assert_columns_equal_slices(batch.build(), Bounds())


def test_records_of_one_layout_keep_their_own_deltas():
    batch = RecordBatchBuilder(base_offset=3)
    for i in range(300):
        batch.append(None, b"%016d" % i, timestamp=1_000 + i * 7 % 200)
    data = batch.build()
    assert_columns_equal_slices(data, Bounds())
    assert [
        (record.offset, record.timestamp, record.value) for record in RecordBatch(data)
    ] == [(3 + i, 1_000 + i * 7 % 200, b"%016d" % i) for i in range(300)]


@given(
    runs=st.lists(
        st.tuples(
            st.none() | st.binary(max_size=40),
            st.sampled_from([0, 1, 16, 63, 64, 100, 128, 129, 300]),
            st.integers(1, 70),
            st.sampled_from([-1, 0, 1, 70]),
        ),
        min_size=1,
        max_size=4,
    ),
    first=st.integers(0, 80),
    last=st.integers(20, 300),
    latest=st.none() | st.integers(1_000, 1_600),
)
def test_bounds_apply_inside_groups_of_one_layout(runs, first, last, latest):
    rows, timestamp = [], 1_000
    for key, size, count, step in runs:
        for _ in range(count):
            rows.append((len(rows), timestamp, key, bytes([len(rows) % 256]) * size))
            timestamp += step
    batch = RecordBatchBuilder(base_offset=0)
    for _, time, key, value in rows:
        batch.append(key, value, timestamp=time)
    data = batch.build()
    bounds = Bounds(start_offset=first, end_offset=last, end_timestamp=latest)
    assert_columns_equal_slices(data, bounds)
    found = [
        record
        for run, _, _ in decode_both_ways(data, bounds)[1]
        for record in zip(
            run.offset.tolist(),
            run.timestamp.tolist(),
            column_rows(run.key),
            column_rows(run.value),
            strict=True,
        )
    ]
    assert found == [
        row
        for row in rows
        if first <= row[0] < last
        and (latest is None or (row[1] < latest and row[1] != -1))
    ]


def test_columns_of_wrong_lengths_are_rejected():
    data = at_the_end(build(2, "none", 0, 2))
    rows, _, _ = scan_headers(data, 0, 0)
    one, eight = np.zeros(1, np.int64), np.empty(8, np.int64)
    column = (np.empty(9, "u1"), np.empty(8, np.int32), np.empty(8, "u1"))
    payloads = (one + 61, rows["size_in_bytes"] - 61, one)
    start = (data, rows, payloads, (Bounds().as_array(), False), False)
    with pytest.raises(ValueError, match="8 offsets, expected 9"):
        _speedups.gather_records(*start, (eight, eight, column, None, None), one)
    headers = (np.empty(8, np.int32), None, None)
    with pytest.raises(ValueError, match="8 header offsets"):
        _speedups.gather_records(*start, (eight, eight, None, None, headers), one)
    small = (np.empty(0, "u1"), np.empty(9, np.int32), np.empty(8, "u1"))
    columns = eight, eight, None, small, None
    status, *_ = _speedups.gather_records(*start, columns, one)
    assert status == _speedups.Status.OUTPUT_FULL


@given(
    size=st.integers(0, 300),
    ranges=st.lists(
        st.tuples(st.integers(-5, 310), st.integers(-1, 310))
        | st.tuples(st.integers(0, 100), st.integers(0, 80)),
        max_size=20,
    ),
    capacity=st.integers(0, 2_000),
)
def test_gathering_stops_at_a_range_outside_the_bytes(size, ranges, capacity):
    source = bytes(i % 251 for i in range(size))
    starts = np.array([start for start, _ in ranges], np.int32)
    lengths = np.array([length for _, length in ranges], np.int32)
    out = np.full(capacity, 255, np.uint8)
    done = _speedups.gather_bytes(at_the_end(source), starts, lengths, out)
    expected, fits = b"", 0
    for start, length in ranges:
        inside = (
            start >= 0 and start + length <= size and length <= capacity - len(expected)
        )
        if length > 0 and not inside:
            break
        expected += source[start : start + max(length, 0)] if length > 0 else b""
        fits += 1
    assert done == fits
    assert out[: len(expected)].tobytes() == expected


@given(lengths=st.lists(st.integers(-1, 2**31 - 1) | st.integers(-1, 40), max_size=30))
def test_offsets_skip_nulls(lengths):
    column = np.array(lengths, np.int32)
    offsets, valid = np.empty(len(lengths) + 1, np.int32), np.empty(len(lengths), "u1")
    total, nulls = _speedups.lengths_to_offsets(column, offsets, valid)
    assert total == sum(max(length, 0) for length in lengths)
    assert nulls == lengths.count(-1)
    assert valid.tolist() == [length >= 0 for length in lengths]
    if total < 2**31:
        assert offsets.tolist() == np.cumsum([0, *np.maximum(column, 0)]).tolist()


@given(
    data=st.binary(max_size=60),
    starts=st.lists(st.integers(-5, 80), min_size=1, max_size=4),
    steps=st.lists(st.integers(-2, 6), min_size=4, max_size=4),
)
def test_headers_are_never_read_or_written_outside(data, starts, steps):
    offsets = np.cumsum([0, *steps[: len(starts)]]).astype(np.int32)
    out = np.empty((4, 3), np.int32)
    status = _speedups.decode_headers(
        at_the_end(data), np.array(starts, np.int32), offsets, out
    )
    is_valid = status == _speedups.Status.OK
    if is_valid and (offsets[1:] > offsets[:-1]).any():
        assert min(starts) >= 0
        assert offsets.max() <= 3
    with pytest.raises(ValueError, match="4 rows"):
        _speedups.decode_headers(
            at_the_end(data), np.array(starts, np.int32), offsets[:-1], out
        )

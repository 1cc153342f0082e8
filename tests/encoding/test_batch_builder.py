"""Builders of batches: agreement with the reference, and rejected input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.encoding.batch_builder import (
    BatchSettings,
    RecordBatchBuilder,
    empty_batch,
    encode_batches,
)
from kafkalog.encoding.batch_encoder import batch_rows, encode
from kafkalog.encoding.record_columns import (
    ByteColumn,
    RecordColumns,
    header_columns,
)
from kafkalog.errors import ConfigError, InvalidRecordError
from kafkalog.formats.layout import CODECS, TimestampType
from tests import reference

T = 1_700_000_000_000
STAMPED = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": T}

# -------------------------------------------------------------------------- strategies

maybe_bytes = st.none() | st.binary(max_size=80) | st.just(b"x" * 130)
headers = st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3)
timestamps = st.just(-1) | st.integers(T - 1000, T + 2**40) | st.integers(0, 2**63 - 1)
rows = st.tuples(st.integers(1, 300), timestamps, maybe_bytes, maybe_bytes, headers)
tables = st.lists(rows, min_size=1, max_size=40)


def columns_of(table, base=0):
    steps, times, keys, values, heads = zip(*table, strict=True)
    return RecordColumns(
        np.cumsum(steps, dtype=np.int64) - steps[0] + base,
        np.array(times, np.int64),
        ByteColumn.of(keys),
        ByteColumn.of(values),
        header_columns(heads),
    )


def rows_of(columns):
    """Yield the rows of columns, read one by one."""
    bounds = keys = values = None
    if columns.headers is not None:
        bounds, keys, values = columns.headers
    for i, (offset, timestamp) in enumerate(
        zip(columns.offset.tolist(), columns.timestamp.tolist(), strict=True)
    ):
        share = range(0) if bounds is None else range(bounds[i], bounds[i + 1])
        yield {
            "offset": offset,
            "timestamp": timestamp,
            "key": cell(columns.key, i),
            "value": cell(columns.value, i),
            "headers": [(cell(keys, at), cell(values, at)) for at in share],
        }


def cell(column, row):
    start, length = int(column.start[row]), int(column.length[row])
    return None if length < 0 else column.data[start : start + length].tobytes()


def read_back(data):
    for entry in reference.entries(bytes(data)):
        assert entry["is_valid"]
        for record in entry["records"]:
            yield {
                field: record[field]
                for field in ("offset", "timestamp", "key", "value", "headers")
            }


# -------------------------------------------------------------------------- agreement


@given(table=tables, codec=st.sampled_from(CODECS), limit=st.integers(1, 50))
def test_the_reference_reads_the_encoded_records(table, codec, limit):
    columns = columns_of(table)
    data = encode_batches(
        columns, rows_per_batch=limit, settings=BatchSettings(codec=codec)
    )
    assert list(read_back(data)) == list(rows_of(columns))
    assert all(entry["count"] <= limit for entry in reference.entries(bytes(data)))


@given(table=tables, codec=st.sampled_from(CODECS[:4]), magic=st.sampled_from([0, 1]))
def test_the_reference_reads_the_encoded_messages_of_magic_0_and_1(table, codec, magic):
    columns = columns_of(table)._replace(headers=None)
    settings = BatchSettings(magic=magic, codec=codec)
    read = list(read_back(encode_batches(columns, settings=settings)))
    timeless = columns._replace(timestamp=np.full_like(columns.timestamp, -1))
    assert read == list(rows_of(columns if magic else timeless))


@given(table=tables, codec=st.sampled_from(CODECS))
def test_single_records_and_columns_are_encoded_as_the_same_batch(table, codec):
    columns = columns_of(table, base=7)
    builder = RecordBatchBuilder(codec=codec)
    for record in rows_of(columns):
        builder.append(
            record["key"],
            record["value"],
            timestamp=record["timestamp"],
            headers=record["headers"],
            offset=record["offset"],
        )
    assert len(builder) == len(table)
    settings = BatchSettings(codec=codec)
    data = encode_batches(columns, batch_bytes=None, settings=settings)
    assert builder.build() == data


def record_size(record, base):
    """Return the size of a record in a batch whose first record is `base`."""
    body = 1 + len(reference.varlong(len(record["headers"])))
    for field in ("timestamp", "offset"):
        body += len(reference.varlong(record[field] - base[field]))
    pairs = [(record["key"], record["value"]), *record["headers"]]
    for part in (part for pair in pairs for part in pair):
        body += len(reference.varlong(-1 if part is None else len(part)))
        body += len(part or b"")
    return len(reference.varlong(body)) + body


@given(table=tables, batch_bytes=st.integers(61, 700))
def test_a_batch_is_as_full_as_it_may_be(table, batch_bytes):
    columns = columns_of(table)
    batches, used = [], 0
    for record in rows_of(columns):
        if not batches or used + record_size(record, batches[-1][0]) > batch_bytes:
            batches.append([])
            used = 61
        batches[-1].append(record)
        used += record_size(record, batches[-1][0])
    found = reference.entries(bytes(encode_batches(columns, batch_bytes)))
    assert [entry["count"] for entry in found] == list(map(len, batches))
    for entry in found:
        assert entry["size_in_bytes"] <= batch_bytes or entry["count"] == 1


def test_sequences_continue_from_batch_to_batch():
    columns = columns_of([(1, T, None, b"v", [])] * 10)
    settings = BatchSettings(
        producer_id=9, producer_epoch=0, base_sequence=2**31 - 3, leader_epoch=4
    )
    data = encode_batches(columns, rows_per_batch=4, settings=settings)
    found = reference.entries(bytes(data))
    assert [entry["base_sequence"] for entry in found] == [2**31 - 3, 1, 5]
    assert [entry["last_sequence"] for entry in found] == [0, 4, 6]
    assert {entry["leader_epoch"] for entry in found} == {4}


def test_rows_may_be_anywhere_in_the_data_of_their_column():
    data = np.frombuffer(b"..bc.a", np.uint8)
    table = np.zeros(
        2, [("start", np.int64), ("length", np.int32), ("other", np.int32)]
    )
    table["start"], table["length"] = [5, 2], [1, 2]
    columns = RecordColumns(
        np.arange(2),
        np.full(2, T),
        ByteColumn(data, table["start"], table["length"]),
        ByteColumn.from_offsets(
            data, np.array([2, 4, 4], np.int32), np.array([True, False])
        ),
    )
    read = [(r["key"], r["value"]) for r in read_back(encode_batches(columns))]
    assert read == [(b"a", b"bc"), (b"bc", None)]


def test_the_header_of_a_batch_has_the_offsets_and_timestamps_of_its_records():
    columns = columns_of([(1, T + 5, b"k", b"v", []), (3, T, None, None, [])], base=40)
    (entry,) = reference.entries(bytes(encode_batches(columns)))
    assert (entry["base_offset"], entry["last_offset"]) == (40, 43)
    assert (entry["base_timestamp"], entry["max_timestamp"]) == (T + 5, T + 5)
    assert entry["delete_horizon_ms"] is None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 100, 1 << 16])
def test_the_output_buffer_does_not_change_the_bytes(codec, size):
    columns = columns_of([(1, T, b"k%d" % i, b"some value", []) for i in range(99)])
    out, settings = np.full(size, 7, np.uint8), BatchSettings(codec=codec)
    for _ in range(2):
        data = encode_batches(columns, 500, settings=settings, out=out)
        assert data == encode_batches(columns, 500, settings=settings)
    assert np.shares_memory(np.asarray(data), out) == (size > 100 and codec == "none")


def test_no_records_are_encoded_as_no_bytes():
    none = np.empty(0, np.int64)
    nulls = ByteColumn.nulls(0)
    columns = RecordColumns(none, none, nulls, nulls)
    for codec in CODECS:
        assert encode_batches(columns, settings=BatchSettings(codec=codec)) == b""


def test_the_level_is_passed_to_the_codec():
    columns = columns_of([(1, T, None, b"some text %d" % i, []) for i in range(999)])
    sizes = [
        len(encode_batches(columns, settings=BatchSettings(codec="zstd", level=level)))
        for level in (-100, 19)
    ]
    assert sizes[1] < sizes[0]
    with pytest.raises(ConfigError, match="level is 99"):
        encode_batches(columns, settings=BatchSettings(codec="zstd", level=99))


# --------------------------------------------------------------------------- rejection


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"codec": "lzma"}, "codec 'lzma', expected none, gzip"),
        ({"magic": 3}, "magic 3, expected 0, 1 or 2"),
        ({"magic": 1, "codec": "zstd"}, "zstd in magic 1, expected magic 2"),
        ({"magic": 1, "is_control": True}, "fields of a batch in magic"),
        ({"magic": 1, "is_transactional": True}, "fields of a batch in magic"),
        ({"magic": 0, "producer_id": 1}, "fields of a batch in magic"),
        ({"magic": 1, "delete_horizon_ms": T}, "fields of a batch in magic"),
        ({"magic": 1, "last_offset": 9}, "fields of a batch in magic"),
        ({"is_transactional": True}, "transactional batch without a producer id"),
        ({"producer_id": 1, "base_sequence": 0}, "producer epoch -1"),
        ({"producer_id": 1, "producer_epoch": 0}, "sequence -1"),
        (
            {"timestamp_type": TimestampType.LOG_APPEND_TIME},
            "log_append_time must be set",
        ),
        ({"log_append_time": T}, "log_append_time must be set"),
        (
            {"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE},
            "no timestamp type in magic 2",
        ),
    ],
)
def test_contradictory_settings_are_rejected(settings, match):
    with pytest.raises(InvalidRecordError, match=match):
        RecordBatchBuilder(**settings)


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({"offset": 9}, "offset 9 after 9, expected ascending offsets"),
        ({"offset": 8}, "offset 8 after 9, expected ascending offsets"),
        ({"offset": 2**31 + 9}, "offset 2147483657, expected 9 to 2147483656"),
        ({"timestamp": -2}, "timestamp -2, expected at least -1"),
        ({"headers": [(None, b"v")]}, "record header without a key"),
    ],
)
def test_an_invalid_record_is_rejected_and_not_kept(record, match):
    builder = RecordBatchBuilder()
    builder.append(b"k", b"v", offset=9)
    before = builder.build()
    with pytest.raises(InvalidRecordError, match=match):
        builder.append(b"k", b"v", **record)
    assert builder.build() == before


def test_an_offset_below_the_base_offset_is_rejected():
    builder = RecordBatchBuilder(base_offset=10)
    with pytest.raises(InvalidRecordError, match="offset 9, expected 10 to"):
        builder.append(None, None, offset=9)


def test_a_last_offset_below_the_last_record_is_rejected():
    builder = RecordBatchBuilder(last_offset=9)
    builder.append(None, None, offset=7)
    builder.append(None, None, offset=10)
    with pytest.raises(InvalidRecordError, match="last offset 9, expected at least 10"):
        builder.build()
    with pytest.raises(InvalidRecordError, match="offset 9, expected 10 to"):
        empty_batch(base_offset=10, last_offset=9)


def test_a_batch_needs_a_record():
    with pytest.raises(InvalidRecordError, match="record count 0"):
        RecordBatchBuilder().build()


def test_many_batches_cannot_have_one_base_offset():
    columns = columns_of([(1, T, None, b"v", [])] * 3)
    settings = BatchSettings(base_offset=0)
    with pytest.raises(
        InvalidRecordError, match="base_offset of 3 batches, expected 1"
    ):
        encode_batches(columns, rows_per_batch=1, settings=settings)


@pytest.mark.parametrize(
    ("offsets", "times", "match"),
    [
        ([0, 1, 1], [T, T, T], "offset 1 after 1, expected ascending offsets"),
        ([-1, 0, 1], [T, T, T], "offset -1, expected at least 0"),
        ([0, 1, 2], [T, -2, T], "timestamp -2, expected at least -1"),
    ],
)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_invalid_offsets_and_timestamps_are_rejected(offsets, times, match, magic):
    columns = columns_of([(1, T, None, b"v", [])] * 3)._replace(
        offset=np.array(offsets), timestamp=np.array(times)
    )
    with pytest.raises(InvalidRecordError, match=match):
        encode_batches(columns, settings=BatchSettings(magic=magic))


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (2, 2), (4, 1), (2**62, 5)])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_row_outside_of_its_column_is_rejected(start, length, magic):
    table = [(1, T, b"k", b"v", [])] * 3
    columns = columns_of(table)
    columns.value.start[1], columns.value.length[1] = start, length
    with pytest.raises(InvalidRecordError, match="record 1 is outside"):
        encode_batches(columns, settings=BatchSettings(magic=magic))


def test_a_header_outside_of_its_column_is_rejected():
    columns = columns_of([(1, T, b"k", b"v", [("h", b"x")])] * 3)
    bounds, keys, values = columns.headers
    for invalid in (
        np.array([0, 1, 9, 9]),
        np.array([0, 2, 1, 3]),
        np.array([-1, 0, 1, 2]),
    ):
        with pytest.raises(InvalidRecordError, match=r"record \d is outside"):
            encode_batches(columns._replace(headers=(invalid, keys, values)))
    keys.length[1] = -1
    with pytest.raises(InvalidRecordError, match="record 1 is outside"):
        encode_batches(columns._replace(headers=(bounds, keys, values)))


def test_columns_of_different_lengths_are_rejected():
    columns = columns_of([(1, T, b"k", b"v", [])] * 3)
    with pytest.raises(ValueError, match="column key of 2 rows, expected 3"):
        encode_batches(columns._replace(key=ByteColumn.nulls(2)))


def test_offsets_further_apart_than_int32_need_two_batches():
    columns = columns_of([(1, T, None, None, []), (1, T, None, None, [])])
    columns.offset[1] = 2**31
    assert len(reference.entries(bytes(encode_batches(columns)))) == 2
    bounds = np.array([0, 2])
    outside = f"record 1, offset {2**31}: outside of its batch"
    with pytest.raises(InvalidRecordError, match=outside):
        encode(columns, batch_rows(columns, bounds), bounds)


# ------------------------------------------------------------------------------ legacy


@pytest.mark.parametrize("magic", [0, 1])
def test_record_headers_are_rejected_below_magic_2(magic):
    columns = columns_of([(1, T, b"k", b"v", [("h", b"x")])])
    with pytest.raises(InvalidRecordError, match=f"record headers in magic {magic}"):
        encode_batches(columns, settings=BatchSettings(magic=magic))


def test_a_message_set_needs_a_record():
    none = np.empty(0, np.int64)
    nulls = ByteColumn.nulls(0)
    with pytest.raises(InvalidRecordError, match="record count 0"):
        encode_batches(
            RecordColumns(none, none, nulls, nulls), settings=BatchSettings(magic=1)
        )


@pytest.mark.parametrize(("magic", "inner"), [(0, [100, 102]), (1, [1, 3])])
def test_offsets_inside_a_wrapper_are_absolute_or_relative(magic, inner):
    builder = RecordBatchBuilder(magic=magic, codec="gzip", base_offset=99)
    for offset in (100, 102):
        builder.append(None, b"v", timestamp=T, offset=offset)
    (entry,) = reference.entries(builder.build())
    stream = reference.unpack("gzip", entry["value"])
    assert [message["offset"] for message in reference.messages(stream)] == inner
    assert (entry["offset"], entry["key"]) == (102, None)
    assert [record["offset"] for record in entry["records"]] == [100, 102]


def test_log_append_time_is_written_to_a_wrapper_and_its_messages():
    builder = RecordBatchBuilder(magic=1, codec="lz4", **STAMPED)
    builder.append(None, b"v", timestamp=5)
    builder.append(None, b"w", timestamp=9)
    (entry,) = reference.entries(builder.build())
    inside = list(reference.messages(reference.unpack("lz4", entry["value"])))
    stamps = [(message["timestamp"], message["attributes"]) for message in inside]
    assert stamps == [(T, 8)] * 2
    assert (entry["timestamp"], entry["attributes"]) == (T, 8 | 3)


def test_magic_0_has_the_incorrect_header_checksum_of_early_lz4():
    for magic, check in ((0, 0x1A), (1, 0x82)):
        builder = RecordBatchBuilder(magic=magic, codec="lz4")
        builder.append(None, b"v")
        (entry,) = reference.entries(builder.build())
        assert entry["value"][6] == check

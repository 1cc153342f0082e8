"""A `RecordBatch` has every field of a batch or message, and its records."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest

import kafkalog
from kafkalog import CorruptRecordError, RecordBatch, UnsupportedFormatError
from kafkalog.encoding.batch_builder import empty_batch
from kafkalog.formats.layout import TimestampType
from tests import golden_data, reference
from tests.query import kafka_rows
from tests.query.batches import T, build
from tests.validation.appending import patched

SAME_NAME = (
    "magic",
    "crc",
    "codec",
    "last_offset",
    "max_timestamp",
    "base_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "is_transactional",
    "is_control",
    "delete_horizon_ms",
    "count",
    "base_offset",
)
OTHER_NAME = {
    "size": "size_in_bytes",
    "valid": "is_valid",
    "partition_leader_epoch": "leader_epoch",
}


@pytest.mark.parametrize(("name", "directory"), kafka_rows.WITH_BATCHES)
def test_every_golden_header_equals_that_read_by_kafka(name, directory):
    data = {}
    for (file, position), row in kafka_rows.batches(name, directory).items():
        if file not in data:
            data[file] = kafka_rows.path_of(name, directory, file).read_bytes()
        batch = RecordBatch(data[file], position)
        fields = {field: field for field in SAME_NAME} | OTHER_NAME
        for field, attribute in fields.items():
            if row.get(field) is not None:
                assert getattr(batch, attribute) == row[field], field
        assert batch.timestamp_type == kafka_rows.TYPES[row["timestamp_type"]]
        assert bytes(batch) == data[file][position : position + row["size"]]


@pytest.mark.parametrize(("name", "directory"), kafka_rows.WITH_BATCHES)
def test_every_golden_record_equals_that_read_by_kafka(name, directory):
    data, found = {}, {}
    for file, position in kafka_rows.batches(name, directory):
        if file not in data:
            data[file] = kafka_rows.path_of(name, directory, file).read_bytes()
        for record in RecordBatch(data[file], position):
            found.setdefault((file, position), []).append(
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": kafka_rows.shorten(record.key),
                    "value": kafka_rows.shorten(record.value),
                    "headers": [
                        (key, kafka_rows.shorten(value))
                        for key, value in record.headers
                    ],
                }
            )
    expected = {}
    for row in golden_data.truth(name, directory, "records"):
        expected.setdefault((row["file"], row["batch_position"]), []).append(
            {
                "offset": row["offset"],
                "timestamp": row["timestamp"],
                "key": as_pair(row["key"]),
                "value": as_pair(row["value"]),
                "headers": [(key, as_pair(value)) for key, value in row["headers"]],
            }
        )
    assert found == expected


def as_pair(content):
    return tuple(content.values()) if isinstance(content, dict) else content


def test_the_golden_sets_have_batches_of_all_kinds():
    rows = [
        row
        for one in kafka_rows.DIRECTORIES
        for row in kafka_rows.batches(*one).values()
    ]
    assert any(row["count"] == 0 for row in rows)
    assert any(row.get("delete_horizon_ms") is not None for row in rows)
    assert any(row["timestamp_type"] == "LogAppendTime" for row in rows)
    assert any(row.get("is_control") for row in rows)
    assert {row["magic"] for row in rows} == {0, 1, 2}


# Magic 2


def test_a_batch_that_compaction_emptied_has_a_header_and_no_records():
    batch = RecordBatch(empty_batch(base_offset=7, last_offset=9, max_timestamp=T))
    assert (batch.base_offset, batch.last_offset, batch.count) == (7, 9, 0)
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, T)
    assert batch.is_valid
    assert list(batch) == []


@pytest.mark.parametrize(
    ("base", "count", "last"),
    [
        (2**31 - 1, 1, 2**31 - 1),
        (2**31 - 1, 2, 0),
        (2**31 - 2, 5, 2),
        (0, 3, 2),
        (-1, 3, -1),
    ],
)
def test_sequence_0_follows_the_greatest(base, count, last):
    producer = {"producer_id": -1, "producer_epoch": -1} if base < 0 else {}
    data = build(2, "none", 40, count, base_sequence=base, **producer)
    assert RecordBatch(data).last_sequence == last


@pytest.mark.parametrize(
    ("base", "delta", "last", "own"),
    [
        (-7, 1, -6, [-1, -1]),
        (-(2**31), 1, -(2**31) + 1, [-1, -1]),
        (5, -2, 3 - 2**31, [5, 6]),
        (1, -2, 2**31 - 1, [1, 2]),
    ],
)
def test_invalid_sequences_wrap_as_javas_int_does(base, delta, last, own):
    fields = {"base_sequence": base, "last_offset_delta": delta}
    data = patched(build(2, "none", 40, 2), fields)
    assert RecordBatch(data).last_sequence == last
    [chunk] = kafkalog.scan(data, columns=["sequence"]).chunks()
    assert chunk.sequence.tolist() == own
    [entry] = reference.entries(data)
    assert entry["last_sequence"] == last
    assert [record["sequence"] for record in entry["records"]] == own


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_log_append_time_is_that_of_every_record(magic, codec):
    stamped = {
        "timestamp_type": TimestampType.LOG_APPEND_TIME,
        "log_append_time": T + 99,
    }
    records = list(RecordBatch(build(magic, codec, 0, 1, **stamped)))
    assert [record.timestamp for record in records] == [T + 99]
    assert records[0].timestamp_type == TimestampType.LOG_APPEND_TIME


def test_timestamps_are_relative_to_the_delete_horizon_if_it_is_set():
    batch = RecordBatch(build(2, "none", 0, delete_horizon_ms=T + 86_400_000))
    assert batch.delete_horizon_ms == batch.base_timestamp == T + 86_400_000
    assert [record.timestamp for record in batch] == [T, T + 1, T + 2]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_has_no_name_and_is_rejected(codec):
    data = bytearray(build(2, "gzip", 0))
    data[22] = data[22] & ~7 | codec
    batch = RecordBatch(data)
    assert batch.codec == f"unknown({codec})"
    with pytest.raises(UnsupportedFormatError):
        list(batch)


# Wrappers


def message(offset, value, *, magic=1, attributes=0, key=None, timestamp=T):
    """Build a message of magic 0 or 1 from its parts, valid or not."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(offset, inner, *, magic=1, attributes=1, timestamp=T):
    return message(
        offset,
        None if inner is None else gzip.compress(b"".join(inner), mtime=0),
        magic=magic,
        attributes=attributes,
        timestamp=timestamp,
    )


def offsets(data):
    return [record.offset for record in RecordBatch(data)]


def inner(*offsets, **fields):
    return [message(offset, b"v%d" % offset, **fields) for offset in offsets]


@pytest.mark.parametrize(
    ("offset", "relative", "expected"),
    [
        (12, (0, 1, 2), [10, 11, 12]),
        (5_000, (0, 1, 2), [4_998, 4_999, 5_000]),
        (0, (0, 1, 2), [0, 1, 2]),
        (102, (0, 2), [100, 102]),
        (107, (3, 5), [105, 107]),
        (2, (0, 1, 2), [0, 1, 2]),
        (0, (0,), [0]),
    ],
)
def test_offsets_in_a_wrapper_of_magic_1_are_relative_to_its_own(
    offset, relative, expected
):
    data = wrapper(offset, inner(*relative))
    assert offsets(data) == expected
    assert RecordBatch(data).base_offset == expected[0]
    assert RecordBatch(data).count is None


def test_offsets_in_a_wrapper_of_magic_0_are_absolute():
    assert offsets(wrapper(9, inner(7, 9, magic=0), magic=0)) == [7, 9]
    # The wrapper's own offset has no effect.
    assert offsets(wrapper(3, inner(7, 9, magic=0), magic=0)) == [7, 9]


def test_the_magic_of_the_wrapper_determines_the_offsets_inside():
    assert offsets(wrapper(12, inner(0, 1, 2, magic=0))) == [10, 11, 12]
    assert offsets(wrapper(12, inner(10, 11, 12), magic=0)) == [10, 11, 12]
    mixed = inner(0, magic=0) + inner(1, magic=1)
    records = list(RecordBatch(wrapper(6, mixed)))
    assert [record.offset for record in records] == [5, 6]
    assert [record.timestamp for record in records] == [-1, T]


def test_messages_in_a_wrapper_have_its_log_append_time():
    data = wrapper(1, inner(0, 1), attributes=1 | 8, timestamp=T + 99)
    assert [record.timestamp for record in RecordBatch(data)] == [T + 99, T + 99]
    # The timestamp type is the wrapper's too; that of an inner message is ignored.
    stale = wrapper(1, inner(0, 1, attributes=8))
    types = {record.timestamp_type for record in RecordBatch(stale)}
    assert types == {TimestampType.CREATE_TIME}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wrapper(1, inner(0, 1, 2)), "below its last message's"),
        (wrapper(5, [wrapper(0, inner(0))]), "compressed inner message"),
        (wrapper(5, []), "without messages, expected at least 1"),
        (wrapper(5, None), "without messages, expected at least 1"),
        (wrapper(5, [b"\x00" * 40]), "without messages, expected at least 1"),
        (wrapper(5, [*inner(0), b"\x00" * 40]), "size is below the least of its magic"),
        (wrapper(5, [*inner(0), build(2, "none", 1)]), "magic, expected 0, 1 or 2"),
    ],
    ids=["offset", "nested", "empty", "null", "zeros", "trailing zeros", "magic 2"],
)
def test_an_invalid_wrapper_message_is_an_error(data, reason):
    with pytest.raises(CorruptRecordError, match=reason):
        list(RecordBatch(data))


@pytest.mark.parametrize("cut", [1, 11, 12, 20])
def test_an_incomplete_last_message_ends_a_wrapper(cut):
    whole = inner(0, 1)
    compressed = gzip.compress(b"".join(whole)[: len(whole[0]) + cut])
    assert offsets(message(7, compressed, attributes=1)) == [7]


@pytest.mark.parametrize("magic", [0, 1])
def test_an_uncompressed_message_has_null_and_empty_keys_and_values(magic):
    for key, value in [(None, None), (b"", b""), (b"k", None), (None, b"v")]:
        [record] = RecordBatch(message(3, value, magic=magic, key=key))
        assert (record.offset, record.key, record.value) == (3, key, value)


def test_the_error_for_bytes_without_a_batch_has_their_position():
    with pytest.raises(
        CorruptRecordError, match="ends after the end of the data"
    ) as caught:
        RecordBatch(build(2, "none", 0)[:-1])
    assert caught.value.position == 0
    with pytest.raises(CorruptRecordError, match=r"magic [0-9-]+, expected 0, 1 or 2"):
        RecordBatch(build(2, "none", 0).replace(b"\x02", b"\x03", 1))

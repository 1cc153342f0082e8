"""Rows of a task become batches of the partitions that Kafka's producer chooses."""

from __future__ import annotations

import itertools
import time
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.encoding.record_columns import ByteColumn
from kafkalog.errors import ConfigError, RecordTooLargeError, UnfitRecordsError
from kafkalog.sink.log_commit import commit_staged
from kafkalog.sink.staging import CommitIdentity, StagingWriter
from kafkalog.spark.sink.input_columns import check_columns, read_rows
from kafkalog.spark.sink.partitioner import (
    Partitioner,
    hash_keys,
    partitions_of,
)
from kafkalog.spark.sink.task_encoder import TaskEncoder
from kafkalog.spark.sink.write_options import SinkOptions, parse_sink_options
from kafkalog.spark.sink.writers import batches_of_rows
from kafkalog.storage.store_options import Hidden
from tests.copies import partition_names
from tests.query.test_memory import measured
from tests.speedups.test_murmur2 import murmur2

IDENTITY = CommitIdentity("batch:1")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("other", pa.float64()),
    ]
)
READ = ["topic", "partition", "key", "value", "headers", "timestamp"]


def row(value, **columns):
    return dict.fromkeys(SCHEMA.names) | {"value": value, "topic": "t"} | columns


def batch_of(rows):
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def write(root, batches, existing=None, task=0, **options):
    """Encode, stage and commit batches as one task; return the rows by partition."""
    options = SinkOptions(path=root, **({"partitions": 3} | options))
    partitioner = Partitioner(
        existing or {}, options.partitions, options.batch_bytes, task
    )
    with StagingWriter(root, IDENTITY, task, 0) as staging:
        encoder = TaskEncoder(options, partitioner, staging)
        for batch in batches:
            encoder.add(batch)
        encoder.flush()
        files = staging.finish()
    commit_staged(root, IDENTITY, files, partitions=options.partitions)
    found = {}
    for one in kafkalog.scan(root, columns=READ).to_arrow().to_pylist():
        found.setdefault((one["topic"], one["partition"]), []).append(one)
    return found


def partition_of(key, count):
    """Return the partition of a key, as ``BuiltInPartitioner.partitionForKey``."""
    return (murmur2(key) & 0x7FFFFFFF) % count


rows_of_tables = st.lists(
    st.builds(
        row,
        st.none() | st.text("abc", max_size=3),
        key=st.binary(max_size=9),
        topic=st.sampled_from(["t", "u"]),
        partition=st.none() | st.integers(0, 2),
        headers=st.none()
        | st.lists(
            st.fixed_dictionaries(
                {"key": st.text("hk", max_size=2), "value": st.none() | st.binary()}
            ),
            max_size=3,
        ),
        other=st.just(1.0),
    ),
    min_size=1,
    max_size=40,
)


@given(rows_of_tables, st.integers(1, 41), st.sampled_from([0, 200, 16384]))
def test_rows_are_in_the_partition_of_the_column_or_of_the_key_in_order(
    tmp_path_factory, rows, size, buffer
):
    expected = {}
    for one in rows:
        partition = one["partition"]
        if partition is None:
            partition = partition_of(one["key"], 3)
        value = None if one["value"] is None else one["value"].encode()
        written = one["key"], value, one["headers"] or []
        expected.setdefault((one["topic"], partition), []).append(written)
    batches = [batch_of(rows[at : at + size]) for at in range(0, len(rows), size)]
    root = tmp_path_factory.mktemp("logs")
    found = write(root, batches, buffer_bytes=buffer, batch_bytes=150)
    assert {
        name: [(one["key"], one["value"], one["headers"]) for one in of_partition]
        for name, of_partition in found.items()
    } == expected


@pytest.mark.parametrize("count", partition_names.COUNTS)
def test_partitions_of_10000_keys_are_those_that_kafka_chooses(count):
    names = partition_names.names()
    keys = ByteColumn.of([partition_names.as_units(name) for name in names])
    chosen = (hash_keys(keys) % count).tolist()
    assert partition_names.digest_of(chosen) == partition_names.KEYS[count]


def test_rows_without_a_key_fill_a_batch_of_one_partition_before_the_next(tmp_path):
    rows = [row("v" * 10) for _ in range(10)]
    found = write(tmp_path, [batch_of(rows[:7]), batch_of(rows[7:])], batch_bytes=30)
    sizes = {partition: len(of) for (_, partition), of in found.items()}
    assert sizes == {0: 4, 1: 3, 2: 3}


def test_tasks_begin_with_different_partitions(tmp_path):
    for task in range(4):
        found = write(tmp_path / str(task), [batch_of([row("v")])], task=task)
        assert list(found) == [("t", task % 3)]


def test_the_partitions_that_rows_were_divided_between_are_known():
    rows = [row("a"), row("b", topic="u", partition=1), row("c", topic="w")]
    partitioner = Partitioner({"t": (0, 1)}, 5, 100, 0)
    table = pa.Table.from_batches([batch_of(rows)])
    partitioner.assign(read_rows(table, None, 0))
    assert partitioner.assigned == {("t", 2), ("w", 5)}


def test_a_topic_option_is_that_of_all_rows(tmp_path):
    rows = [row("a", topic=None), row("b", topic="ignored")]
    assert {topic for topic, _ in write(tmp_path, [batch_of(rows)], topic="one")} == {
        "one"
    }


def test_a_null_timestamp_is_the_time_of_writing_and_others_are_kept(tmp_path):
    times = [None, 1_700_000_000_123_999, -1]
    array = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    batch = batch_of([row("v", partition=0)] * 3).set_column(5, "timestamp", array)
    [of_partition] = write(tmp_path, [batch]).values()
    now, given_, none = (one["timestamp"] for one in of_partition)
    assert now.year >= 2026
    assert given_.timestamp() == 1_700_000_000.123
    assert none is None


def test_columns_of_rows_that_are_missing_are_null(tmp_path):
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"v"])})
    [[one]] = write(tmp_path, [batch], topic="t", partitions=1).values()
    assert (one["key"], one["value"], one["headers"]) == (None, b"v", [])
    assert one["timestamp"] is not None


@pytest.mark.parametrize(
    ("rows", "options", "error", "reason"),
    [
        ([row("a", topic=None)], {}, UnfitRecordsError, "null topic present in the da"),
        ([row("a", partition=-1)], {}, UnfitRecordsError, "Invalid partition: -1"),
        (
            [row("a", partition=3)],
            {},
            ConfigError,
            "partition 3 of topic t, expected o",
        ),
        ([row("a")], {"partitions": None}, ConfigError, "topic t does not exist"),
        ([row("a", topic="a b")], {}, ConfigError, "topic 'a b', expected"),
        (
            [row("a", headers=[{"key": None, "value": b""}])],
            {},
            UnfitRecordsError,
            "record header without a key",
        ),
        (
            [row("v" * 2000)],
            {"max_request_bytes": 1000},
            RecordTooLargeError,
            "is 20.. bytes when serialized which is larger than 1000",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_an_error_and_nothing_is_staged(
    tmp_path, rows, options, error, reason
):
    with pytest.raises(error, match=reason):
        write(tmp_path, [batch_of([row("fine", key=b"1")]), batch_of(rows)], **options)
    assert not list(tmp_path.iterdir())


def test_a_topic_with_missing_partitions_needs_the_column_partition(tmp_path):
    existing = {"t": (0, 2)}
    with pytest.raises(ConfigError, match="without a partition, expected one of 0, 2"):
        write(tmp_path, [batch_of([row("a")])], existing)


def test_the_partitions_on_disk_count_and_not_the_option(tmp_path):
    for partition in range(5):
        (tmp_path / f"t-{partition}").mkdir()
    existing = {"t": tuple(range(5))}
    rows = [row("v", key=b"%d" % number) for number in range(50)]
    found = write(tmp_path, [batch_of(rows)], existing, partitions=2)
    for (_, partition), of_partition in found.items():
        assert {partition_of(one["key"], 5) for one in of_partition} == {partition}
    assert len(found) == 5


def test_a_batch_has_at_most_the_bytes_of_a_request(tmp_path):
    rows = [row("v" * 100, partition=0) for _ in range(50)]
    write(tmp_path, [batch_of(rows)], max_request_bytes=1000)
    batches = kafkalog.scan(tmp_path, columns=["position"]).to_arrow()
    positions = sorted(set(batches.column("position").to_pylist()))
    assert len(positions) > 5
    sizes = [b - a for a, b in itertools.pairwise(positions)]
    assert max(sizes) <= 1000


@pytest.mark.parametrize(
    ("types", "topic", "reason"),
    [
        ({"value": "binary"}, None, "topic option required when no 'topic' attribute"),
        ({"key": "binary"}, "t", "Required attribute 'value' not found"),
        (
            {"value": "int"},
            "t",
            "value attribute unsupported type int. value must be a(n) string or binary",
        ),
        ({"value": "string", "key": "bigint"}, "t", "key must be a(n) string or bin"),
        ({"value": "string", "topic": "binary"}, None, "topic must be a(n) string"),
        ({"value": "string", "partition": "bigint"}, "t", "partition must be a(n) int"),
        (
            {"value": "string", "headers": "string"},
            "t",
            "headers must be a(n) array<struct<key:string,value:binary>>",
        ),
        ({"value": "string", "timestamp": "bigint"}, "t", "must be a(n) timestamp"),
    ],
)
def test_columns_of_another_type_are_an_error(types, topic, reason):
    with pytest.raises(ConfigError) as raised:
        check_columns(types, topic)
    assert reason in str(raised.value)


def test_columns_that_are_not_written_are_ignored():
    check_columns({"value": "string", "offset": "bigint", "x": "map<int,int>"}, "t")


def test_nothing_is_left_of_a_task_that_writes_no_rows(tmp_path):
    assert write(tmp_path / "logs", [batch_of([])]) == {}
    assert Path(tmp_path / "logs").is_dir()


def test_rows_of_spark_4_0_have_their_local_times_in_utc(monkeypatch):
    types = pytest.importorskip("pyspark.sql.types")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    schema = types.StructType(
        [
            types.StructField("value", types.BinaryType()),
            types.StructField("timestamp", types.TimestampType()),
        ]
    )
    local = datetime.fromtimestamp(1_700_000_000)
    rows = [
        types.Row(value=b"v", timestamp=local),
        types.Row(value=b"", timestamp=None),
    ]
    [batch] = batches_of_rows(iter(rows), schema)
    monkeypatch.undo()
    time.tzset()
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [1_700_000_000_000_000, None]


def test_an_invalid_topic_of_an_option_is_shown(tmp_path):
    options = {"path": Hidden(str(tmp_path)), "topic": Hidden("a b")}
    topic = parse_sink_options(options).topic
    with pytest.raises(ConfigError, match="topic 'a b', expected"):
        partitions_of(topic, {}, 1)


PEAK_OF_A_TASK = """
import tempfile
import numpy as np
import pyarrow as pa
from pathlib import Path
from kafkalog.sink.staging import CommitIdentity, StagingWriter
from kafkalog.spark.sink.partitioner import (
    Partitioner,
    hash_keys,
    partitions_of,
)
from kafkalog.spark.sink.task_encoder import TaskEncoder
from kafkalog.spark.sink.write_options import SinkOptions

rows, partitions = 10_000, int(sys.argv[1])
keys = pa.array([b"%016d" % row for row in range(rows)])
values = pa.array([b"v" * 100] * rows)
batch = pa.RecordBatch.from_arrays([keys, values], ["key", "value"])
root = Path(tempfile.mkdtemp())
options = SinkOptions(path=root, topic="t", partitions=partitions, codec="lz4")
for millions in (1, 1, 10):
    partitioner = Partitioner({}, partitions, options.batch_bytes, 0)
    reset()
    before = peak()
    with StagingWriter(root, CommitIdentity("q"), 0, 0) as staging:
        encoder = TaskEncoder(options, partitioner, staging)
        for _ in range(millions * 100):
            encoder.add(batch)
        encoder.flush()
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 100])
def test_memory_of_a_task_does_not_grow_with_its_rows(partitions):
    _, few, many = measured(PEAK_OF_A_TASK, partitions)
    assert many < 100
    assert many < few + 20

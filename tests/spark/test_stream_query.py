"""Offsets of a stream, called as Spark calls it, without Spark."""

from __future__ import annotations

import pickle
import shutil

import pyspark
import pytest

from kafkalog.errors import DataLossError
from kafkalog.spark import batch_query, stream_query
from kafkalog.spark.read_options import parse_options
from kafkalog.spark.source import KafkaLogDataSource
from tests.query.batches import build

COUNT = 5
HAS_LIMITS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


class Field:
    name, nullable, dataType = "offset", True, None

    def __init__(self):
        self.dataType = self

    def simpleString(self):
        return "bigint"


class Schema:
    fields = (Field(),)


def name(base):
    return f"{base:020d}.log"


def append(root, tp, first, batches=1, base=0):
    (root / tp).mkdir(exist_ok=True)
    data = b"".join(
        build(2, "none", first + number * COUNT, COUNT) for number in range(batches)
    )
    with (root / tp / name(base)).open("ab") as file:
        file.write(data)


@pytest.fixture
def logs(tmp_path):
    append(tmp_path, "a-0", 0, 8)
    append(tmp_path, "a-1", 0, 2)
    return tmp_path


def reader_of(logs, **options):
    options = {"path": str(logs), "startingOffsets": "earliest"} | options
    source = KafkaLogDataSource(options)
    return pickle.loads(pickle.dumps(source)).streamReader(Schema())


def read(reader, start, end):
    """Read a batch as tasks do, with a copy of the reader."""
    other = pickle.loads(pickle.dumps(reader))
    return sorted(
        (split.task[0].topic, split.task[0].partition, offset)
        for split in reader.partitions(start, end)
        for batch in other.read(pickle.loads(pickle.dumps(split)))
        for offset in batch["offset"].to_pylist()
    )


class ReadAllAvailable:
    """The ``ReadAllAvailable`` of Spark from 4.2 on."""


def limit_of(reader):
    """Return the limit that Spark would pass, if it has limits."""
    return reader.getDefaultReadLimit() if HAS_LIMITS else None


def all_of(partition, start, end):
    return [("a", partition, offset) for offset in range(start, end)]


def test_batches_read_from_the_start_to_the_end(logs):
    reader = reader_of(logs, maxRecordsPerPartition="1000")
    start = reader.initialOffset()
    assert start == {"a": {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {"a": {"0": 40, "1": 10}} == reader.reportLatestOffset()
    assert read(reader, start, end) == all_of(0, 0, 40) + all_of(1, 0, 10)
    append(logs, "a-1", 10)
    later = reader.latestOffset(end, limit_of(reader))
    assert later == {"a": {"0": 40, "1": 15}}
    assert read(reader, end, later) == all_of(1, 10, 15)
    assert reader.partitions(later, later) == []
    assert list(reader.read(None)) == []
    reader.commit(later)


def test_a_stream_reads_only_new_records_by_default(logs):
    options = {"path": str(logs)}
    reader = KafkaLogDataSource(options).streamReader(Schema())
    assert reader.initialOffset() == {"a": {"0": 40, "1": 10}}


def test_a_maximum_is_shared_by_the_backlogs(logs):
    reader = reader_of(logs, maxOffsetsPerTrigger="10")
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit_of(reader))
    assert end == {"a": {"0": 8, "1": 2}}
    assert reader.latestOffset(start, ReadAllAvailable()) == {"a": {"0": 40, "1": 10}}


def test_a_minimum_delays_a_batch_up_to_the_maximum_delay(logs, monkeypatch):
    now = [1_000_000]
    monkeypatch.setattr(stream_query.time, "time_ns", lambda: now[0] * 1_000_000)
    reader = reader_of(logs, minOffsetsPerTrigger="100", maxTriggerDelay="10s")
    limit = limit_of(reader)
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    assert first == {"a": {"0": 40, "1": 10}}  # the first batch is not delayed
    append(logs, "a-0", 40)
    assert reader.latestOffset(first, limit) == first
    now[0] += 9_999
    assert reader.latestOffset(first, limit) == first
    now[0] += 1
    assert reader.latestOffset(first, limit) == {"a": {"0": 45, "1": 10}}


def test_the_read_limit_is_that_of_the_options(logs):
    assert hasattr(stream_query, "limits") == HAS_LIMITS
    limits = {
        "maxOffsetsPerTrigger": lambda: stream_query.limits.ReadMaxRows(100),
        "minOffsetsPerTrigger": lambda: stream_query.limits.ReadMinRows(100),
        "maxTriggerDelay": lambda: stream_query.limits.ReadAllAvailable(),
    }
    for name in limits if HAS_LIMITS else ():  # Spark before 4.2 does not ask
        assert reader_of(logs, **{name: "100"}).getDefaultReadLimit() == limits[name]()


def test_available_now_ends_at_the_offsets_available_first(logs):
    reader = reader_of(logs, maxOffsetsPerTrigger="30")
    reader.prepareForTriggerAvailableNow()
    append(logs, "a-0", 40, 3)
    offsets, batches = reader.initialOffset(), 0
    while True:
        end = reader.latestOffset(offsets, limit_of(reader))
        if end == offsets:
            break
        offsets, batches = end, batches + 1
    assert offsets == {"a": {"0": 40, "1": 10}}
    assert batches == 2


def test_without_start_and_limit_the_last_planned_end_is_used(logs):
    reader = reader_of(logs, maxOffsetsPerTrigger="10")
    start = reader.initialOffset()
    end = reader.latestOffset()
    assert end == {"a": {"0": 8, "1": 2}}
    reader.partitions(start, end)
    assert reader.latestOffset() == {"a": {"0": 16, "1": 4}}
    restarted = reader_of(logs, maxOffsetsPerTrigger="10")
    assert restarted.latestOffset() == {"a": {"0": 40, "1": 10}}


def test_a_new_partition_is_read_from_its_first_offset(logs):
    reader = reader_of(logs)
    start = reader.latestOffset(reader.initialOffset(), None)
    append(logs, "b-0", 0)
    end = reader.latestOffset(start, None)
    assert end == {"a": {"0": 40, "1": 10}, "b": {"0": 5}}
    assert read(reader, start, end) == [("b", 0, offset) for offset in range(5)]


def test_a_repeated_batch_reads_the_same_rows(logs):
    reader = reader_of(logs)
    start, end = reader.initialOffset(), reader.latestOffset({}, None)
    before = read(reader, start, end)
    append(logs, "a-0", 40, 4)
    append(logs, "a-1", 10, base=10)
    assert read(reader_of(logs), start, end) == before


def test_segments_deleted_during_a_stream_are_data_loss(logs):
    reader = reader_of(logs)
    start, end = reader.initialOffset(), reader.latestOffset({}, None)
    append(logs, "a-0", 40, base=40)
    (logs / "a-0" / name(0)).unlink()
    with pytest.raises(DataLossError, match="a-0"):
        reader.partitions(start, end)
    lenient = reader_of(logs, failOnDataLoss="false")
    assert read(lenient, start, end) == all_of(1, 0, 10)
    later = lenient.latestOffset(end, None)
    assert read(lenient, end, later) == all_of(0, 40, 45)


def test_a_stream_rejects_options_of_a_batch(logs):
    with pytest.raises(ValueError, match="endingOffsets"):
        reader_of(logs, endingOffsets="latest")
    assert parse_options({"path": "x"}, streaming=True).starting.name == "LATEST"


@pytest.mark.parametrize("kind", ["reader", "streamReader"])
def test_one_warning_lists_ignored_options(logs, kind):
    options = {"kafka.bootstrap.servers": "nowhere:9092", "groupIdPrefix": "g"}
    source = KafkaLogDataSource({"path": str(logs)} | options)
    with pytest.warns(UserWarning, match="options without effect") as caught:
        getattr(source, kind)(Schema())
    [warning] = caught
    assert all(name in str(warning.message) for name in options)
    assert "nowhere" not in str(warning.message)


def test_a_topic_deleted_during_planning_is_retried(logs):
    options = parse_options({"path": str(logs)}, streaming=True)
    requested = []

    def latest(partitions):
        requested.append(sorted(partitions.topic_partitions()))
        shutil.rmtree(logs / "a-1", ignore_errors=True)
        return partitions.latest_offsets(partitions.topic_partitions())

    assert batch_query.with_partitions(options, latest) == {("a", 0): 8 * COUNT}
    assert requested == [[("a", 0), ("a", 1)], [("a", 0)]]


def test_a_missing_topic_is_an_error_after_retries(logs):
    options = parse_options({"path": str(logs)}, streaming=True)

    def missing(partitions):
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError, match="gone"):
        batch_query.with_partitions(options, missing)

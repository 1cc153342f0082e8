"""`offsets_for_times` and `list_segments` agree with the logs and files."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.errors import ConfigError
from kafkalog.spark.index_functions import GROUP_SIZE
from tests import golden_data
from tests.query import kafka_rows
from tests.spark.test_golden import LOG_STARTS

pytestmark = pytest.mark.spark

FIRST_MS = 1_700_000_000_000
FAR_MS = 9_223_372_036_854_775_807
OFFSET, TIME = (kafka_rows.COLUMNS.index(name) for name in ("offset", "timestamp"))


def living(name):
    """Return the partition directories of a set, without those marked deleted."""
    return [
        directory
        for set_name, directory in kafka_rows.DIRECTORIES
        if set_name == name
        and not directory.endswith("-delete")
        and (golden_data.logs(name) / directory).is_dir()
    ]


def first_at(name, directory, time_ms):
    """Return the offset of the first record at or after a time, by a scan."""
    start = LOG_STARTS.get((name, directory), 0)
    return next(
        (
            row[OFFSET]
            for file, row in kafka_rows.records(name, directory)
            if file.endswith(".log")
            and row[OFFSET] >= start
            and row[TIME] is not None
            and row[TIME] >= time_ms
        ),
        None,
    )


def times_of(name):
    """Return some times around those of a set's records, in ms."""
    known = {
        row[TIME]
        for directory in living(name)
        for _, row in kafka_rows.records(name, directory)
        if row[TIME] is not None
    }
    some = sorted(known)[:: max(1, len(known) // 10)]
    return [1, *some, max(known), max(known) + 1]


def milliseconds(frame):
    return [
        (row["topic"], row["partition"], row["ms"], row["offset"])
        for row in frame.selectExpr("*", "unix_millis(timestamp) ms").collect()
    ]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_offsets_for_times_equal_kafkas(spark, name):
    from kafkalog.spark import offsets_for_times

    times = times_of(name)
    found = milliseconds(offsets_for_times(spark, golden_data.logs(name), times))
    assert sorted(found, key=str) == sorted(
        (
            (
                *kafka_rows.split_name(directory),
                time_ms,
                first_at(name, directory, time_ms),
            )
            for directory in living(name)
            for time_ms in times
        ),
        key=str,
    )


def test_a_timestamp_may_be_a_datetime_and_topics_selected(spark):
    from kafkalog.spark import offsets_for_times

    logs = golden_data.logs("k431-clean")
    time = datetime.fromtimestamp(FIRST_MS / 1000 + 1, UTC)
    frame = offsets_for_times(spark, logs, time, subscribe="orders.lz4,orders.zstd")
    names = ["orders.lz4-0", "orders.zstd-0"]
    assert sorted(milliseconds(frame)) == [
        (
            *kafka_rows.split_name(one),
            FIRST_MS + 1000,
            first_at("k431-clean", one, FIRST_MS + 1000),
        )
        for one in names
    ]
    assert frame.columns == ["topic", "partition", "timestamp", "offset"]
    with pytest.raises(ConfigError, match="the range of Spark's"):
        offsets_for_times(spark, logs, [FAR_MS])
    with pytest.raises(ValueError, match="without a time zone"):
        offsets_for_times(spark, logs, [datetime(2025, 1, 1)])
    with pytest.raises(ConfigError, match="no partition found of topics nothing"):
        offsets_for_times(spark, logs, 0, subscribe="nothing")


def test_read_committed_ignores_uncommitted_records(spark, tmp_path):
    from kafkalog.spark import offsets_for_times

    directory = tmp_path / "open-0"
    directory.mkdir()
    committed = RecordBatchBuilder(base_offset=0)
    committed.append(b"", b"", timestamp=FIRST_MS)
    undecided = RecordBatchBuilder(
        base_offset=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    undecided.append(b"", b"", timestamp=FIRST_MS + 5)
    file = directory / f"{0:020d}.log"
    file.write_bytes(committed.build() + undecided.build())
    committed = {"kafka.isolation.level": "read_committed"}
    for options, last in (({}, 1), (committed, None)):
        times = [FIRST_MS, FIRST_MS + 1]
        found = milliseconds(offsets_for_times(spark, tmp_path, times, **options))
        assert [offset for *_, offset in found] == [0, last]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_segments_equal_the_files_and_kafkas_dump(spark, name):
    from kafkalog.spark import list_segments

    logs = golden_data.logs(name)
    frame = list_segments(spark, logs)
    rows = frame.selectExpr(
        "*", "unix_millis(maxTimestamp) ms", "unix_micros(modificationTime) us"
    ).collect()
    files = [
        (directory, file)
        for directory in living(name)
        for file in kafka_rows.files(name, directory)
        if file.endswith((".log", ".log.deleted"))
    ]
    assert {(row.directory.rpartition("/")[2], row.segment) for row in rows} == set(
        files
    )
    assert len(rows) == len(files)
    for row in rows:
        directory = row.directory.rpartition("/")[2]
        assert (row.topic, row.partition) == kafka_rows.split_name(directory)
        status = (logs / directory / row.segment).stat()
        assert (row.sizeInBytes, row.us) == (status.st_size, status.st_mtime_ns // 1000)
        assert row.state == ("deleted" if row.segment.endswith("deleted") else None)
        batches = [
            one
            for (file, _), one in kafka_rows.batches(name, directory).items()
            if file == row.segment
        ]
        assert row.baseOffset == int(row.segment.partition(".")[0])
        assert row.nextOffset == max(
            [row.baseOffset, *(one["last_offset"] + 1 for one in batches)]
        )
        times = [one["max_timestamp"] for one in batches if one["max_timestamp"] >= 0]
        assert row.ms == (max(times) if times else None)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_index_entries_are_as_many_as_in_kafkas_dump(spark, name):
    from kafkalog.spark import list_segments

    rows = {
        (row.directory.rpartition("/")[2], row.segment): row
        for row in list_segments(spark, golden_data.logs(name)).collect()
    }
    checked = 0
    for directory in living(name):
        for one in golden_data.truth(name, directory, "indexes"):
            stem, _, kind = one["file"].partition(".")
            row = rows.get((directory, f"{stem}.log"))
            column = {"index": "indexEntries", "timeindex": "timeIndexEntries"}.get(
                kind
            )
            if row is not None and column is not None and one["sanity"] == "ok":
                assert row[column] == len(one["entries"]), (directory, one["file"])
                checked += 1
    assert checked or name == "oldclients"


def test_a_timestamp_beyond_sparks_range_is_limited(spark, tmp_path):
    from kafkalog.spark import list_segments

    directory = tmp_path / "far-0"
    directory.mkdir()
    builder = RecordBatchBuilder(base_offset=0)
    builder.append(b"", b"", timestamp=FAR_MS)
    (directory / f"{0:020d}.log").write_bytes(builder.build())
    frame = list_segments(spark, directory).selectExpr("year(maxTimestamp) y", "topic")
    assert [tuple(row) for row in frame.collect()] == [(294247, "far")]


def test_many_partitions_are_divided_among_tasks(spark, tmp_path):
    from kafkalog.spark import list_segments, offsets_for_times

    builder = RecordBatchBuilder(base_offset=0)
    builder.append(b"", b"", timestamp=FIRST_MS)
    count = 2 * GROUP_SIZE + 1
    for number in range(count):
        directory = tmp_path / f"wide-{number}"
        directory.mkdir()
        (directory / f"{0:020d}.log").write_bytes(builder.build())
    frame = offsets_for_times(spark, tmp_path, [FIRST_MS, FIRST_MS + 1])
    assert frame.rdd.getNumPartitions() == 3
    found = {
        (partition, ms): offset for _, partition, ms, offset in milliseconds(frame)
    }
    expected = {
        (number, FIRST_MS + i): [0, None][i] for number in range(count) for i in (0, 1)
    }
    assert found == expected
    assert list_segments(spark, tmp_path).count() == count
    assert list_segments(spark, tmp_path, subscribePattern="^no$").collect() == []
    assert offsets_for_times(spark, tmp_path, []).collect() == []

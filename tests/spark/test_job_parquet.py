"""A task writes a file for each topic and UTC date."""

from __future__ import annotations

import datetime

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.errors import CorruptRecordError
from kafkalog.query.task_planning import OffsetRange, plan_tasks
from kafkalog.spark import job_parquet
from kafkalog.spark.job_output import ParquetOutput, locked
from kafkalog.spark.job_parquet import TaskWriter, by_date, file_columns, read_schema
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.read_options import default_columns
from kafkalog.spark.task_reader import TaskReader
from tests.spark import lakes

COLUMNS = file_columns(default_columns(include_headers=False))
NOV_14, NOV_15, NOV_16 = (f"date=2023-11-{day}" for day in (14, 15, 16))


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    lakes.add_segment(folder, "orders-0", 0, 300, step_ms=500_000)
    lakes.add_segment(folder, "audit-0", 0, 10, start_ms=-1, step_ms=0)
    return folder


def tasks_of(logs):
    held = LogPartitions([logs])
    ends = held.latest_offsets(held.topic_partitions())
    ranges = [OffsetRange(*tp, 0, ends[tp]) for tp in held.topic_partitions()]
    return plan_tasks(ranges, held.directory, target_bytes=1 << 20)


def writer_into(staging, *, columns=COLUMNS, skip=False):
    policy = ReadPolicy(on_corruption="skip" if skip else "raise")
    reader = TaskReader(schema=read_schema(columns), policy=policy)
    return TaskWriter(
        reader=reader, columns=columns, staging=staging, compression="zstd"
    )


def written(staging, logs, **requested):
    staging.mkdir(exist_ok=True)
    [task] = tasks_of(logs)
    return writer_into(staging, **requested)(task)


def by_folder(staging, done):
    return {file.folder: pq.read_table(staging / file.name) for file in done.files}


def test_a_task_writes_a_file_for_each_topic_and_date(logs, tmp_path):
    done = written(tmp_path / "staging", logs)
    tables = by_folder(tmp_path / "staging", done)
    assert sorted(tables) == [
        "topic=audit/date=1969-12-31",
        *(f"topic=orders/{date}" for date in (NOV_14, NOV_15, NOV_16)),
    ]
    assert done.rows == {("orders", 0): 300, ("audit", 0): 10}
    for file in done.files:
        assert tables[file.folder].num_rows == file.rows
        assert (tmp_path / "staging" / file.name).stat().st_size == file.size_in_bytes
    offsets = [
        offset
        for date in (NOV_14, NOV_15, NOV_16)
        for offset in tables[f"topic=orders/{date}"]["offset"].to_pylist()
    ]
    assert offsets == list(range(300))


def test_each_row_is_in_the_folder_of_its_utc_date(logs, tmp_path):
    done = written(tmp_path / "staging", logs)
    folders = by_folder(tmp_path / "staging", done)
    assert folders
    for folder, table in folders.items():
        dates = {str(time.date()) for time in table["timestamp"].to_pylist()}
        assert dates == {folder.rpartition("=")[2]}


def test_unordered_timestamps_make_one_file_a_date(tmp_path, monkeypatch):
    monkeypatch.setattr(job_parquet, "MAX_BUFFERED_BYTES", 10_000)
    logs = tmp_path / "logs"
    for base in range(0, 1000, 100):
        step = lakes.DAY_MS if base % 200 else -lakes.DAY_MS
        lakes.add_segment(logs, "orders-0", base, 100, step_ms=step)
    done = written(tmp_path / "staging", logs)
    folders = [file.folder for file in done.files]
    assert len(folders) == len(set(folders)) == 199
    assert sum(file.rows for file in done.files) == 1000
    for table in by_folder(tmp_path / "staging", done).values():
        assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())


def test_the_number_of_open_files_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(job_parquet, "MAX_BUFFERED_BYTES", 2000)
    monkeypatch.setattr(job_parquet, "MAX_OPEN_FILES", 3)
    logs = tmp_path / "logs"
    for base in (0, 100):
        lakes.add_segment(logs, "orders-0", base, 100, step_ms=lakes.DAY_MS)
    done = written(tmp_path / "staging", logs)
    assert len({file.folder for file in done.files}) == 100
    assert len(done.files) > 100
    assert sum(file.rows for file in done.files) == 200


@pytest.mark.parametrize(
    ("time_us", "date"),
    [
        (-1, "1969-12-31"),
        (0, "1970-01-01"),
        (job_parquet.DAY_US - 1, "1970-01-01"),
        (job_parquet.DAY_US, "1970-01-02"),
        (253_402_300_799_999_999, "9999-12-31"),
        (253_402_300_800_000_000, job_parquet.NO_DATE),
        (-62_135_596_800_000_000, "0001-01-01"),
        (-62_135_596_800_000_001, job_parquet.NO_DATE),
    ],
)
def test_dates_are_in_utc(time_us, date):
    times = pa.array([time_us], pa.timestamp("us", tz="UTC"))
    [(found, _)] = by_date(pa.record_batch([times], ["timestamp"]))
    assert found == date


def test_only_requested_columns_are_written(logs, tmp_path):
    done = written(tmp_path / "staging", logs, columns=("offset",))
    tables = by_folder(tmp_path / "staging", done).values()
    assert [table.schema.names for table in tables] == [["offset"]] * len(done)


def corrupt(logs):
    path = logs / "orders-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    return path


def test_corruption_ends_a_task_and_those_not_yet_started(logs, tmp_path):
    path = corrupt(logs)
    done = written(tmp_path / "staging", logs)
    assert isinstance(done.error, CorruptRecordError)
    assert str(done.error).endswith(f"{path} at byte 0")
    assert not done.files
    later = written(tmp_path / "staging", logs)
    assert str(later.error) == "another task has failed"


def test_skipped_corruption_is_in_the_task_result(logs, tmp_path):
    path = corrupt(logs)
    done = written(tmp_path / "staging", logs, skip=True)
    assert done.error is None
    assert done.rows["orders", 0] == 200
    [message] = done.skipped
    assert message.startswith("skipped: ")
    assert message.endswith(f"{path} at byte 0, offsets 0 to 99")


def test_an_executor_without_the_output_directory_is_an_error(logs, tmp_path):
    [task] = tasks_of(logs)
    with pytest.raises(FileNotFoundError, match=r"every executor needs the output"):
        writer_into(tmp_path / "nowhere")(task)


@pytest.fixture
def lake(logs, tmp_path):
    """Make a directory with a complete, a partly moved and an unfinished run."""
    out = tmp_path / "lake"
    with locked(out) as folder:
        for _ in (1, 2):
            output = ParquetOutput(folder)
            with folder.staged(output.next_run) as staged:
                output.commit(staged, written(staged.path, logs).files, {})
    hidden = out / "_kafkalog"
    committed = hidden / "committed-00002"
    moving = committed / "data" / "topic=orders" / NOV_14
    moving.mkdir(parents=True)
    (hidden / "manifest-00002.json").rename(committed / "manifest.json")
    [file] = (out / "topic=orders" / NOV_14).glob("run-00002-*")
    file.rename(moving / f"{file.stem}.staged")
    (hidden / "staging-00003-killed").mkdir()
    written(hidden / "staging-00003-killed", logs)
    return out


def test_readers_list_only_files_of_committed_runs(lake):
    moved = pq.read_metadata(
        next(lake.glob(f"topic=orders/{NOV_14}/run-00001-*.parquet"))
    ).num_rows
    rows = 620 - moved
    assert lakes.table(lake).num_rows == rows
    pattern = f"{lake}/**/*.parquet"
    query = f"select count(*), max(date), min(topic) from read_parquet('{pattern}')"
    last = datetime.date(2023, 11, 16)
    assert duckdb.sql(query).fetchall() == [(rows, last, "audit")]
    frame = pl.read_parquet(pattern, hive_partitioning=True)
    assert (frame.height, frame["date"].max()) == (rows, last)
    assert set(frame["topic"]) == {"audit", "orders"}
    with locked(lake) as folder:
        assert ParquetOutput(folder).finished == 2
    assert pl.read_parquet(pattern).height == 620

"""Splits: together they have each record of a scan once, in order."""

from __future__ import annotations

import operator
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.export.ray_source import ray_datasource
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query.big_segment import write_segment

SETS = [name for name in golden_data.SETS if name != "k431-crash"]


def tables_of(parts):
    return [part.scan().to_arrow() for part in parts]


def joined(tables, whole):
    return pa.concat_tables([whole.slice(0, 0), *tables]).to_pylist()


@given(
    st.sampled_from(SETS),
    st.sampled_from([1, 500, 3000, 50_000, 1 << 30]),
    st.sampled_from(["read_uncommitted", "read_committed"]),
    st.integers(0, 60) | st.none(),
    st.integers(20, 120) | st.none(),
    st.sampled_from([None, "*", "state*", "[c-s]*"]),
)
@settings(max_examples=40)
def test_splits_have_the_records_of_the_scan(
    name, target_bytes, isolation, start, end, topics
):
    options = {
        "isolation": isolation,
        "start_offset": start,
        "end_offset": end,
        "topics": topics,
        "columns": COLUMNS,
    }
    source = golden_data.logs(name)
    try:
        whole = kafkalog.scan(source, **options).to_arrow()
    except FileNotFoundError:  # no such topic in this set
        return
    parts = pickle.loads(pickle.dumps(kafkalog.splits(source, target_bytes, **options)))
    assert joined(tables_of(parts), whole) == whole.to_pylist()


def test_a_lone_file_is_divided_where_its_index_has_batches(tmp_path):
    place = write_segment(tmp_path / "big-0", 4 << 20, index_every=2).place
    [file] = place.glob("*.log")
    parts = kafkalog.splits(file, 1 << 20)
    assert [part.offset_ranges[0].topic for part in parts] == ["big"] * 4
    assert sum(part.size_in_bytes for part in parts) == file.stat().st_size
    whole = kafkalog.scan(file).to_arrow()
    assert joined(tables_of(parts), whole) == whole.to_pylist()


def test_a_source_may_list_files_their_directory_and_bytes(tmp_path):
    with kafkalog.open(
        tmp_path / "log-0", "a", kafkalog.LogConfig(internal_segment_bytes=200)
    ) as log:
        for number in range(9):
            log.append(batch(b"%d" % number))
    first, *_, last = sorted((tmp_path / "log-0").glob("*.log"))
    source = [last, batch(b"in memory"), tmp_path, first, batch(b"also"), first.parent]
    whole = kafkalog.scan(source).to_arrow()
    for target_bytes in (1, 300, 1 << 20):
        parts = kafkalog.splits(source, target_bytes)
        assert joined(tables_of(parts), whole) == whole.to_pylist()
    assert kafkalog.dataset(source).to_table().num_rows == len(whole)
    assert kafkalog.stats(source, threads=2).total["records"] == len(whole)


def test_splits_end_with_a_segment_if_one_ends_near(tmp_path):
    for number in range(6):
        write_segment(tmp_path / f"log-{number}", 3 << 20, index_every=2)
    parts = kafkalog.splits(tmp_path, 4 << 20)
    assert [len(part.offset_ranges) for part in parts] == [1] * 6
    parts = kafkalog.splits(tmp_path, 7 << 20)
    assert [len(part.offset_ranges) for part in parts] == [2] * 3


def test_a_split_is_read_by_another_process():
    source = golden_data.logs("k431-clean")
    parts = kafkalog.splits(source, 20_000)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        counts = list(pool.map(count_of, parts))
    assert len(counts) > 2
    assert sum(counts) == kafkalog.scan(source).count()


def count_of(part):
    return part.scan().count()


def test_a_split_keeps_its_records_when_its_log_grows(tmp_path):
    with kafkalog.open(tmp_path / "log-0", mode="a") as log:
        log.append(batch(b"one"))
        [file] = (tmp_path / "log-0").glob("*.log")
        parts = [*kafkalog.splits(tmp_path), *kafkalog.splits(file)]
        log.append(batch(b"two"))
    assert len(parts) == 2
    for part in parts:
        assert part.scan().to_arrow()["value"].to_pylist() == [b"one"]
        assert part.offset_ranges == (("log", 0, part.offset_ranges[0].start, 1),)


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("target_bytes", [1, 1 << 30])
@pytest.mark.parametrize("lone", [False, True])
@pytest.mark.parametrize("damage", [flipped, lambda data: data + b"\1" * 100])
def test_damage_at_the_end_is_found_by_the_last_split(
    tmp_path, damage, lone, target_bytes
):
    with kafkalog.open(tmp_path / "log-0", mode="a") as log:
        for number in range(3):
            log.append(batch(b"%d" % number))
    [file] = (tmp_path / "log-0").glob("*.log")
    file.write_bytes(damage(file.read_bytes()))
    source = file if lone else tmp_path
    whole = kafkalog.scan(source, on_corruption="skip")
    expected = whole.to_arrow()
    scans = [
        part.scan()
        for part in kafkalog.splits(source, target_bytes, on_corruption="skip")
    ]
    tables = [one.to_arrow() for one in scans]
    assert joined(tables, expected) == expected.to_pylist()
    assert [problem for one in scans for problem in one.problems] == whole.problems
    assert len(whole.problems) == 1
    with pytest.raises(kafkalog.CorruptRecordError):
        tables_of(kafkalog.splits(source, target_bytes))


@pytest.mark.parametrize("wrong", [0, 1, 4, 6, 19, 20, 99, 1 << 40])
@pytest.mark.parametrize("number", [2, 5, 6])
def test_splits_have_each_record_once_where_an_offset_is_damaged(
    tmp_path, wrong, number
):
    config = kafkalog.LogConfig(internal_segment_bytes=1000, index_interval_bytes=1)
    with kafkalog.open(tmp_path / "log-0", "a", config) as log:
        for value in range(20):
            log.append(batch(b"%d" % value))
    file = min((tmp_path / "log-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    size = len(batch(b"0"))
    data[number * size : number * size + 8] = wrong.to_bytes(8, "big")
    file.write_bytes(data)
    for source in (file, tmp_path):
        whole = kafkalog.scan(source, on_corruption="skip").to_arrow()
        assert whole.num_rows
        parts = kafkalog.splits(source, 1, on_corruption="skip")
        assert joined(tables_of(parts), whole) == whole.to_pylist()


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("target_bytes", [1, 1 << 30])
def test_fragments_have_each_record_once_when_their_log_grows(
    tmp_path, monkeypatch, target_bytes, start
):
    monkeypatch.setattr("kafkalog.export.log_dataset.TARGET_BYTES", target_bytes)
    config = kafkalog.LogConfig(internal_segment_bytes=200)
    with kafkalog.open(tmp_path / "log-0", "a", config) as log:
        for number in range(10):
            log.append(batch(b"%d" % number))
        data = kafkalog.dataset(tmp_path, start_offset=start)
        fragments = list(data.get_fragments())
        for number in range(10, 30):
            log.append(batch(b"%d" % number))
        tables = [part.to_table(columns=["offset"]) for part in fragments]
    read = pa.concat_tables(tables)["offset"].to_pylist()
    assert read[: 10 - start] == list(range(start, 10))
    assert read == list(range(start, start + len(read)))


def batch(value):
    builder = kafkalog.RecordBatchBuilder()
    builder.append(None, value, timestamp=1)
    return builder.build()


@pytest.mark.parametrize(
    "content", [b"", batch(b"one")[:-1], batch(b"one")], ids=["empty", "partial", "one"]
)
@pytest.mark.parametrize("start", [0, 1])
def test_a_file_without_records_has_no_splits(tmp_path, content, start):
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(content)
    records = kafkalog.scan(file, start_offset=start).count()
    assert [
        part.scan().count() for part in kafkalog.splits(file, start_offset=start)
    ] == [records] * records
    assert kafkalog.dataset(file, start_offset=start).count_rows() == records


def test_bytes_in_memory_are_one_split():
    data = batch(b"one")
    [part] = kafkalog.splits(data, 1)
    assert (part.size_in_bytes, part.offset_ranges) == (len(data), ())
    assert part.scan().count() == 1


def test_splits_refuse_options_that_they_cannot_divide():
    with pytest.raises(TypeError, match="splits of a scan with limit"):
        kafkalog.splits(b"", limit=3)
    with pytest.raises(ValueError, match="target_bytes 0, expected 1 or more"):
        kafkalog.splits(b"", 0)


def test_dask_reads_a_frame_from_splits():
    import dask
    import dask.dataframe as dd

    source = golden_data.logs("k431-clean")
    parts = kafkalog.splits(source, 50_000, columns=["partition", "offset"])
    with dask.config.set(scheduler="synchronous"):
        frame = dd.from_map(frame_of, parts)
        found = frame["offset"].sum().compute()
    assert found == sum(kafkalog.scan(source).to_arrow()["offset"].to_pylist())


def frame_of(part):
    return part.scan().to_pandas()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ray's own
def test_ray_reads_a_dataset_from_splits():
    import ray

    source = golden_data.logs("k431-clean")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        columns = ["topic", "partition", "offset", "value"]
        logs = ray_datasource(source, 20_000, columns=columns)
        rows = ray.data.read_datasource(logs).take_all()
    finally:
        ray.shutdown()
    expected = kafkalog.scan(source, columns=columns).to_arrow().to_pylist()
    key = operator.itemgetter(*columns[:3])
    assert sorted(rows, key=key) == sorted(expected, key=key)

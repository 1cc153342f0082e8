"""Remote log directories are read like local ones, with few requests."""

import shutil
from functools import partial

import fsspec
import pytest

import kafkalog
from kafkalog.query.listing import list_path
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.storage import stores
from kafkalog.storage.remote_source import READ_AHEAD_BYTES, as_path
from tests import golden_data
from tests.query.big_segment import write_segment
from tests.storage.remote_stores import (
    counted,
    fill,
    in_memory,
    s3_server,
    through_arrow,
)

CLEAN = "k431-clean"
LARGE = 50 << 20


def same(remote, local, **bounds):
    """Return whether both sources have the same table, with all columns."""
    columns = COLUMNS
    one, other = (
        kafkalog.scan(source, columns=columns, **bounds).to_arrow()
        for source in (remote, local)
    )
    return one.equals(other)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_golden_directories_have_the_same_table_through_arrow(name, monkeypatch):
    logs = golden_data.logs(name)
    remote = through_arrow(logs, monkeypatch)
    assert same(remote, logs)
    assert same(remote, logs, isolation="read_committed")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_golden_directories_have_the_same_table_through_fsspec(name):
    logs = golden_data.logs(name)
    fsspec.filesystem("memory").store.clear()
    in_memory(logs, name)
    assert same(f"memory://{name}", logs)
    assert same(f"memory://{name}", logs, threads=2)


@pytest.fixture
def clean():
    fsspec.filesystem("memory").store.clear()
    return in_memory(golden_data.logs(CLEAN), CLEAN)


def test_bounds_select_the_same_records(clean):
    logs = golden_data.logs(CLEAN)
    for bounds in (
        {"start_offset": 60, "end_offset": 130},
        {"start_timestamp": 1_700_000_040_000, "end_timestamp": 1_700_000_070_000},
        {"start_offset": {("ledger", 0): 100}, "isolation": "read_committed"},
    ):
        assert same(clean, logs, **bounds)
    count = kafkalog.scan(logs).count()
    assert kafkalog.scan([str(clean), clean / "ledger-0"]).count() == count


def test_a_single_file_and_a_partition_are_sources(clean):
    logs = golden_data.logs(CLEAN)
    assert same(clean / "ledger-0", logs / "ledger-0")
    lone = f"ledger-0/{0:020d}.log"
    assert same(clean / lone, logs / lone)


def test_index_scans_are_the_same(clean):
    logs = golden_data.logs(CLEAN)
    for scan in (
        kafkalog.scan_indexes,
        partial(kafkalog.scan_indexes, kind="time"),
        partial(kafkalog.scan_indexes, kind="transaction"),
    ):
        one, other = scan(str(clean)), scan(logs)
        assert one.topics == other.topics
        assert one.entries.tobytes() == other.entries.tobytes()
        assert one.segments.tobytes() == other.segments.tobytes()


def test_an_opened_log_is_the_same(clean):
    for directory in golden_data.partitions(CLEAN):
        if (
            kafkalog.storage.file_names.parse_partition_dir(directory.name).state
            is not None
        ):
            continue
        with kafkalog.open(clean / directory.name) as one:
            other = kafkalog.open(directory)
            for name in (
                "topic",
                "partition",
                "log_start_offset",
                "log_end_offset",
                "high_watermark",
                "last_stable_offset",
                "leader_epochs",
            ):
                assert getattr(one, name) == getattr(other, name), (directory, name)
            assert one.producer_states().tolist() == other.producer_states().tolist()
            aborted = one.aborted_transactions().tolist()
            assert aborted == other.aborted_transactions().tolist()
            assert one.read(one.log_start_offset) == other.read(other.log_start_offset)


def test_a_listing_is_the_same(clean):
    logs = golden_data.logs(CLEAN)
    assert list(list_path(clean)) == list(list_path(logs))
    segments = list(list_path(logs / "ledger-1"))
    assert list(list_path(clean / "ledger-1")) == segments


def test_a_url_without_kafkas_files_is_rejected_with_the_url(clean):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/elsewhere/readme.txt", b"")
    for url in ("memory://elsewhere", "memory://elsewhere/readme.txt"):
        with pytest.raises(kafkalog.errors.NotALogDirectoryError, match=url):
            kafkalog.scan(url)


def test_damage_is_reported_with_the_url_and_the_byte(clean):
    memory = fsspec.filesystem("memory")
    path = clean / f"orders.zstd-0/{56:020d}.log"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    memory.pipe_file(f"/{CLEAN}/{path.below}", bytes(data))
    partition = path.parent
    with pytest.raises(kafkalog.errors.CorruptRecordError) as caught:
        kafkalog.scan(partition).to_arrow()
    assert f"memory://{CLEAN}/orders.zstd-0/{56:020d}.log at byte 983" in str(
        caught.value
    )
    scan = kafkalog.scan(partition, on_corruption="skip")
    assert scan.to_arrow().num_rows == 210
    assert [(problem.path, problem.position) for problem in scan.problems] == [
        (path, 983)
    ]


def test_a_batch_that_was_incomplete_when_read_ahead_is_read_again(clean):
    memory = fsspec.filesystem("memory")
    path = clean / f"orders.zstd-0/{56:020d}.log"
    whole = path.read_bytes()
    half = bytearray(whole)
    half[1000:] = bytes(len(whole) - 1000)
    memory.pipe_file(f"/{CLEAN}/{path.below}", bytes(half))

    read_at, requested = stores._FsspecFile.read_at, []

    def completed(self, position, length):
        data = read_at(self, position, length)
        requested.append(position)
        memory.pipe_file(f"/{CLEAN}/{path.below}", whole)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores._FsspecFile, "read_at", completed)
        count = kafkalog.scan(path).to_arrow().num_rows
    assert count == 63
    assert len(requested) > 1


def test_segments_may_be_added_and_removed_between_scans(tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    shutil.copytree(golden_data.logs(CLEAN), logs)
    remote = through_arrow(logs, monkeypatch)
    scan = kafkalog.scan(remote / "orders.zstd-0")
    assert scan.count() == 212
    first = logs / "orders.zstd-0" / f"{0:020d}.log"
    first.rename(first.with_name(first.name + ".deleted"))
    assert scan.count() == 156
    chunks = kafkalog.scan(remote / "orders.zstd-0").chunks()
    assert len(next(chunks)) == 63
    last = logs / "orders.zstd-0" / f"{182:020d}.log"
    last.rename(last.with_name(last.name + ".deleted"))
    assert sum(map(len, chunks)) == 93  # found as .deleted


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_segment(
        tmp_path_factory.mktemp("large") / "large-0", LARGE, index_every=1
    )


def test_a_narrow_scan_requests_few_bytes(large, monkeypatch):
    remote = through_arrow(large.place, monkeypatch)
    first = large.records // 2
    indexes = sum(path.stat().st_size for path in large.place.glob("*index"))
    for bounds in (
        {"start_offset": first, "end_offset": first + 100},
        {
            "start_timestamp": large.timestamp(first),
            "end_timestamp": large.timestamp(first + 100),
            "end_offset": first + 100,
        },
    ):
        with counted(monkeypatch, stores._ArrowFile) as ranges:
            table = kafkalog.scan(remote, **bounds).to_arrow()
        assert table["offset"].to_pylist() == list(range(first, first + 100))
        requested = sum(length for _, length in ranges)
        assert requested - 3 * indexes <= 4 * READ_AHEAD_BYTES < LARGE / 40
        assert len(ranges) <= 8


def test_a_full_scan_requests_each_byte_once_in_large_ranges(large, monkeypatch):
    remote = through_arrow(large.place, monkeypatch)
    with counted(monkeypatch, stores._ArrowFile) as ranges:
        assert kafkalog.scan(remote).count() == large.records
    assert sum(length for _, length in ranges) <= LARGE * 1.01
    assert len(ranges) <= LARGE // (4 << 20) + 8


def test_a_log_directory_in_s3_has_the_same_table():
    logs = golden_data.logs("k431-recovered")
    with s3_server() as options:
        fill(options, "golden", logs)
        remote = as_path("s3a://golden/", options)
        assert same(remote, logs)
        assert same(remote, logs, isolation="read_committed", start_offset=5)
        entries = kafkalog.scan_indexes(remote).entries
        assert (entries == kafkalog.scan_indexes(logs).entries).all()
        name = f"{10**9:020d}.log"
        with pytest.raises(FileNotFoundError, match=f"s3://golden/torn-0/{name}"):
            kafkalog.scan(remote / "torn-0" / name)

"""Log directories behind a URL are read as local ones are, and as little of them."""

import shutil

import fsspec
import pytest

import kafkalog
from kafkalog.query.listing import list_path
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.storage import stores
from kafkalog.storage.remote_source import READ_AHEAD_BYTES, as_path
from tests import golden_data
from tests.query.big_segment import write_segment
from tests.storage.far import counted, fill, in_memory, s3_server, through_arrow

CLEAN = "k431-clean"
LARGE = 50 << 20


def same(far, local, **bounds):
    """Whether both give the same table, every column of it."""
    columns = COLUMNS
    one, other = (
        kafkalog.scan(source, columns=columns, **bounds).to_arrow()
        for source in (far, local)
    )
    return one.equals(other)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_golden_directories_give_the_same_table_through_arrow(name, monkeypatch):
    logs = golden_data.logs(name)
    far = through_arrow(logs, monkeypatch)
    assert same(far, logs)
    assert same(far, logs, isolation="read_committed")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_golden_directories_give_the_same_table_through_fsspec(name):
    logs = golden_data.logs(name)
    fsspec.filesystem("memory").store.clear()
    in_memory(logs, name)
    assert same(f"memory://{name}", logs)
    assert same(f"memory://{name}", logs, threads=2)


@pytest.fixture
def clean():
    fsspec.filesystem("memory").store.clear()
    return in_memory(golden_data.logs(CLEAN), CLEAN)


def test_bounds_are_the_same(clean):
    logs = golden_data.logs(CLEAN)
    for bounds in (
        {"start_offset": 60, "end_offset": 130},
        {"start_timestamp": 1_700_000_040_000, "end_timestamp": 1_700_000_070_000},
        {"start_offset": {("ledger", 0): 100}, "isolation": "read_committed"},
    ):
        assert same(clean, logs, **bounds)
    count = kafkalog.scan(logs).count()
    assert kafkalog.scan([str(clean), clean / "ledger-0"]).count() == count


def test_a_lone_file_and_a_partition_are_sources(clean):
    logs = golden_data.logs(CLEAN)
    assert same(clean / "ledger-0", logs / "ledger-0")
    lone = f"ledger-0/{0:020d}.log"
    assert same(clean / lone, logs / lone)


def test_indexes_are_scanned_alike(clean):
    logs = golden_data.logs(CLEAN)
    for scan in (
        kafkalog.scan_offset_indexes,
        kafkalog.scan_time_indexes,
        kafkalog.scan_transaction_indexes,
    ):
        one, other = scan(str(clean)), scan(logs)
        assert one.topics == other.topics
        assert one.entries.tobytes() == other.entries.tobytes()
        assert one.segments.tobytes() == other.segments.tobytes()


def test_a_log_answers_alike(clean):
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


def test_what_holds_nothing_of_kafkas_is_refused_with_its_url(clean):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/elsewhere/readme.txt", b"")
    for url in ("memory://elsewhere", "memory://elsewhere/readme.txt"):
        with pytest.raises(kafkalog.errors.NotALogDirectoryError, match=url):
            kafkalog.scan(url)


def test_damage_is_told_with_the_url_and_the_byte(clean):
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
    assert [(one.path, one.position) for one in scan.problems] == [(path, 983)]


def test_a_batch_that_was_being_written_when_it_was_read_ahead_is_read_anew(clean):
    memory = fsspec.filesystem("memory")
    path = clean / f"orders.zstd-0/{56:020d}.log"
    whole = path.read_bytes()
    half = bytearray(whole)
    half[1000:] = bytes(len(whole) - 1000)
    memory.pipe_file(f"/{CLEAN}/{path.below}", bytes(half))

    read_at, asked = stores._FsspecFile.read_at, []

    def completed(self, position, length):
        data = read_at(self, position, length)
        asked.append(position)
        memory.pipe_file(f"/{CLEAN}/{path.below}", whole)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores._FsspecFile, "read_at", completed)
        count = kafkalog.scan(path).to_arrow().num_rows
    assert count == 63
    assert len(asked) > 1


def test_segments_appear_roll_and_vanish_between_readings(tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    shutil.copytree(golden_data.logs(CLEAN), logs)
    far = through_arrow(logs, monkeypatch)
    scan = kafkalog.scan(far / "orders.zstd-0")
    assert scan.count() == 212
    first = logs / "orders.zstd-0" / f"{0:020d}.log"
    first.rename(first.with_name(first.name + ".deleted"))
    assert scan.count() == 156
    chunks = kafkalog.scan(far / "orders.zstd-0").chunks()
    assert len(next(chunks)) == 63
    last = logs / "orders.zstd-0" / f"{182:020d}.log"
    last.rename(last.with_name(last.name + ".deleted"))
    assert sum(map(len, chunks)) == 93  # found under the mark


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_segment(
        tmp_path_factory.mktemp("large") / "large-0", LARGE, index_every=1
    )


def test_a_narrow_read_asks_for_a_small_part(large, monkeypatch):
    far = through_arrow(large.place, monkeypatch)
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
            table = kafkalog.scan(far, **bounds).to_arrow()
        assert table["offset"].to_pylist() == list(range(first, first + 100))
        asked = sum(length for _, length in ranges)
        assert asked - 3 * indexes <= 4 * READ_AHEAD_BYTES < LARGE / 40
        assert len(ranges) <= 8


def test_a_whole_read_asks_for_each_byte_once_in_large_pieces(large, monkeypatch):
    far = through_arrow(large.place, monkeypatch)
    with counted(monkeypatch, stores._ArrowFile) as ranges:
        assert kafkalog.scan(far).count() == large.records
    assert sum(length for _, length in ranges) <= LARGE * 1.01
    assert len(ranges) <= LARGE // (4 << 20) + 8


def test_a_log_directory_in_s3_is_read_as_a_local_one():
    logs = golden_data.logs("k431-recovered")
    with s3_server() as options:
        fill(options, "golden", logs)
        far = as_path("s3a://golden/", options)
        assert same(far, logs)
        assert same(far, logs, isolation="read_committed", start_offset=5)
        entries = kafkalog.scan_offset_indexes(far).entries
        assert (entries == kafkalog.scan_offset_indexes(logs).entries).all()
        name = f"{10**9:020d}.log"
        with pytest.raises(FileNotFoundError, match=f"s3://golden/torn-0/{name}"):
            kafkalog.scan(far / "torn-0" / name)

"""Producer snapshots of a writable log: when they are written, and their bytes."""

import numpy as np
import pytest

from kafkalog.errors import CorruptSnapshotError, StrayFileError
from kafkalog.formats.producer_snapshot import parse_snapshot
from kafkalog.log.markers import read_markers
from kafkalog.log.producers.producer_entry import BatchMetadata, ProducerStateEntry
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import ProducerUpdates
from kafkalog.log.producers.snapshot_files import (
    SnapshotFiles,
    format_entries,
    parse_entries,
)
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.segment.file_records import Step
from kafkalog.storage.durable_file import DISK
from kafkalog.testing import TracingDisk
from tests import golden_data
from tests.log.producing import NOW, PRODUCER, REPLICATION, Producing
from tests.log.test_log import WHOLE
from tests.log.writing import batch, load


@pytest.fixture
def producing(tmp_path):
    return Producing(tmp_path)


def name(offset, suffix=""):
    return f"{offset:020d}.snapshot{suffix}"


def put(directory, *offsets):
    for offset in offsets:
        (directory / name(offset)).touch()


# When they are written


def test_there_is_one_snapshot_for_each_offset(producing):
    assert producing.state.take_snapshot() is None
    producing.data(0)
    path = producing.state.take_snapshot()
    assert path == producing.directory / name(1)
    assert producing.state.take_snapshot() is None
    assert producing.snapshots() == [1]


def test_a_snapshot_overwrites_an_existing_file_without_truncating_it(producing):
    producing.data(0)
    path = producing.directory / name(1)
    path.write_bytes(bytes(100))
    producing.state.take_snapshot()
    assert path.stat().st_size == 100
    with pytest.raises(CorruptSnapshotError, match="CRC"):
        parse_snapshot(path.read_bytes())


@pytest.mark.parametrize("sync", [True, False])
def test_a_snapshot_is_forced_to_disk_on_request(tmp_path, sync):
    disk = TracingDisk()
    producing = Producing(tmp_path, disk=disk)
    producing.data(0)
    producing.state.take_snapshot(sync=sync)
    assert len(disk.calls_of("sync")) == sync


# Loading


def test_a_snapshot_keeps_the_last_batch_and_the_open_transaction(producing):
    producing.data(0, 0, txn=True)
    producing.data(1, 1, txn=True)
    producing.state.take_snapshot()
    state = producing.state = producing.reopened()
    state.truncate_and_reload(0, 3, NOW)
    entry = state.last_entry(PRODUCER)
    assert list(entry.batches) == [BatchMetadata(1, 1, 0, NOW)]
    assert entry.txn_first_offset == 0
    assert state.first_unstable_offset() == (0, -1, -1)
    assert state.map_end_offset == 2
    producing.data(2, 2, txn=True)


@pytest.mark.parametrize("with_data", [True, False])
def test_a_completed_transaction_is_loaded_as_completed(producing, with_data):
    if with_data:
        producing.data(0, 0, txn=True)
    producing.clock.time_ms += 7
    producing.marker(1, abort=True)
    producing.state.take_snapshot()
    state = producing.reopened()
    state.truncate_and_reload(0, 2, NOW)
    entry = state.last_entry(PRODUCER)
    assert entry.txn_first_offset == -1
    assert entry.last_timestamp == NOW + 7
    assert entry.last_offset == (0 if with_data else -1)
    assert state.first_unstable_offset() is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: bytes(37) + data[37:],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + b"\0",
    ],
)
def test_a_corrupt_snapshot_is_removed_and_the_previous_one_used(producing, damage):
    producing.data(0, 0)
    producing.state.take_snapshot()
    producing.data(1, 1)
    newest = producing.state.take_snapshot()
    newest.write_bytes(damage(newest.read_bytes()))
    state = producing.reopened()
    state.truncate_and_reload(0, 20, NOW)
    assert producing.snapshots() == [1]
    assert state.last_entry(PRODUCER).last_offset == 0
    assert state.map_end_offset == 1


def test_without_a_snapshot_loading_begins_at_the_log_start(producing):
    producing.data(0)
    state = producing.reopened()
    state.truncate_and_reload(7, 20, NOW)
    assert state.is_empty
    assert state.map_end_offset == 7
    state.map_end_offset = 8
    assert state.take_snapshot() is not None


def test_snapshots_outside_of_the_log_are_removed(producing):
    for offset in range(5):
        producing.data(offset, offset)
        producing.state.take_snapshot()
    producing.state.truncate_and_reload(1, 3, NOW)
    assert producing.snapshots() == [2, 3]
    assert producing.state.last_entry(PRODUCER).last_offset == 2


def test_a_reload_of_the_present_range_keeps_the_state(producing):
    producing.data(0, 0, txn=True)
    producing.data(1, 1, txn=True)
    producing.marker(2)
    producing.state.truncate_and_reload(0, 3, NOW)
    assert len(producing.state.last_entry(PRODUCER).batches) == 2
    assert producing.state.first_unstable_offset().offset == 0
    producing.state.truncate_and_reload(3, 3, NOW)
    assert producing.state.first_unstable_offset() is None


def test_a_truncation_restores_the_first_unstable_offset(producing):
    state = producing.state
    producing.data(99, 0, txn=True)
    state.take_snapshot()
    producing.marker(105)
    state.on_high_watermark_updated(106)
    state.take_snapshot()
    producing.data(106, 1)
    state.truncate_and_reload(0, 106, NOW)
    assert state.first_unstable_offset() is None
    state.truncate_and_reload(0, 100, NOW)
    assert state.first_unstable_offset().offset == 99


def test_a_full_truncation_removes_every_snapshot(producing):
    for offset in range(2):
        producing.data(offset, offset)
        producing.state.take_snapshot()
    for offset in (7, 1):
        producing.state.truncate_fully_and_start_at(offset)
        assert producing.snapshots() == []
        assert producing.state.is_empty
        assert producing.state.map_end_offset == offset
        producing.state.take_snapshot()
        assert producing.snapshots() == [offset]


def test_producers_are_kept_when_the_log_start_moves(producing):
    producing.data(0, 0)
    producing.data(1, 1, txn=True)
    producing.marker(2)
    producing.state.on_log_start_offset_incremented(9)
    assert producing.state.first_unstable_offset() is None
    assert producing.state.last_entry(PRODUCER) is not None
    assert producing.state.map_end_offset == 9
    assert producing.state.take_snapshot() is None
    producing.data(9, 2)
    assert producing.state.take_snapshot() is not None


def test_a_full_truncation_to_the_log_end_removes_all_producers(tmp_path):
    with load(tmp_path) as log:
        for number in range(3):
            owner = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
            log.append(batch(**owner))
            log.roll()
        assert 7 in log.producers
        log.truncate_fully(3, 1)
        assert not log.producers
        assert log.append(batch()).first_offset == 3
        [path] = (tmp_path / "t-0").glob("*.snapshot")
        assert path.name == name(3)
        assert not parse_entries(path.read_bytes())


# Files


def test_stray_snapshots_are_removed_except_the_newest_above_the_last_segment(tmp_path):
    put(tmp_path, 2, 5, 7, 42)
    files = SnapshotFiles(tmp_path, DISK)
    files.remove_strays([5])
    assert sorted(files.paths) == [5, 42]
    files.remove_strays([5, 43])
    assert sorted(files.paths) == [5]
    assert [path.name for path in tmp_path.iterdir()] == [name(5)]


def test_other_files_are_not_listed_as_snapshots(tmp_path):
    put(tmp_path, 5)
    (tmp_path / name(6, ".deleted")).touch()
    (tmp_path / name(7)).mkdir()
    assert sorted(SnapshotFiles(tmp_path, DISK).paths) == [5]
    assert SnapshotFiles(tmp_path / "missing", DISK).latest() is None


def test_a_snapshot_without_an_offset_is_rejected(tmp_path):
    (tmp_path / "x.snapshot").touch()
    with pytest.raises(StrayFileError, match=r"'x\.snapshot'"):
        SnapshotFiles(tmp_path, DISK).latest()


def test_a_snapshot_is_marked_to_be_deleted_later(tmp_path):
    put(tmp_path, 5, 6)
    state = ProducerStateManager(tmp_path)
    assert state.mark_snapshot_for_deletion(5) == tmp_path / name(5, ".deleted")
    assert state.mark_snapshot_for_deletion(5) is None
    (tmp_path / name(6)).unlink()
    assert state.mark_snapshot_for_deletion(6) is None
    assert state.snapshots.latest() is None
    assert [path.name for path in tmp_path.iterdir()] == [name(5, ".deleted")]


# Bytes


def test_entries_survive_a_round_trip():
    entry = ProducerStateEntry(1, 2, 3, -1, 100)
    entry.add(2, BatchMetadata(1, 2, 3, -1))
    other = ProducerStateEntry(11, 12, 13, 123456)
    assert parse_entries(format_entries([entry, other])) == [entry, other]


def brokers_snapshots():
    for set_name in golden_data.SETS:
        for path in sorted(golden_data.logs(set_name).glob("*/*.snapshot")):
            yield pytest.param(path, id=f"{set_name}/{path.parent.name}/{path.name}")


@pytest.mark.parametrize("path", list(brokers_snapshots()))
def test_a_brokers_snapshot_read_and_written_is_the_same(path):
    data = path.read_bytes()
    assert format_entries(parse_entries(data)) == data


@pytest.mark.parametrize("path", list(brokers_snapshots()))
def test_entries_of_a_brokers_snapshot_are_in_the_order_of_a_hash_map(path):
    state = ProducerStateManager(path.parent)
    entries = parse_entries(path.read_bytes())
    state.load(entries)
    order = state.producers.in_hash_order()
    assert order == [entry.producer_id for entry in entries]


def loaded(directory, offset):
    """Load the log up to an offset, as a broker that recovers it does."""
    state = ProducerStateManager(directory)
    for segment in list_segments(directory):
        if segment.base_offset >= offset:
            break
        updates = ProducerUpdates(state, REPLICATION, transaction_version=0)
        with segment.open() as source:
            for step in segment.records(source):
                assert isinstance(step, Step)
                rows = step.rows[step.rows["last_offset"] < offset]
                updates.add(rows, read_markers(step.data, rows, step.origin))
        updates.apply()
        for completed in updates.completed:
            state.complete_txn(completed)
    return state


def snapshots(set_name, directory):
    return sorted((golden_data.logs(set_name) / directory).glob("*.snapshot"))


@pytest.mark.parametrize(
    ("set_name", "directory"), [place for place in WHOLE if snapshots(*place)]
)
def test_a_loaded_log_writes_the_same_snapshots_as_the_broker(set_name, directory):
    path = golden_data.logs(set_name) / directory
    for file in snapshots(set_name, directory):
        theirs = parse_snapshot(file.read_bytes())
        state = loaded(path, int(file.name.split(".")[0]))
        entries = [
            state.producers[producer] for producer in state.producers.in_hash_order()
        ]
        ours = parse_snapshot(format_entries(entries))
        kept = ours[np.isin(ours["producer_id"], theirs["producer_id"])]
        assert kept.tobytes() == theirs.tobytes()

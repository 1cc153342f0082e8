"""A log open for reading, compared with the content that Kafka's own classes read."""

import shutil

import numpy as np
import pytest

import kafkalog
from kafkalog.config import LogConfig
from kafkalog.errors import NotALogDirectoryError, OffsetOutOfRangeError
from kafkalog.formats.producer_snapshot import ENTRY
from kafkalog.log.producers.producer_state import apply, as_entries
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.query.listing import list_path
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.verification.path_verification import verify
from tests import golden_data
from tests.log.writing import NOW, batch, load

PARTITIONS = [
    (name, directory)
    for name in golden_data.SETS
    for directory in golden_data.directories(name)
    if (golden_data.logs(name) / directory).is_dir()
]
CLEAN = [
    partition
    for partition in PARTITIONS
    if partition[0] not in ("k431-crash", "oldclients")
]


def live(name, directory, kind):
    """Yield the expected lines of segments, neither deleted ones nor checkpoints."""
    return [
        line
        for line in golden_data.truth(name, directory, kind)
        if line["file"].endswith(".log") and "error" not in line
    ]


def batches_of(name, directory):
    return [
        one
        for one in live(name, directory, "batches")
        if "invalid_tail_bytes" not in one
    ]


def checkpoint(name, file):
    lines = [line for line in golden_data.root(name) if line["file"] == file]
    return lines[0]["entries"] if lines else {}


@pytest.mark.parametrize(("name", "directory"), PARTITIONS)
def test_a_log_starts_and_ends_with_its_batches(name, directory):
    log = kafkalog.open(golden_data.logs(name) / directory)
    starts = checkpoint(name, "log-start-offset-checkpoint")
    batches = batches_of(name, directory)
    first = log.segments[0].base_offset
    assert log.log_start_offset == max(first, starts.get(directory, 0))
    last = max((stored["last_offset"] + 1 for stored in batches), default=0)
    assert log.log_end_offset == max(last, log.segments[-1].base_offset)
    assert log.log_start_offset <= log.last_stable_offset <= log.log_end_offset


@pytest.mark.parametrize(("name", "directory"), CLEAN)
def test_after_a_clean_shutdown_a_log_ends_at_its_recovery_point(name, directory):
    points = checkpoint(name, "recovery-point-offset-checkpoint")
    marks = checkpoint(name, "replication-offset-checkpoint")
    log = kafkalog.open(golden_data.logs(name) / directory)
    if directory in points:
        assert log.log_end_offset == points[directory]
    if directory in marks:
        assert log.high_watermark == marks[directory]


def test_clean_shutdowns_have_checkpointed_offsets():
    kinds = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
    for kind in kinds:
        found = [directory in checkpoint(name, kind) for name, directory in CLEAN]
        assert sum(found) > len(CLEAN) // 2


@pytest.mark.parametrize(("name", "directory"), PARTITIONS)
def test_leader_epochs_are_those_checkpointed(name, directory):
    expected = [
        one["entries"]
        for one in golden_data.truth(name, directory, "aux")
        if one["file"] == "leader-epoch-checkpoint"
    ]
    log = kafkalog.open(golden_data.logs(name) / directory)
    assert [list(entry) for entry in log.leader_epochs] == (
        expected[0] if expected else []
    )


@pytest.mark.parametrize(("name", "directory"), PARTITIONS)
def test_batches_are_read_in_order(name, directory):
    path = golden_data.logs(name) / directory
    log = kafkalog.open(path)
    expected = [
        stored["last_offset"]
        for stored in batches_of(name, directory)
        if stored["last_offset"] >= log.log_start_offset
    ]
    offset, found = log.log_start_offset, []
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=300)
        if not read.data:
            break
        found += [batch.last_offset for batch in read.batches()]
        offset = read.next_offset
    assert found == expected


@pytest.mark.parametrize(("name", "directory"), PARTITIONS)
def test_the_offset_for_a_time_is_that_found_by_reading_every_record(name, directory):
    log = kafkalog.open(golden_data.logs(name) / directory)
    records = [
        (one["timestamp"], one["offset"])
        for one in live(name, directory, "records")
        if one["offset"] >= log.log_start_offset
    ]
    times = sorted({time for time, _ in records})
    requested = [0, *times, *[time + 1 for time in times], 2**60]
    expected = [
        next((offset for time, offset in records if time >= at and time >= 0), -1)
        for at in requested
    ]
    assert log.offsets_for_times(requested[:40]).tolist() == expected[:40]
    assert log.offsets_for_times(requested[-3:]).tolist() == expected[-3:]


def test_times_may_be_dates_and_come_in_any_shape():
    log = kafkalog.open(golden_data.logs("k431-clean") / "orders.none-0")
    requested = np.array([["2023-11-14T22:13", "2300-01-01"]], "datetime64[s]")
    found = log.offsets_for_times(requested)
    assert found.shape == (1, 2)
    assert found[0, 0] >= 0
    assert found[0, 1] == -1
    with pytest.raises(TypeError, match="ms since 1970"):
        log.offsets_for_times([1.5])
    assert log.offsets_for_times([]).shape == (0,)


def producers_at(path, offset):
    """Return the producer states of the batches below an offset, without a snapshot."""
    producers = {}
    for segment in list_segments(path):
        if segment.base_offset >= offset:
            break
        with segment.open() as source:
            for step in segment.records(source):
                assert isinstance(step, Step)
                rows = step.rows[step.rows["last_offset"] < offset]
                apply(producers, Step(step.data, step.origin, rows))
    return as_entries(producers)


WHOLE = [
    (name, directory)
    for name, directory in PARTITIONS
    if directory not in checkpoint(name, "cleaner-offset-checkpoint")
    and kafkalog.open(golden_data.logs(name) / directory).segments[0].base_offset == 0
]
"""Where neither compaction nor retention took away what producers had written."""


def snapshots(name, directory):
    """Return the snapshots with producers that Kafka read there."""
    return [
        row
        for row in golden_data.truth(name, directory, "snapshots")
        if row["entries"] and not row["file"].endswith(".deleted")
    ]


@pytest.mark.parametrize(
    ("name", "directory"), [place for place in WHOLE if snapshots(*place)]
)
def test_producer_states_are_those_of_the_brokers_snapshots(name, directory):
    path = golden_data.logs(name) / directory
    for expected in snapshots(name, directory):
        offset = int(expected["file"].split(".")[0])
        found = {
            int(state["producer_id"]): state for state in producers_at(path, offset)
        }
        for entry in expected["entries"]:
            one = found[entry["producer_id"]]
            assert one["producer_epoch"] == entry["producer_epoch"]
            assert one["coordinator_epoch"] == entry["coordinator_epoch"]
            assert one["timestamp"] == entry["last_timestamp"]
            for ours, theirs in (
                ("last_sequence", "last_sequence"),
                ("last_offset", "last_offset"),
                ("current_txn_first_offset", "current_txn_first_offset"),
            ):
                missing = entry[theirs] is None
                assert one[ours] == (-1 if missing else entry[theirs])


@pytest.mark.parametrize(("name", "directory"), PARTITIONS)
def test_producer_states_include_batches_after_the_newest_snapshot(name, directory):
    log = kafkalog.open(golden_data.logs(name) / directory)
    states = log.producer_states()
    assert states.dtype == ENTRY
    assert states["producer_id"].tolist() == sorted(set(states["producer_id"].tolist()))
    snapshots = golden_data.truth(name, directory, "snapshots")
    if name in ("k431-clean", "k431-recovered") and snapshots:
        newest = max(
            (
                snapshot
                for snapshot in snapshots
                if snapshot["file"].endswith(".snapshot")
            ),
            key=lambda one: one["file"],
        )
        ids = {entry["producer_id"] for entry in newest["entries"]}
        assert ids <= set(states["producer_id"].tolist())


@pytest.mark.parametrize(("name", "directory"), PARTITIONS)
def test_aborted_transactions_are_those_of_the_indexes(name, directory):
    log = kafkalog.open(golden_data.logs(name) / directory)
    expected = [
        (entry["producer_id"], entry["first_offset"], entry["last_offset"])
        for index in golden_data.truth(name, directory, "indexes")
        if index["file"].endswith(".txnindex")
        for entry in index["entries"]
    ]
    found = log.aborted_transactions()
    names = ["producer_id", "first_offset", "last_offset"]
    assert [tuple(row) for row in found[names].tolist()] == expected


def test_a_committed_read_lists_aborted_transactions_and_ends_at_the_stable_offset():
    log = kafkalog.open(golden_data.logs("k431-clean") / "ledger-0")
    assert (log.last_stable_offset, log.log_end_offset) == (107, 126)
    read = log.read(60, isolation="read_committed")
    assert all(batch.last_offset < 107 for batch in read.batches())
    index = log.aborted_transactions(60, read.next_offset)
    expected = {
        (int(aborted["producer_id"]), int(aborted["first_offset"])) for aborted in index
    }
    assert set(read.aborted) == expected
    assert log.read(107, isolation="read_committed").data == b""
    with pytest.raises(ValueError, match="expected one of log_end"):
        log.read(60, isolation="serializable")


def test_a_batch_is_read_whole_even_if_fewer_bytes_are_requested():
    log = kafkalog.open(golden_data.logs("k431-clean") / "sizes-0")
    (batch,) = log.read(0, max_bytes=1).batches()
    assert batch.base_offset == 0
    assert batch.is_valid


def test_offsets_outside_the_log_are_refused():
    log = kafkalog.open(golden_data.logs("k431-clean") / "cutoff-0")
    assert (log.log_start_offset, log.log_end_offset) == (77, 180)
    assert log.read(180).data == b""
    for offset in (76, 181, -1):
        with pytest.raises(OffsetOutOfRangeError, match="expected 77 to 180"):
            log.read(offset)


def test_a_path_that_is_no_partition_is_rejected(tmp_path):
    with pytest.raises(FileNotFoundError):
        kafkalog.open(tmp_path / "orders-0")
    (tmp_path / "notes").mkdir()
    with pytest.raises(NotALogDirectoryError):
        kafkalog.open(tmp_path / "notes")
    (tmp_path / "file-0").write_text("")
    with pytest.raises(NotALogDirectoryError):
        kafkalog.open(tmp_path / "file-0")
    with pytest.raises(ValueError, match="mode"):
        kafkalog.open(tmp_path, mode="w")


def test_an_empty_partition_has_no_offsets_batches_or_producers(tmp_path):
    directory = tmp_path / "orders-3"
    directory.mkdir()
    with kafkalog.open(directory) as log:
        assert (log.topic, log.partition) == ("orders", 3)
        assert log.segments == ()
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        assert log.read(0).data == b""
        assert len(log.producer_states()) == len(log.aborted_transactions()) == 0


def test_damage_is_an_error_with_file_and_byte_except_at_the_log_end(tmp_path):
    source = golden_data.logs("k431-clean") / "orders.none-0"
    directory = tmp_path / "orders.none-0"
    shutil.copytree(source, directory)
    log = kafkalog.open(directory)
    end, last = log.log_end_offset, log.segments[-1].path
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    assert log.log_end_offset < end
    assert log.log_end_offset == max(
        (batch.last_offset + 1 for batch in whole(bytes(data))),
        default=log.segments[-1].base_offset,
    )


@pytest.mark.parametrize("rewritten", [b"", bytes(5000), bytes(range(256)) * 20])
def test_a_log_truncated_while_its_end_is_determined_ends_there(
    tmp_path, monkeypatch, rewritten
):
    directory = tmp_path / "t-0"
    large = batch(size=5_000)  # more than one step, so that the index is used
    with load(tmp_path, LogConfig(index_interval_bytes=1)) as log:
        for _ in range(20):
            log.append(large)
    path, half = log.segments[0].path, 10 * len(large)
    content, position_for = path.read_bytes(), LogSegment.position_for

    def then_cut(segment, source, offset):
        path.write_bytes(content)
        position = position_for(segment, source, offset)
        if offset == MAX_OFFSET:
            assert position > half
            path.write_bytes(content[:half] + rewritten)
        return position

    monkeypatch.setattr(LogSegment, "position_for", then_cut)
    log = kafkalog.open(directory)
    assert log.log_end_offset == 10
    path.write_bytes(content)
    assert log.read(0).next_offset == 10
    [summary] = list_path(directory)
    assert (summary.next_offset, summary.max_timestamp) == (10, NOW)


def whole(data):
    position, found = 0, []
    while position < len(data):
        batch = kafkalog.RecordBatch(data, position)
        if not batch.is_valid:
            break
        found.append(batch)
        position += batch.size_in_bytes
    return found


def test_files_with_another_spelling_of_an_offset_are_ignored(tmp_path):
    directory = tmp_path / "orders-0"
    with kafkalog.open(directory, "a", LogConfig(internal_segment_bytes=150)) as log:
        for key in (b"a", b"b", b"c"):
            batch = kafkalog.RecordBatchBuilder()
            batch.append(key, bytes(40), timestamp=1700000000000)
            log.append(batch.build())
    before = kafkalog.scan(directory).to_arrow(), list(list_path(directory))
    for name in ("1.log", "01.index", "-5.log", "2.timeindex"):
        shutil.copy(directory / f"{0:020d}.log", directory / name)
    after = kafkalog.scan(directory).to_arrow(), list(list_path(directory))
    assert after == before
    assert kafkalog.scan(directory).count() == 3
    assert not verify(directory).problems


def test_reading_changes_no_file(tmp_path):
    source = golden_data.logs("k431-clean") / "ledger-1"
    directory = tmp_path / "ledger-1"
    shutil.copytree(source, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    log = kafkalog.open(directory)
    log.read(log.log_start_offset)
    log.producer_states()
    assert log.last_stable_offset <= log.log_end_offset
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before

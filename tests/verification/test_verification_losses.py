"""Problems that lose records or prevent the start of a broker."""

import shutil

import pytest

import kafkalog
from kafkalog import LogConfig, LostOffsetsWarning
from kafkalog.formats.checkpoint import format_offsets
from kafkalog.storage.checkpoint_file import CLEANED_TO
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause, Recovery, Severity
from tests import golden_data
from tests.manager.partitions import batch, write_partition, write_segment

FIRST, SECOND = f"{0:020d}", f"{6:020d}"
BATCH_BYTES = len(batch(0))


@pytest.fixture
def root(tmp_path):
    """Return a log directory with offsets 0 to 9 of a partition, closed cleanly."""
    directory = tmp_path / "logs"
    directory.mkdir()
    write_partition(directory / "orders-0")
    (directory / ".kafka_cleanshutdown").touch()
    offsets = format_offsets({("orders", 0): 10})
    (directory / "recovery-point-offset-checkpoint").write_bytes(offsets)
    return directory


def mark_crashed(root):
    (root / ".kafka_cleanshutdown").unlink()
    mark_recovered_from_start(root)


def mark_recovered_from_start(root):
    """Let recovery read all segments if there is no clean shutdown marker."""
    offsets = format_offsets({("orders", 0): 0})
    (root / "recovery-point-offset-checkpoint").write_bytes(offsets)


def cut_off(path, count):
    path.write_bytes(path.read_bytes()[:-count])


def lost(problem):
    return (
        problem.lost_from,
        problem.lost_to,
        problem.lost_records,
        problem.lost_segments,
    )


def of_cause(root, cause):
    return [problem for problem in verify(root).problems if problem.cause == cause]


def add_segment(root):
    """Add offsets 10 to 13 in a third segment."""
    batches = [batch(10, epoch=3), batch(12, epoch=3)]
    write_segment(root / "orders-0", 10, batches)


def test_a_last_index_entry_past_the_end_loses_the_whole_segment(root):
    cut_off(root / "orders-0" / f"{SECOND}.log", 3)
    [problem] = of_cause(root, Cause.OFFSET_INDEX)
    assert problem.path == f"orders-0/{SECOND}.index"
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.OVERWRITE)
    assert lost(problem) == (6, 7, 2, 0)
    assert "appends at offset 6" in problem.message
    assert f"remove this {SECOND}.index" in problem.message


def test_opening_a_log_loses_the_records_that_verify_predicts(root):
    log = root / "orders-0" / f"{SECOND}.log"
    cut_off(log, 3)
    [problem] = of_cause(root, Cause.OFFSET_INDEX)
    with (
        pytest.warns(LostOffsetsWarning),
        kafkalog.open(root / "orders-0", "a", LogConfig()) as opened,
    ):
        loss = opened.report.lost
    assert (loss.first_offset, loss.last_offset) == (problem.lost_from, problem.lost_to)


def test_the_remedy_of_a_last_index_entry_past_the_end_works(root):
    cut_off(root / "orders-0" / f"{SECOND}.log", 3)
    (root / "orders-0" / f"{SECOND}.index").unlink()
    assert not of_cause(root, Cause.OFFSET_INDEX)
    with kafkalog.open(root / "orders-0", "a", LogConfig()) as opened:
        assert opened.log_end_offset == 8


def test_a_log_that_lost_its_end_after_a_clean_stop_is_an_error(root):
    cut_off(root / "orders-0" / f"{SECOND}.log", BATCH_BYTES)
    (root / "orders-0" / f"{SECOND}.index").unlink()
    [problem] = [
        problem
        for problem in of_cause(root, Cause.LOG_END)
        if problem.path == "recovery-point-offset-checkpoint"
    ]
    assert problem.severity == Severity.ERROR
    assert "offsets 8 to 9 are missing after a clean stop" in problem.message
    assert problem.topic_partition == ("orders", 0)


def test_zeros_at_the_end_after_a_clean_stop_keep_the_log_from_opening(root):
    log = root / "orders-0" / f"{SECOND}.log"
    log.write_bytes(log.read_bytes() + bytes(18))
    [problem] = verify(root).problems
    assert problem.cause == Cause.PREALLOCATED
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.REFUSE)
    mark_crashed(root)
    [problem] = verify(root).problems
    assert problem.severity == Severity.WARNING
    assert problem.recovery == Recovery.TRUNCATE
    assert lost(problem) == (None, None, 0, 0)


@pytest.mark.parametrize("zeros", [9, 18, 4096])
@pytest.mark.parametrize("stop", ["clean", "below the recovery point", "crash"])
def test_zeros_before_the_last_segment_are_an_error(root, zeros, stop):
    if stop != "clean":
        (root / ".kafka_cleanshutdown").unlink()
    if stop == "crash":
        mark_recovered_from_start(root)
    log = root / "orders-0" / f"{FIRST}.log"
    end = log.stat().st_size
    log.write_bytes(log.read_bytes() + bytes(zeros))
    [problem] = of_cause(root, Cause.PREALLOCATED)
    assert (problem.position, problem.severity) == (end, Severity.ERROR)
    assert "consumers fail there" in problem.reason
    if stop == "crash":
        assert problem.recovery == Recovery.TRUNCATE
        assert lost(problem) == (6, 9, 4, 1)
    elif stop == "below the recovery point" and zeros >= 18:
        # No snapshot has the producers, so the segment is read for them.
        assert problem.recovery == Recovery.REFUSE
        with pytest.raises(kafkalog.CorruptRecordError):
            kafkalog.open(root / "orders-0", "a")
    else:
        assert problem.recovery == Recovery.NOTHING
        assert lost(problem) == (None, None, 0, 0)
    assert kafkalog.scan(root / "orders-0").count() == 10


@pytest.mark.parametrize("tail", [bytes(9), batch(10, epoch=3)[:-1]])
def test_a_tail_that_stays_after_a_clean_stop_is_an_error(root, tail):
    log = root / "orders-0" / f"{SECOND}.log"
    log.write_bytes(log.read_bytes() + tail)
    [problem] = verify(root).problems
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.NOTHING)
    assert "a broker appends after them" in problem.message
    mark_crashed(root)
    [problem] = verify(root).problems
    assert problem.severity == Severity.WARNING


def test_a_truncation_has_the_records_and_segments_lost(root):
    add_segment(root)
    mark_crashed(root)
    log = root / "orders-0" / f"{FIRST}.log"
    data = bytearray(log.read_bytes())
    data[2 * BATCH_BYTES - 1] ^= 1
    log.write_bytes(data)
    [problem] = of_cause(root, Cause.CRC)
    assert (problem.recovery, problem.recovery_position) == ("truncate", BATCH_BYTES)
    assert lost(problem) == (2, 13, 10, 2)
    assert problem.message.endswith(
        "; recovery truncates offsets 2 to 13, 10 readable records, "
        "and 2 whole segments after this one"
    )
    assert problem.message.startswith(f"{problem.reason}; recovery truncates")
    assert {"reason", "topic_partition"}.isdisjoint(problem.as_dict())


def test_only_the_first_problem_of_a_truncation_has_the_loss(root):
    mark_crashed(root)
    log = root / "orders-0" / f"{FIRST}.log"
    data = bytearray(log.read_bytes())
    data[BATCH_BYTES - 1] ^= 1
    data[3 * BATCH_BYTES - 1] ^= 1
    log.write_bytes(data)
    first, second = of_cause(root, Cause.CRC)
    assert lost(first) == (0, 9, 6, 1)
    assert (second.recovery, second.recovery_position) == (Recovery.TRUNCATE, 0)
    assert lost(second) == (None, None, 0, 0)


def test_a_single_small_file_is_verified_without_its_log(root):
    cut_off(root / "orders-0" / f"{SECOND}.log", 3)
    checkpoint = root / "orders-0" / "leader-epoch-checkpoint"
    checkpoint.write_bytes(b"nonsense")
    [problem] = verify(checkpoint).problems
    assert problem.cause == Cause.FORMAT


def test_a_truncation_of_the_clusters_metadata_makes_partitions_stray(tmp_path):
    directory = golden_data.logs("k431-clean") / "__cluster_metadata-0"
    copy = shutil.copytree(directory, tmp_path / "logs" / directory.name)
    log = min(copy.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    [problem] = of_cause(copy.parent, Cause.CRC)
    assert problem.recovery == Recovery.TRUNCATE
    assert problem.severity == Severity.ERROR
    following = data[:-1] + bytes([data[-1] ^ 1])
    log.write_bytes(following)
    begin = golden_data.truth("k431-clean", directory.name, "batches")[1]["position"]
    data = bytearray(following)
    data[begin + 70] ^= 1
    log.write_bytes(data)
    [problem] = of_cause(copy.parent, Cause.CRC)
    assert problem.lost_records > 0
    assert "are renamed to -stray" in problem.message


def test_adjacent_damaged_batches_are_one_problem_in_numeric_order(root):
    for number in (2, 10):
        shutil.copytree(root / "orders-0", root / f"orders-{number}")
        log = root / f"orders-{number}" / f"{FIRST}.log"
        data = bytearray(log.read_bytes())
        data[BATCH_BYTES - 1] ^= 1
        data[2 * BATCH_BYTES - 1] ^= 1
        log.write_bytes(data)
    found = of_cause(root, Cause.CRC)
    assert [problem.path.partition("/")[0] for problem in found] == [
        "orders-2",
        "orders-10",
    ]
    assert [(problem.position, problem.offset) for problem in found] == [(0, 0)] * 2


def test_a_log_without_segments_ends_where_a_broker_begins_a_new_one(root):
    for path in (root / "orders-0").iterdir():
        path.unlink()
    [problem] = of_cause(root, Cause.LOG_END)
    assert problem.path == "recovery-point-offset-checkpoint"
    assert (problem.severity, problem.offset, problem.last_offset) == (
        Severity.ERROR,
        0,
        9,
    )
    assert "offsets 0 to 9 are missing after a clean stop" in problem.message
    starts = format_offsets({("orders", 0): 10})
    (root / "log-start-offset-checkpoint").write_bytes(starts)
    assert not of_cause(root, Cause.LOG_END)


def test_the_metadata_log_is_loaded_without_its_checkpointed_start(tmp_path):
    logs = shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "logs")
    starts = "0\n1\n__cluster_metadata 0 1000000\n"
    (logs / "log-start-offset-checkpoint").write_text(starts)
    [problem] = of_cause(logs, Cause.LOG_END)
    assert (problem.recovery, problem.lost_records) == (Recovery.NOTHING, 0)
    assert kafkalog.preflight(logs).partitions[0].records_lost == 0


def test_adjacent_batches_with_a_wrong_leader_epoch_are_one_problem(root):
    checkpoint = root / "orders-0" / "leader-epoch-checkpoint"
    checkpoint.write_bytes(b"0\n2\n0 0\n5 4\n")
    found = [
        (problem.path, problem.offset, problem.last_offset)
        for problem in of_cause(root, Cause.LEADER_EPOCH)
    ]
    assert found == [
        (f"orders-0/{FIRST}.log", 4, None),
        (f"orders-0/{SECOND}.log", 6, 9),
    ]
    [_, last] = of_cause(root, Cause.LEADER_EPOCH)
    assert "(2 batches, to offset 9)" in last.message


@pytest.mark.parametrize("name", ["lost+found", "quiet-0.bak", "notes", "a-delete"])
def test_a_directory_name_that_is_not_a_partitions_prevents_the_start(root, name):
    (root / name).mkdir()
    [problem] = verify(root).problems
    assert (problem.path, problem.cause) == (name, Cause.FOREIGN)
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.REFUSE)


def test_a_link_to_a_partition_is_a_problem_as_its_log_is_not_verified(root, tmp_path):
    (root / "orders-0").rename(tmp_path / "orders-0")
    (root / "orders-0").symlink_to(tmp_path / "orders-0")
    [problem] = of_cause(root, Cause.FOREIGN)
    assert (problem.path, problem.cause) == ("orders-0", Cause.FOREIGN)
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.NOTHING)
    assert verify(root / "orders-0").batches > 0
    assert problem in kafkalog.repair(root).unrepaired


@pytest.mark.parametrize("name", ["remote-log-index-cache", "orders.x-7"])
def test_a_directory_that_a_broker_ignores_or_loads_is_no_problem(root, name):
    (root / name).mkdir()
    assert not verify(root).problems


def test_other_files_are_ignored(root):
    (root / "quiet-0.bak").write_bytes(b"notes")
    (root / "orders-0" / "notes.txt").write_bytes(b"notes")
    assert not verify(root).problems


@pytest.mark.parametrize("name", ["backup.log", "x.index", "x.snapshot", "x.log.swap"])
def test_a_file_name_without_an_offset_prevents_the_start(root, name):
    (root / "orders-0" / name).write_bytes(b"")
    [problem] = verify(root).problems
    assert (problem.path, problem.cause) == (f"orders-0/{name}", Cause.FOREIGN)
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.REFUSE)


def test_the_id_of_another_topic_leaves_a_partition_unserved(tmp_path):
    logs = golden_data.logs("k431-clean")
    for name in ("__cluster_metadata-0", "ledger-0"):
        shutil.copytree(logs / name, tmp_path / name)
    assert not of_cause(tmp_path, Cause.TOPIC_ID)
    file = tmp_path / "ledger-0" / "partition.metadata"
    file.write_text("version: 0\ntopic_id: K48VsEpRT9uBWc5sqaDtCA\n")
    [problem] = verify(tmp_path).problems
    assert (problem.path, problem.cause) == ("ledger-0/partition.metadata", "topic_id")
    assert (problem.severity, problem.recovery) == (Severity.ERROR, Recovery.UNSERVED)
    assert "K48VsEpRT9uBWc5sqaDtCA" in problem.message
    file.unlink()
    [problem] = of_cause(tmp_path, Cause.TOPIC_ID)
    assert problem.severity == Severity.ERROR


def test_a_copy_under_the_name_of_an_unknown_topic_is_an_error(tmp_path):
    logs = golden_data.logs("k431-clean")
    name = "__cluster_metadata-0"
    shutil.copytree(logs / name, tmp_path / name)
    shutil.copytree(logs / "ledger-0", tmp_path / "elsewhere-0")
    [problem] = verify(tmp_path).problems
    assert (problem.cause, problem.severity) == (Cause.TOPIC_ID, Severity.ERROR)
    assert problem.recovery == Recovery.UNSERVED


def test_a_middle_log_that_is_missing_is_an_error_once(root):
    add_segment(root)
    (root / "orders-0" / f"{SECOND}.log").unlink()
    found = of_cause(root, Cause.ORPHAN)
    assert [problem.severity for problem in found] == [Severity.ERROR, Severity.WARNING]
    assert (found[0].offset, found[0].last_offset) == (6, 9)
    assert f"{SECOND}.log is missing" in found[0].message
    assert not of_cause(root, Cause.GAP)


def test_a_middle_segment_without_files_is_a_gap(root):
    add_segment(root)
    for path in (root / "orders-0").glob(f"{SECOND}.*"):
        path.unlink()
    [problem] = of_cause(root, Cause.GAP)
    assert problem.severity == Severity.WARNING
    assert problem.path == "orders-0/00000000000000000010.log"
    assert (problem.offset, problem.last_offset) == (6, 9)
    cleaned = format_offsets({("orders", 0): 10})
    (root / CLEANED_TO).write_bytes(cleaned)
    assert not of_cause(root, Cause.GAP)


def test_a_gap_next_to_compacted_batches_is_no_problem(tmp_path):
    partition = tmp_path / "orders-0"
    partition.mkdir()
    write_segment(partition, 0, [batch(0)])
    write_segment(partition, 100, [batch(100, 1, last_offset=101)], indexed=False)
    assert not of_cause(partition, Cause.GAP)
    write_segment(partition, 100, [batch(100)])
    [problem] = of_cause(partition, Cause.GAP)
    assert (problem.offset, problem.last_offset) == (2, 99)


def test_a_middle_segment_that_ends_in_part_of_a_batch_is_damaged(root):
    cut_off(root / "orders-0" / f"{FIRST}.log", 3)
    (root / "orders-0" / f"{FIRST}.index").write_bytes(b"")
    [problem] = of_cause(root, Cause.INCOMPLETE)
    assert problem.severity == Severity.ERROR
    assert problem.path == f"orders-0/{FIRST}.log"
    assert problem.last_offset == 5
    assert "offsets 4 to 5 are missing before the next segment" in problem.message
    assert problem.message.startswith(problem.reason)
    assert "offsets 4 to 5 are missing before the next segment" in problem.reason


def test_an_empty_time_index_of_a_segment_with_timestamps_is_a_warning(root):
    (root / "orders-0" / f"{FIRST}.timeindex").write_bytes(b"")
    [problem] = verify(root).problems
    assert (problem.cause, problem.severity) == (Cause.TIME_INDEX, Severity.WARNING)
    assert problem.path == f"orders-0/{FIRST}.timeindex"
    assert "the index is empty" in problem.message


def test_the_time_index_of_the_segment_being_written_may_be_empty(root):
    (root / "orders-0" / f"{SECOND}.timeindex").write_bytes(b"")
    assert len(of_cause(root, Cause.TIME_INDEX)) == 1
    mark_crashed(root)
    assert not of_cause(root, Cause.TIME_INDEX)


@pytest.mark.parametrize("content", [b"", b"0\n0\n"])
def test_leader_epochs_without_an_entry_are_an_error(root, content):
    (root / "orders-0" / "leader-epoch-checkpoint").write_bytes(content)
    [problem] = verify(root).problems
    assert (problem.cause, problem.severity) == (Cause.LEADER_EPOCH, Severity.ERROR)
    assert problem.path == "orders-0/leader-epoch-checkpoint"


def test_a_leader_epoch_past_the_end_of_the_log_is_a_warning(root):
    checkpoint = root / "orders-0" / "leader-epoch-checkpoint"
    checkpoint.write_bytes(b"0\n3\n0 0\n3 4\n7 11\n")
    [problem] = verify(root).problems
    assert (problem.cause, problem.severity) == (Cause.LOG_END, Severity.WARNING)
    assert (problem.offset, problem.recovery) == (11, Recovery.RESET)

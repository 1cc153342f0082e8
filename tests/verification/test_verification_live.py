"""`verify` of a directory that a broker writes to.

The broker's write between two readings is simulated at the end of the first reading.
"""

import shutil

import pytest

from kafkalog.formats.checkpoint import format_offsets
from kafkalog.storage.checkpoint_file import CLEANED_TO
from kafkalog.verification import path_verification
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause
from tests import golden_data
from tests.manager.partitions import batch, write_partition

LAST = f"{6:020d}"


@pytest.fixture
def after_first_reading(monkeypatch):
    """Return a function that schedules a write after the first log is read."""

    def arrange(write):
        check_segment = path_verification.check_segment
        waiting = [write]

        def check(task, **options):
            result = check_segment(task, **options)
            if waiting and task.active:
                waiting.pop()()
            return result

        monkeypatch.setattr(path_verification, "check_segment", check)

    return arrange


@pytest.fixture
def partition(tmp_path):
    return write_partition(tmp_path / "orders-0")


@pytest.fixture
def ledger(tmp_path):
    logs = golden_data.logs("k431-clean")
    return shutil.copytree(logs / "ledger-0", tmp_path / "ledger-0")


def test_an_abort_whose_entry_is_written_between_two_readings_is_no_problem(
    ledger, after_first_reading
):
    index = ledger / f"{5:020d}.txnindex"
    whole = index.read_bytes()
    index.write_bytes(whole[:-68])
    [problem] = verify(ledger).problems
    assert problem.cause == Cause.TXN_INDEX
    after_first_reading(lambda: index.write_bytes(whole))
    assert not verify(ledger).problems


def test_the_second_reading_waits_for_an_entry_that_is_being_written(
    ledger, monkeypatch
):
    index = ledger / f"{5:020d}.txnindex"
    whole = index.read_bytes()
    index.write_bytes(whole[:-34])
    monkeypatch.setattr(
        path_verification.time, "sleep", lambda _: index.write_bytes(whole)
    )
    assert not verify(ledger).problems


def test_an_abort_without_an_entry_in_both_readings_is_an_error(
    ledger, after_first_reading
):
    index = ledger / f"{5:020d}.txnindex"
    whole = index.read_bytes()
    index.write_bytes(whole[34:-34])
    after_first_reading(lambda: index.write_bytes(whole[34:]))
    [problem] = verify(ledger).problems
    assert (problem.cause, problem.severity) == (Cause.TXN_INDEX, "error")
    assert (problem.offset, problem.last_offset) == (5, None)


def test_an_index_ahead_of_a_log_that_grows_is_no_problem(
    partition, after_first_reading
):
    log = partition / f"{LAST}.log"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(batch(6))])
    (partition / f"{10:020d}.snapshot").unlink()
    assert {problem.cause for problem in verify(partition).problems} == {
        Cause.OFFSET_INDEX,
        Cause.TIME_INDEX,
    }
    after_first_reading(lambda: log.write_bytes(whole))
    assert not verify(partition).problems


def test_a_leader_epoch_that_is_written_after_its_batch_was_read_is_no_problem(
    partition, after_first_reading
):
    checkpoint = partition / "leader-epoch-checkpoint"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(b"0\n1\n0 0\n")
    assert {problem.cause for problem in verify(partition).problems} == {
        Cause.LEADER_EPOCH
    }
    after_first_reading(lambda: checkpoint.write_bytes(whole))
    assert not verify(partition).problems


def test_a_checkpoint_ahead_of_a_log_that_grows_is_no_problem(
    partition, after_first_reading
):
    offsets = format_offsets({("orders", 0): 12})
    (partition.parent / "replication-offset-checkpoint").write_bytes(offsets)
    [problem] = verify(partition.parent).problems
    assert problem.cause == Cause.LOG_END
    log = partition / f"{LAST}.log"
    more = log.read_bytes() + batch(10, epoch=3)
    after_first_reading(lambda: log.write_bytes(more))
    assert not verify(partition.parent).problems


def test_a_partition_that_is_deleted_meanwhile_is_no_problem(
    partition, after_first_reading
):
    log = partition / f"{LAST}.log"
    log.write_bytes(log.read_bytes()[:-3])
    (partition.parent / CLEANED_TO).write_bytes(format_offsets({("orders", 0): 99}))
    assert verify(partition.parent).problems
    aside = partition.with_name(f"orders-0.{32 * 'a'}-delete")
    after_first_reading(lambda: partition.rename(aside))
    assert not verify(partition.parent).problems


@pytest.mark.parametrize("step", ["truncated", "emptied", "removed"])
def test_an_index_that_a_broker_has_yet_to_remove_is_no_error(partition, step):
    for path in sorted(partition.glob(f"{0:020d}.*")):
        path.rename(path.with_name(f"{path.name}.deleted"))
    log = partition / f"{0:020d}.log.deleted"
    content = log.read_bytes()
    match step:
        case "truncated":
            log.write_bytes(content[: len(content) // 2])
        case "emptied":
            log.write_bytes(b"")
        case _:
            log.unlink()
    assert verify(partition).ok


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("is_renamed", [False, True])
def test_files_that_a_broker_deletes_between_two_readings_are_no_error(
    partition, after_first_reading, ending, is_renamed
):
    def delete():
        for path in sorted(partition.glob(f"{0:020d}*{ending}")):
            if is_renamed:
                path.rename(path.with_name(f"{path.name}.deleted"))
            else:
                path.unlink()

    after_first_reading(delete)
    assert verify(partition).ok

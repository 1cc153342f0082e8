"""A log open for writing: its lines in the checkpoints of the log directory."""

import shutil

import pytest

import kafkalog
from kafkalog import LogLockedError, RecordBatchBuilder, StrayFileError
from kafkalog.storage.checkpoint_file import read_offsets
from kafkalog.testing import TracingDisk, open_log
from tests.log.writing import load

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)
MARKER = ".kafka_cleanshutdown"


def fill(directory, count=100):
    """Append records, and delete the first half of them."""
    builder = RecordBatchBuilder()
    for _ in range(count):
        builder.append(b"k", b"v", timestamp=1_700_000_000_000)
    with kafkalog.open(directory, "a") as log:
        log.append(builder.build())
        log.update_high_watermark(log.log_end_offset)
        log.delete_records(log.log_end_offset - count // 2)


def remembered(directory):
    return [set(read_offsets(directory, name)) for name in CHECKPOINTS]


def test_a_deleted_log_is_removed_from_the_checkpoints_and_its_neighbours_are_not(
    tmp_path,
):
    fill(tmp_path / "orders-0")
    fill(tmp_path / "clicks-0")
    (tmp_path / MARKER).touch()
    kafkalog.open(tmp_path / "orders-0", "a").delete()
    assert remembered(tmp_path) == [{("clicks", 0)}] * 3
    assert (tmp_path / MARKER).exists()
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)


def test_a_log_created_in_place_of_a_lost_one_begins_at_0(tmp_path):
    fill(tmp_path / "orders-0")
    shutil.rmtree(tmp_path / "orders-0")
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        assert (log.log_start_offset, log.recovery_point) == (0, 0)
        assert log.high_watermark == 0


def test_several_logs_of_a_directory_may_be_open_but_each_only_once(tmp_path):
    with (
        kafkalog.open(tmp_path / "orders-0", "a"),
        kafkalog.open(tmp_path / "clicks-0", "a"),
    ):
        with pytest.raises(LogLockedError, match="orders-0"):
            kafkalog.open(tmp_path / "orders-0", "a")
        assert (tmp_path / ".lock").exists()
    assert not (tmp_path / ".lock").exists()


def test_file_names_created_after_a_clean_shutdown_survive_a_crash(tmp_path):
    """A segment without its index is recovered, and all its indexes are new."""
    fill(tmp_path / "orders-0")
    (tmp_path / MARKER).touch()
    disk = TracingDisk()
    [index] = (tmp_path / "orders-0").glob("*.index")
    index.unlink()
    log = open_log(tmp_path / "orders-0", disk=disk)
    assert log.report.clean
    assert log.report.recovered
    assert disk.calls[-1] == ("sync_directory", "orders-0")
    log.close()


@pytest.mark.parametrize("stem", ["9" * 20, "x" * 20])
def test_a_segment_file_without_an_offset_in_its_name_is_rejected(tmp_path, stem):
    directory = tmp_path / "t-0"
    directory.mkdir()
    for ending in (".log", ".index", ".timeindex"):
        (directory / f"{stem}{ending}").touch()
    with pytest.raises(StrayFileError, match=stem):
        load(tmp_path)

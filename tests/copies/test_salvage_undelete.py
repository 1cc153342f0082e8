"""Segments that retention has marked as deleted are brought back."""

import shutil

import pytest

import kafkalog
from kafkalog.errors import LogArgumentError
from tests.cli.shell import call, objects

ROUNDS = 12
START = "log-start-offset-checkpoint"
CONFIG = kafkalog.LogConfig(
    segment_bytes=1 << 20,
    internal_segment_bytes=300,
    file_delete_delay_ms=3_600_000,
)


def values_in(source):
    table = kafkalog.scan(source, columns=["offset", "value"]).to_arrow()
    return table.to_pylist()


@pytest.fixture
def logs(tmp_path):
    """Return a log directory with a log of several segments and leader epochs."""
    directory = tmp_path / "logs"
    with kafkalog.open(directory / "orders-0", "a", config=CONFIG) as log:
        for number in range(ROUNDS):
            values = [b"%d-%d" % (number, each) for each in range(5)]
            log.append_records({"value": values}, leader_epoch=number // 4)
        log.update_high_watermark(log.log_end_offset)
        assert len(log.segments) > 3
    return directory


def killed_after_deletion(logs, offset):
    """Return the directory of a broker that dies before it removes the segments.

    The records below an offset are deleted, by a request.
    """
    with kafkalog.open(logs / "orders-0", "a", config=CONFIG) as log:
        log.update_high_watermark(log.log_end_offset)
        log.delete_records(offset)
        log.delete_old_segments()
        ignored = shutil.ignore_patterns("*.tmp")  # of checkpoints being written
        killed = shutil.copytree(logs, logs.parent / "killed", ignore=ignored)
    (killed / ".lock").unlink()
    (killed / START).write_text(f"0\n1\norders 0 {offset}\n")
    return killed


@pytest.mark.parametrize("part", ["", "orders-0"])
@pytest.mark.parametrize("offset", [33, 5 * ROUNDS])
def test_all_records_are_back_with_the_log_start_lowered(offset, part, logs, tmp_path):
    before = values_in(logs)
    killed = killed_after_deletion(logs, offset)
    assert list(killed.rglob("*.log.deleted"))
    assert values_in(killed) == before[offset:]
    plain = kafkalog.salvage(killed / part, tmp_path / "plain")
    assert plain.partitions[0].records < 5 * ROUNDS
    report = kafkalog.salvage(killed / part, tmp_path / "back", undelete=True)
    [partition] = report.partitions
    assert (partition.records, partition.missing) == (5 * ROUNDS, ())
    deleted = len(list(killed.rglob("*.log.deleted")))
    assert (partition.undeleted_segments, partition.notes) == (deleted, ())
    assert values_in(tmp_path / "back") == before
    copy = kafkalog.open(tmp_path / "back" / "orders-0")
    assert (copy.log_start_offset, copy.log_end_offset) == (0, 5 * ROUNDS)
    assert [tuple(entry) for entry in copy.leader_epochs] == [(0, 0), (1, 20), (2, 40)]
    assert kafkalog.verify(tmp_path / "back").problems == ()
    assert kafkalog.preflight(tmp_path / "back").partitions[0].records_lost == 0


def test_segments_that_compaction_has_replaced_are_not_brought_back(logs, tmp_path):
    [_, second, *_] = sorted((logs / "orders-0").glob("*.log"))
    shutil.copy(second, f"{second}.deleted")
    before = values_in(logs)
    report = kafkalog.salvage(logs, tmp_path / "back", undelete=True)
    assert report.partitions[0].undeleted_segments == 0
    assert values_in(tmp_path / "back") == before


def test_undelete_needs_a_directory(logs, tmp_path):
    [path, *_] = sorted((logs / "orders-0").glob("*.log"))
    with pytest.raises(LogArgumentError, match="undelete of a file"):
        kafkalog.salvage(path, tmp_path / "back", undelete=True)


def test_undelete_on_the_command_line(logs, tmp_path):
    killed = killed_after_deletion(logs, 33)
    [directory] = kafkalog.preflight(killed).directories
    kinds = [str(each.kind) for each in directory.freeable]
    last = kinds.count("deleted_segment")
    assert 0 < last < len(kinds)
    assert kinds[-last:] == ["deleted_segment"] * last
    ran = call("preflight", killed, "--format", "table")
    assert "marked .deleted: the broker removes them, salvage --undelete" in ran.stdout
    ran = call("salvage", killed, tmp_path / "back", "--undelete")
    assert ran.exit_code == 0, ran.output
    [row] = objects(ran.stdout)
    assert row["records"] == 5 * ROUNDS
    wrong = call("salvage", tmp_path / "x.log", tmp_path / "b", "--undelete")
    assert wrong.exit_code == 3

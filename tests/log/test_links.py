"""Links and special files in log directories: nothing is read or written through them.

`tests/campaigns/test_special_files.py` has each kind in the place of each file.
"""

import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog.errors import LogStateError
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK

SEGMENT = "00000000000000000000.log"
COMPACTED = kafkalog.LogConfig(cleanup_policy=("compact",))
KEPT = {("linked", 0): 1}


def content_of(directory):
    """Return the files below a directory, and where its links lead."""
    return {
        path.relative_to(directory): path.readlink()
        if path.is_symlink()
        else path.is_file() and path.read_bytes()
        for path in sorted(directory.rglob("*"))
    }


@pytest.fixture
def elsewhere(tmp_path):
    """Return a log outside of the log directory."""
    path = tmp_path / "elsewhere" / "linked-0"
    with kafkalog.open(path, "a", COMPACTED) as log:
        log.append_records({"key": [b"k"], "value": [b"secret"]})
    return path


@pytest.fixture
def logs(tmp_path, elsewhere):
    """Return a log directory with a log, and a link to one."""
    with kafkalog.open(tmp_path / "logs" / "own-0", "a", COMPACTED) as log:
        log.append_records({"key": [b"k"], "value": [b"own"]})
    (tmp_path / "logs" / "linked-0").symlink_to(elsewhere)
    return tmp_path / "logs"


@pytest.fixture
def linked_file(logs, elsewhere):
    """Return a partition whose only segment is a link."""
    (logs / "linked-0").unlink()
    (logs / "linked-0").mkdir()
    (logs / "linked-0" / SEGMENT).symlink_to(elsewhere / SEGMENT)
    return logs / "linked-0"


def test_a_manager_does_not_have_the_log_of_a_link(logs, elsewhere):
    before = content_of(elsewhere.parent)
    with kafkalog.LogManager(logs) as manager:
        assert list(manager) == [("own", 0)]
        with pytest.raises(LogStateError, match="symbolic link"):
            manager.open("linked", 0)
        with pytest.raises(KeyError):
            manager.delete("linked", 0)
        assert manager.delete_topic("linked") == 0
        manager.open("linked", 1)
        manager.retain()
        manager.cleaner.clean_filthiest()
        manager.checkpoint()
    assert content_of(elsewhere.parent) == before
    assert (logs / "linked-0").is_symlink()


def test_the_checkpointed_offsets_of_a_link_stay(logs):
    files = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_TO)
    for name in files:
        write_offsets(logs, name, {**KEPT, ("gone", 0): 1}, DISK)
    with kafkalog.LogManager(logs) as manager:
        manager.open("new", 0)
        manager.checkpoint()
    assert [read_offsets(logs, name).get(("linked", 0)) for name in files] == [1] * 4
    assert ("gone", 0) not in read_offsets(logs, RECOVERY_POINTS)


@pytest.mark.parametrize("was_clean", [False, True])
def test_the_marker_states_nothing_new_about_the_log_of_a_link(logs, was_clean):
    marker = logs / ".kafka_cleanshutdown"
    if not was_clean:
        marker.unlink()
    kafkalog.LogManager(logs).close()
    assert marker.exists() == was_clean


@pytest.mark.parametrize("state", ["delete", "future", "stray"])
def test_a_link_that_is_marked_is_left_unchanged(logs, elsewhere, state):
    link = logs / f"own-0.{32 * 'a'}-{state}"
    link.symlink_to(elsewhere)
    before = content_of(elsewhere)
    broker = kafkalog.BrokerConfig(log_segment_delete_delay_ms=0)
    with kafkalog.LogManager(logs, broker=broker) as manager:
        manager.remove_deleted()
        assert manager.futures == {}
        assert manager.strays == []
    assert link.is_symlink()
    assert content_of(elsewhere) == before


def test_no_log_moves_to_the_place_of_a_link(tmp_path, logs):
    other = tmp_path / "other"
    with kafkalog.LogManager([logs, other]) as manager:
        (other / "own-0").symlink_to(tmp_path / "elsewhere")
    with kafkalog.LogManager([logs, other]) as manager:
        with pytest.raises(LogStateError, match="symbolic link"):
            manager.move("own", 0, other)
        assert manager.moves == {}


@pytest.mark.parametrize("name", [SEGMENT, "leader-epoch-checkpoint"])
def test_a_log_with_a_linked_file_is_not_opened_for_writing(logs, elsewhere, name):
    file = logs / "own-0" / name
    file.unlink()
    file.symlink_to(elsewhere / name)
    before = content_of(logs.parent)
    with pytest.raises(OSError, match=f"Not a regular file.*{name}"):
        kafkalog.open(logs / "own-0", "a")
    with pytest.raises(OSError, match=f"Not a regular file.*{name}"):
        kafkalog.LogManager(logs)
    assert content_of(logs.parent) == before


def test_a_pipe_in_the_place_of_a_file_does_not_block(logs):
    file = logs / "own-0" / "00000000000000000000.index"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(OSError, match="Not a regular file"):
        kafkalog.open(logs / "own-0", "a")
    assert kafkalog.scan(logs).count() == 1


def test_compaction_copies_nothing_through_a_link(linked_file, tmp_path, elsewhere):
    before = content_of(elsewhere)
    [report] = kafkalog.compact(
        linked_file, destination=tmp_path / "out", ignore_policy=True
    )
    assert report.records_before == 0
    assert kafkalog.scan(tmp_path / "out").count() == 0
    [report] = kafkalog.compact(linked_file, ignore_policy=True)
    assert report.records_before == 0
    with pytest.raises(OSError, match="Not a regular file"):
        kafkalog.compact(linked_file, apply=True, ignore_policy=True)
    assert content_of(elsewhere) == before


def test_copies_have_nothing_of_a_linked_file(linked_file, tmp_path):
    source = linked_file.parent
    for number, copy in enumerate((kafkalog.salvage, kafkalog.restore)):
        copy(source, tmp_path / str(number))
    kafkalog.heal([source], tmp_path / "healed")
    for name in ("0", "1", "healed"):
        values = kafkalog.scan(tmp_path / name).to_arrow()["value"].to_pylist()
        assert values == [b"own"]


def test_a_linked_file_is_named_by_verify(linked_file):
    for where, path in (
        (linked_file, SEGMENT),
        (linked_file.parent, f"linked-0/{SEGMENT}"),
    ):
        [problem] = kafkalog.verify(where).problems
        assert (problem.path, problem.cause) == (path, "foreign")
        assert "a broker follows it" in problem.message
        assert problem.recovery == "nothing"


def test_repair_leaves_a_linked_file(linked_file):
    before = content_of(linked_file.parents[1])
    report = kafkalog.repair(linked_file.parent, apply=True, allow_data_loss=True)
    assert report.actions == ()
    assert content_of(linked_file.parents[1]) == before


def test_the_directory_that_the_caller_names_may_be_a_link(logs, tmp_path):
    (tmp_path / "named").symlink_to(logs)
    with kafkalog.LogManager(tmp_path / "named") as manager:
        manager["own", 0].append_records([{"value": b"more"}])
    with kafkalog.open(Path(tmp_path, "named", "own-0"), "a") as log:
        assert log.log_end_offset == 2
    with kafkalog.open(logs / "linked-0", "a") as log:
        log.append_records([{"value": b"more"}])
    assert kafkalog.scan(tmp_path / "elsewhere").count() == 2

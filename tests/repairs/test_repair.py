"""Repairs of single kinds of damage: the plan, the result, and undoing it."""

import json
import os
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog import LogArgumentError, LogConfig, LogLockedError, repair, verify
from kafkalog.errors import CorruptCheckpointError, LogStateError
from kafkalog.formats.checkpoint import format_offsets, salvage_offsets
from kafkalog.storage.durable_file import Disk
from kafkalog.verification import Report
from kafkalog.verification.path_verification import verify_locked
from tests import golden_data
from tests.repairs.damaged_logs import copy_log, tree
from tests.startup import damages

TORN = ("k431-crash", "torn.none-0")
LEDGER = ("k431-clean", "ledger-0")
HOLD = """
import sys, kafkalog
with kafkalog.open(sys.argv[1], "a") as log:
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def torn(tmp_path):
    """Return a partition's directory that was not shut down cleanly."""
    return copy_log(TORN, tmp_path / "disk" / "logs", clean=False)


@pytest.fixture
def ledger(tmp_path):
    """Return a partition's directory with transactions, shut down cleanly."""
    return copy_log(LEDGER, tmp_path / "disk" / "logs", clean=True)


def kinds(actions):
    return [(action.path.rpartition("/")[2], str(action.action)) for action in actions]


def offsets(directory):
    scan = kafkalog.scan(
        directory, columns=["offset"], start_offset=0, control_records=True
    )
    return [offset for chunk in scan.chunks() for offset in chunk.offset.tolist()]


def test_a_plan_changes_nothing_and_states_each_action(torn):
    damages.flip_payload_in_first(torn)
    before = tree(torn.parents[1])
    report = repair(torn.parent)
    assert tree(torn.parents[1]) == before
    assert (report.applied, report.ok, report.backup) == (False, False, None)
    [skip] = [action for action in report.actions if action.action == "skip"]
    assert (skip.topic, skip.partition, skip.needs_data_loss) == ("torn.none", 0, True)
    assert skip.records_lost == skip.last_offset - skip.first_offset + 1 > 0
    [crc] = [each for each in verify(torn.parent).problems if each.cause == "crc"]
    assert "; recovery truncates" in crc.message
    assert skip.reason == f"crc: {crc.reason}"
    assert "recovery truncates" not in skip.reason
    assert report.records_lost == skip.records_lost


def test_a_log_without_problems_needs_no_repair(ledger):
    before = tree(ledger.parents[1])
    report = repair(ledger.parent, apply=True, allow_data_loss=True)
    assert report.ok
    assert not report.applied
    assert not report.actions
    assert tree(ledger.parents[1]) == before


@pytest.mark.parametrize("clean", [True, False])
def test_zeros_before_the_last_segment_are_cut_and_lose_nothing(tmp_path, clean):
    directory = copy_log(LEDGER, tmp_path / "disk" / "logs", clean=clean)
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 2
    before = offsets(directory)
    contents = [log.read_bytes() for log in logs]
    for log in logs[:2]:
        log.write_bytes(log.read_bytes() + bytes(4096))
    report = repair(directory.parent, apply=True)
    cuts = [action for action in report.actions if action.action == "cut"]
    ends = {cut.path.rpartition("/")[2]: cut.position for cut in cuts}
    assert ends == {log.name: len(contents[i]) for i, log in enumerate(logs[:2])}
    assert not any(cut.records_lost or cut.needs_data_loss for cut in cuts)
    assert [log.read_bytes() for log in logs] == contents
    assert offsets(directory) == before
    assert verify(directory.parent).ok


def test_a_log_loses_nothing_without_the_permission(torn):
    damages.flip_payload_in_first(torn)
    before = tree(torn.parents[1])
    report = repair(torn.parent, apply=True)
    assert not report.ok
    assert {action.needs_data_loss for action in report.skipped} == {True}
    assert tree(torn.parents[1]) == before


def test_a_corrupt_batch_is_skipped_and_the_batches_after_it_stay(torn):
    everything = offsets(torn)
    damages.flip_payload_in_first(torn)
    report = repair(torn.parent, apply=True, allow_data_loss=True)
    assert report.ok
    [skip] = [action for action in report.actions if action.action == "skip"]
    lost = range(skip.first_offset, skip.last_offset + 1)
    assert offsets(torn) == [each for each in everything if each not in lost]
    assert not verify(torn.parent).errors


def test_a_corrupt_end_is_cut_and_the_checkpoints_follow(ledger):
    damages.cut_tail(ledger)
    root = ledger.parent
    assert not verify(root).ok
    report = repair(root, apply=True, allow_data_loss=True)
    found = kinds(report.actions)
    assert ("00000000000000000082.log", "cut") in found
    assert ("recovery-point-offset-checkpoint", "rewrite") in found
    assert verify(root).ok
    with kafkalog.open(ledger, "a", LogConfig()) as log:
        assert log.report.clean
        assert log.log_end_offset == offsets(ledger)[-1] + 1


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [
        (damages.torn_index, ".index"),
        (damages.index_past_end, ".index"),
        (damages.no_time_index, ".timeindex"),
        (damages.flip_time_index, ".timeindex"),
        (damages.flip_snapshots, ".snapshot"),
    ],
)
def test_files_next_to_the_log_are_rebuilt_from_it(ledger, damage, suffix):
    logs = {path: path.read_bytes() for path in ledger.glob("*.log")}
    damage(ledger)
    report = repair(ledger.parent, apply=True)
    assert report.ok
    assert report.applied
    assert any(path.endswith(suffix) for path, _ in kinds(report.actions))
    assert not report.records_lost
    assert not verify(ledger.parent).problems
    assert {path: path.read_bytes() for path in ledger.glob("*.log")} == logs


@pytest.mark.parametrize(
    "content", [b"0\n1\nledger 0 x\n", b"", b"\xff", b"0\n2\nledger 0 5\n", b"0\n0\n0"]
)
def test_leader_epochs_are_read_again_from_the_batches(ledger, content):
    path = ledger / "leader-epoch-checkpoint"
    original = path.read_bytes()
    path.write_bytes(content)
    assert not verify(ledger.parent).ok
    assert repair(ledger.parent, apply=True).ok
    assert path.read_bytes() == original


@given(
    st.dictionaries(
        st.tuples(st.from_regex(r"[a-z._-]{1,9}", fullmatch=True), st.integers(0, 99)),
        st.integers(0, 2**63 - 1),
        max_size=8,
    ),
    st.data(),
)
def test_valid_lines_of_a_checkpoint_are_salvaged(offsets, data):
    content = format_offsets(offsets)
    assert salvage_offsets(content) == offsets
    lines = content.splitlines(keepends=True)
    bad = data.draw(st.integers(0, len(lines) - 1))
    lines[bad] = data.draw(
        st.sampled_from([b"x\n", b"\xff\n", b"t 0 -1\n", b"a b c\n"])
    )
    left = dict(list(offsets.items())[: max(0, bad - 2)])
    left |= dict(list(offsets.items())[max(0, bad - 1) :])
    assert salvage_offsets(b"".join(lines)) == left


@pytest.mark.parametrize("damage", damages.ALL, ids=lambda kind: kind.__name__)
def test_a_locked_directory_has_the_same_problems(ledger, damage):
    damage(ledger)
    assert verify_locked(ledger.parent) == verify(ledger.parent)
    assert verify_locked(ledger, threads=2) == verify(ledger)


def test_lines_of_a_checkpoint_that_can_be_read_are_kept(ledger):
    path = ledger.parent / "replication-offset-checkpoint"
    path.write_bytes(b"0\n3\nledger 0 7\nclicks 3 9\norders x 1\n")
    report = repair(ledger.parent, apply=True)
    assert kinds(report.actions) == [(path.name, "rewrite")]
    assert path.read_bytes() == b"0\n2\nledger 0 7\nclicks 3 9\n"


def test_a_log_start_offset_past_the_end_is_dropped(ledger):
    path = ledger.parent / "log-start-offset-checkpoint"
    path.write_bytes(b"0\n1\nledger 0 100000\n")
    everything = offsets(ledger)
    assert repair(ledger.parent, apply=True).ok
    assert path.read_bytes() == b"0\n0\n"
    assert offsets(ledger) == everything


def test_an_index_without_a_log_is_removed(ledger):
    damages.missing_log_with_index(ledger)
    report = repair(ledger.parent, apply=True)
    assert ("00000000000000000005.index", "remove") in kinds(report.actions)
    causes = {problem.cause for problem in verify(ledger.parent).problems}
    assert "orphan" not in causes


def test_a_partition_without_a_log_stays_as_it_is(ledger):
    for path in ledger.glob("*.log"):
        path.rename(path.with_name(f"x{path.name}"))
    report = repair(ledger.parent, apply=True)
    assert not report.actions
    assert not report.ok
    listed = {problem.path for problem in report.unrepaired}
    assert "ledger-0/x00000000000000000005.log" in listed
    assert "ledger-0/00000000000000000005.index" in listed
    # It has all that is known of the log's end.
    assert "recovery-point-offset-checkpoint" in listed


def test_what_cannot_be_repaired_is_listed(ledger):
    (ledger / "partition.metadata").write_text("version: 0\ntopic_id: ?\n")
    damages.torn_index(ledger)
    report = repair(ledger.parent, apply=True)
    assert report.applied
    assert not report.ok
    [problem] = report.unrepaired
    assert problem.path == "ledger-0/partition.metadata"
    assert "1 error without a repair" in str(report)


def test_a_topic_id_of_another_topic_is_left_after_a_repair(tmp_path):
    logs = shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "logs")
    damages.torn_index(logs / "ledger-0")
    identity = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZg\n"
    (logs / "ledger-0" / "partition.metadata").write_text(identity)
    for report in (repair(logs), repair(logs, apply=True)):
        [problem] = report.unrepaired
        assert (problem.path, problem.cause) == (
            "ledger-0/partition.metadata",
            "topic_id",
        )
    assert report.applied
    assert verify(logs).errors == 1


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_what_is_no_regular_file_stays(ledger, kind, tmp_path):
    path = ledger / "00000000000000000005.index"
    kept = path.rename(tmp_path / "kept")
    match kind:
        case "link":
            path.symlink_to(kept)
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
    damages.torn_index(ledger)
    report = repair(ledger.parent, apply=True)
    assert path.name not in {path for path, _ in kinds(report.actions)}
    assert path.is_symlink() == (kind == "link")
    assert path.is_fifo() == (kind == "pipe")


def test_the_metadata_of_a_cluster_is_cut_and_gets_no_gap(tmp_path):
    logs = shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "logs")
    log = logs / "__cluster_metadata-0" / "00000000000000000000.log"
    positions = damages.batches_of(log)
    damages.flip(log, positions[-4] + 70)
    report = repair(logs, allow_data_loss=True)
    found = [each for each in report.actions if each.records_lost]
    assert {str(each.action) for each in found} == {"cut"}
    assert positions[-4] in {each.position for each in found}
    assert all("renamed to -stray" in each.reason for each in found)
    assert repair(logs, apply=True, allow_data_loss=True).applied
    causes = {problem.cause for problem in verify(logs).problems}
    assert "crc" not in causes


def test_damaged_indexes_of_an_interrupted_compaction_are_removed(ledger):
    damages.leftover_swap(ledger)
    path = ledger / "00000000000000000000.timeindex.swap"
    path.write_bytes(bytes(7))
    assert not verify(ledger.parent).ok
    report = repair(ledger.parent, apply=True)
    assert report.ok
    assert set(kinds(report.actions)) == {
        (path.name, "remove"), ("00000000000000000000.index.swap", "remove"),
    }  # fmt: skip
    everything = offsets(ledger)
    kafkalog.open(ledger, "a", LogConfig()).close()
    assert offsets(ledger) == everything
    assert verify(ledger.parent).ok
    assert not list(ledger.glob("*.swap"))


def test_errors_outside_of_partitions_are_listed(ledger):
    (ledger.parent / "meta.properties").write_text("version=7\n")
    (ledger.parent / "lost+found").mkdir()
    marked = ledger.with_name(f"ledger-1.{'a' * 32}-delete")
    shutil.copytree(ledger, marked)
    damages.torn_index(marked)
    report = repair(ledger.parent, apply=True)
    assert not report.applied
    assert not report.ok
    assert sorted(problem.path for problem in report.unrepaired) == [
        f"{marked.name}/00000000000000000000.index", "lost+found", "meta.properties",
    ]  # fmt: skip


def test_a_failing_disk_leaves_the_originals_to_restore(ledger, monkeypatch):
    damages.torn_index(ledger)
    damages.flip_snapshots(ledger)
    before, failures = tree(ledger.parent), [3]
    rename = Disk.rename

    def failing(disk, source, target):
        failures[0] -= target.is_relative_to(ledger.parent)
        if not failures[0]:
            raise OSError(28, "No space left on device", str(target))
        rename(disk, source, target)

    monkeypatch.setattr(Disk, "rename", failing)
    with pytest.raises(OSError, match="No space left") as caught:
        repair(ledger.parent, apply=True)
    assert caught.value.__notes__ == [
        "Restore the originals: kafkalog repair PATH --undo"
    ]
    assert tree(ledger.parent) != before
    repair(ledger.parent, undo=True)
    assert tree(ledger.parent) == before


def test_a_foreign_file_does_not_prevent_a_repair(ledger):
    damages.strange_name(ledger)
    damages.torn_index(ledger)
    report = repair(ledger.parent, apply=True)
    assert ("00000000000000000000.index", "rebuild") in kinds(report.actions)
    assert [problem.cause for problem in report.unrepaired] == ["foreign"]


def test_the_directory_of_one_partition_is_repaired_alone(ledger):
    other = shutil.copytree(ledger, ledger.with_name("ledger-7"))
    damages.torn_index(other)
    damages.cut_tail(ledger)
    report = repair(ledger, apply=True, allow_data_loss=True)
    paths = {action.path for action in report.actions}
    assert "00000000000000000082.log" in paths
    assert "../recovery-point-offset-checkpoint" in paths
    assert {each.path[:8] for each in verify(ledger.parent).problems} == {"ledger-7"}
    before = tree(other)
    assert repair(ledger, undo=True).applied
    assert tree(other) == before


def test_undo_restores_content_times_permissions_and_the_marker(ledger):
    for path in sorted(ledger.iterdir()):
        path.chmod(0o640)
        os.utime(path, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    damages.flip_payload_in_first(ledger)
    damages.no_time_index(ledger)
    (ledger.parent / ".lock").touch()
    before = tree(ledger.parents[1])
    report = repair(ledger.parent, apply=True, allow_data_loss=True)
    assert report.backup is not None
    assert (ledger.parent / ".kafka_cleanshutdown").exists()
    assert {path.stat().st_mode & 0o777 for path in ledger.iterdir()} == {0o640}
    undone = repair(ledger.parent, undo=True)
    assert undone.actions == report.actions
    assert tree(ledger.parents[1]) == before
    assert not list(ledger.parents[1].glob(".kafkalog-repair-*"))
    with pytest.raises(FileNotFoundError, match="No repair to undo"):
        repair(ledger.parent, undo=True)


def test_repairs_are_undone_one_by_one(ledger):
    states = [tree(ledger)]
    for damage in (damages.torn_index, damages.flip_snapshots):
        damage(ledger)
        states.append(tree(ledger))
        assert repair(ledger.parent, apply=True).applied
        states.append(tree(ledger))
    repair(ledger.parent, undo=True)
    assert tree(ledger) == states[3]
    (ledger / "00000000000000000000.index").write_bytes(bytes(16))
    with pytest.raises(LogStateError, match=r"changed after the repair"):
        repair(ledger.parent, undo=True)


def test_undo_is_refused_after_a_broker_has_appended(ledger):
    damages.cut_tail(ledger)
    repair(ledger.parent, apply=True, allow_data_loss=True)
    with kafkalog.open(ledger, "a", LogConfig()) as log:
        log.append_records({"value": [b"new"]})
    before = tree(ledger.parents[1])
    with pytest.raises(LogStateError, match="changed after the repair") as caught:
        repair(ledger.parent, undo=True)
    assert str(caught.value.__notes__[0]).startswith("The originals are in")
    assert tree(ledger.parents[1]) == before


def test_a_marker_that_was_written_since_is_kept_by_undo(ledger):
    damages.torn_index(ledger)
    repair(ledger.parent, apply=True)
    marker = ledger.parent / ".kafka_cleanshutdown"
    marker.write_text('{"version":0,"brokerEpoch":9}')
    repair(ledger.parent, undo=True)
    assert json.loads(marker.read_text())["brokerEpoch"] == 9


def test_a_marker_that_is_gone_since_stays_gone(ledger):
    damages.torn_index(ledger)
    repair(ledger.parent, apply=True)
    marker = ledger.parent / ".kafka_cleanshutdown"
    marker.unlink()
    repair(ledger.parent, undo=True)
    assert not marker.exists()


def test_the_originals_are_named_by_the_time_in_utc(ledger):
    damages.torn_index(ledger)
    backup = repair(ledger.parent, apply=True).backup
    name = backup.rpartition("/")[2].removeprefix(".kafkalog-repair-")
    made = datetime.strptime(name, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - made).total_seconds()) < 60
    kept = Path(backup, "originals", "ledger-0", "00000000000000000000.index")
    assert kept.stat().st_size % 8


def test_the_originals_can_be_kept_elsewhere(ledger, tmp_path):
    place = tmp_path / "kept"
    place.mkdir()
    damages.torn_index(ledger)
    before = tree(ledger)
    report = repair(ledger.parent, apply=True, backup=place)
    assert report.backup.startswith(f"{place}/.kafkalog-repair-")
    with pytest.raises(FileNotFoundError):
        repair(ledger.parent, undo=True)
    repair(ledger.parent, undo=True, backup=place)
    assert tree(ledger) == before


@pytest.mark.parametrize("inside", [".", "kept"])
def test_the_originals_are_not_kept_in_the_log_directory(ledger, inside):
    damages.torn_index(ledger)
    with pytest.raises(LogArgumentError, match="originals in the log directory"):
        repair(ledger.parent, apply=True, backup=ledger.parent / inside)


def test_a_repair_of_another_log_directory_is_not_undone(ledger):
    other = ledger.parent.with_name("other")
    shutil.copytree(ledger.parent, other)
    damages.torn_index(other / "ledger-0")
    assert repair(other, apply=True).applied
    with pytest.raises(FileNotFoundError):
        repair(ledger.parent, undo=True)


def test_a_corrupt_manifest_is_an_error(ledger):
    damages.torn_index(ledger)
    backup = repair(ledger.parent, apply=True).backup
    (ledger.parents[1] / backup / "manifest.json").write_text("{")
    with pytest.raises(CorruptCheckpointError, match=r"manifest of a repair"):
        repair(ledger.parent, undo=True)


def test_a_locked_directory_is_refused(ledger):
    damages.torn_index(ledger)
    before = tree(ledger)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(ledger.parent / "held-0")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"open\n"
        for options in ({"apply": True}, {"undo": True}):
            with pytest.raises(LogLockedError):
                repair(ledger.parent, **options)
        holder.stdin.close()
        holder.wait()
    assert tree(ledger) == before
    assert repair(ledger.parent, apply=True).ok


def test_undo_excludes_other_options(ledger):
    with pytest.raises(LogArgumentError):
        repair(ledger.parent, undo=True, apply=True)


def test_a_repair_that_is_not_better_is_not_used(ledger, monkeypatch):
    damages.torn_index(ledger)
    first = verify(ledger.parent)
    worse = Report(files=1, bytes=1, batches=0, records=0, problems=first.problems * 2)
    monkeypatch.setattr(
        "kafkalog.repairs.partition_repair.verify_locked", lambda *_, **__: worse
    )
    report = repair(ledger.parent, apply=True)
    assert not report.applied
    assert not report.ok


def test_the_result_of_an_apply_is_that_of_the_plan(torn):
    damages.flip_payload_in_first(torn)
    planned = repair(torn.parent, allow_data_loss=True)
    made = repair(torn.parent, apply=True, allow_data_loss=True)
    assert planned.actions == made.actions


def test_the_report_has_a_table_and_html(torn):
    damages.flip_payload_in_first(torn)
    report = repair(torn.parent)
    table = report.to_arrow()
    assert table.num_rows == len(report.actions)
    assert table.column("needs_data_loss").to_pylist()[0] is True
    assert "CRC mismatch" in report._repr_html_()
    assert json.loads(json.dumps(report.as_dict()))["schema"] == 1


def test_several_damaged_partitions_are_repaired_at_once(tmp_path):
    logs = shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "logs")
    chance = random.Random(5)
    for name in ("ledger-0", "once-0", "state.txn-0", "orders.zstd-0"):
        damages.flip_payload_in_first(logs / name)
        damages.torn_index(logs / name)
        path = chance.choice(sorted((logs / name).glob("*.timeindex")))
        path.write_bytes(path.read_bytes()[:-1])
    before = tree(tmp_path)
    report = repair(logs, apply=True, allow_data_loss=True)
    assert report.ok
    assert verify(logs).ok
    assert {action.topic for action in report.actions} == {
        "ledger", "once", "state.txn", "orders.zstd",
    }  # fmt: skip
    repair(logs, undo=True)
    assert tree(tmp_path) == before

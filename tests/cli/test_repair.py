"""``repair`` on the command line: formats and exit codes."""

import json
import shutil

import kafkalog
from kafkalog.storage.durable_file import Disk
from tests import golden_data
from tests.repairs.damaged_logs import tree
from tests.startup import damages

from .shell import call, objects


def damaged(tmp_path, *kinds):
    logs = shutil.copytree(golden_data.logs("k431-crash"), tmp_path / "disk" / "logs")
    for damage in kinds:
        damage(logs / "torn.none-0")
    return logs


def test_a_plan_is_printed_and_ends_with_1(tmp_path):
    logs = damaged(tmp_path, damages.flip_payload_in_first)
    before = tree(logs.parent)
    ran = call("repair", logs, "--format", "json")
    assert (ran.exit_code, ran.stderr) == (1, "")
    assert tree(logs.parent) == before
    report = json.loads(ran.stdout)
    assert (report["schema"], report["applied"]) == (1, False)
    assert report == json.loads(json.dumps(kafkalog.repair(logs).as_dict()))
    [skip] = [each for each in report["actions"] if each["action"] == "skip"]
    assert skip["path"] == "torn.none-0/00000000000000000000.log"
    assert skip["records_lost"] > 0
    rows = objects(call("repair", logs).stdout)
    assert [row["action"] for row in rows] == [
        each["action"] for each in report["actions"]
    ]


def test_what_has_no_row_is_on_standard_error(tmp_path):
    logs = damaged(tmp_path, damages.torn_index)
    (logs / "torn.none-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ\n"
    )
    ran = call("repair", logs, "--apply")
    assert ran.exit_code == 1
    assert objects(ran.stdout)
    [left, originals] = ran.stderr.splitlines()
    assert left.startswith("kafkalog: no repair: torn.none-0/partition.metadata: ")
    assert originals.startswith(f"kafkalog: originals: {logs.parent}")


def test_nothing_to_repair_ends_with_0(tmp_path):
    logs = damaged(tmp_path)
    for options in ((), ("--apply",), ("--apply", "--allow-data-loss")):
        ran = call("repair", logs, "--format", "table", *options)
        reason = "nothing changed: 1 problem found, of which none is to be repaired\n"
        assert (ran.exit_code, ran.stdout) == (0, f"{reason}nothing to repair\n")


def test_an_applied_repair_that_changes_nothing_says_why_in_each_form(tmp_path):
    logs = shutil.copytree(
        golden_data.logs("k431-clean") / "orders.none-0", tmp_path / "a-0"
    )
    [reason] = kafkalog.repair(logs, apply=True).unchanged_because
    assert reason.startswith("no problem found in ")
    ran = call("repair", logs, "--apply")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == f"kafkalog: nothing changed: {reason}\n"
    report = json.loads(call("repair", logs, "--apply", "--format", "json").stdout)
    assert report["unchanged_because"] == [reason]


def test_settings_that_keep_changes_from_being_made_are_named(tmp_path):
    logs = damaged(tmp_path, damages.flip_payload_in_first)
    shutil.copytree(golden_data.logs("k431-clean") / "orders.none-0", logs / "copy-0")
    damages.torn_index(logs / "copy-0")
    planned, losing = kafkalog.repair(logs).unchanged_because
    assert planned.startswith("apply: it is not set, and ")
    assert losing.startswith("allow_data_loss: it is not set, and ")
    done = kafkalog.repair(logs, apply=True)
    assert done.unchanged_because == ()
    [losing] = kafkalog.repair(logs, apply=True).unchanged_because
    assert losing.startswith("allow_data_loss: it is not set, and ")


def test_what_loses_data_is_left_and_ends_with_1(tmp_path):
    logs = damaged(tmp_path, damages.flip_payload_in_first)
    ran = call("repair", logs, "--apply", "--format", "table")
    assert ran.exit_code == 1
    assert "changes not made, as data would be lost" in ran.stdout
    assert "originals" not in ran.stdout


def test_a_repair_and_its_undoing_end_with_0(tmp_path):
    logs = damaged(tmp_path, damages.flip_payload_in_first)
    before = tree(logs.parent)
    ran = call("repair", logs, "--apply", "--allow-data-loss", "--format", "table")
    assert ran.exit_code == 0
    assert f"originals: {logs.parent}/.kafkalog-repair-" in ran.stdout
    assert call("verify", logs).exit_code == 0
    assert call("ls", logs).exit_code == 0
    ran = call("repair", logs, "--undo", "--format", "json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["applied"]
    assert tree(logs.parent) == before


def test_undoing_nothing_ends_with_3(tmp_path):
    ran = call("repair", damaged(tmp_path), "--undo")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert "No repair to undo" in ran.stderr


def test_undoing_after_a_change_is_refused_with_4(tmp_path):
    logs = damaged(tmp_path, damages.flip_payload_in_first)
    call("repair", logs, "--apply", "--allow-data-loss")
    path = logs / "torn.none-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + b"appended")
    ran = call("repair", logs, "--undo")
    assert (ran.exit_code, ran.stdout) == (4, "")
    reason, advice = ran.stderr.splitlines()
    assert str(path) in reason
    assert advice.startswith(f"kafkalog: The originals are in {logs.parent}")


def test_a_repair_that_fails_midway_states_how_to_go_back(tmp_path, monkeypatch):
    logs = damaged(tmp_path, damages.torn_index)
    before = tree(logs)

    def failing(disk, source, target):
        if ".kafkalog-repair" in str(target) or str(logs) not in str(target):
            return rename(disk, source, target)
        raise OSError(28, "No space left on device", str(target))

    rename = Disk.rename
    monkeypatch.setattr(Disk, "rename", failing)
    ran = call("repair", logs, "--apply")
    assert (ran.exit_code, ran.stdout) == (3, "")
    reason, advice = ran.stderr.splitlines()
    assert reason.startswith("kafkalog: No space left on device: ")
    assert advice == "kafkalog: Restore the originals: kafkalog repair PATH --undo"
    monkeypatch.undo()
    assert call("repair", logs, "--undo").exit_code == 0
    assert tree(logs) == before


def test_a_locked_directory_is_refused_with_4(tmp_path):
    logs = damaged(tmp_path, damages.flip_payload_in_first)
    with kafkalog.open(logs / "held-0", "a", kafkalog.LogConfig()):
        ran = call("repair", logs, "--apply")
    assert ran.exit_code == 4
    assert "open for writing" in ran.stderr


def test_options_that_exclude_each_other_are_wrong_usage(tmp_path):
    for option in ("--apply", "--allow-data-loss"):
        assert call("repair", tmp_path, "--undo", option).exit_code == 2


def test_a_path_without_files_of_kafkas_ends_with_3(tmp_path):
    assert call("repair", tmp_path / "nothing").exit_code == 3
    (tmp_path / "empty").mkdir()
    assert call("repair", tmp_path / "empty").exit_code == 3

"""``restore`` on the command line: filters, formats and exit codes."""

import json
import shutil
from base64 import b64encode

import kafkalog
from kafkalog.copies import log_restore
from kafkalog.copies.erasure_proof import ProofReport
from kafkalog.copies.record_selection import RecordFilters
from tests import golden_data

from .shell import call, objects, on_terminal

CLEAN = golden_data.logs("k431-clean")
MEMBERS = [
    *("schema", "destination", "dry_run", "cluster_id", "node_id", "directory_id"),
    *("files", "partitions", "excluded_records", "groups", "problems", "proof"),
    *("unchanged_because", "backups"),
]


def keys_in(directory):
    return set(kafkalog.scan(directory, columns=["key"]).to_arrow()["key"].to_pylist())


def test_json_is_the_report(tmp_path):
    copy = tmp_path / "copy"
    ran = call("restore", CLEAN, copy, "--topic", "orders.*", "--format", "json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert list(report) == MEMBERS
    assert report["schema"] == 1
    assert list(report["files"][0]) == ["path", "sha256", "bytes", "records"]
    assert {part["topic"] for part in report["partitions"]} == {
        path.name.removesuffix("-0") for path in CLEAN.glob("orders.*")
    }
    ran = call("restore", CLEAN, tmp_path / "b", "--dry-run", "--format", "json")
    assert json.loads(ran.stdout)["dry_run"] is True
    assert not (tmp_path / "b").exists()


def test_json_lines_are_the_partitions_and_the_rest_is_on_standard_error(tmp_path):
    ran = call("restore", CLEAN, tmp_path / "copy", "--topic", "o*", "--prove")
    report = kafkalog.restore(CLEAN, tmp_path / "again", topics=["o*"])
    assert objects(ran.stdout) == [{"schema": 1, **row} for row in report.rows()]
    assert "proof: 0 found in " in ran.stderr


def test_the_keys_of_a_person_are_erased_and_their_absence_is_proved(tmp_path):
    gone = sorted(key for key in keys_in(CLEAN / "orders.none-0") if key)[:3]
    file = tmp_path / "keys"
    encoded = [f"base64:{b64encode(key).decode()}" for key in gone]
    file.write_text(f"{encoded[1]}\n\n{encoded[2]}\n")
    options = ["--exclude-key", encoded[0], "--exclude-key", f"@{file}"]
    copy = tmp_path / "copy"
    ran = call("restore", CLEAN, copy, *options, "--prove", "--format", "table")
    assert ran.exit_code == 0, ran.output
    assert "proof: 0 found" in ran.stdout
    assert not keys_in(copy) & set(gone)
    proved = call("restore", "--prove", copy, *options)
    assert proved.exit_code == 0
    assert objects(proved.stdout) == []
    proved = call("restore", "--prove", CLEAN, *options)
    assert proved.exit_code == 1
    found = {each["path"].split("/")[0] for each in objects(proved.stdout)}
    assert "orders.none-0" in found


def test_a_predicate_is_read_from_a_file(tmp_path):
    (tmp_path / "even.py").write_text("def even(r):\n    return r.offset % 2 == 0\n")
    where = f"{tmp_path}/even.py:even"
    ran = call("restore", CLEAN / "orders.none-0", tmp_path / "copy", "--where", where)
    assert ran.exit_code == 0, ran.output
    offsets = kafkalog.scan(tmp_path / "copy", columns=["offset"]).to_arrow()["offset"]
    assert offsets.to_pylist() == list(range(0, 212, 2))
    for wrong in (f"{tmp_path}/even.py", f"{tmp_path}/even.py:odd"):
        ran = call("restore", CLEAN, tmp_path / "other", "--where", wrong)
        assert ran.exit_code == 2


def test_a_directory_alone_is_proved_with_each_filter(tmp_path, monkeypatch):
    passed = {}

    def prove(path, **filters):
        passed.update(filters)
        return ProofReport()

    monkeypatch.setattr(log_restore, "prove", prove)
    options = ["--topic", "ledger", "--exclude-key", "ann", "--start-offset", "4"]
    ran = call("restore", "--prove", tmp_path, *options)
    assert ran.exit_code == 0, ran.output
    assert set(passed) == RecordFilters.__optional_keys__
    assert passed["topics"] == ("ledger",)
    assert (passed["exclude_keys"], passed["start_offset"]) == ((b"ann",), 4)


def test_exit_codes(tmp_path):
    copy = tmp_path / "copy"
    assert call("restore", CLEAN).exit_code == 2
    assert call("restore", CLEAN, copy, "--exclude-key", "base64:?").exit_code == 2
    assert call("restore", CLEAN, copy, "--topic", "none").exit_code == 3
    assert call("restore", tmp_path / "gone", copy).exit_code == 3
    assert call("restore", CLEAN, copy, "--cluster-id", "c").exit_code == 4
    copy.mkdir()
    (copy / "file").touch()
    ran = call("restore", CLEAN, copy)
    assert ran.exit_code == 4
    assert "directory is not empty" in ran.stderr


def test_damage_ends_with_1(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(CLEAN / "orders.none-0", logs / "orders.none-0")
    path = logs / "orders.none-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    ran = call("restore", logs, tmp_path / "copy")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert not (tmp_path / "copy").exists()
    ran = call("restore", logs, tmp_path / "copy", "--on-corruption", "skip")
    assert ran.exit_code == 1
    assert "skipped: " in ran.stderr
    assert kafkalog.scan(tmp_path / "copy").count() > 0


def test_a_table_is_shown_on_a_terminal(tmp_path):
    shown = on_terminal("restore", CLEAN, tmp_path / "copy", "--topic", "orders.none")
    assert "orders.none" in shown
    assert "212 records copied" in shown

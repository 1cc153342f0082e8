"""``preflight`` on the command line: formats and exit codes."""

import json
import re
import shutil

import kafkalog
from tests import golden_data
from tests.startup import damages

from .shell import call, objects

CRASHED = golden_data.logs("k431-crash")


def test_json_has_the_report():
    ran = call("preflight", CRASHED, "--read-rate", "1000", "--format", "json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert report["schema"] == 1
    expected = kafkalog.preflight(CRASHED, read_rate=1000).as_dict()
    assert report["partitions"] == json.loads(json.dumps(expected["partitions"]))
    assert list(report) == list(expected)


def test_json_lines_have_the_partitions():
    ran = call("preflight", CRASHED)
    rows = objects(ran.stdout)
    assert [row["state"] for row in rows] == ["recover"] * len(rows)


def test_a_loss_ends_with_1_and_is_shown(tmp_path):
    logs = shutil.copytree(CRASHED, tmp_path / "logs")
    damages.flip_payload_in_first(logs / "torn.none-0")
    ran = call("preflight", logs, "--format", "table")
    assert ran.exit_code == 1
    assert "0 records lost" not in ran.stdout.splitlines()[-1]
    assert re.search(r"about \d+\.\d seconds of reading", ran.stdout)


def test_a_broker_that_does_not_start_ends_with_1(tmp_path):
    logs = shutil.copytree(CRASHED, tmp_path / "logs")
    (logs / "meta.properties").unlink()
    ran = call("preflight", logs, "--format", "table")
    assert ran.exit_code == 1
    assert "the broker does not start: no meta.properties" in ran.stdout
    ran = call("preflight", logs)
    assert "the broker does not start: no meta.properties" in ran.stderr
    assert objects(ran.stdout)


def test_a_partitions_directory_ends_with_3():
    ran = call("preflight", CRASHED / "torn.none-0")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert "not a log directory" in ran.stderr


def test_the_settings_of_a_broker_are_read(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.index.size.max.bytes=1048576\n")
    usual, small = (
        json.loads(call("preflight", CRASHED, *options, "--format", "json").stdout)
        for options in ((), ("--server-properties", file))
    )
    assert small["bytes_needed"] < usual["bytes_needed"]


def test_the_node_id_and_the_roles_are_those_of_server_properties(tmp_path):
    logs = shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "logs")
    file = tmp_path / "server.properties"
    file.write_text("node.id=7\n")
    options = "--server-properties", file, "--format", "json", "--no-check-cleaner"
    ran = call("preflight", logs, *options)
    assert ran.exit_code == 1
    [stop] = json.loads(ran.stdout)["stops"]
    assert "node.id 1, expected 7" in stop
    file.write_text("node.id=1\nprocess.roles=broker,controller\n")
    assert call("preflight", logs, *options).exit_code == 0
    shutil.rmtree(logs / "__cluster_metadata-0")
    ran = call("preflight", logs, *options)
    assert ran.exit_code == 1
    states = {each["state"] for each in json.loads(ran.stdout)["partitions"]}
    assert states == {"stray", "deleted"}


def test_a_table_states_what_was_not_checked():
    ran = call("preflight", golden_data.logs("k431-clean"), "--format", "table")
    assert ran.exit_code == 0
    assert "not checked: the records of " in ran.stdout

"""Files without which a broker does not start, and partitions without a leader."""

import re
import shutil

import pytest

import kafkalog
from kafkalog.startup import start_checks
from kafkalog.verification.verification_report import Recovery
from tests import golden_data
from tests.manager.managing import HIGHS, POINTS, STARTS
from tests.manager.test_cluster_image import DIRECTORY_1, DIRECTORY_2
from tests.startup import damages
from tests.startup.prepared import ORDERS, STATE, UUID, of, states, write_ids

METADATA = "__cluster_metadata-0"
SNAPSHOT = f"{METADATA}/00000000000000000004-0000000001.checkpoint"


@pytest.mark.parametrize("content", [b"what\n", b"", b"{}", b"[1]"])
@pytest.mark.parametrize(
    "file", [f"{METADATA}/quorum-state", "bootstrap.checkpoint", SNAPSHOT]
)
def test_verify_and_preflight_refuse_the_same_files(logs, file, content):
    (logs / file).write_bytes(content)
    refused = {
        problem.path
        for problem in kafkalog.verify(logs).problems
        if problem.recovery == Recovery.REFUSE
    }
    stops = kafkalog.preflight(logs).stops
    assert (file in refused) == any(str(logs / file) in stop for stop in stops)
    assert file in refused


def test_a_log_above_two_gib_stops_a_broker(logs):
    path = damages.logs_of(logs / "orders-0")[-1]
    with path.open("r+b") as file:
        file.truncate(1 << 31)
    report = kafkalog.preflight(logs)
    assert report.stops == (f"{path}: 2147483648 bytes, expected at most 2147483647",)
    assert of(report, "orders-0").state == "offline"


@pytest.mark.parametrize("content", ["", "version: 0\n", "version: 0\ntopic_id: x"])
def test_a_short_partition_metadata_stops_a_broker_with_two_directories(
    logs, tmp_path, content
):
    second = tmp_path / "second"
    write_ids(second, DIRECTORY_2)
    (logs / "orders-0").rename(second / "orders-0")
    path = second / "orders-0" / "partition.metadata"
    path.write_text(content)
    report = kafkalog.preflight([logs, second])
    [stop] = report.stops
    assert str(path) in stop
    assert [each.online for each in report.directories] == [True, True]


def test_another_directory_id_leaves_partitions_without_a_leader(logs):
    write_ids(logs, DIRECTORY_2)
    report = kafkalog.preflight(logs)
    assert report.stops == ()
    start = of(report, "orders-0")
    assert start.state == "clean"
    assert start.unserved.startswith("no leader: ")
    assert DIRECTORY_1 in start.unserved
    assert not report.ok
    [note] = report.directories[0].notes
    assert DIRECTORY_1 in note
    assert DIRECTORY_2 in note


def test_directories_of_two_topics_that_are_swapped_are_not_served(logs):
    shutil.copytree(logs / "orders-0", logs / "state-0")
    for name, topic_id in (("orders-0", STATE), ("state-0", ORDERS)):
        text = f"version: 0\ntopic_id: {topic_id}"
        (logs / name / "partition.metadata").write_text(text)
    report = kafkalog.preflight(logs)
    for name, owner in (("orders-0", "state"), ("state-0", "orders")):
        start = of(report, name)
        assert start.state in ("clean", "recover")
        assert f"of {owner}, expected" in start.unserved
    assert of(report, "orders-1").unserved.startswith("the log of another partition")
    found = {each.path: each for each in kafkalog.verify(logs).problems}
    for name in ("orders-0", "state-0"):
        problem = found[f"{name}/partition.metadata"]
        assert (str(problem.severity), str(problem.recovery)) == ("error", "unserved")


def test_a_copy_under_another_name_is_loaded_and_not_served(logs):
    shutil.copytree(logs / "orders-0", logs / "copy-0")
    report = kafkalog.preflight(logs)
    assert "the cluster has no topic copy" in of(report, "copy-0").unserved
    assert of(report, "orders-0").ok
    [problem] = [
        each for each in kafkalog.verify(logs).problems if each.path.startswith("copy")
    ]
    assert (str(problem.severity), str(problem.recovery)) == ("error", "unserved")
    assert "-stray" not in problem.message


def test_each_partition_that_the_cluster_assigns_has_a_row(logs):
    report = kafkalog.preflight(logs)
    assert states(report) == {
        METADATA: "recover",
        "orders-0": "clean",
        "orders-1": "clean",
        "state-0": "missing",
        "state-1": "missing",
    }
    assert report.ok
    shutil.rmtree(logs / "orders-1")
    report = kafkalog.preflight(logs)
    start = of(report, "orders-1")
    assert start.state == "missing"
    assert start.unserved == "its log is gone, which had offsets up to 79"
    assert not report.ok


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_in_the_place_of_a_missing_directory_fails_it(logs, kind):
    path = logs / "state-1"
    path.write_bytes(b"") if kind == "file" else path.symlink_to(logs / "nowhere")
    report = kafkalog.preflight(logs)
    assert "all log directories fail" in report.stops
    assert f"exists, and is not a directory: {path}" in report.directories[0].notes[0]
    path.rename(logs / "another-1")
    assert kafkalog.preflight(logs).ok


def test_a_controller_without_its_metadata_log_begins_an_empty_cluster(logs):
    shutil.rmtree(logs / METADATA)
    report = kafkalog.preflight(logs, roles=["broker", "controller"])
    assert set(states(report).values()) == {"stray"}
    assert not report.ok
    assert "begins an empty cluster" in report.directories[0].notes[0]


def test_files_that_their_owner_may_not_write_fail_the_directory(logs, monkeypatch):
    monkeypatch.setattr(start_checks, "ROOT", -1)
    path = damages.logs_of(logs / "orders-0")[0]
    path.chmod(0o444)
    report = kafkalog.preflight(logs)
    assert f"not writable for its owner: {path}" in report.directories[0].notes[0]
    assert "all log directories fail" in report.stops


def test_a_future_log_is_the_row_of_its_partition(logs, tmp_path):
    second = tmp_path / "second"
    write_ids(second, DIRECTORY_2)
    (second / ".kafka_cleanshutdown").touch()
    (logs / "orders-0").rename(second / f"orders-0.{UUID}-future")
    report = kafkalog.preflight([logs, second])
    rows = [each for each in report.partitions if each.topic == "orders"]
    assert [str(each.state) for each in rows] == ["clean", "future"]
    assert re.match("emptied", rows[1].notes[-1])


def test_a_log_whose_name_has_no_leading_zeros_is_ignored(logs):
    first, second, *_ = damages.logs_of(logs / "orders-0")
    first.rename(first.with_name("0.log"))
    start = of(kafkalog.preflight(logs), "orders-0")
    assert start.records_lost == int(second.stem)
    assert start.cut_from_offset == 0
    assert any("0.log: ignored" in note for note in start.notes)
    found = {each.path: each for each in kafkalog.verify(logs).problems}
    problem = found["orders-0/0.log"]
    assert (str(problem.cause), str(problem.severity)) == ("foreign", "error")
    assert str(problem.recovery) == "nothing"


def test_a_log_that_is_a_link_is_loaded(logs, tmp_path):
    path = damages.logs_of(logs / "orders-0")[0]
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    start = of(kafkalog.preflight(logs), "orders-0")
    assert (start.state, start.records_lost) == ("clean", 0)
    assert (start.log_start_offset, start.log_end_offset) == (0, 80)
    assert path.is_symlink()


def test_a_file_among_the_directories_fails_alone(logs, tmp_path):
    (tmp_path / "file").touch()
    report = kafkalog.preflight([logs, tmp_path / "file"])
    assert report.stops == ()
    assert [each.online for each in report.directories] == [True, False]
    with pytest.raises(NotADirectoryError):
        kafkalog.preflight(tmp_path / "file")


@pytest.mark.parametrize("file", [POINTS, STARTS, HIGHS])
def test_a_number_that_java_cannot_parse_resets_a_checkpoint(logs, file):
    (logs / file).write_text("0\n1\norders 0 99999999999999999999\n")
    report = kafkalog.preflight(logs)
    [problem] = kafkalog.verify(logs).problems
    if file == HIGHS:
        assert "all log directories fail" in report.stops
        assert str(problem.recovery) == "refuse"
    else:
        assert report.stops == ()
        assert report.directories[0].notes[0].startswith("treated as empty: ")
        assert str(problem.recovery) == "reset"


def test_a_report_states_what_was_not_checked(logs):
    report = kafkalog.preflight(logs)
    assert report.ok
    reads, settings = report.not_checked
    assert reads.startswith("the records of 2 clean logs")
    assert settings.startswith("the settings in server.properties")
    assert report.as_dict()["not_checked"] == [reads, settings]
    shutil.rmtree(logs / METADATA)
    assert "no cluster metadata" in kafkalog.preflight(logs).not_checked[1]


def test_directories_of_several_brokers_get_advice(logs, tmp_path):
    second = tmp_path / "second"
    write_ids(second, DIRECTORY_2, node=2)
    report = kafkalog.preflight([logs, second])
    assert len(report.stops) == 1
    for each in report.directories:
        assert "one at a time" in each.notes[0]


def test_a_directory_of_a_cluster_with_zookeeper_gets_advice():
    report = kafkalog.preflight(golden_data.logs("k282-clean"))
    assert "cluster with ZooKeeper" in report.directories[0].notes[0]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_of_magic_2_that_is_read_as_a_wrapper_message(logs, codec):
    path = damages.logs_of(logs / "orders-0")[-1]
    data = bytearray(path.read_bytes())
    start = damages.batches_of(path)[-2]
    data[start + 16 : start + 18] = bytes([1, codec])  # magic, and attributes then
    path.write_bytes(data)
    entry = (9).to_bytes(4, "big") + start.to_bytes(4, "big")
    path.with_suffix(".index").write_bytes(entry)
    report = kafkalog.preflight(logs)
    assert len(report.stops) == codec  # its first message cannot be decompressed
    assert all(str(path) in stop for stop in report.stops)
    first = min(each.offset for each in kafkalog.verify(logs).problems)
    assert codec or of(report, "orders-0").log_end_offset == first + 1

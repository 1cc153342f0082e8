"""`compact` and its command: plans, copies, and compaction in place."""

import shutil

import pytest

import kafkalog
from kafkalog.errors import (
    CorruptRecordError,
    LogArgumentError,
    LogLockedError,
    LogStateError,
)
from tests import golden_data
from tests.cli.shell import call, objects

MEMBERS = [
    *("schema", "topic", "partition", "records_before", "records_after"),
    *("bytes_before", "bytes_after", "tombstones", "segments_before"),
    "segments_after",
]


def files_of(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def logs(tmp_path):
    """Return a copy of a broker's log directory."""
    directory = tmp_path / "logs"
    shutil.copytree(golden_data.logs("k431-clean"), directory)
    return directory


def last_values(directory):
    """Return the last committed value of each key, without null values."""
    table = kafkalog.scan(directory, isolation="read_committed").to_arrow()
    keys, values = (table[name].to_pylist() for name in ("key", "value"))
    last = dict(zip(keys, values, strict=True))
    return {key: value for key, value in last.items() if value is not None}


def test_a_plan_changes_nothing_and_lists_the_topics_to_compact(logs):
    before = files_of(logs)
    reports = kafkalog.compact(logs)
    assert files_of(logs) == before
    topics = {report.topic for report in reports}
    assert {"state.none", "__consumer_offsets"} <= topics
    assert "orders.none" not in topics
    for report in reports:
        assert report.records_after <= report.records_before


@pytest.mark.parametrize(
    "topic", ["state.none", "state.gzip", "state.lz4", "state.txn"]
)
def test_a_copy_has_the_last_value_of_each_key(logs, tmp_path, topic):
    before, values = files_of(logs), last_values(logs / f"{topic}-0")
    [report] = kafkalog.compact(logs / f"{topic}-0", output=tmp_path / "out")
    assert files_of(logs) == before
    copy = tmp_path / "out" / f"{topic}-0"
    assert last_values(copy) == values
    assert kafkalog.verify(tmp_path / "out").ok
    assert report.records_after == kafkalog.scan(copy).count()
    nulls = kafkalog.scan(copy).to_arrow()["value"].null_count
    assert report.tombstones == nulls
    assert report.segments_after == len(list(copy.glob("*.log")))


def test_in_place_only_the_partition_is_changed(logs):
    before, values = files_of(logs), last_values(logs / "state.none-0")
    plan = kafkalog.compact(logs / "state.none-0")
    assert kafkalog.compact(logs / "state.none-0", in_place=True) == plan
    changed = {path for path, _ in before.items() ^ files_of(logs).items()}
    assert {path.parts[0] for path in changed} <= {
        "state.none-0",
        "cleaner-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    }
    assert last_values(logs / "state.none-0") == values
    assert kafkalog.verify(logs).ok
    assert not list(logs.rglob("*.deleted"))


def test_a_second_compaction_in_place_removes_nothing(logs):
    [first] = kafkalog.compact(logs / "state.none-0", in_place=True)
    [second] = kafkalog.compact(logs / "state.none-0", in_place=True)
    assert second.records_after == second.records_before == first.records_after


def test_a_topic_without_the_policy_is_compacted_by_force_only(logs):
    path = logs / "orders.none-0"
    with pytest.raises(LogStateError, match="policy delete, expected compact"):
        kafkalog.compact(path, in_place=True)
    [report] = kafkalog.compact(path, in_place=True, force=True)
    assert report.records_after < report.records_before


def test_a_partition_in_the_output_directory_is_not_overwritten(logs, tmp_path):
    kafkalog.compact(logs / "state.none-0", output=tmp_path / "out")
    with pytest.raises(LogStateError, match="partition exists"):
        kafkalog.compact(logs / "state.none-0", output=tmp_path / "out")


@pytest.mark.parametrize("place", ["out", "state.none-0/out"])
def test_nothing_is_written_into_the_log_directory(logs, place):
    before = sorted(logs.rglob("*"))
    with pytest.raises(LogStateError, match="in the log directory"):
        kafkalog.compact(logs / "state.none-0", output=logs / place)
    assert sorted(logs.rglob("*")) == before


def test_a_log_that_is_open_is_not_compacted_in_place(logs):
    with (
        kafkalog.open(logs / "state.none-0", "a"),
        pytest.raises(LogLockedError),
    ):
        kafkalog.compact(logs / "state.none-0", in_place=True)


def test_output_and_in_place_exclude_each_other(logs, tmp_path):
    with pytest.raises(LogArgumentError):
        kafkalog.compact(logs, output=tmp_path / "out", in_place=True)


def test_the_command_prints_the_members_of_a_report(logs):
    rows = objects(call("compact", logs, "--topic", "state.none").stdout)
    assert [list(row) for row in rows] == [MEMBERS]
    assert rows[0]["schema"] == 1


def test_the_exit_code_is_4_for_the_wrong_policy_or_an_existing_copy(logs, tmp_path):
    path = logs / "orders.none-0"
    ran = call("compact", path, "--in-place")
    assert ran.exit_code == 4
    assert "expected compact" in ran.stderr
    copying = "compact", logs / "state.none-0", "--output", tmp_path / "out"
    assert call(*copying).exit_code == 0
    ran = call(*copying)
    assert ran.exit_code == 4
    assert "partition exists" in ran.stderr


@pytest.mark.parametrize(
    ("at", "named"), [(16, "state.none-0/{} at byte 0"), (61, "state.none-0")]
)
@pytest.mark.parametrize("how", ["plan", "output", "in place"])
def test_an_error_names_the_partition_and_no_copy(logs, tmp_path, at, named, how):
    files = (logs / "state.none-0").glob("*.log")
    file = max(files, key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[at] = 0x7F  # the magic, or the length of the first record
    file.write_bytes(data)
    options = {"plan": {}, "output": {"output": tmp_path / "out"}}
    with pytest.raises(CorruptRecordError) as raised:
        kafkalog.compact(file.parent, **options.get(how, {"in_place": True}))
    assert f"{logs}/{named.format(file.name)}" in str(raised.value)
    assert "kafkalog-compact" not in str(raised.value)


def test_the_command_takes_one_way_to_write(logs, tmp_path):
    ran = call("compact", logs, "--in-place", "--output", tmp_path / "out")
    assert ran.exit_code == 2


def test_a_missing_path_ends_with_3(tmp_path):
    assert call("compact", tmp_path / "none-0").exit_code == 3

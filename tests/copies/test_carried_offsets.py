"""Committed offsets that a restore carries over: files, records and bounds."""

import csv
import json
import shutil

import pytest

import kafkalog
from kafkalog.copies.carried_offsets import partition_of_group
from kafkalog.errors import LogArgumentError, LogStateError, NotALogDirectoryError
from tests import golden_data
from tests.copies import partition_names

CLEAN = golden_data.logs("k431-clean")
ORDER = ("group", "topic", "partition")


def committed_in(directory):
    """Return the committed offsets of groups, as `kafkalog.groups` has them."""
    rows = kafkalog.groups(directory).to_pylist()
    return {
        tuple(row[name] for name in ORDER): row
        for row in rows
        if not row["is_share_group"]
    }


def test_each_group_is_in_the_partition_of_its_hash_code():
    found = {
        (row["group"], partition)
        for partition in range(3)
        for row in kafkalog.groups(
            CLEAN / f"__consumer_offsets-{partition}"
        ).to_pylist()
    }
    assert len({partition for _, partition in found}) > 1
    assert found == {(group, partition_of_group(group, 3)) for group, _ in found}


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", 0),  # the hash code -2**31, which has no absolute value
        ("polygenelubricantt", 2**31 - 1),  # -2**31 + 1
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
    ],
)
def test_hash_codes_are_those_of_java(group, code):
    assert partition_of_group(group, 1 << 31) == code


@pytest.mark.parametrize("count", partition_names.COUNTS)
def test_partitions_of_10000_groups_are_those_that_kafka_chooses(count):
    chosen = (partition_of_group(name, count) for name in partition_names.names())
    assert partition_names.digest_of(chosen) == partition_names.GROUPS[count]


def test_offsets_are_written_as_kafka_reads_them(tmp_path):
    before = committed_in(CLEAN)
    report = kafkalog.restore(
        CLEAN, tmp_path / "copy", groups_file=tmp_path / "offsets.csv"
    )
    with (tmp_path / "offsets.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines == [
        [each.group, each.topic, str(each.partition), str(each.offset)]
        for each in report.groups
        if each.offset is not None
    ]
    assert {
        (each.group, each.topic, each.partition): each.committed
        for each in report.groups
    } == {key: row["offset"] for key, row in before.items()}
    kafkalog.restore(CLEAN, tmp_path / "b", groups_file=tmp_path / "offsets.json")
    rows = json.loads((tmp_path / "offsets.json").read_text())
    assert [[row[name] for name in (*ORDER, "offset")] for row in rows] == [
        [line[0], line[1], int(line[2]), int(line[3])] for line in lines
    ]


def test_offsets_move_into_the_copy(tmp_path):
    report = kafkalog.restore(
        CLEAN,
        tmp_path / "copy",
        topics="orders.gzip",
        groups_file=tmp_path / "offsets.csv",
        start_offset=60,
        end_offset=100,
    )
    for each in report.groups:
        if each.topic == "orders.gzip":
            assert each.offset == min(max(each.committed, 60), 100)
        else:
            assert each.offset is None
    assert {each.offset is None for each in report.groups} == {True, False}


def test_offsets_are_written_into_the_internal_topic(tmp_path):
    before = committed_in(CLEAN)
    report = kafkalog.restore(
        CLEAN, tmp_path / "copy", groups_file="internal", offsets_partitions=7
    )
    after = committed_in(tmp_path / "copy")
    kept = {
        (each.group, each.topic, each.partition): each
        for each in report.groups
        if each.offset is not None
    }
    assert after.keys() == kept.keys()
    for key, row in after.items():
        assert row["offset"] == kept[key].offset
        assert row["metadata"] == before[key]["metadata"]
        assert row["expire_timestamp"] is None
    for path in (tmp_path / "copy").glob("__consumer_offsets-*"):
        for row in kafkalog.groups(path).to_pylist():
            partition = partition_of_group(row["group"], 7)
            assert path.name == f"__consumer_offsets-{partition}"
    problems = kafkalog.verify(tmp_path / "copy").problems
    assert [problem for problem in problems if problem.severity == "error"] == []


def test_leader_epochs_of_offsets_are_dropped_for_another_cluster(tmp_path):
    options = {"groups_file": "internal", "topics": "orders.*"}
    kafkalog.restore(CLEAN, tmp_path / "same", **options)
    kafkalog.restore(CLEAN, tmp_path / "other", leader_epoch=0, **options)
    before = committed_in(CLEAN)
    for key, row in committed_in(tmp_path / "same").items():
        if row["offset"] == before[key]["offset"]:
            assert row["leader_epoch"] == before[key]["leader_epoch"]
    epochs = {row["leader_epoch"] for row in committed_in(tmp_path / "other").values()}
    assert epochs == {None}


@pytest.mark.parametrize("to", ["internal", "offsets.csv"])
def test_damage_among_the_commits_is_skipped_on_request(to, tmp_path):
    logs = shutil.copytree(CLEAN, tmp_path / "logs")
    before = committed_in(logs)
    [path] = (logs / "__consumer_offsets-1").glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    groups = to if to == "internal" else tmp_path / to
    with pytest.raises(kafkalog.CorruptRecordError, match="CRC mismatch"):
        kafkalog.restore(logs, tmp_path / "copy", groups_file=groups)
    report = kafkalog.restore(
        logs, tmp_path / "copy", groups_file=groups, on_corruption="skip"
    )
    assert [problem.path for problem in report.problems] == [path]
    assert not report.ok
    carried = {(each.group, each.topic, each.partition) for each in report.groups}
    in_others = {
        key
        for number in (0, 2)
        for key in before.keys() & committed_in(CLEAN / f"__consumer_offsets-{number}")
    }
    assert carried >= in_others
    assert in_others


def test_groups_need_their_topic(tmp_path):
    with pytest.raises(NotALogDirectoryError, match="no partition of __consumer_off"):
        kafkalog.restore(
            CLEAN / "orders.none-0",
            tmp_path / "copy",
            groups_file=tmp_path / "offsets.csv",
        )
    with pytest.raises(LogArgumentError, match="expected one of both"):
        kafkalog.restore(
            CLEAN,
            tmp_path / "copy",
            topics="__consumer_offsets",
            groups_file="internal",
        )
    with pytest.raises(LogStateError, match="no topic id for __consumer_offsets"):
        kafkalog.restore(
            CLEAN,
            tmp_path / "copy",
            topics="orders.none",
            topic_ids={"orders.none": "50zIfVQaSqGOTjgxcH_wcg"},
            groups_file="internal",
        )
    assert list(tmp_path.iterdir()) == []

"""`groups` and `lag`, now and at past times: equal to counts from Kafka's reading."""

import json
import shutil
import struct
from datetime import UTC, datetime
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import NotALogDirectoryError
from kafkalog.messages.schema_tables import schemas_of
from tests import golden_data
from tests.cli.shell import call
from tests.query import coordinator_reference
from tests.query.commit_log import PLACES, offset_key, offset_value, write_steps

CLEAN = golden_data.logs("k431-clean")
WITH_OFFSETS = ["k282-clean", "k431-clean"]


def commits_at(name, at_ms):
    """Return {key: offset} at a time, from the records that Kafka decoded."""
    state = {}
    for directory in golden_data.directories(name):
        if not directory.startswith("__consumer_offsets-"):
            continue
        end = end_at(name, directory, at_ms)
        records = golden_data.truth(name, directory, "records")
        rows = coordinator_reference.golden_rows(name, directory, "OffsetCommitKey")
        offsets = [
            record["offset"]
            for record in records
            if is_counted(name, directory, record)
        ]
        pairs = zip(offsets, rows, strict=True)
        state |= coordinator_reference.newest(
            [row for offset, row in pairs if offset < end]
        )
    return {place: value["offset"] for place, value in state.items()}


def is_counted(name, directory, record):
    """Return whether `golden_rows` has a row for a record."""
    if "control" in record:
        return True
    decoded = golden_data.truth(name, directory, "decoded")
    [row] = [row for row in decoded if row["offset"] == record["offset"]]
    return row["key_name"] == "OffsetCommitKey"


def end_at(name, directory, at_ms):
    """Return the offset of the first record after a time, else the log end."""
    records = golden_data.truth(name, directory, "records")
    later = [record["offset"] for record in records if record["timestamp"] > at_ms]
    return min(later, default=max((row["offset"] for row in records), default=-1) + 1)


def times_of(name):
    """Return times around those of some records of consumer offsets."""
    times = {
        record["timestamp"]
        for directory in golden_data.directories(name)
        if directory.startswith("__consumer_offsets-")
        for record in golden_data.truth(name, directory, "records")
    }
    return [time + step for time in sorted(times)[::4] for step in (-1, 0)]


@pytest.mark.parametrize("name", WITH_OFFSETS)
def test_groups_and_lag_at_any_time_are_those_counted_from_the_records(name):
    logs = golden_data.logs(name)
    times = times_of(name)
    assert len(times) > 4
    for at_ms in times:
        expected = commits_at(name, at_ms)
        every = kafkalog.lag(logs, at=at_ms).to_pylist()
        table = [row for row in every if not row["is_share_group"]]
        assert [
            (row["group"], row["topic"], row["partition"]) for row in table
        ] == sorted(expected)
        for row in table:
            directory = f"{row['topic']}-{row['partition']}"
            assert row["offset"] == expected[tuple(list(row.values())[:3])]
            assert row["log_end_offset"] == end_at(name, directory, at_ms)
            assert row["lag"] == row["log_end_offset"] - row["offset"]
            assert row["log_start_offset"] == 0
            assert row["is_beyond_log_end"] == (row["lag"] < 0)
        groups = kafkalog.groups(logs, at=at_ms)
        assert groups.to_pylist() == [
            {name: row[name] for name in groups.column_names} for row in every
        ]


@pytest.mark.parametrize("name", WITH_OFFSETS)
def test_groups_without_a_time_are_those_of_the_latest_time(name):
    logs = golden_data.logs(name)
    table = kafkalog.groups(logs)
    assert table.num_rows
    latest = datetime(2100, 1, 1, tzinfo=UTC)
    assert kafkalog.groups(logs, at=latest).equals(table)
    assert kafkalog.lag(logs, at=latest).equals(kafkalog.lag(logs))


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(PLACES),
            st.sampled_from([None, None, 1, 2]),
            st.booleans(),
            st.just(1),
        ),
        st.tuples(st.sampled_from([1, 2]), st.booleans()),
    ),
    min_size=1,
    max_size=30,
)


def compacted(rows, dirty):
    """Return the offsets that compaction below `dirty` removes: those superseded.

    Only a record whose transaction ended below `dirty` is removed, or supersedes.
    """
    removed, newest = set(), {}
    for row in decided(rows[:dirty]):
        if row["aborts"] or newest.get(row["place"], -1) > row["offset"]:
            removed.add(row["offset"])
            continue
        if row["place"] in newest:
            removed.add(newest[row["place"]])
        newest[row["place"]] = row["offset"]
    return removed


def decided(rows):
    """Yield the records that are in no transaction or in one that ended."""
    for number, row in enumerate(rows):
        if "commits" in row:
            continue
        markers = [
            later["commits"]
            for later in rows[number:]
            if "commits" in later and later["producer_id"] == row["producer_id"]
        ]
        if row["producer_id"] is None or markers:
            yield {**row, "aborts": bool(markers) and not markers[0]}


@given(steps=STEPS, data=st.data())
@settings(deadline=None)
def test_an_offset_at_a_time_is_right_or_unknown_after_compaction(
    tmp_path_factory, steps, data
):
    logs, whole = (tmp_path_factory.mktemp(name) for name in ("logs", "whole"))
    rows = write_steps(whole / "__consumer_offsets-0", steps)
    dirty = data.draw(st.integers(0, len(steps)))
    removed = compacted(rows, dirty)
    write_steps(logs / "__consumer_offsets-0", steps, removed)
    for at in range(-1, len(steps) + 1):
        state = coordinator_reference.newest(rows[: at + 1])
        assert offsets_of(kafkalog.groups(whole, at=at)) == state
        found = offsets_of(kafkalog.groups(logs, at=at))
        unknown = {place for place, offset in found.items() if offset is None}
        assert {k: v for k, v in found.items() if k not in unknown} == {
            k: v for k, v in state.items() if k not in unknown
        }
        left = set(range(at + 1, len(steps))) - removed
        if not removed or min(removed) > min(left, default=-1):
            assert not unknown


def offsets_of(table):
    return {(row["group"], row["topic"]): row["offset"] for row in table.to_pylist()}


def test_a_group_of_which_only_later_commits_are_left_is_listed_as_unknown(tmp_path):
    commit, other = (PLACES[0], None, False, 1), (PLACES[1], None, False, 1)
    write_steps(tmp_path / "__consumer_offsets-0", [commit, other, commit], removed={0})
    write_log(tmp_path / "t-0", {0: 0, 1: 5})
    [known, _] = kafkalog.lag(tmp_path, at=2).to_pylist()
    assert (known["offset"], known["log_end_offset"], known["lag"]) == (2, 1, -1)
    [unknown, _] = kafkalog.lag(tmp_path, at=1).to_pylist()
    assert unknown == dict.fromkeys(known) | {
        "group": "g", "topic": "t", "partition": 0,
        "log_start_offset": 0, "log_end_offset": 1, "is_share_group": False,
    }  # fmt: skip


@pytest.mark.parametrize("command", ["groups", "lag"])
def test_offsets_beyond_the_log_end_are_marked(command, tmp_path):
    write_steps(
        tmp_path / "__consumer_offsets-0",
        [(("g", topic), None, False, 1) for topic in ("a", "b", "c", "elsewhere")],
    )
    write_log(tmp_path / "a-0", {0: 0})
    write_log(tmp_path / "b-0", {0: 0})
    write_log(tmp_path / "c-0", {0: 0})
    rows = map(json.loads, call(command, tmp_path).stdout.splitlines())
    assert {row["topic"]: row["is_beyond_log_end"] for row in rows} == {
        "a": False,
        "b": False,
        "c": True,
        "elsewhere": None,
    }


def share_key(topic_id, kind):
    group = struct.pack(">h", 1) + b"s"
    return struct.pack(">h", kind) + group + topic_id + struct.pack(">i", 0)


def share_record(topic_id, start, completed, kind):
    schemas = schemas_of("__share_group_state")
    fields = {"startOffset": start, "snapshotEpoch": 0, "leaderEpoch": 3}
    fields |= {"stateEpoch": 0} if kind == 0 else {}
    schema = schemas["coordinator-value", kind]
    value = {**fields, "deliveryCompleteCount": completed, "stateBatches": []}
    value |= {"createTimestamp": 0, "writeTimestamp": 0} if kind == 0 else {}
    return share_key(topic_id, kind), b"\0\0" + schema.encode(value, 0)


def test_the_offset_of_a_share_group_is_that_of_its_snapshot_and_updates(tmp_path):
    first, second, third = (bytes(15) + bytes([n]) for n in (1, 2, 3))
    write_commits(
        tmp_path / "__share_group_state-0",
        [
            share_record(first, 1, 0, kind=0),
            share_record(first, 2, 1, kind=1),
            share_record(first, -1, 0, kind=1),  # the start offset does not change
            share_record(second, 5, 0, kind=0),
            (share_key(second, 0), None),
            share_record(third, -1, -1, kind=0),
        ],
    )
    write_commits(tmp_path / "__consumer_offsets-0", COMMITS)
    rows = kafkalog.lag(tmp_path).to_pylist()
    shares = [row for row in rows if row["is_share_group"]]
    assert [(row["topic"], row["offset"]) for row in shares] == [
        ("AAAAAAAAAAAAAAAAAAAAAQ", 2),
        ("AAAAAAAAAAAAAAAAAAAAAw", None),
    ]
    assert shares[0]["leader_epoch"] == 3
    early = kafkalog.groups(tmp_path, at=0).to_pylist()
    assert [row["offset"] for row in early if row["is_share_group"]] == [1]


def test_a_share_group_is_marked_and_its_lag_is_without_what_is_done():
    [row] = [r for r in kafkalog.lag(CLEAN).to_pylist() if r["is_share_group"]]
    start, end, done = row["offset"], row["log_end_offset"], 23
    states = kafkalog.internal(CLEAN, "__share_group_state").to_pylist()
    assert json.loads(states[-1]["value"])["deliveryCompleteCount"] == done
    assert (row["group"], row["topic"]) == ("readers-share", "orders.none")
    assert (start, end, row["lag"]) == (0, 212, 212 - done)


def test_a_share_group_whose_state_is_elsewhere_has_no_offset(tmp_path):
    shutil.copytree(CLEAN / "__consumer_offsets-1", tmp_path / "__consumer_offsets-1")
    [row] = [r for r in kafkalog.groups(tmp_path).to_pylist() if r["is_share_group"]]
    assert (row["group"], row["topic"]) == ("readers-share", "orders.none")
    assert row["offset"] is None


def write_log(directory, times, base=0):
    """Write a log from {offset: timestamp}, a batch for each record."""
    directory.mkdir(parents=True)
    batches = []
    for offset, timestamp in times.items():
        batch = kafkalog.RecordBatchBuilder(base_offset=offset)
        batch.append(b"k", b"v", timestamp=timestamp)
        batches.append(batch.build())
    (directory / f"{base:020d}.log").write_bytes(b"".join(batches))


def write_commit(logs, topic, offset, timestamp=0):
    directory = logs / "__consumer_offsets-0"
    directory.mkdir(parents=True)
    batch = kafkalog.RecordBatchBuilder()
    batch.append(offset_key(("g", topic)), offset_value(offset), timestamp=timestamp)
    (directory / f"{0:020d}.log").write_bytes(batch.build())


@given(
    times=st.lists(st.integers(1, 9), max_size=12),
    base=st.sampled_from([0, 3]),
    removed=st.sets(st.integers(0, 14)),
)
@settings(deadline=None)
def test_a_log_end_at_a_time_is_right_or_unknown(
    tmp_path_factory, times, base, removed
):
    logs = tmp_path_factory.mktemp("logs")
    removed &= set(range(base, base + len(times) - 1))  # compaction keeps the last
    whole = dict(enumerate(sorted(times) if removed else times, base))
    left = {offset: time for offset, time in whole.items() if offset not in removed}
    write_log(logs / "t-0", left, base)
    write_commit(logs, "t", 0)
    for at in range(11):
        later = [offset for offset, time in whole.items() if time > at]
        expected = min(later, default=max(whole, default=base - 1) + 1)
        [row] = kafkalog.lag(logs, at=at).to_pylist()
        around = {expected - 1, expected} - {-1, base + len(times)}
        known = expected if around <= {*left} else None
        assert row["log_end_offset"] == known
        assert row["log_start_offset"] == (0 if base == 0 else None)
        assert row["lag"] == row["log_end_offset"]


def test_a_partition_that_is_in_no_directory_has_no_lag(tmp_path):
    write_commit(tmp_path, "elsewhere", 7)
    [row] = kafkalog.lag(tmp_path).to_pylist()
    assert row["offset"] == 7
    assert row["log_start_offset"] is row["log_end_offset"] is row["lag"] is None


def test_of_several_replicas_of_a_log_the_longest_counts(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    write_commit(one, "t", 1)
    write_log(one / "t-0", {0: 1, 1: 1})
    write_log(two / "t-0", {0: 1, 1: 1, 2: 1})
    for logs in ([one, two], [two, one]):
        [row] = kafkalog.lag(logs).to_pylist()
        assert (row["log_end_offset"], row["lag"]) == (3, 2)


def test_a_log_start_is_that_of_the_checkpoint(tmp_path):
    write_commit(tmp_path, "t", 1)
    write_log(tmp_path / "t-0", {0: 1, 1: 1, 2: 1})
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 2\n")
    [row] = kafkalog.lag(tmp_path).to_pylist()
    assert (row["log_start_offset"], row["log_end_offset"]) == (2, 3)


@pytest.mark.parametrize("function", [kafkalog.groups, kafkalog.lag])
def test_a_directory_without_consumer_offsets_is_an_error(function):
    logs = golden_data.logs("k431-crash")
    for at in (None, 0):
        with pytest.raises(NotALogDirectoryError, match="no partition of __consumer_"):
            function(logs, at=at)
    with pytest.raises(ValueError, match="time zone"):
        function(CLEAN, at=datetime(2026, 1, 1))


@pytest.mark.parametrize("command", ["groups", "lag"])
def test_the_commands_print_the_tables(command, tmp_path):
    table = getattr(kafkalog, command)(CLEAN)
    lines = call(command, CLEAN).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [list(row) for row in rows] == [table.column_names] * table.num_rows
    for row, expected in zip(rows, table.to_pylist(), strict=True):
        time = row.pop("commit_timestamp")
        assert time == expected.pop("commit_timestamp").timestamp() * 1000
        assert row == expected
    as_list = json.loads(call(command, CLEAN, "--format", "json").stdout)
    assert as_list == [json.loads(line) for line in lines]
    [only] = call(command, CLEAN, "--group", "readers-txn").stdout.splitlines()
    assert only in lines
    text = call(command, CLEAN, "--format", "table").stdout
    assert len(text.splitlines()) == table.num_rows + 1
    assert call(command, CLEAN, "--at", "2026-11-21T00:00Z").stdout == ""
    assert call(command, CLEAN, "--at", "noon").exit_code == 2
    assert call(command, golden_data.logs("k431-crash")).exit_code == 3
    assert call(command, tmp_path / "none").exit_code == 3


def write_commits(directory, commits):
    """Write a partition with a batch for each commit, a key and a value.

    The timestamps are the offsets. Returns the position of each batch.
    """
    directory.mkdir(parents=True)
    batches = []
    for offset, (key, value) in enumerate(commits):
        batch = kafkalog.RecordBatchBuilder(base_offset=offset)
        batch.append(key, value, timestamp=offset)
        batches.append(batch.build())
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return list(accumulate(map(len, batches), initial=0))


COMMITS = [
    (offset_key(("g", "t")), offset_value(1)),
    (offset_key(("h", "t")), offset_value(2)),
    (offset_key(("g", "t")), offset_value(3)),
    (offset_key(("i", "u")), offset_value(4)),
]
OFFSETS = {"g": 3, "h": 2, "i": 4}


@pytest.mark.parametrize("at", [None, 10])
@pytest.mark.parametrize("command", ["groups", "lag"])
def test_a_corrupt_batch_hides_only_its_own_commits(command, at, tmp_path):
    directory = tmp_path / "logs" / "__consumer_offsets-0"
    *starts, end = write_commits(directory, COMMITS)
    [path] = directory.glob("*.log")
    whole = path.read_bytes()
    options = [] if at is None else ["--at", str(at)]
    hidden = [{"g": 3}, {"h": None}, {"g": 1}, {"i": None}]
    for start, following, lost in zip(starts, [*starts[1:], end], hidden, strict=True):
        damaged = bytearray(whole)
        damaged[following - 1] ^= 1
        path.write_bytes(damaged)
        ran = call(command, directory.parent, *options)
        found = {
            row["group"]: row["offset"]
            for row in map(json.loads, ran.stdout.splitlines())
        }
        left = {group: offset for group, offset in (OFFSETS | lost).items() if offset}
        assert found == left
        assert ran.exit_code == 1
        assert "skipped: CRC mismatch" in ran.stderr
        assert f"{path} at byte {start}" in ran.stderr
        with pytest.raises(kafkalog.CorruptRecordError, match="CRC mismatch"):
            getattr(kafkalog, command)(directory.parent, at=at)


@pytest.mark.parametrize("command", ["groups", "lag"])
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "Could not read version from key's buffer"),
        (b"\0", b"", "Could not read version from key's buffer"),
        (offset_key(("x", "t"))[:-1], offset_value(1), "partition: 3 bytes left"),
        (offset_key(("x", "t")), b"\0\3", "offset: 0 bytes left"),
        (offset_key(("x", "t")), b"\0\x63", "Found an unknown record version 99"),
    ],
)
def test_a_record_that_cannot_be_decoded_hides_no_other(
    command, key, value, reason, tmp_path
):
    directory = tmp_path / "logs" / "__consumer_offsets-0"
    write_commits(directory, [*COMMITS[:2], (key, value), *COMMITS[2:]])
    ran = call(command, directory.parent)
    found = {
        row["group"]: row["offset"] for row in map(json.loads, ran.stdout.splitlines())
    }
    assert found == OFFSETS
    assert ran.exit_code == 1
    assert f"skipped: {reason}" in ran.stderr
    assert "(record at offset 2)" in ran.stderr
    with pytest.raises(kafkalog.LocatedError, match="record at offset 2"):
        getattr(kafkalog, command)(directory.parent)


@pytest.mark.parametrize("command", ["groups", "lag"])
def test_topic_selects_rows_by_name_or_pattern(command):
    def topics_of(*options):
        ran = call(command, CLEAN, *options)
        assert ran.exit_code == 0
        return [json.loads(line)["topic"] for line in ran.stdout.splitlines()]

    every = topics_of()
    assert set(every) == {"orders.gzip", "orders.none"}
    assert topics_of("--topic", "orders.gzip") == ["orders.gzip"]
    none = [topic for topic in every if topic == "orders.none"]
    assert topics_of("--topic", "*.n*") == none
    assert topics_of("--topic", "orders.gzip", "--topic", "orders.none") == every
    assert topics_of("--topic", "other") == []
    assert topics_of("--topic", "orders.none", "--group", "readers-last") == none[:1]


def test_the_offsets_of_a_corrupt_log_are_unknown_at_a_past_time(tmp_path):
    logs = shutil.copytree(CLEAN, tmp_path / "logs")
    options = ("--at", "2026-11-21T23:59Z", "--group", "readers-txn")
    [row] = map(json.loads, call("lag", logs, *options).stdout.splitlines())
    assert row["lag"] is not None
    for path in (logs / f"{row['topic']}-{row['partition']}").glob("*.log"):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    ran = call("lag", logs, *options)
    assert ran.exit_code == 1
    assert row["topic"] in ran.stderr
    [row] = map(json.loads, ran.stdout.splitlines())
    assert row["offset"] is not None
    assert row["lag"] is None


def test_the_lag_of_an_offset_that_no_log_can_have_is_null(tmp_path):
    def text(value):
        return struct.pack(">h", len(value)) + value

    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append_records({"value": [b"v"]})
    with kafkalog.open(tmp_path / "__consumer_offsets-0", "a") as log:
        builder = kafkalog.RecordBatchBuilder()
        for group, offset in ((b"far", -(2**63)), (b"near", 0)):
            key = struct.pack(">h", 1) + text(group) + text(b"t") + struct.pack(">i", 0)
            value = struct.pack(">hqi", 3, offset, -1) + text(b"") + bytes(8)
            builder.append(key, value, timestamp=1)
        log.append(builder.build())
    table = kafkalog.lag(tmp_path).select(["group", "offset", "lag"])
    assert table.to_pylist() == [
        {"group": "far", "offset": -(2**63), "lag": None},
        {"group": "near", "offset": 0, "lag": 1},
    ]
    assert call("lag", tmp_path).exit_code == 0

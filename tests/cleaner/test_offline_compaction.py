"""`compact` and its command: plans, copies, and compaction in place."""

import os
import shutil

import pytest

import kafkalog
from kafkalog import LogConfig
from kafkalog.cleaner import log_copies
from kafkalog.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    IndexFullError,
    LogArgumentError,
    LogLockedError,
    LogStateError,
)
from kafkalog.log.clock import SystemClock
from kafkalog.storage.durable_file import Disk
from tests import golden_data
from tests.cli.shell import call, objects

COMPACT = LogConfig(cleanup_policy="compact")
MEMBERS = [
    *("schema", "topic", "partition", "records_before", "records_after"),
    *("bytes_before", "bytes_after", "tombstones", "segments_before"),
    *("segments_after", "corrupt", "unchanged_because"),
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
    by_topic = {report.topic: report for report in reports}
    assert {"state.none", "__consumer_offsets"} <= set(by_topic)
    other = by_topic["orders.none"]
    assert other.unchanged_because == ("cleanup.policy delete, expected compact",)
    assert other.records_before is None
    compacted = [each for each in reports if each.records_before is not None]
    assert compacted
    for report in compacted:
        assert report.records_after <= report.records_before


@pytest.mark.parametrize(
    "topic", ["state.none", "state.gzip", "state.lz4", "state.txn"]
)
def test_a_copy_has_the_last_value_of_each_key(logs, tmp_path, topic):
    before, values = files_of(logs), last_values(logs / f"{topic}-0")
    [report] = kafkalog.compact(logs / f"{topic}-0", destination=tmp_path / "out")
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
    assert kafkalog.compact(logs / "state.none-0", apply=True) == plan
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


def test_a_plan_has_the_sizes_that_compaction_at_the_same_time_has(
    logs, tmp_path, monkeypatch
):
    """A compressed batch has its delete horizon in it, so its size depends on time."""
    sizes = set()
    for number in range(6):
        now_ms = 1_800_000_000_000 + 77_777 * number
        monkeypatch.setattr(SystemClock, "now_ms", lambda _, now_ms=now_ms: now_ms)
        [plan] = kafkalog.compact(logs / "state.gzip-0")
        copies = tmp_path / str(number)
        assert kafkalog.compact(logs / "state.gzip-0", destination=copies) == [plan]
        files = (copies / "state.gzip-0").glob("*.log")
        assert sum(path.stat().st_size for path in files) == plan.bytes_after
        sizes.add(plan.bytes_after)
    assert len(sizes) > 1
    assert kafkalog.compact(logs / "state.gzip-0", apply=True) == [plan]


def test_a_second_compaction_in_place_removes_nothing(logs):
    [first] = kafkalog.compact(logs / "state.none-0", apply=True)
    [second] = kafkalog.compact(logs / "state.none-0", apply=True)
    assert second.records_after == second.records_before == first.records_after


def test_a_topic_without_the_policy_is_compacted_by_force_only(logs):
    path = logs / "orders.none-0"
    with pytest.raises(LogStateError, match="policy delete, expected compact"):
        kafkalog.compact(path, apply=True)
    [report] = kafkalog.compact(path, apply=True, ignore_policy=True)
    assert report.records_after < report.records_before


def test_an_error_of_a_plan_names_the_file_of_the_log(logs):
    with pytest.raises(IndexFullError) as caught:
        kafkalog.compact(logs / "orders.snappy-0", ignore_policy=True)
    assert str(caught.value).endswith(
        f": {logs / 'orders.snappy-0'}/00000000000000000150.timeindex.cleaned"
    )


def test_an_output_directory_with_files_is_refused(logs, tmp_path):
    kafkalog.compact(logs / "state.none-0", destination=tmp_path / "out")
    with pytest.raises(LogStateError, match="not empty"):
        kafkalog.compact(logs / "state.lz4-0", destination=tmp_path / "out")


@pytest.mark.parametrize("order", [1, -1])
def test_a_copy_is_recovered_if_one_of_its_sources_was_not_closed(
    logs, tmp_path, order
):
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    shutil.copytree(logs / "state.lz4-0", crashed / "state.lz4-0")
    assert (logs / ".kafka_cleanshutdown").exists()
    active = max((crashed / "state.lz4-0").glob("*.log"))
    with active.open("ab") as file:
        file.write(b"half a batch")
    paths = [logs / "state.none-0", crashed / "state.lz4-0"][::order]
    kafkalog.compact(paths, destination=tmp_path / "out")
    copied = list((tmp_path / "out" / "state.lz4-0").glob("*.log"))
    assert copied
    assert not any(b"half a batch" in path.read_bytes() for path in copied)
    kafkalog.compact(logs / "state.none-0", destination=tmp_path / "closed")
    assert (tmp_path / "closed" / ".kafka_cleanshutdown").exists()


def test_partitions_of_several_paths_are_copied_to_one_directory(logs, tmp_path):
    paths = [logs / "state.none-0", logs / "state.lz4-0"]
    kafkalog.compact(paths, destination=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {
        "state.none-0",
        "state.lz4-0",
    }
    with pytest.raises(LogStateError, match="two logs of one partition"):
        kafkalog.compact([paths[0], logs], destination=tmp_path / "other")


@pytest.mark.parametrize("place", ["out", "state.none-0/out"])
def test_nothing_is_written_into_the_log_directory(logs, place):
    before = sorted(logs.rglob("*"))
    with pytest.raises(LogStateError, match="destination in a source"):
        kafkalog.compact(logs / "state.none-0", destination=logs / place)
    assert sorted(logs.rglob("*")) == before


def test_a_log_that_is_open_is_not_compacted_in_place(logs):
    with (
        kafkalog.open(logs / "state.none-0", "a"),
        pytest.raises(LogLockedError),
    ):
        kafkalog.compact(logs / "state.none-0", apply=True)


def test_output_and_in_place_exclude_each_other(logs, tmp_path):
    with pytest.raises(LogArgumentError):
        kafkalog.compact(logs, destination=tmp_path / "out", apply=True)


def test_the_command_prints_the_members_of_a_report(logs):
    rows = objects(call("compact", logs, "--topic", "state.none").stdout)
    assert [list(row) for row in rows] == [MEMBERS]
    assert rows[0]["schema"] == 1


def test_the_exit_code_is_4_for_the_wrong_policy_or_an_existing_copy(logs, tmp_path):
    path = logs / "orders.none-0"
    ran = call("compact", path, "--apply")
    assert ran.exit_code == 4
    assert "expected compact" in ran.stderr
    copying = "compact", logs / "state.none-0", "--output", tmp_path / "out"
    assert call(*copying).exit_code == 0
    ran = call(*copying)
    assert ran.exit_code == 4
    assert "not empty" in ran.stderr


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
    options = {"plan": {}, "output": {"destination": tmp_path / "out"}}
    before = files_of(logs)
    with pytest.raises(CorruptRecordError) as raised:
        kafkalog.compact(file.parent, **options.get(how, {"apply": True}))
    assert f"{logs}/{named.format(file.name)}" in str(raised.value)
    assert files_of(logs) == before
    assert list(tmp_path.iterdir()) == [logs]


# Corrupt batches


@pytest.fixture
def corrupted(tmp_path):
    """Return a log of which the second of three segments has a corrupt batch."""
    path = tmp_path / "logs" / "state-0"
    with kafkalog.open(path, "a", COMPACT) as log:
        for number in range(3):
            keys = [b"same", b"key %d" % number]
            log.append_records({"key": keys, "value": [b"value %d" % number] * 2})
            log.roll()
        log.update_high_watermark(log.log_end_offset)
    (path.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    file = path / "00000000000000000002.log"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    return file


def compact(path, **options):
    return kafkalog.compact(path.parent, ignore_policy=True, **options)


WAYS = {
    "plan": lambda path: {},
    "output": lambda path: {"destination": path.parents[2] / "out"},
    "in place": lambda path: {"apply": True},
}


@pytest.mark.parametrize("how", WAYS)
def test_a_corrupt_batch_is_refused_and_nothing_is_written(corrupted, how, tmp_path):
    before = files_of(tmp_path)
    with pytest.raises(CorruptRecordError, match="CRC mismatch") as raised:
        compact(corrupted, **WAYS[how](corrupted))
    assert raised.value.path == corrupted
    assert raised.value.position == 0
    assert files_of(tmp_path) == before
    ran = call("compact", corrupted.parent, "--ignore-policy", "--apply")
    assert ran.exit_code == 1
    assert f"{corrupted} at byte 0" in ran.stderr
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("on_corruption", ["skip", "keep"])
def test_a_corrupt_batch_is_dropped_or_kept_and_named(corrupted, how, on_corruption):
    batch, options = corrupted.read_bytes(), WAYS[how](corrupted)
    [report] = compact(corrupted, on_corruption=on_corruption, **options)
    [corrupt] = report.corrupt
    assert (corrupt.segment, corrupt.position) == (corrupted.name, 0)
    assert (corrupt.first_offset, corrupt.last_offset) == (2, 3)
    assert corrupt.kept == (on_corruption == "keep")
    assert (report.records_before, report.records_after) == (4, 3)
    if how == "plan":
        return
    written = options.get("destination", corrupted.parents[1]) / "state-0"
    data = b"".join(path.read_bytes() for path in sorted(written.glob("*.log")))
    assert (batch in data) == (on_corruption == "keep")
    scan = kafkalog.scan(written, on_corruption="skip")
    assert scan.to_arrow()["offset"].to_pylist() == [1, 4, 5]
    assert kafkalog.verify(written).ok == (on_corruption == "skip")


def test_a_corrupt_batch_above_the_high_watermark_stays(corrupted):
    with kafkalog.open(corrupted.parent, "a", COMPACT) as log:
        assert log.high_watermark == 6
    checkpoint = corrupted.parents[1] / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nstate 0 2\n")
    [report] = compact(corrupted, on_corruption="skip", apply=True)
    assert [batch.kept for batch in report.corrupt] == [True]
    assert corrupted.exists()


def test_the_command_names_corrupt_batches_and_ends_with_1(corrupted):
    ran = call("compact", corrupted.parent, "--on-corruption", "skip")
    assert ran.exit_code == 1
    assert "state-0: dropped: CRC mismatch" in ran.stderr
    assert "offsets 2 to 3" in ran.stderr
    [row] = objects(ran.stdout)
    assert row["corrupt"][0]["last_offset"] == 3


@pytest.mark.parametrize("how", WAYS)
def test_a_batch_that_opening_the_log_would_cut_is_refused(corrupted, how, tmp_path):
    """Recovery of a log that was not closed cuts it at a corrupt batch."""
    (corrupted.parents[1] / ".kafka_cleanshutdown").unlink()
    checkpoint = corrupted.parents[1] / "recovery-point-offset-checkpoint"
    checkpoint.write_text("0\n1\nstate 0 2\n")
    before = files_of(tmp_path)
    for on_corruption in ("raise", "skip", "keep"):
        with pytest.raises(CorruptRecordError) as raised:
            compact(corrupted, on_corruption=on_corruption, **WAYS[how](corrupted))
        assert raised.value.path == corrupted
        assert files_of(tmp_path) == before


@pytest.mark.parametrize("how", WAYS)
def test_a_shortened_segment_is_refused(corrupted, how, tmp_path):
    corrupted.write_bytes(corrupted.read_bytes()[:-3])
    before = files_of(tmp_path)
    with pytest.raises(CorruptRecordError, match="expected at most") as raised:
        compact(corrupted, **WAYS[how](corrupted))
    assert raised.value.path == corrupted
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("how", WAYS)
def test_a_batch_that_is_too_large_is_refused(tmp_path, how):
    path = tmp_path / "logs" / "state-0"
    with kafkalog.open(path, "a", COMPACT) as log:
        batch = kafkalog.RecordBatchBuilder(codec="zstd")
        batch.append(b"key", bytes(100_000))
        log.append(batch.build())
        log.update_high_watermark(log.log_end_offset)
    file = path / "00000000000000000000.log"
    with pytest.raises(BatchTooLargeError, match="max_batch_bytes") as raised:
        compact(file, max_batch_bytes=99_999, **WAYS[how](file))
    assert raised.value.path == file
    assert call("compact", path, "--max-batch-bytes", "99999").exit_code == 1
    assert compact(file, **WAYS[how](file))[0].records_after == 1


# Copies


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("method", ["write_each", "sync", "rename", "open"])
def test_a_copy_that_fails_leaves_nothing(logs, tmp_path, monkeypatch, method, share):
    calls, original = [], getattr(Disk, method)

    def count(*arguments, **options):
        calls.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(Disk, method, count)
    kafkalog.compact(logs / "state.txn-0", destination=tmp_path / "out")
    last = round(share * (len(calls) - 1))
    left = iter(range(last))

    def fail(*arguments, **options):
        if next(left, None) is None:
            raise OSError(5, "Input/output error")
        return original(*arguments, **options)

    monkeypatch.setattr(Disk, method, fail)
    with pytest.raises(OSError, match="Input/output error"):
        kafkalog.compact(logs / "state.txn-0", destination=tmp_path / "second")
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "out"}


def test_a_copy_is_forced_to_disk_before_it_gets_its_name(logs, tmp_path, monkeypatch):
    synced, original = set(), Disk.sync
    renamed = []

    def sync(disk, file):
        synced.add(os.fstat(file.descriptor).st_ino)
        original(disk, file)

    monkeypatch.setattr(Disk, "sync", sync)
    rename = Disk.rename

    def renaming(disk, source, target):
        if str(source).endswith("out.incomplete"):
            renamed.extend(
                path
                for path in source.rglob("*.log")
                if path.stat().st_ino not in synced
            )
        rename(disk, source, target)

    monkeypatch.setattr(Disk, "rename", renaming)
    kafkalog.compact(
        logs / "orders.none-0", destination=tmp_path / "out", ignore_policy=True
    )
    assert (tmp_path / "out" / "orders.none-0").is_dir()
    assert renamed == []


def test_a_complete_swap_file_is_part_of_the_copy(logs, tmp_path):
    """A compaction that was interrupted before its last rename is completed."""
    [file] = (logs / "state.lz4-0").glob("00000000000000000000.log")
    expected = kafkalog.scan(logs / "state.lz4-0").count()
    file.rename(file.with_suffix(".log.swap"))
    [report] = kafkalog.compact(logs / "state.lz4-0", destination=tmp_path / "out")
    assert report.records_before == expected


# Reasons for which nothing is removed


@pytest.mark.parametrize(
    ("high_watermark", "reason"),
    [
        (0, "high watermark 0: nothing at or above it is compacted"),
        (3, "no record below offset 3 has a later one of its key"),
    ],
)
def test_a_log_that_compaction_leaves_as_it_is_has_the_reason(
    tmp_path, high_watermark, reason
):
    path = tmp_path / "logs" / "state-0"
    with kafkalog.open(path, "a", COMPACT) as log:
        for number in range(3):
            log.append_records({"key": [b"key %d" % number], "value": [b"v"]})
        log.update_high_watermark(high_watermark)
    [report] = kafkalog.compact(path)
    assert report.records_before == report.records_after == 3
    assert report.unchanged_because == (reason,)
    [row] = objects(call("compact", path).stdout)
    assert row["unchanged_because"] == [reason]
    assert reason in call("compact", path, "--format", "table").stdout


def test_a_compacted_log_has_the_checkpoint_as_the_reason(logs):
    [first] = kafkalog.compact(logs / "state.none-0", apply=True)
    assert first.unchanged_because == ()
    [second] = kafkalog.compact(logs / "state.none-0", apply=True)
    assert second.unchanged_because[0].startswith("cleaner-offset-checkpoint ")


def test_an_empty_log_has_no_records(tmp_path):
    kafkalog.open(tmp_path / "logs" / "state-0", "a", COMPACT).close()
    [report] = kafkalog.compact(tmp_path / "logs" / "state-0")
    assert report.unchanged_because == ("no records",)


def test_the_command_takes_one_way_to_write(logs, tmp_path):
    ran = call("compact", logs, "--apply", "--output", tmp_path / "out")
    assert ran.exit_code == 2


def test_a_missing_path_ends_with_3(tmp_path):
    assert call("compact", tmp_path / "none-0").exit_code == 3


def test_a_file_that_is_deleted_while_it_is_copied_is_ignored(tmp_path, monkeypatch):
    config = LogConfig(cleanup_policy=("compact",))
    directory = tmp_path / "state-0"
    with kafkalog.open(directory, "a", config) as log:
        log.append_records([{"key": b"k", "value": b"v"}])
    gone = directory / "00000000000000000001.snapshot"
    assert gone.exists()
    real = Disk.copy_file

    def copy_file(disk, source, target):
        if source == gone:
            source.unlink()
        real(disk, source, target)

    monkeypatch.setattr(Disk, "copy_file", copy_file)
    (tmp_path / "copy").mkdir()
    copy = log_copies.copy_partition(directory, ("state", 0), tmp_path / "copy")
    assert not gone.exists()
    assert kafkalog.scan(copy).count() == 1

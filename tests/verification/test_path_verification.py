"""`verify`: no problem in files of brokers, counts, causes, positions, the command."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog import LogConfig
from kafkalog.cli.main import group
from kafkalog.codecs.checksum import crc32c
from kafkalog.errors import NotALogDirectoryError
from kafkalog.formats.checkpoint import format_offsets
from kafkalog.segment import segment_files
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from kafkalog.verification import partition_checks, segment_checks
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause, Severity
from tests import golden_data
from tests.log import writing
from tests.manager.partitions import batch, write_partition

FIRST, SECOND = f"{0:020d}.log", f"{6:020d}.log"


@pytest.fixture
def partition(tmp_path):
    return write_partition(tmp_path / "orders-0")


def found(path, **options):
    """Return cause, severity, file, position and offset of each problem."""
    return [
        (p.cause.value, p.severity.value, p.path, p.position, p.offset)
        for p in verify(path, **options).problems
    ]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_files_of_brokers_are_valid_and_counted_as_kafka_counts(name):
    logs = golden_data.logs(name)
    report = verify(logs)
    expected = {"k431-crash": {Cause.PREALLOCATED}, "oldclients": {Cause.MISSING}}
    assert report.ok
    assert {p.cause for p in report.problems} == expected.get(name, set())
    files = [path for path in logs.rglob("*") if path.is_file()]
    assert report.files == len(files)
    assert report.bytes == sum(path.stat().st_size for path in files)
    truths = golden_data.directories(name)
    batches = [row for d in truths for row in golden_data.truth(name, d, "batches")]
    assert report.batches == sum("magic" in row for row in batches)
    records = (len(golden_data.truth(name, d, "records")) for d in truths)
    assert report.records == sum(records)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_each_partition_and_each_file_is_valid_on_its_own(name):
    for partition in golden_data.partitions(name):
        assert verify(partition).ok
        for path in partition.iterdir():
            assert verify(path).ok


def test_threads_do_not_change_the_report():
    logs = golden_data.logs("k431-crash")
    assert verify(logs, threads=3) == verify(logs)


def test_progress_reaches_the_total(partition):
    calls = []
    report = verify(partition, progress=lambda *counts: calls.append(counts))
    assert calls[-1] == (report.bytes, report.bytes)
    assert calls == sorted(calls)


def test_the_partition_of_the_tests_is_valid(partition):
    report = verify(partition)
    assert (report.batches, report.records, report.problems) == (5, 10, ())


def test_a_path_without_kafkas_files_is_rejected(tmp_path):
    with pytest.raises(NotALogDirectoryError):
        verify(tmp_path)
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "nowhere")


def test_problems_after_damage_are_listed_too(partition):
    log = partition / FIRST
    data = bytearray(log.read_bytes())
    size = len(batch(0))
    data[size - 1] ^= 1
    data[3 * size - 1] ^= 1
    log.write_bytes(data)
    assert found(partition) == [
        ("crc", "error", FIRST, 0, 0),
        ("crc", "error", FIRST, 2 * size, 4),
    ]


def test_an_offset_of_the_next_segment_is_an_error(partition):
    size = len(batch(0))
    log = partition / FIRST
    log.write_bytes(log.read_bytes()[: 2 * size] + batch(5, epoch=3))
    assert ("offset", "error", FIRST, 2 * size, 4) in found(partition)


def test_a_gap_within_a_segment_is_no_problem(tmp_path):
    log = tmp_path / FIRST
    log.write_bytes(batch(0) + batch(1000, last_offset=5000))
    assert found(log) == []


@pytest.mark.parametrize(
    ("tail", "cause", "severity"),
    [
        (bytes(100), "preallocated", "warning"),
        (batch(10, epoch=3)[:-1], "incomplete", "warning"),
        (b"\0", "preallocated", "warning"),
        (b"\1", "offset", "error"),
        (batch(10)[:8] + b"\0\0\1\0" + batch(10)[12:], "size", "error"),
        (b"\0" * 11 + b"\x40" + batch(6)[12:16] + b"\5" + b"\7" * 80, "magic", "error"),
    ],
)
def test_trailing_bytes_are_distinguished_from_damage(partition, tail, cause, severity):
    log = partition / SECOND
    end = log.stat().st_size
    log.write_bytes(log.read_bytes() + tail)
    assert found(partition) == [(cause, severity, SECOND, end, 10)]


def checksummed(data):
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
    return bytes(data)


def with_codec(data):
    data[22] |= 2
    return checksummed(data)


def with_other_max_timestamp(data):
    data[42] ^= 1
    return checksummed(data)


def with_other_count(data):
    data[60] = 1
    return checksummed(data)


def with_other_last_offset(data):
    data[26] = 0
    return checksummed(data)


def without_control_type(data):
    data[22] |= 0x20
    return checksummed(data)


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (with_codec, "compression"),
        (with_other_max_timestamp, "timestamp"),
        (with_other_count, "records"),
        (with_other_last_offset, "records"),
        (without_control_type, "control"),
    ],
)
def test_a_batch_with_a_valid_checksum_is_checked_too(tmp_path, damage, cause):
    log = tmp_path / FIRST
    valid = batch(0)
    log.write_bytes(valid + damage(bytearray(batch(2))) + batch(4))
    ((found_cause, severity, _, position, offset),) = found(log)
    assert (found_cause, severity, offset) == (cause, "error", 2)
    assert len(valid) <= position < 2 * len(valid)


def with_other_bytes(place, value):
    """Return a function that returns a batch with a byte changed."""

    def damage(data):
        return data[:place] + bytes([data[place] ^ value]) + data[place + 1 :]

    return damage


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (with_other_bytes(63, 1), "crc"),
        (with_other_bytes(11, 1), "crc"),  # its size
        (with_other_bytes(9, 1), "size"),
        (with_other_bytes(26, 1), "crc"),  # its last offset
        (with_other_bytes(23, 64), "crc"),  # its last offset, out of range
        (with_other_bytes(6, 1), "offset"),
        (with_other_bytes(16, 8), "magic"),
    ],
)
def test_a_corrupt_batch_has_its_first_and_last_offset(tmp_path, damage, cause):
    log = tmp_path / FIRST
    log.write_bytes(batch(0, 3) + damage(batch(3, 5)) + batch(8))
    [problem] = verify(log).problems
    assert (problem.cause, problem.severity) == (cause, "error")
    assert (problem.offset, problem.last_offset) == (3, 7)


def test_adjacent_corrupt_batches_have_the_last_offset_of_the_last(tmp_path):
    log = tmp_path / FIRST
    corrupt = with_other_bytes(63, 1)
    log.write_bytes(batch(0) + corrupt(batch(2)) + corrupt(batch(4, 3)) + batch(7))
    [problem] = verify(log).problems
    assert (problem.cause, problem.offset, problem.last_offset) == ("crc", 2, 6)


def test_a_corrupt_batch_at_the_end_has_the_last_offset_of_its_header(partition):
    log = partition / SECOND
    data = with_other_bytes(63, 1)(batch(8, epoch=3))
    log.write_bytes(batch(6, epoch=3) + data)
    assert [
        (problem.offset, problem.last_offset)
        for problem in verify(partition).problems
        if problem.cause == "crc"
    ] == [(8, 9)]


def test_a_batch_whose_records_are_invalid_has_its_first_and_last_offset(tmp_path):
    log = tmp_path / FIRST
    log.write_bytes(batch(0) + with_codec(bytearray(batch(2, 4))) + batch(6))
    [problem] = verify(log).problems
    assert (problem.offset, problem.last_offset) == (2, 5)


def test_a_report_on_a_too_large_batch_has_its_last_offset(tmp_path):
    log = tmp_path / FIRST
    log.write_bytes(batch(0) + batch(2, 500) + batch(502))
    [problem] = verify(log, max_batch_bytes=1000).problems
    assert (problem.cause, problem.offset, problem.last_offset) == ("too_large", 2, 501)


def of_offsets(path):
    return [
        (problem.path, problem.position, problem.offset, problem.message)
        for problem in verify(path).problems
        if problem.cause == Cause.OFFSET
    ]


def test_a_misplaced_batch_is_described_with_the_offsets_of_its_neighbours(tmp_path):
    log = tmp_path / FIRST
    log.write_bytes(batch(0) + batch(700, 2) + batch(4))
    message = (
        "a batch has offsets 700 to 701, but the valid batch before ends at offset 1 "
        "and the valid batch after begins at offset 4"
    )
    assert of_offsets(log) == [(FIRST, len(batch(0)), 2, message)]


def test_a_misplaced_batch_at_the_end_is_described_with_the_next_segment(partition):
    size = len(batch(0))
    log = partition / FIRST
    log.write_bytes(log.read_bytes()[: 2 * size] + batch(700, epoch=3))
    message = (
        "a batch has offsets 700 to 701, but the valid batch before ends at offset 3 "
        "and the next segment begins at offset 6"
    )
    assert of_offsets(partition) == [(FIRST, 2 * size, 4, message)]


def test_batches_that_were_copied_twice_are_one_problem(tmp_path):
    log = tmp_path / FIRST
    batches = b"".join(batch(base) for base in range(0, 40, 2))
    log.write_bytes(batches * 2)
    message = "20 batches have offsets 0 to 39, but the valid batch before ends at "
    assert of_offsets(log) == [(FIRST, len(batches), 40, message + "offset 39")]


def test_a_segment_under_the_name_of_a_later_one_is_one_problem(partition):
    other = f"{10:020d}.log"
    shutil.copy(partition / FIRST, partition / other)
    message = "3 batches have offsets 0 to 5, but the segment begins at offset 10"
    assert of_offsets(partition) == [(other, 0, 10, message)]


def test_misplaced_batches_that_do_not_follow_each_other_are_two_problems(tmp_path):
    log = tmp_path / FIRST
    valid = b"".join(batch(base) for base in range(0, 10, 2))
    log.write_bytes(valid + batch(6) + batch(2))
    places = [(position, offset) for _, position, offset, _ in of_offsets(log)]
    assert places == [(len(valid), 10), (len(valid + batch(6)), 10)]


@pytest.mark.parametrize(
    "big", [batch(2, 500), batch(2, 500, codec="gzip"), batch(2, 30_000)]
)
def test_a_batch_above_the_limit_is_a_warning_and_later_batches_are_read(tmp_path, big):
    log = tmp_path / FIRST
    log.write_bytes(batch(0) + big + batch(40_000))
    warning = ("too_large", "warning", FIRST, len(batch(0)), 2)
    assert found(log, max_batch_bytes=1000) == [warning]
    assert verify(log, max_batch_bytes=1000).records == 4
    assert found(log) == []


def test_a_wrong_size_within_the_file_is_an_error(tmp_path):
    log = tmp_path / FIRST
    long = bytearray(batch(0))
    long[8:12] = (100_000).to_bytes(4)
    log.write_bytes(long + batch(2) + batch(4, 30_000))
    wrong = ("size", "error", FIRST, 0, 0)
    assert found(log, max_batch_bytes=1000)[0] == wrong
    assert verify(log, max_batch_bytes=1000).records == 2


def test_a_segment_above_the_maximum_size_is_an_error(partition, monkeypatch):
    size = (partition / FIRST).stat().st_size
    for module in (segment_checks, segment_files):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", size - 1)
    assert found(partition) == [("segment_size", "error", FIRST, size - 1, None)]


def test_decreasing_leader_epochs_are_errors(tmp_path):
    log = tmp_path / FIRST
    log.write_bytes(batch(0, epoch=1) + batch(2, epoch=0))
    assert found(log) == [("leader_epoch", "error", FIRST, len(batch(0)), 2)]


def test_leader_epochs_that_decrease_between_segments_are_errors(partition):
    (partition / "leader-epoch-checkpoint").unlink()
    log = partition / SECOND
    log.write_bytes(batch(6, epoch=2) + batch(8, epoch=2))
    assert found(partition) == [("leader_epoch", "error", SECOND, 0, 6)]


def test_a_leader_epoch_checkpoint_may_have_later_entries(partition):
    checkpoint = partition / "leader-epoch-checkpoint"
    checkpoint.write_bytes(b"0\n3\n0 0\n3 4\n7 10\n")
    assert found(partition) == []
    checkpoint.write_bytes(b"0\n3\n0 0\n3 4\n7 8\n")
    at = ("leader_epoch", "warning", SECOND, len(batch(6)), 8)
    assert found(partition) == [at]
    checkpoint.write_bytes(b"0\n2\n3 0\n0 4\n")
    assert found(partition) == [("order", "error", checkpoint.name, None, None)]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_missing_index_and_an_index_without_a_log_are_warnings(partition, kind):
    (partition / f"{0:020d}.{kind}").unlink()
    (partition / f"{77:020d}.{kind}").write_bytes(b"")
    assert found(partition) == [
        ("missing", "warning", f"{0:020d}.{kind}", None, 0),
        ("orphan", "warning", f"{77:020d}.{kind}", None, 77),
    ]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_index_of_another_segment_is_an_error(partition, kind):
    other = (partition / f"{0:020d}.{kind}").read_bytes()
    name = f"{6:020d}.{kind}"
    (partition / name).write_bytes(other)
    cause = {"index": "offset_index", "timeindex": "time_index"}[kind]
    assert {problem[:3] for problem in found(partition)} == {(cause, "error", name)}


@pytest.mark.parametrize(
    ("base", "severity"), [(0, Severity.ERROR), (6, Severity.WARNING)]
)
def test_a_preallocated_index_of_the_active_segment_may_be_ahead(
    partition, base, severity
):
    index = partition / f"{base:020d}.index"
    ahead = (500).to_bytes(4) + (5000).to_bytes(4)
    index.write_bytes(index.read_bytes() + ahead + bytes(800))
    (problem,) = verify(partition).problems
    assert (problem.cause, problem.severity) == (Cause.OFFSET_INDEX, severity)


def test_problems_of_incomplete_files_are_warnings_and_deleted_files_are_checked(
    partition,
):
    broken = bytearray(batch(0))
    broken[-1] ^= 1
    (partition / f"{FIRST}.cleaned").write_bytes(broken)
    (partition / f"{FIRST}.deleted").write_bytes(broken)
    assert found(partition) == [
        ("crc", "warning", f"{FIRST}.cleaned", 0, 0),
        ("crc", "error", f"{FIRST}.deleted", 0, 0),
    ]


def test_a_segment_that_a_truncation_marked_deleted_may_have_other_epochs(tmp_path):
    config = LogConfig(internal_segment_bytes=200, retention_ms=-1)
    scheduler = ManualScheduler(ManualClock(0))
    with open_log(tmp_path / "t-0", config, scheduler=scheduler) as log:
        for epoch, truncated_to in [(1, 2), (4, 3), (6, None)]:
            while log.log_end_offset < 6:
                log.append(writing.batch(), leader_epoch=epoch)
            if truncated_to is not None:
                log.truncate_to(truncated_to)
    assert list(tmp_path.rglob("*.log.deleted"))
    assert "leader_epoch" not in {cause for cause, *_ in found(tmp_path)}


def test_a_snapshot_with_later_offsets_is_an_error(partition):
    right = partition / f"{10:020d}.snapshot"
    early, late = partition / f"{9:020d}.snapshot", partition / f"{11:020d}.snapshot"
    early.write_bytes(right.read_bytes())
    right.rename(late)
    assert found(partition) == [
        ("producer_state", "error", early.name, 10, 9),
        ("log_end", "warning", late.name, None, 10),
    ]


@pytest.fixture
def log_directory(partition):
    partition.parent.joinpath("meta.properties").write_bytes(b"broker.id=1\n")
    return partition.parent


@pytest.mark.parametrize(
    ("name", "offset", "clean", "expected"),
    [
        ("recovery-point-offset-checkpoint", 10, True, []),
        ("recovery-point-offset-checkpoint", 8, False, []),
        ("recovery-point-offset-checkpoint", 8, True, ["warning"]),
        ("recovery-point-offset-checkpoint", 11, False, ["warning"]),
        ("replication-offset-checkpoint", 11, True, ["warning"]),
        ("cleaner-offset-checkpoint", 11, True, ["warning"]),
        ("log-start-offset-checkpoint", 10, True, []),
        ("log-start-offset-checkpoint", 11, True, ["error"]),
    ],
)
def test_checkpoints_are_compared_with_the_log_end_offset(
    log_directory, name, offset, clean, expected
):
    lines = format_offsets({("orders", 0): offset, ("elsewhere", 3): 99})
    (log_directory / name).write_bytes(lines)
    if clean:
        (log_directory / ".kafka_cleanshutdown").touch()
    problems = found(log_directory)
    assert problems == [("log_end", s, name, None, 10) for s in expected]


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
        "orders-0/quorum-state",
    ],
)
def test_a_checkpoint_that_cannot_be_parsed_is_an_error(log_directory, name):
    (log_directory / name).write_bytes(b"nonsense\n")
    assert [problem[:3] for problem in found(log_directory)] == [
        ("format", "error", name)
    ]
    assert [p[:3] for p in found(log_directory / name)] == [
        ("format", "error", name.rsplit("/", 1)[-1])
    ]


def test_a_metadata_snapshot_without_its_footer_is_incomplete(tmp_path):
    partition = golden_data.logs("k431-clean") / "__cluster_metadata-0"
    whole = next(partition.glob("*.checkpoint"))
    rows = golden_data.truth("k431-clean", partition.name, "batches")
    footer = [row["position"] for row in rows if row["file"] == whole.name][-1]
    copy = tmp_path / whole.name
    copy.write_bytes(whole.read_bytes()[:footer])
    assert found(copy) == [("incomplete", "error", copy.name, footer, None)]


def test_an_abort_without_an_index_entry_is_an_error(tmp_path):
    source = golden_data.logs("k431-clean") / "ledger-0"
    copy = shutil.copytree(source, tmp_path / "ledger-0")
    index = copy / f"{5:020d}.txnindex"
    whole = index.read_bytes()
    last = golden_data.truth("k431-clean", "ledger-0", "indexes")
    (entries,) = [row["entries"] for row in last if row["file"] == index.name]
    index.write_bytes(whole[:-34])
    expected = [("txn_index", "error", index.name, None, entries[-1]["last_offset"])]
    assert found(copy) == expected
    index.unlink()
    [problem] = verify(copy).problems
    assert problem.offset == entries[0]["last_offset"]
    assert problem.last_offset == entries[-1]["last_offset"]
    assert f"the next {len(entries) - 1}" in problem.message


def test_the_command_prints_json(partition):
    (partition / FIRST).write_bytes(b"")
    runner = CliRunner()
    logs = golden_data.logs("k431-repl-broker1")
    without_problem = runner.invoke(group, ["verify", str(logs), "--format", "json"])
    assert without_problem.exit_code == 0
    with_problem = runner.invoke(group, ["verify", str(partition), "--format", "json"])
    assert with_problem.exit_code == 1
    for result in (without_problem, with_problem):
        report = json.loads(result.stdout)
        counts = ["schema", "files", "bytes", "batches", "records"]
        assert list(report) == [*counts, "problems"]
        assert report["schema"] == 1
        assert all(type(report[name]) is int for name in counts)
        for problem in report["problems"]:
            names = ["path", "position", "offset", "cause", "severity", "message"]
            assert list(problem) == [
                *names,
                "recovery",
                "recovery_position",
                "last_offset",
                "lost_from",
                "lost_to",
                "lost_records",
                "lost_segments",
            ]
            assert problem["cause"] in set(Cause)
            assert problem["severity"] in set(Severity)
            assert {type(problem[name]) for name in names[1:3]} <= {int, type(None)}
    assert report["problems"]


@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_the_command_prints_one_line_per_problem(partition, form):
    (partition / FIRST).write_bytes(b"")
    count = len(verify(partition).problems)
    result = CliRunner().invoke(group, ["verify", str(partition), "--format", form])
    assert result.exit_code == 1
    extra = {"table": 2, "jsonl": 0, "csv": 1}[form]
    assert len(result.stdout.splitlines()) == count + extra


def test_every_cause_in_the_package_is_on_the_list():
    sources = Path(partition_checks.__file__).parents[1].rglob("*.py")
    text = "".join(path.read_text() for path in sources)
    assert set(re.findall(r"cause=\"(\w+)\"", text)) <= set(Cause)


def test_a_report_is_a_table_of_problems_for_arrow(partition):
    (partition / FIRST).write_bytes(b"")
    report = verify(partition)
    table = report.to_arrow()
    assert table.to_pylist() == [problem.as_dict() for problem in report.problems]
    assert str(table.schema.field("position").type) == "int64"
    empty = verify(golden_data.logs("k431-repl-broker1")).to_arrow()
    assert (len(empty), empty.schema) == (0, table.schema)


def test_a_report_shows_its_counts_and_its_first_problems(partition):
    log = partition / FIRST
    assert repr(verify(log)).startswith("<Report: 1 file, ")
    assert "<table>" not in verify(log)._repr_html_()
    assert verify(log).ok
    log.write_bytes(batch(0)[:-1] + b"\xff" + batch(2))
    (partition / "<x>.log").write_bytes(b"")
    report = verify(partition)
    assert not report.ok
    html = report._repr_html_()
    assert html.count("<tr>") == 1 + len(report.problems)
    assert "&lt;x&gt;.log" in html
    assert "<x>" not in html
    assert f"{report.errors} errors" in html

"""`repair` sets aside what a compacted segment covers, and loses no record by it."""

import struct

import pytest

import kafkalog
from kafkalog.storage.file_names import file_name
from kafkalog.verification.verification_report import Cause, Recovery, Severity
from tests.log.mixed_copies import CASES, Batch, encode, even, full, write_case
from tests.log.mixed_copies import write_segment as write
from tests.query.test_mixed_copies import consumed, records_of

NOT_READ = "an old segment that reaches further than a later one"
FAR = 2**31 + 500


def overlaps(root):
    """Return the problems of segments that continue past the next one."""
    return [
        (problem.path, problem.offset, problem.last_offset, str(problem.severity))
        for problem in kafkalog.verify(root).problems
        if problem.cause == Cause.OFFSET
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one stale segment", [(0, 8, 39)]),
        ("all stale segments", [(0, 8, 39)]),
        ("the new segment ends inside an old one", [(0, 8, 27)]),
        ("an old segment before the new one", [(8, 16, 31)]),
        ("two new segments", [(0, 8, 15), (16, 24, 39)]),
        (NOT_READ, [(0, 8, 23)]),
        ("the next segment is the last", [(0, 32, 39)]),
        ("only one batch is past the next segment", [(0, 8, 11)]),
    ],
)
def test_verify_names_each_overlap_once(tmp_path, name, expected):
    write_case(tmp_path / "t-0", name)
    assert overlaps(tmp_path) == [
        (f"t-0/{file_name(base, 'log')}", first, last, "error")
        for base, first, last in expected
    ]
    assert len(kafkalog.verify(tmp_path).problems) == len(expected)


@pytest.mark.parametrize("name", [name for name in CASES if name != NOT_READ])
def test_old_segments_are_set_aside_and_no_record_is_lost(tmp_path, name):
    log = write_case(tmp_path / "logs" / "t-0", name)
    files = {path.name: path.read_bytes() for path in log.iterdir()}
    report = kafkalog.repair(tmp_path / "logs", apply=True)
    assert report.ok
    assert report.records_lost == 0
    assert not report.skipped
    assert kafkalog.verify(tmp_path / "logs").problems == ()
    assert records_of(kafkalog.scan(log)) == consumed(name)
    with kafkalog.open(log) as repaired:
        bases = [segment.base_offset for segment in repaired.segments]
        ends = [*bases[1:], repaired.log_end_offset]
    for base, end in zip(bases, ends, strict=True):
        lone = kafkalog.scan(log / file_name(base, "log"), columns=["offset"])
        offsets = lone.to_arrow()["offset"].to_pylist()
        assert offsets, base
        assert base <= offsets[0], base
        assert offsets[-1] < end, base
    kafkalog.repair(tmp_path / "logs", undo=True)
    assert {path.name: path.read_bytes() for path in log.iterdir()} == files


def test_records_that_only_a_segment_has_that_is_not_read_stay(tmp_path):
    write_case(tmp_path / "logs" / "t-0", NOT_READ)
    for allow_data_loss in (False, True):
        report = kafkalog.repair(tmp_path / "logs", allow_data_loss=allow_data_loss)
        assert not report.actions
        [problem] = report.unrepaired
        assert (problem.cause, problem.offset) == (Cause.OFFSET, 8)


def test_a_damaged_new_segment_sets_old_ones_aside_only_if_data_may_be_lost(tmp_path):
    """They may have the newest values of what is damaged."""
    log = write_case(tmp_path / "logs" / "t-0", "all stale segments")
    path = log / file_name(0, "log")
    data = bytearray(path.read_bytes())
    data[data.index(b"key-20")] ^= 1
    path.write_bytes(data)
    report = kafkalog.repair(tmp_path / "logs", apply=True)
    assert not report.actions
    assert len(list(log.glob("*.log"))) == len(CASES["all stale segments"])
    losses = {
        (each.path.removeprefix("t-0/"), each.first_offset, each.last_offset)
        for each in report.skipped
        if each.first_offset is not None
    }
    assert losses == {
        (file_name(0, "log"), 20, 23),
        *((file_name(base, "log"), base, base + 7) for base in (8, 16, 24, 32)),
    }
    done = kafkalog.repair(tmp_path / "logs", apply=True, allow_data_loss=True)
    assert not done.unrepaired
    assert done.records_lost == 2  # of four offsets
    left = [each for each in consumed("all stale segments") if not 20 <= each[0] <= 23]
    assert records_of(kafkalog.scan(log)) == left
    assert kafkalog.verify(tmp_path / "logs").ok


def test_the_keys_have_their_newest_records_after_a_repair(tmp_path):
    """As of the directory before the copy, in which all segments were replaced."""
    log = tmp_path / "logs" / "t-0"
    write(log, 0, even(0, 71), "new")
    write(log, 8, full(8, 15), "old")
    write(log, 72, full(72, 75), "tail")
    kafkalog.repair(tmp_path / "logs", apply=True)
    table = kafkalog.scan(log).to_arrow().to_pydict()
    newest = dict(zip(table["key"], table["value"], strict=True))
    assert newest == {
        b"key-%d" % offset: b"new" if offset < 72 else b"tail"
        for offset in [*range(0, 72, 2), *range(72, 76)]
    }


def far_log(root):
    """Write a log of eight records and one batch 2**31 + 500 above the base offset."""
    log = root / "t-0"
    log.mkdir(parents=True)
    near = b"".join(encode(batch, "near") for batch in full(0, 7))
    far = bytearray(encode(Batch(0, 3, (0, 1, 2, 3)), "far"))
    far[:8] = struct.pack(">q", FAR)
    (log / file_name(0, "log")).write_bytes(near + far)
    return log


def test_a_segment_with_offsets_too_far_apart_is_left_to_the_broker(tmp_path):
    log = far_log(tmp_path / "logs")
    data = (log / file_name(0, "log")).read_bytes()
    [problem] = [
        each
        for each in kafkalog.verify(tmp_path / "logs").problems
        if each.cause == Cause.OFFSET
    ]
    assert problem.severity == Severity.ERROR
    assert (problem.offset, problem.recovery) == (FAR, Recovery.SPLIT)
    report = kafkalog.repair(tmp_path / "logs", apply=True, allow_data_loss=True)
    assert report.records_lost == 0
    assert [each.cause for each in report.left_to_broker] == [Cause.OFFSET]
    assert not report.unrepaired
    assert (log / file_name(0, "log")).read_bytes() == data
    offsets = [*range(8), *range(FAR, FAR + 4)]
    scan = kafkalog.scan(log, columns=["offset"])
    assert scan.to_arrow()["offset"].to_pylist() == offsets
    with kafkalog.open(log, "a") as opened:
        bases = [segment.base_offset for segment in opened.growing_segments]
    assert bases == [0, FAR]
    assert scan.to_arrow()["offset"].to_pylist() == offsets


@pytest.mark.parametrize("place", [0, 1, 2])
def test_lost_records_are_counted_and_not_their_offsets(tmp_path, place):
    """Compaction has left two records a batch, and a gap of 2**20 after each."""
    log = tmp_path / "logs" / "t-0"
    batches = [
        Batch(first, first + 3, (first, first + 2)) for first in (0, 2**20, 2**21)
    ]
    path = write(log, 0, batches, "new")
    data = bytearray(path.read_bytes())
    data[data.index(b"key-%d" % batches[place].first)] ^= 1
    path.write_bytes(data)
    report = kafkalog.repair(tmp_path / "logs", apply=True, allow_data_loss=True)
    assert report.records_lost == 2
    offsets = kafkalog.scan(log, columns=["offset"]).to_arrow()["offset"].to_pylist()
    assert len(offsets) == 4

"""A ``.swap`` that a crash left is read as the log is after it was loaded."""

import os

import pytest

import kafkalog
import kafkalog.testing
from kafkalog import LogConfig
from kafkalog.cleaner import LogCleaner
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import file_name
from kafkalog.verification.verification_report import Cause, Severity
from tests.log.mixed_copies import even, full, write_segment
from tests.query.test_mixed_copies import records_of

EXTENSIONS = ("log", "index", "timeindex")


class StoppedError(Exception):
    """The process ends before a file is renamed."""


class StoppingDisk(Disk):
    """A disk on which no ``.log.swap`` gets its name."""

    def rename(self, source, target):
        if str(source).endswith(".log.swap"):
            raise StoppedError
        super().rename(source, target)


def interrupt_compaction(path):
    """Write a log, and end its compaction before the swap; return the records."""
    config = LogConfig(cleanup_policy="compact", internal_segment_bytes=2000)
    log = kafkalog.testing.open_log(path, config, disk=StoppingDisk())
    for i in range(40):
        log.append_records([{"key": b"k%d" % i, "value": b"v%d" % i * 30}])
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    log.flush()
    expected = kafkalog.scan(path).to_arrow()
    with pytest.raises(StoppedError):
        LogCleaner({("state", 0): log}).clean("state", 0)
    log.abandon()
    names = {file.name for file in path.iterdir()}
    assert file_name(0, "log", "swap") in names
    assert file_name(0, "log") not in names
    return expected


def test_records_between_the_renames_of_a_compaction_are_read(tmp_path):
    log = tmp_path / "state-0"
    expected = interrupt_compaction(log)
    scan = kafkalog.scan(log)
    assert scan.to_arrow() == expected
    assert scan.count() == 40
    assert kafkalog.scan(log, threads=2).to_arrow() == expected
    [first] = kafkalog.scan(log, start_offset=3, end_offset=4).to_arrow()["offset"]
    assert first.as_py() == 3
    parts = [split.scan().count() for split in kafkalog.splits(log, target_bytes=1)]
    assert sum(parts) == 40
    with kafkalog.open(log) as opened:
        assert (opened.log_start_offset, opened.log_end_offset) == (0, 40)
        assert next(iter(opened.read(0).batches())).base_offset == 0
    with kafkalog.open(log, "a"):
        pass
    assert kafkalog.scan(log).to_arrow() == expected


def test_verify_and_preflight_name_the_swap(tmp_path):
    interrupt_compaction(tmp_path / "state-0")
    found = [
        (problem.path, problem.offset, problem.last_offset, problem.severity)
        for problem in kafkalog.verify(tmp_path).problems
        if problem.cause == Cause.SWAP
    ]
    [(path, first, last, severity)] = found
    assert path == f"state-0/{file_name(0, 'log', 'swap')}"
    assert (first, severity) == (0, Severity.WARNING)
    assert last >= 13
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    [partition] = kafkalog.preflight(tmp_path).partitions
    name = file_name(0, "log", "swap")
    assert f"{name}: renamed, its compaction or split was complete" in partition.notes


def write_swap(log, base, batches, generation):
    """Write a segment as ``.swap``, and keep the segments beside it."""
    kept = {path: path.read_bytes() for path in log.iterdir()}
    write_segment(log, base, batches, generation)
    for extension in EXTENSIONS:
        path = log / file_name(base, extension)
        path.rename(path.with_name(f"{path.name}.swap"))
    for path, data in kept.items():
        path.write_bytes(data)


def write_old(log, *bases):
    for base in bases:
        write_segment(log, base, full(base, base + 7), "old")


def settle(log):
    """Make the last change of a directory older than a broker's renames take."""
    os.utime(log, (1_700_000_000, 1_700_000_000))


def loaded(log):
    """Return the records after the log was loaded."""
    with kafkalog.open(log, "a"):
        pass
    return records_of(kafkalog.scan(log))


@pytest.mark.parametrize("removed", [(), (0,), (0, 8)])
def test_a_swap_replaces_the_segments_that_loading_replaces(tmp_path, removed):
    log = tmp_path / "t-0"
    write_old(log, 0, 8, 16, 24)
    write_swap(log, 0, even(0, 15), "new")
    for base in removed:
        path = log / file_name(base, "log")
        path.rename(path.with_name(f"{path.name}.deleted"))
    settle(log)
    found = records_of(kafkalog.scan(log))
    assert found == [(offset, "new") for offset in range(0, 16, 2)] + [
        (offset, "old") for offset in range(16, 32)
    ]
    assert loaded(log) == found


def test_the_swaps_of_a_split_replace_the_segment(tmp_path):
    log = tmp_path / "t-0"
    write_segment(log, 0, full(0, 15), "old")
    write_swap(log, 8, full(8, 15), "new")
    write_swap(log, 0, full(0, 7), "new")
    settle(log)
    found = records_of(kafkalog.scan(log))
    assert found == [(offset, "new") for offset in range(16)]
    assert loaded(log) == found


def test_a_swap_is_ignored_if_a_cleaned_file_is_below_it(tmp_path):
    log = tmp_path / "t-0"
    write_old(log, 0, 8)
    write_swap(log, 8, even(8, 15), "new")
    (log / file_name(0, "log", "cleaned")).write_bytes(b"")
    settle(log)
    found = records_of(kafkalog.scan(log))
    assert found == [(offset, "old") for offset in range(16)]
    assert loaded(log) == found


def damage_empty(path):
    path.write_bytes(b"")


def damage_inside(path):
    path.write_bytes(path.read_bytes()[:-20])


def damage_at_a_batch(path):
    data = path.read_bytes()
    path.write_bytes(data[: 12 + int.from_bytes(data[8:12])])


def damage_a_byte(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


damages = pytest.mark.parametrize(
    "damage", [damage_empty, damage_inside, damage_at_a_batch, damage_a_byte]
)


@damages
def test_whole_segments_are_read_and_no_damaged_swap(tmp_path, damage):
    log = tmp_path / "t-0"
    write_old(log, 0, 8, 16)
    write_swap(log, 0, even(0, 15), "new")
    damage(log / file_name(0, "log", "swap"))
    settle(log)
    scan = kafkalog.scan(log)
    assert records_of(scan) == [(offset, "old") for offset in range(24)]
    assert not scan.problems
    causes = [problem.cause for problem in kafkalog.verify(tmp_path).problems]
    assert Cause.SWAP in causes


def test_a_damaged_swap_is_read_where_no_segment_has_its_offset(tmp_path):
    log = tmp_path / "t-0"
    write_old(log, 0, 16)
    write_swap(log, 0, even(0, 15), "new")
    (log / file_name(0, "log")).unlink()
    damage_a_byte(log / file_name(0, "log", "swap"))
    settle(log)
    scan = kafkalog.scan(log, on_corruption="skip")
    assert records_of(scan) == [(offset, "new") for offset in range(0, 12, 2)] + [
        (offset, "old") for offset in range(16, 24)
    ]
    [problem] = scan.problems
    assert problem.path.name == file_name(0, "log", "swap")
    assert (problem.first_offset, problem.last_offset) == (12, 15)

"""Time indexes that a broker believes, and the segments it deletes for them."""

import shutil

import pytest

import kafkalog
from kafkalog import LogManager
from kafkalog.verification.verification_report import Recovery
from tests.log.clusters import setting
from tests.startup import damages
from tests.startup.prepared import RECORDS, crash, of, write_cluster

YEARS = 10**12  # ms
ENTRY = 12


def zeros(data):
    return bytes(len(data))


def zero_at_the_end(data):
    return data + bytes(ENTRY)


def torn_to_an_old_entry(data):
    return (1000).to_bytes(8, "big") + bytes(4) + data[:5]


BELIEVED = [zeros, zero_at_the_end, torn_to_an_old_entry]


@pytest.fixture
def kept(logs):
    """Return a log directory in which records are kept for 31 years."""
    write_cluster(logs, setting("orders", "retention.ms", str(YEARS)))
    return logs


def damage(logs, change, numbers=(0, 1)):
    """Change the time indexes of segments; return the number of their records."""
    bases = []
    for number in numbers:
        path = damages.logs_of(logs / "orders-0")[number]
        bases.append(int(path.stem))
        index = path.with_suffix(".timeindex")
        index.write_bytes(change(index.read_bytes()))
    ends = [int(path.stem) for path in damages.logs_of(logs / "orders-0")] + [RECORDS]
    return sum(min(end for end in ends if end > base) - base for base in bases)


@pytest.mark.parametrize("stop", ["clean", "crash"])
@pytest.mark.parametrize("change", BELIEVED)
def test_segments_that_retention_deletes_too_early_are_predicted(kept, change, stop):
    records = damage(kept, change)
    if stop == "crash":
        crash(kept, p0=RECORDS, p1=RECORDS)
    bases = [int(path.stem) for path in damages.logs_of(kept / "orders-0")]
    start = of(kafkalog.preflight(kept), "orders-0")
    assert (start.records_lost, start.cut_from_offset) == (records, 0)
    assert start.segments_dropped == 2
    assert not start.ok
    assert "deleted at the first check of retention.ms" in start.notes[-1]
    found = {
        each.path: each
        for each in kafkalog.verify(kept).problems
        if each.recovery == Recovery.EXPIRE
    }
    for base in bases[:2]:
        problem = found[f"orders-0/{base:020d}.timeindex"]
        assert problem.severity == "error"
        reason = kafkalog.why(kept / "orders-0" / f"{base:020d}.log")
        assert not reason.kept
        assert [str(each.rule) for each in reason.because] == ["retention.ms"]
    assert kafkalog.why(kept / "orders-0" / f"{bases[2]:020d}.log").kept

    with LogManager(kept, cluster=kept) as manager:
        log = manager["orders", 0]
        log.update_high_watermark(log.log_end_offset)
        log.delete_old_segments()
        assert log.log_start_offset == bases[2]


@pytest.mark.parametrize("change", BELIEVED)
def test_a_repair_rebuilds_a_time_index_that_is_believed(kept, change):
    damage(kept, change)
    assert not kafkalog.preflight(kept).ok
    kafkalog.repair(kept, apply=True)
    assert kafkalog.verify(kept).problems == ()
    assert kafkalog.preflight(kept).ok


def test_the_time_index_of_a_segment_that_is_recovered_is_a_warning(kept):
    damage(kept, zeros)
    crash(kept)
    problems = kafkalog.verify(kept, topics=["orders"], partitions=[0]).problems
    assert {(str(each.severity), str(each.recovery)) for each in problems} == {
        ("warning", "rebuild")
    }
    assert kafkalog.preflight(kept).ok
    first = damages.logs_of(kept / "orders-0")[0]
    assert kafkalog.why(first).kept


def test_a_segment_after_one_that_is_kept_is_not_deleted(kept):
    damage(kept, zeros, [1])
    assert of(kafkalog.preflight(kept), "orders-0").records_lost == 0
    [problem] = kafkalog.verify(kept).problems
    assert problem.recovery == Recovery.EXPIRE


def test_nothing_is_deleted_early_without_a_limit(logs):
    write_cluster(logs, setting("orders", "retention.ms", "-1"))
    damage(logs, zeros)
    assert of(kafkalog.preflight(logs), "orders-0").ok


def test_a_log_all_of_whose_time_indexes_are_zeros_is_deleted_whole(kept, tmp_path):
    copy = shutil.copytree(kept, tmp_path / "copy")
    count = len(damages.logs_of(copy / "orders-0"))
    assert damage(copy, zeros, range(count)) == RECORDS
    assert of(kafkalog.preflight(copy), "orders-0").records_lost == RECORDS

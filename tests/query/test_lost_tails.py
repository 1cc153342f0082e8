"""Lost records at the end of a segment that is not the last are damage."""

from __future__ import annotations

import pytest

import kafkalog
from kafkalog.log import log_segments
from tests.query.batches import build

NEXT = 12


@pytest.fixture
def partition(tmp_path):
    """Return a partition of offsets 0 to 11 and 12 to 17, three in each batch."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base, count in ((0, 4), (NEXT, 2)):
        data = b"".join(build(2, "none", base + 3 * i) for i in range(count))
        (directory / f"{base:020d}.log").write_bytes(data)
    return directory


def cut(directory, size):
    """Truncate the first segment; return its path and the end of its last batch."""
    path = directory / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:size])
    ends, end = [0], 0
    for i in range(4):
        end += len(build(2, "none", 3 * i))
        ends.append(end)
    return path, max(end for end in ends if end <= len(data[:size]))


@pytest.mark.parametrize("by", [-1, -40, -120])
def test_a_truncated_middle_segment_is_an_error_with_file_and_byte(partition, by):
    path, end = cut(partition, by)
    for read in (
        lambda: kafkalog.scan(partition).count(),
        lambda: list(kafkalog.scan(partition).chunks()),
        lambda: list(kafkalog.scan(partition, threads=2).chunks()),
        lambda: kafkalog.scan(partition, columns=["offset"], check_crcs=False).count(),
        lambda: kafkalog.scan(partition, isolation="read_committed").to_arrow(),
        lambda: kafkalog.open(partition).producer_states(),
        lambda: kafkalog.open(partition).read(10),
        lambda: kafkalog.open(partition).offsets_for_times([2**62]),
    ):
        with pytest.raises(kafkalog.CorruptRecordError, match="next begins at 12, exp"):
            read()
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.scan(partition).count()
    assert (caught.value.path, caught.value.position) == (path, end)


@pytest.mark.parametrize("by", [-1, 30])
def test_lost_records_are_a_problem_if_damage_is_skipped(partition, by):
    path, end = cut(partition, by)
    scan = kafkalog.scan(partition, columns=["offset"], on_corruption="skip")
    offsets = scan.to_arrow()["offset"].to_pylist()
    first = 9 if by == -1 else 0
    assert offsets == [*range(first), *range(12, 18)]
    [problem] = scan.problems
    assert problem[:4] == (path, end, first, 11)
    assert scan.count() == len(offsets)
    assert len(scan.problems) == 1


def test_zeros_in_place_of_lost_records_are_an_error(partition):
    path, end = cut(partition, -1)
    path.write_bytes(path.read_bytes()[:end] + bytes(200))
    with pytest.raises(kafkalog.CorruptRecordError, match="expected 9"):
        kafkalog.scan(partition).count()


def test_lost_records_outside_of_the_bounds_are_no_error(partition):
    cut(partition, -1)
    assert kafkalog.scan(partition, end_offset=9).count() == 9
    assert kafkalog.scan(partition, start_offset=12).count() == 6
    for bounds in ({"end_offset": 10}, {"start_offset": 11}, {"start_offset": 9}):
        with pytest.raises(kafkalog.CorruptRecordError, match="a partial batch"):
            kafkalog.scan(partition, **bounds).count()
    assert len(kafkalog.open(partition).read(0).data)


def test_trailing_bytes_without_lost_records_are_no_error(partition):
    path = partition / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + build(2, "none", 12)[:40])
    assert kafkalog.scan(partition).count() == 18
    cut(partition, -40)
    path.write_bytes(path.read_bytes() + bytes(100))
    assert kafkalog.scan(partition).count() == 18


def test_a_gap_between_whole_segments_is_legal(partition):
    _, end = cut(partition, -1)
    cut(partition, end)
    assert kafkalog.scan(partition).count() == 15
    cut(partition, 0)
    assert kafkalog.scan(partition).count() == 6


def test_the_last_segment_may_end_in_part_of_a_batch(partition):
    (partition / f"{NEXT:020d}.log").unlink()
    cut(partition, -1)
    assert kafkalog.scan(partition).count() == 9


@pytest.mark.parametrize("change", ["truncated", "finished", "removed", "gone"])
def test_a_brokers_changes_during_a_scan_are_no_damage(partition, change, monkeypatch):
    path, end = cut(partition, -1)
    following = partition / f"{NEXT:020d}.log"
    whole = path.read_bytes()[:end] + build(2, "none", 9)
    still_ends_at = log_segments._still_ends_at

    def changed(*arguments):
        if change == "truncated":
            path.write_bytes(path.read_bytes()[:end])
        elif change == "finished":
            path.write_bytes(whole)
        elif change == "removed":
            following.unlink()
        else:
            path.unlink()
        return still_ends_at(*arguments)

    monkeypatch.setattr(log_segments, "_still_ends_at", changed)
    assert kafkalog.scan(partition).count() in (9, 15)

"""The tasks of a range read each of its records once, in order."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.query import task_planning
from kafkalog.query.task_planning import OffsetRange, plan_tasks
from kafkalog.spark.log_partitions import LogPartitions
from tests import golden_data
from tests.query.big_segment import write_segment
from tests.spark.planned import offsets_of, plan, whole

DIRECTORIES = [
    path
    for name in golden_data.SETS
    for path in golden_data.partitions(name)
    if not path.name.endswith("-delete") and any(path.glob("*.log"))
]
SIZES = [1, 700, 5_000, 1 << 27]


def scanned(directory, start, end):
    scan = kafkalog.scan(
        directory, columns=["offset"], start_offset=start, end_offset=end
    )
    return [offset for chunk in scan.chunks() for offset in chunk.offset.tolist()]


@pytest.mark.parametrize(
    "directory", DIRECTORIES, ids=lambda path: f"{path.parents[1].name}-{path.name}"
)
def test_tasks_of_any_size_read_every_record_once(directory):
    start, end = whole(directory)
    expected = scanned(directory, start, end)
    for target_bytes in SIZES:
        assert offsets_of(plan(directory, start, end, target_bytes)) == expected


@given(data=st.data(), target_bytes=st.integers(1, 20_000))
def test_tasks_read_every_offset_of_a_range_once(data, target_bytes):
    directory = data.draw(st.sampled_from(DIRECTORIES))
    first, last = whole(directory)
    start = data.draw(st.integers(first, last))
    end = data.draw(st.integers(start, last))
    tasks = plan(directory, start, end, target_bytes)
    assert offsets_of(tasks) == scanned(directory, start, end)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    return write_segment(
        tmp_path_factory.mktemp("big") / "big-0", 16 << 20, index_every=2
    )


def test_a_large_segment_is_cut_evenly_where_batches_begin(big):
    tasks = plan(big.place, 0, big.records, 4 << 20)
    [segment] = big.place.glob("*.log")
    segment_ranges = [segment_range for task in tasks for segment_range in task]
    sizes = [segment_range.size_in_bytes for segment_range in segment_ranges]
    assert sum(sizes) == segment.stat().st_size
    assert len(tasks) == sum(sizes) // (4 << 20)
    assert max(sizes) < 1.1 * min(sizes)
    for left, right in pairwise(segment_ranges):
        assert (left.end, left.stop) == (right.begin, right.start)
    assert offsets_of(tasks) == list(range(big.records))


def test_only_the_bytes_of_a_range_are_read(big):
    [[segment_range]] = plan(big.place, 5_050, 5_060)
    assert segment_range.size_in_bytes < 1 << 20
    assert offsets_of([[segment_range]]) == list(range(5_050, 5_060))


def test_without_an_index_a_segment_is_one_task(tmp_path):
    big = write_segment(tmp_path / "big-0", 4 << 20)
    (big.place / f"{0:020d}.index").unlink()
    tasks = plan(big.place, 0, big.records, 1 << 20)
    assert len(tasks) == 1
    assert offsets_of(tasks) == list(range(big.records))


def test_an_invalid_index_makes_no_cuts(tmp_path):
    big = write_segment(tmp_path / "big-0", 4 << 20)
    index = big.place / f"{0:020d}.index"
    invalid = bytearray(index.read_bytes())
    for slot in range(0, len(invalid), 8):
        invalid[slot + 7] ^= 1
    index.write_bytes(invalid)
    tasks = plan(big.place, 0, big.records, 1 << 20)
    assert len(tasks) == 1
    assert offsets_of(tasks) == list(range(big.records))


def test_small_ranges_share_tasks_only_if_allowed():
    root = golden_data.logs("k431-clean")
    partitions = LogPartitions([root])
    tps = partitions.topic_partitions()
    first, last = partitions.earliest_offsets(tps), partitions.latest_offsets(tps)
    ranges = [OffsetRange(*tp, first[tp], last[tp]) for tp in tps]

    def tasks(share):
        return plan_tasks(
            ranges, partitions.directory, target_bytes=1 << 27, share=share
        )

    filled = [one for one in ranges if one.length]
    assert len(tasks(True)) == 1
    assert {one.partition for one in filled} > {0}
    assert 1 < len(tasks(False)) <= len(filled)
    assert sorted(offsets_of(tasks(False))) == sorted(offsets_of(tasks(True)))


@pytest.mark.parametrize(
    ("cores", "requested", "count"),
    [(1, 7, 2), (1, 6, 3), (2, 7, 2), (2, 6, 4), (3, 7, 3), (4, 7, 4)],
)
def test_tasks_are_planned_in_whole_rounds_of_the_cores(
    big, monkeypatch, cores, requested, count
):
    monkeypatch.setattr(task_planning, "MIN_TASK_BYTES", 2 << 20)
    tasks = plan(big.place, 0, big.records, requested << 20, cores=cores)
    sizes = [sum(part.size_in_bytes for part in task) for task in tasks]
    assert len(tasks) == count
    assert max(sizes) < 1.1 * min(sizes)
    assert len(plan(big.place, 0, big.records // 9, requested << 20, cores=cores)) == 1


@pytest.mark.parametrize("lengths", [[7, 7, 9, 9], [3] * 11, [1, 30, 1], [32]])
def test_segments_are_cut_where_a_task_is_full(tmp_path, monkeypatch, lengths):
    monkeypatch.setattr(task_planning, "MIN_TASK_BYTES", 1 << 18)
    bigs = [
        write_segment(tmp_path / f"big-{number}", length << 18, index_every=1)
        for number, length in enumerate(lengths)
    ]
    partitions = LogPartitions([tmp_path])
    ranges = [OffsetRange("big", i, 0, big.records) for i, big in enumerate(bigs)]
    for cores in (1, 2, 4):
        tasks = plan_tasks(
            ranges, partitions.directory, target_bytes=3 << 20, cores=cores
        )
        sizes = [sum(part.size_in_bytes for part in task) for task in tasks]
        assert len(tasks) == -(-sum(sizes) // ((3 << 20) * cores)) * cores
        assert max(sizes) - min(sizes) < 300_000  # a batch has 107 KB
        assert offsets_of(tasks) == [at for big in bigs for at in range(big.records)]


@pytest.mark.parametrize("requested", [3, 5, 8, 11, 13, 16, 17])
def test_a_task_has_at_most_a_third_more_than_the_target(big, requested):
    tasks = plan(big.place, 0, big.records, requested << 20)
    sizes = [sum(part.size_in_bytes for part in task) for task in tasks]
    most, batch = requested << 20, 110_000
    assert max(sizes) < most * 4 / 3 + batch
    last = sum(sizes) - (len(tasks) - 1) * most
    assert len(tasks) == 1 or last > most / 3


@pytest.mark.parametrize("cores", [2, 4])
def test_tasks_of_few_bytes_are_within_the_target(big, monkeypatch, cores):
    monkeypatch.setattr(task_planning, "MIN_TASK_BYTES", 16 << 20)
    tasks = plan(big.place, 0, big.records, 16 << 20, cores=cores)
    assert len(tasks) == 2


def test_a_range_that_cannot_be_cut_goes_to_the_next_task(tmp_path, monkeypatch):
    monkeypatch.setattr(task_planning, "MIN_TASK_BYTES", 1 << 18)
    for number in range(2):
        write_segment(tmp_path / f"big-{number}", 3 << 20, index_every=1)
    index = tmp_path / "big-1" / f"{0:020d}.index"
    index.write_bytes(index.read_bytes()[-24:])
    partitions = LogPartitions([tmp_path])
    tps = partitions.topic_partitions()
    ends = partitions.latest_offsets(tps)
    ranges = [OffsetRange(*tp, 0, ends[tp]) for tp in tps]
    tasks = plan_tasks(ranges, partitions.directory, target_bytes=4 << 20, cores=1)
    assert [{part.partition for part in task} for task in tasks] == [{0}, {1}]


def test_tasks_can_be_pickled(big):
    tasks = plan(big.place, 0, big.records, 4 << 20)
    assert pickle.loads(pickle.dumps(tasks)) == tasks

"""Lost records at the end of a segment that is not the last are damage."""

from __future__ import annotations

import pytest

import kafkalog
from kafkalog.decoding.read_policy import SKIPPING
from kafkalog.export.file_export import write_files
from kafkalog.log.reading import log_segments
from kafkalog.log.reading.cluster_metadata import read_cluster_settings
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.reading.transaction_history import ended_transactions
from kafkalog.log.reading.transactions import replay_partition
from tests.log.clusters import TOPICS, metadata_log
from tests.query.batches import build

NEXT = 12


@pytest.fixture
def partition(tmp_path):
    """Return a partition of offsets 0 to 11 and 12 to 17, three in each batch."""
    directory = tmp_path / "logs" / "t-0"
    directory.mkdir(parents=True)
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


def chunks(partition, **options):
    return list(kafkalog.scan(partition, **options).chunks())


def spark_task(partition, stop):
    """Read the records below an offset as a task of Spark does."""
    pytest.importorskip("pyspark")
    from tests.spark.planned import offsets_of, plan

    return offsets_of(plan(partition, 0, stop, 1 << 20))


READERS = {
    "scan": chunks,
    "scan in threads": lambda path: chunks(path, threads=2),
    "scan of offsets": lambda path: chunks(path, columns=["offset"], check_crcs=False),
    "scan from within the lost records": lambda path: chunks(path, start_offset=10),
    "scan to within the lost records": lambda path: chunks(path, end_offset=11),
    "read_committed": lambda path: chunks(path, isolation="read_committed"),
    "count": lambda path: kafkalog.scan(path).count(),
    "splits": lambda path: [list(s.scan().chunks()) for s in kafkalog.splits(path)],
    "read": lambda path: kafkalog.open(path).read(10),
    "read of the last records": lambda path: kafkalog.open(path).read(11),
    "producer states": lambda path: kafkalog.open(path).producer_states(),
    "lookup by time": lambda path: kafkalog.open(path).offsets_for_times([2**62]),
    "last stable offset": lambda path: kafkalog.open(path).last_stable_offset,
    "transactions": lambda path: replay_partition(path, list_segments(path), 0, 18),
    "ended transactions": lambda path: list(ended_transactions(path)),
    "export": lambda path: write_files(
        kafkalog.scan(path), path.parent.parent / "out", "jsonl"
    ),
    "reversible export": lambda path: write_files(
        kafkalog.scan(path), path.parent.parent / "out", "parquet", reversible=True
    ),
    "restore": lambda path: kafkalog.restore(path.parent, path.parent.parent / "copy"),
    "restore of some records": lambda path: kafkalog.restore(
        path.parent, path.parent.parent / "copy", exclude_keys=["k4"]
    ),
    "task of Spark": lambda path: spark_task(path, 18),
    "task of Spark to within the lost records": lambda path: spark_task(path, 11),
}


@pytest.mark.parametrize("by", [-1, -40, -120])
@pytest.mark.parametrize("reader", READERS)
def test_each_reader_reports_records_lost_in_the_middle_with_file_and_byte(
    partition, reader, by
):
    path, end = cut(partition, by)
    with pytest.raises(
        kafkalog.CorruptRecordError, match="next begins at 12"
    ) as raised:
        READERS[reader](partition)
    assert (raised.value.path, raised.value.position) == (path, end)


def test_the_reader_of_a_clusters_metadata_reports_lost_records(tmp_path):
    path = metadata_log(tmp_path, TOPICS * 2, each=2)
    metadata_log(tmp_path, TOPICS, start=4)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(kafkalog.CorruptRecordError, match="next begins at 4") as raised:
        read_cluster_settings(path.parent)
    assert raised.value.path == path


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


def skipped_by_scan(path):
    scan = kafkalog.scan(path, on_corruption="skip", isolation="read_committed")
    list(scan.chunks())
    return scan.problems


def skipped_by_export(path, form, **options):
    scan = kafkalog.scan(path, on_corruption="skip")
    return write_files(scan, path.parent.parent / "out", form, **options).problems


def skipped_by_restore(path, **options):
    copy = path.parent.parent / "copy"
    return kafkalog.restore(path.parent, copy, on_corruption="skip", **options).problems


SKIPPING_READERS = {
    "scan": skipped_by_scan,
    "export": lambda path: skipped_by_export(path, "jsonl"),
    "reversible export": lambda path: skipped_by_export(
        path, "parquet", reversible=True
    ),
    "restore": skipped_by_restore,
    "restore of some records": lambda path: skipped_by_restore(
        path, exclude_keys=["k4"]
    ),
}


@pytest.mark.parametrize("reader", SKIPPING_READERS)
def test_each_reader_that_skips_damage_lists_the_lost_offsets_once(partition, reader):
    path, end = cut(partition, -1)
    [problem] = SKIPPING_READERS[reader](partition)
    assert (problem.path, problem.position) == (path, end)
    assert (problem.first_offset, problem.last_offset) == (9, 11)


def test_transactions_are_read_around_lost_records_if_damage_is_skipped(partition):
    path, end = cut(partition, -1)
    assert not len(
        replay_partition(partition, list_segments(partition), 0, 18, SKIPPING).aborted
    )
    errors = []
    assert not list(ended_transactions(partition, errors=errors))
    assert [(error.path, error.position) for error in errors] == [(path, end)]


def test_salvage_lists_the_offsets_of_lost_records(partition):
    cut(partition, -1)
    report = kafkalog.salvage(partition.parent, partition.parent.parent / "copy")
    assert [list(each.missing) for each in report.partitions] == [[(9, 11)]]


def test_a_reversible_export_up_to_the_lost_records_succeeds(partition):
    cut(partition, -1)
    scan = kafkalog.scan(partition, end_offset=9)
    out = partition.parent.parent / "out"
    assert write_files(scan, out, "parquet", reversible=True).records == 9


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

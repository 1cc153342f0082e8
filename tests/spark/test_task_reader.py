"""Tasks read files that changed after planning."""

from __future__ import annotations

import logging
import shutil

import pytest

import kafkalog
from kafkalog.errors import CorruptRecordError, DataLossError
from kafkalog.segment.log_segment import LogSegment
from tests import golden_data
from tests.query.batches import KINDS, build
from tests.spark.planned import offsets_of, plan, reader_of, whole

COUNT = 5
COMMITTED = {"kafka.isolation.level": "read_committed"}
BATCHES = 12
was = LogSegment.open


@pytest.fixture
def log(tmp_path):
    """Write four segments of twelve batches of five records."""
    tp = tmp_path / "logs" / "orders-0"
    tp.mkdir(parents=True)
    for number in range(4):
        write(tp, number * BATCHES * COUNT)
    return tp


def name(base, ending="log"):
    return f"{base:020d}.{ending}"


def write(tp, base, batches=range(BATCHES), into=None):
    """Write a segment of batches, and an index with an entry for each."""
    data, entries = b"", b""
    for number in batches:
        first = base + number * COUNT
        if data:
            entries += (first - base).to_bytes(4) + len(data).to_bytes(4)
        data += build(2, "none", first, COUNT)
    with (tp / name(base if into is None else into)).open("ab") as file:
        file.write(data)
    if into is None:
        (tp / name(base, "index")).write_bytes(entries)


EVERY = list(range(4 * BATCHES * COUNT))


def test_records_appended_after_planning_are_not_read(log):
    tasks = plan(log, *whole(log), 300)
    write(log, 240, into=180)
    write(log, 300)
    assert offsets_of(tasks) == EVERY


def test_a_segment_marked_deleted_is_read(log):
    tasks = plan(log, *whole(log), 300)
    (log / name(60)).rename(log / name(60, "log.deleted"))
    assert offsets_of(tasks) == EVERY


@pytest.mark.parametrize("target_bytes", [300, 1 << 27])
def test_after_compaction_the_retained_records_are_read(log, target_bytes):
    tasks = plan(log, *whole(log), target_bytes)
    (log / name(60)).unlink()
    (log / name(0)).unlink()
    write(log, 0, range(0, BATCHES, 2))
    write(log, 60, range(0, BATCHES, 3), into=0)
    left = [
        *(offset for offset in range(60) if offset // COUNT % 2 == 0),
        *(offset for offset in range(60, 120) if (offset - 60) // COUNT % 3 == 0),
        *range(120, 240),
    ]
    assert offsets_of(tasks) == left


def test_records_of_merged_segments_are_read(log):
    tasks = plan(log, *whole(log))
    (log / name(60)).unlink()
    write(log, 60, range(BATCHES - 1), into=0)
    gone = range(60 + (BATCHES - 1) * COUNT, 120)
    assert offsets_of(tasks) == [one for one in EVERY if one not in gone]


def test_segments_deleted_by_retention_are_data_loss(log, caplog):
    tasks = plan(log, *whole(log), 300)
    (log / name(0)).unlink()
    with pytest.raises(DataLossError, match=r"of orders-0, found \[60, "):
        offsets_of(tasks)
    with caplog.at_level(logging.WARNING, "kafkalog"):
        assert offsets_of(tasks, failOnDataLoss="false") == EVERY[60:]
    assert "found [60, " in caplog.text


def test_a_truncated_log_is_data_loss(log):
    tasks = plan(log, *whole(log), 300)
    path = log / name(180)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataLossError, match=r"found \[0, 185\)"):
        offsets_of(tasks)
    assert EVERY[:180] == offsets_of(tasks, failOnDataLoss="false")[:180]


def test_a_segment_replaced_after_opening_is_read_as_it_was(log):
    [task] = plan(log, *whole(log))
    found = []
    for segment_range, scan in reader_of("offset").scans(task, ("offset",)):
        path = log / segment_range.segment.name
        compacted = build(2, "none", segment_range.start) + build(
            2, "none", segment_range.stop - 3
        )
        (log / "compacted").write_bytes(compacted)
        (log / "compacted").rename(path)
        found += [one for chunk in scan.chunks() for one in chunk.offset.tolist()]
        assert scan.count() == BATCHES * COUNT
        path.unlink()
    assert found == EVERY


def test_tasks_close_their_files(log, monkeypatch):
    opened = []
    monkeypatch.setattr(
        LogSegment, "open", lambda segment: opened.append(was(segment)) or opened[-1]
    )
    for segment_range, _ in reader_of().scans(plan(log, *whole(log))[0], ("offset",)):
        (log / segment_range.segment.name).write_bytes(b"")
    assert len(opened) >= 4
    assert all(source._file.closed for source in opened)


def test_a_deleted_partition_is_data_loss(log):
    tasks = plan(log, *whole(log))
    (log.parent / "audit-0").mkdir()
    shutil.rmtree(log)
    with pytest.raises(DataLossError, match=r"seen by the driver.*executor .*deleted"):
        offsets_of(tasks)
    assert offsets_of(tasks, failOnDataLoss="false") == []


def test_an_executor_without_the_directories_is_always_an_error(log):
    tasks = plan(log, *whole(log))
    shutil.rmtree(log.parent)
    for lenient in ("true", "false"):
        with pytest.raises(FileNotFoundError, match="under the same path"):
            offsets_of(tasks, failOnDataLoss=lenient)


@pytest.mark.parametrize("mounted", ["partition", "log directory"])
def test_an_executor_without_the_mount_is_always_an_error(log, mounted):
    tasks = plan(log, *whole(log))
    shutil.rmtree(log.parent)
    (log if mounted == "partition" else log.parent).mkdir(parents=True)
    for lenient in ("true", "false"):
        with pytest.raises(FileNotFoundError, match="under the same path"):
            offsets_of(tasks, failOnDataLoss=lenient)


@pytest.fixture
def third(log):
    """Corrupt the third batch of the second segment; return its path and position."""
    path = log / name(60)
    data = bytearray(path.read_bytes())
    third = sum(len(build(2, "none", first, COUNT)) for first in (60, 65))
    data[third + 70] ^= 1
    path.write_bytes(data)
    return third


@pytest.mark.parametrize("columns", [["offset"], ["offset", "value"], ["topic"]])
def test_corruption_fails_a_task_with_file_and_byte(log, third, columns):
    [task] = plan(log, *whole(log))
    with pytest.raises(CorruptRecordError, match=rf"{name(60)} at byte {third}"):
        list(reader_of(*columns).read(task))


def test_skipped_corruption_is_reported(log, third, caplog):
    with caplog.at_level(logging.WARNING, "kafkalog"):
        found = offsets_of(plan(log, *whole(log)), onCorruption="skip")
    assert found == [offset for offset in EVERY if not 70 <= offset < 75]
    assert f"{name(60)} at byte {third}" in caplog.text


def test_corruption_fails_a_count_or_is_reported_and_not_counted(log, third, caplog):
    [task] = plan(log, *whole(log))
    with pytest.raises(CorruptRecordError, match=rf"{name(60)} at byte {third}"):
        list(reader_of().count(task))
    with caplog.at_level(logging.WARNING, "kafkalog"):
        counts = [n for _, n in reader_of(onCorruption="skip").count(task)]
    assert counts == [60, 55, 60, 60]
    assert f"{name(60)} at byte {third}" in caplog.text


def test_without_checksum_verification_corrupt_values_are_read(log, third):
    tasks, unchecked = plan(log, *whole(log)), {"kafka.check.crcs": "false"}
    assert third
    assert offsets_of(tasks, **unchecked) == EVERY


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_every_magic_and_codec_is_cut_at_its_batches(tmp_path, magic, codec):
    tp = tmp_path / "old-0"
    tp.mkdir()
    data, entries, offsets = b"", b"", []
    for first in range(0, 200, 5):
        last = first + 2
        if data:
            entries += last.to_bytes(4) + len(data).to_bytes(4)
        data += build(magic, codec, first)
        offsets += range(first, first + 3)
    (tp / name(0)).write_bytes(data)
    (tp / name(0, "index")).write_bytes(entries)
    tasks = plan(tp, *whole(tp), 300)
    assert len(tasks) > 5
    assert offsets_of(tasks) == offsets
    path = tp / name(0)  # rewritten: read by offsets instead of bytes
    path.write_bytes(build(magic, codec, 0, 2) + data[len(build(magic, codec, 0)) :])
    assert offsets_of(tasks) == [offset for offset in offsets if offset != 2]


@pytest.mark.parametrize("checksums", ["true", "false"])
@pytest.mark.parametrize(("start", "end"), [(0, 240), (7, 8), (3, 121)])
def test_each_segment_range_is_counted(log, start, end, checksums):
    reader = reader_of(**{"kafka.check.crcs": checksums})
    counted = [one for task in plan(log, start, end, 300) for one in reader.count(task)]
    assert sum(count for _, count in counted) == end - start
    assert all(count == one.stop - one.start for one, count in counted)


def test_counting_decodes_no_records(log):
    tasks = plan(log, *whole(log), 300)
    batches = [b for task in tasks for b in reader_of("topic", "partition").read(task)]
    assert sum(batch.num_rows for batch in batches) == len(EVERY)
    assert {row["topic"] for b in batches for row in b.to_pylist()} == {"orders"}


@pytest.mark.parametrize("target_bytes", [300, 1 << 27])
@pytest.mark.parametrize("partition", ["ledger-0", "ledger-1", "state.txn-0"])
def test_read_committed_equals_a_scan(partition, target_bytes):
    directory = golden_data.logs("k431-clean") / partition
    start, end = whole(directory, read_committed=True)
    tasks = plan(directory, start, end, target_bytes)
    scan = kafkalog.scan(directory, isolation="read_committed")
    expected = [offset for chunk in scan.chunks() for offset in chunk.offset.tolist()]
    assert offsets_of(tasks, **COMMITTED) == expected
    assert 0 < len(expected) < len(offsets_of(plan(directory, *whole(directory))))

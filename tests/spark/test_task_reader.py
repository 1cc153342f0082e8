"""What a task reads when the files are no longer what was planned with."""

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
    """Four segments of twelve batches of five records."""
    place = tmp_path / "logs" / "orders-0"
    place.mkdir(parents=True)
    for number in range(4):
        write(place, number * BATCHES * COUNT)
    return place


def name(base, ending="log"):
    return f"{base:020d}.{ending}"


def write(place, base, batches=range(BATCHES), into=None):
    """Write a segment of batches, and an index with an entry for each."""
    data, entries = b"", b""
    for number in batches:
        first = base + number * COUNT
        if data:
            entries += (first - base).to_bytes(4) + len(data).to_bytes(4)
        data += build(2, "none", first, COUNT)
    with (place / name(base if into is None else into)).open("ab") as file:
        file.write(data)
    if into is None:
        (place / name(base, "index")).write_bytes(entries)


EVERY = list(range(4 * BATCHES * COUNT))


def test_what_is_appended_later_is_not_read(log):
    tasks = plan(log, *whole(log), 300)
    write(log, 240, into=180)
    write(log, 300)
    assert offsets_of(tasks) == EVERY


def test_a_segment_marked_deleted_is_read_all_the_same(log):
    tasks = plan(log, *whole(log), 300)
    (log / name(60)).rename(log / name(60, "log.deleted"))
    assert offsets_of(tasks) == EVERY


@pytest.mark.parametrize("target_bytes", [300, 1 << 27])
def test_compaction_takes_only_what_it_takes(log, target_bytes):
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


def test_segments_that_were_merged_are_read_where_they_are_now(log):
    tasks = plan(log, *whole(log))
    (log / name(60)).unlink()
    write(log, 60, range(BATCHES - 1), into=0)
    gone = range(60 + (BATCHES - 1) * COUNT, 120)
    assert offsets_of(tasks) == [one for one in EVERY if one not in gone]


def test_segments_that_retention_took_are_lost_data(log, caplog):
    tasks = plan(log, *whole(log), 300)
    (log / name(0)).unlink()
    with pytest.raises(
        DataLossError, match=r"orders-0 were to be read.*begins with 60"
    ):
        offsets_of(tasks)
    with caplog.at_level(logging.WARNING, "kafkalog"):
        assert offsets_of(tasks, failOnDataLoss="false") == EVERY[60:]
    assert "begins with 60" in caplog.text


def test_a_log_cut_within_a_segment_is_lost_data(log):
    tasks = plan(log, *whole(log), 300)
    path = log / name(180)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataLossError, match="ends at"):
        offsets_of(tasks)
    assert EVERY[:180] == offsets_of(tasks, failOnDataLoss="false")[:180]


def test_a_segment_that_is_replaced_once_it_was_found_is_read_as_it_was(log):
    [task] = plan(log, *whole(log))
    found = []
    for stretch, scan in reader_of("offset").scans(task, ("offset",)):
        path = log / stretch.segment.name
        compacted = build(2, "none", stretch.start) + build(2, "none", stretch.stop - 3)
        (log / "compacted").write_bytes(compacted)
        (log / "compacted").rename(path)
        found += [one for chunk in scan.chunks() for one in chunk.offset.tolist()]
        assert scan.count() == BATCHES * COUNT
        path.unlink()
    assert found == EVERY


def test_files_that_tasks_looked_at_are_closed(log, monkeypatch):
    opened = []
    monkeypatch.setattr(
        LogSegment, "open", lambda segment: opened.append(was(segment)) or opened[-1]
    )
    for stretch, _ in reader_of().scans(plan(log, *whole(log))[0], ("offset",)):
        (log / stretch.segment.name).write_bytes(b"")
    assert len(opened) >= 4
    assert all(source._file.closed for source in opened)


def test_a_partition_that_was_deleted_is_lost_data(log):
    tasks = plan(log, *whole(log))
    (log.parent / "audit-0").mkdir()
    shutil.rmtree(log)
    with pytest.raises(DataLossError, match=r"seen by the driver.*executor .*deleted"):
        offsets_of(tasks)
    assert offsets_of(tasks, failOnDataLoss="false") == []


def test_an_executor_without_the_directories_says_so_whatever_may_be_lost(log):
    tasks = plan(log, *whole(log))
    shutil.rmtree(log.parent)
    for lenient in ("true", "false"):
        with pytest.raises(FileNotFoundError, match="under the same path"):
            offsets_of(tasks, failOnDataLoss=lenient)


@pytest.mark.parametrize("mounted", ["partition", "log directory"])
def test_an_executor_without_a_mount_says_so_whatever_may_be_lost(log, mounted):
    tasks = plan(log, *whole(log))
    shutil.rmtree(log.parent)
    (log if mounted == "partition" else log.parent).mkdir(parents=True)
    for lenient in ("true", "false"):
        with pytest.raises(FileNotFoundError, match="under the same path"):
            offsets_of(tasks, failOnDataLoss=lenient)


@pytest.fixture
def third(log):
    """Damage the third batch of the second segment; return where it begins."""
    path = log / name(60)
    data = bytearray(path.read_bytes())
    third = sum(len(build(2, "none", first, COUNT)) for first in (60, 65))
    data[third + 70] ^= 1
    path.write_bytes(data)
    return third


@pytest.mark.parametrize("columns", [["offset"], ["offset", "value"], ["topic"]])
def test_damage_ends_a_task_with_file_and_byte(log, third, columns):
    [task] = plan(log, *whole(log))
    with pytest.raises(CorruptRecordError, match=rf"{name(60)} at byte {third}"):
        list(reader_of(*columns).read(task))


def test_damage_is_left_out_when_asked_and_told_of(log, third, caplog):
    with caplog.at_level(logging.WARNING, "kafkalog"):
        found = offsets_of(plan(log, *whole(log)), onCorruption="skip")
    assert found == [offset for offset in EVERY if not 70 <= offset < 75]
    assert f"{name(60)} at byte {third}" in caplog.text


def test_what_is_damaged_ends_a_count_or_is_told_of_and_not_counted(log, third, caplog):
    [task] = plan(log, *whole(log))
    with pytest.raises(CorruptRecordError, match=rf"{name(60)} at byte {third}"):
        list(reader_of().count(task))
    with caplog.at_level(logging.WARNING, "kafkalog"):
        counts = [n for _, n in reader_of(onCorruption="skip").count(task)]
    assert counts == [60, 55, 60, 60]
    assert f"{name(60)} at byte {third}" in caplog.text


def test_who_asks_for_no_checksums_reads_what_is_there(log, third):
    tasks, unchecked = plan(log, *whole(log)), {"kafka.check.crcs": "false"}
    assert third
    assert offsets_of(tasks, **unchecked) == EVERY


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_every_magic_and_codec_is_cut_at_its_batches(tmp_path, magic, codec):
    place = tmp_path / "old-0"
    place.mkdir()
    data, entries, offsets = b"", b"", []
    for first in range(0, 200, 5):
        last = first + 2
        if data:
            entries += last.to_bytes(4) + len(data).to_bytes(4)
        data += build(magic, codec, first)
        offsets += range(first, first + 3)
    (place / name(0)).write_bytes(data)
    (place / name(0, "index")).write_bytes(entries)
    tasks = plan(place, *whole(place), 300)
    assert len(tasks) > 5
    assert offsets_of(tasks) == offsets
    path = place / name(0)  # rewritten: what was planned by bytes is found by offsets
    path.write_bytes(build(magic, codec, 0, 2) + data[len(build(magic, codec, 0)) :])
    assert offsets_of(tasks) == [offset for offset in offsets if offset != 2]


@pytest.mark.parametrize("checksums", ["true", "false"])
@pytest.mark.parametrize(("start", "end"), [(0, 240), (7, 8), (3, 121)])
def test_each_stretch_is_counted(log, start, end, checksums):
    reader = reader_of(**{"kafka.check.crcs": checksums})
    counted = [one for task in plan(log, start, end, 300) for one in reader.count(task)]
    assert sum(count for _, count in counted) == end - start
    assert all(count == one.stop - one.start for one, count in counted)


def test_counting_reads_no_record_and_counts_them_all(log):
    tasks = plan(log, *whole(log), 300)
    batches = [b for task in tasks for b in reader_of("topic", "partition").read(task)]
    assert sum(batch.num_rows for batch in batches) == len(EVERY)
    assert {row["topic"] for b in batches for row in b.to_pylist()} == {"orders"}


@pytest.mark.parametrize("target_bytes", [300, 1 << 27])
@pytest.mark.parametrize("partition", ["ledger-0", "ledger-1", "state.txn-0"])
def test_read_committed_is_what_a_scan_gives(partition, target_bytes):
    directory = golden_data.logs("k431-clean") / partition
    start, end = whole(directory, read_committed=True)
    tasks = plan(directory, start, end, target_bytes)
    scan = kafkalog.scan(directory, isolation="read_committed")
    wanted = [offset for chunk in scan.chunks() for offset in chunk.offset.tolist()]
    assert offsets_of(tasks, **COMMITTED) == wanted
    assert 0 < len(wanted) < len(offsets_of(plan(directory, *whole(directory))))

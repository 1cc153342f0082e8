"""Copies of logs with segments that overlap, a swap left by a crash, or far offsets.

Each copy has the records that a consumer gets, once, and no segment that overlaps.
"""

import shutil
import struct

import pytest

import kafkalog
from kafkalog.formats.checkpoint import format_offsets
from kafkalog.storage.file_names import file_name
from tests.log.mixed_copies import CASES, TIME, Batch, encode, full, write_case
from tests.query.test_mixed_copies import consumed, records_of

CLUSTER = "AAAAAAAAAAAAAAAAAAAAZw"
FAR = 2**31 + 500

cases = pytest.mark.parametrize("name", CASES)


def salvaged(source, target):
    [partition] = kafkalog.salvage(source, target).partitions
    assert partition.records == len(records_of(kafkalog.scan(target / "t-0")))
    assert not partition.missing
    assert not partition.bytes_unreadable


def restored(source, target):
    kafkalog.restore(source, target, cluster_id=CLUSTER, node_id=1)


def healed(source, target):
    # Without it, a gap of the log may be one of a file that was cut.
    cleaned = format_offsets({("t", 0): FAR + 4})
    (source / "cleaner-offset-checkpoint").write_bytes(cleaned)
    other = source.parent / "other"
    shutil.copytree(source, other)
    kafkalog.heal([source, other], target)


copiers = pytest.mark.parametrize("copy", [salvaged, restored, healed])


@copiers
@cases
def test_a_copy_of_segments_that_overlap_has_what_a_consumer_gets(tmp_path, name, copy):
    write_case(tmp_path / "logs" / "t-0", name)
    copy(tmp_path / "logs", tmp_path / "copy")
    assert records_of(kafkalog.scan(tmp_path / "copy" / "t-0")) == consumed(name)
    problems = kafkalog.verify(tmp_path / "copy").problems
    assert not [problem for problem in problems if problem.severity == "error"]


@copiers
def test_a_copy_has_the_records_of_a_swap_that_a_crash_left(tmp_path, copy):
    log = write_case(tmp_path / "logs" / "t-0", "all stale segments")
    for extension in ("log", "index", "timeindex"):
        path = log / file_name(0, extension)
        path.rename(path.with_name(f"{path.name}.swap"))
    copy(tmp_path / "logs", tmp_path / "copy")
    found = records_of(kafkalog.scan(tmp_path / "copy" / "t-0"))
    assert found == consumed("all stale segments")


def far_log(root):
    """Write a log with two batches, and one 2**31 + 500 above the base offset."""
    log = root / "t-0"
    log.mkdir(parents=True)
    near = b"".join(encode(batch, "near") for batch in full(0, 7))
    far = bytearray(encode(Batch(0, 3, (0, 1, 2, 3)), "far", time=TIME + 100))
    far[:8] = struct.pack(">q", FAR)
    (log / file_name(0, "log")).write_bytes(near + far)
    return [(offset, "near") for offset in range(8)] + [
        (FAR + i, "far") for i in range(4)
    ]


@copiers
def test_a_copy_has_the_batches_with_offsets_too_far_for_a_segment(tmp_path, copy):
    expected = far_log(tmp_path / "logs")
    copy(tmp_path / "logs", tmp_path / "copy")
    assert records_of(kafkalog.scan(tmp_path / "copy" / "t-0")) == expected
    logs = sorted(path.name for path in (tmp_path / "copy" / "t-0").glob("*.log"))
    assert logs[:2] == [file_name(0, "log"), file_name(FAR, "log")]

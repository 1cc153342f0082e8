"""What is no log is said to be none, wherever bytes are taken."""

from __future__ import annotations

import numpy as np
import pytest

import kafkalog
from kafkalog.formats.batch_headers import find_invalid_start
from tests.query.batches import KINDS, build

TEXT = b"hello world, not a Kafka log at all"
PARQUET = b"PAR1\x15\x04\x15\x80\x15\x64\x4c\x15\x50\x15\x00\x12\x01" + bytes(100)
STRANGE = {
    "a word": b"hello",
    "a letter": b"h",
    "a line": b"hello world\n",
    "a text": TEXT,
    "a Parquet file": PARQUET,
    "a gzip stream": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + bytes(40),
    "a negative offset": b"\xff" * 12,
}
strange = pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
NAMES = ("p.log", f"{0:020d}.log")


@strange
@pytest.mark.parametrize("take", [bytes, memoryview, bytearray])
def test_bytes_in_memory_that_begin_no_entry_are_damage(data, take):
    for read in (
        lambda scan: scan.count(),
        lambda scan: list(scan.chunks()),
        lambda scan: scan.to_arrow(),
    ):
        with pytest.raises(kafkalog.CorruptRecordError, match=r"at byte 0$") as caught:
            read(kafkalog.scan(take(data)))
        assert caught.value.position == 0


@strange
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_begins_with_no_entry_is_damage(data, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.scan(path).to_arrow()
    assert (caught.value.path, caught.value.position) == (path, 0)
    skipping = kafkalog.scan(path, on_corruption="skip")
    assert skipping.to_arrow().num_rows == 0
    [problem] = skipping.problems
    assert (problem.path, problem.position) == (path, 0)


def test_a_text_file_is_said_to_be_no_log_by_its_magic(tmp_path):
    path = tmp_path / "p.log"
    path.write_bytes(TEXT)
    magic = TEXT[16]
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.scan(path).count()
    said = f"not a Kafka log: magic {magic}, expected 0, 1 or 2: {path} at byte 0"
    assert str(caught.value) == said


def test_a_flipped_magic_does_not_make_a_log_none():
    data = bytearray(build(2, "none", 0) + build(2, "none", 3))
    data[16] ^= 1
    with pytest.raises(kafkalog.CorruptRecordError, match=r"^magic 3, expected 0, 1"):
        kafkalog.scan(bytes(data)).count()


@strange
def test_an_append_of_bytes_that_begin_no_entry_is_refused(data, tmp_path):
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        for append in (log.append, log.append_as_follower):
            with pytest.raises(kafkalog.CorruptRecordError):
                append(data)
        for append in (log.append_many, log.append_many_as_follower):
            assert [type(one) for one in append([data, data])] == [
                kafkalog.CorruptRecordError
            ] * 2
        assert log.log_end_offset == 0
        assert log.append(build(2, "none", 0)[:0]).valid_bytes == 0


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_part_of_an_entry_is_no_error_as_the_first_of_a_file(magic, codec, tmp_path):
    entry = build(magic, codec, 0, 1)
    path = tmp_path / f"{0:020d}.log"
    for size in range(len(entry)):
        path.write_bytes(entry[:size])
        assert kafkalog.scan(path).count() == 0
        assert kafkalog.scan(entry[:size]).count() == 0
        head = np.frombuffer(entry[:size], np.uint8)
        assert find_invalid_start(head[:17]) is None


@pytest.mark.parametrize("size", [0, 1, 5, 16, 17, 4096])
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_file_and_zeros_are_no_error(size, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(bytes(size))
    assert kafkalog.scan(path).count() == 0
    assert kafkalog.scan(bytes(size)).count() == 0


def test_an_offset_that_is_not_the_segments_is_no_beginning_of_an_entry(tmp_path):
    entry = build(2, "none", 7, 1)
    inside, outside = tmp_path / "inside-0", tmp_path / "outside-0"
    for base, directory in ((7, inside), (8, outside)):
        directory.mkdir()
        (directory / f"{base:020d}.log").write_bytes(entry[:40])
    assert kafkalog.scan(inside).count() == 0
    with pytest.raises(kafkalog.CorruptRecordError, match="offset 7, expected 8 to"):
        kafkalog.scan(outside).count()

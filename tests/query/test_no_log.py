"""Data that is not a log is rejected by scans and appends."""

from __future__ import annotations

import numpy as np
import pytest

import kafkalog
from kafkalog.formats.batch_headers import find_invalid_start
from tests.query.batches import KINDS, build

TEXT = b"hello world, not a Kafka log at all"
PARQUET = b"PAR1\x15\x04\x15\x80\x15\x64\x4c\x15\x50\x15\x00\x12\x01" + bytes(100)
OTHER_DATA = {
    "a word": b"hello",
    "a letter": b"h",
    "a line": b"hello world\n",
    "a text": TEXT,
    "a Parquet file": PARQUET,
    "a gzip stream": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + bytes(40),
    "a negative offset": b"\xff" * 12,
}
other_data = pytest.mark.parametrize("data", OTHER_DATA.values(), ids=OTHER_DATA)
NAMES = ("p.log", f"{0:020d}.log")


@other_data
@pytest.mark.parametrize("as_type", [bytes, memoryview, bytearray])
def test_other_data_in_memory_is_damage(data, as_type):
    for read in (
        lambda scan: scan.count(),
        lambda scan: list(scan.chunks()),
        lambda scan: scan.to_arrow(),
    ):
        with pytest.raises(kafkalog.CorruptRecordError, match=r"at byte 0$") as caught:
            read(kafkalog.scan(as_type(data)))
        assert caught.value.position == 0


@other_data
@pytest.mark.parametrize("name", NAMES)
def test_other_data_in_a_file_is_damage(data, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.scan(path).to_arrow()
    assert (caught.value.path, caught.value.position) == (path, 0)
    skipping = kafkalog.scan(path, on_corruption="skip")
    assert skipping.to_arrow().num_rows == 0
    [problem] = skipping.problems
    assert (problem.path, problem.position) == (path, 0)


def test_the_error_for_a_text_file_has_its_magic(tmp_path):
    path = tmp_path / "p.log"
    path.write_bytes(TEXT)
    magic = TEXT[16]
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.scan(path).count()
    expected = f"not a Kafka log: magic {magic}, expected 0, 1 or 2: {path} at byte 0"
    assert str(caught.value) == expected


def test_a_flipped_magic_is_an_error_of_the_batch():
    data = bytearray(build(2, "none", 0) + build(2, "none", 3))
    data[16] ^= 1
    with pytest.raises(kafkalog.CorruptRecordError, match=r"^magic 3, expected 0, 1"):
        kafkalog.scan(bytes(data)).count()


@other_data
def test_an_append_of_other_data_is_rejected(data, tmp_path):
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        for append in (log.append, log.append_as_follower):
            with pytest.raises(kafkalog.CorruptRecordError):
                append(data)
        for append in (log.append_many, log.append_many_as_follower):
            assert [type(result) for result in append([data, data])] == [
                kafkalog.CorruptRecordError
            ] * 2
        assert log.log_end_offset == 0
        assert log.append(build(2, "none", 0)[:0]).valid_bytes == 0


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_part_of_an_entry_at_the_start_of_a_file_is_no_error(magic, codec, tmp_path):
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


def test_part_of_an_entry_with_an_offset_of_another_segment_is_damage(tmp_path):
    entry = build(2, "none", 7, 1)
    inside, outside = tmp_path / "inside-0", tmp_path / "outside-0"
    for base, directory in ((7, inside), (8, outside)):
        directory.mkdir()
        (directory / f"{base:020d}.log").write_bytes(entry[:40])
    assert kafkalog.scan(inside).count() == 0
    with pytest.raises(kafkalog.CorruptRecordError, match="offset 7, expected 8 to"):
        kafkalog.scan(outside).count()

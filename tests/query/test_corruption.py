"""Damage in a segment: an error with file and byte, or skipped without further loss."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import LocatedError
from kafkalog.query.scan_columns import COLUMNS
from tests.query.batches import CODECS, KINDS, build, rows_of, without
from tests.query.kafka_rows import from_records

NAME = f"{0:020d}.log"


def scan_of(path, **options):
    return kafkalog.scan(path, columns=COLUMNS, control_records=True, **options)


def outcome(path):
    """Return the rows before the end or an error, and the error."""
    rows = []
    try:
        for chunk in scan_of(path).chunks():
            rows += from_records(chunk)
    except LocatedError as error:
        return rows, error
    return rows, None


# Bytes of an entry that no checksum covers, and whose damage cannot be detected.
HARMLESS = {
    # the leader epoch, which a leader patches in place
    2: set(range(12, 16)),
    1: set(),
    # the offset of a wrapper of magic 0: those of its messages are absolute
    0: set(range(8)),
}


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_any_flipped_bit_is_an_error_with_its_position_or_harmless(
    magic, codec, tmp_path
):
    first = 100 * (magic + CODECS.index(codec) & 1)
    parts = [build(magic, codec, first + 3 * i) for i in range(3)]
    path = tmp_path / NAME
    path.write_bytes(b"".join(parts))
    intact = rows_of(scan_of(path))
    assert [row[2] for row in intact] == list(range(first, first + 9))
    entry = len(parts[1]) if codec != "none" or magic == 2 else len(parts[1]) // 3
    start, silent = len(parts[0]), set()
    file = os.open(path, os.O_WRONLY)
    for bit in range(len(parts[1]) * 8):
        byte = bit // 8
        damaged = parts[1][byte] ^ (1 << bit % 8)
        os.pwrite(file, bytes([damaged]), start + byte)
        rows, error = outcome(path)
        if error is None:
            assert without(rows, "leader_epoch") == without(intact, "leader_epoch"), bit
            silent.add(byte % entry)
        else:
            assert error.path == path
            assert 0 <= error.position <= start + len(parts[1])
            assert rows == intact[: len(rows)], bit
        skipping = scan_of(path, on_corruption="skip")
        kept = rows_of(skipping)
        if error is None:
            assert kept == rows
        else:
            assert [row for row in intact[:3] + intact[6:] if row not in kept] == [], (
                bit
            )
            assert [row for row in kept if row not in intact] == [], bit
            assert skipping.problems, bit
        for problem in skipping.problems:
            assert problem.path == path
            assert start <= problem.position < start + len(parts[1]), (bit, problem)
        os.pwrite(file, parts[1][byte : byte + 1], start + byte)
    os.close(file)
    assert silent <= HARMLESS[magic] if codec != "none" or magic == 2 else not silent
    if magic == 2:
        assert silent == HARMLESS[2]


# --------------------------------------------------------------------------- tails


def parts_of(magic, codec):
    """Return the entries of a small segment: one for each message below magic 2."""
    if codec == "none" and magic < 2:
        return [build(magic, codec, i, 1) for i in range(3)]
    return [build(magic, codec, 3 * i) for i in range(3)]


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_a_truncated_segment_has_its_whole_entries(magic, codec, tmp_path):
    parts = parts_of(magic, codec)
    data, path = b"".join(parts), tmp_path / NAME
    path.write_bytes(data)
    intact = rows_of(scan_of(path))
    each = len(intact) // 3
    ends = [len(b"".join(parts[:i])) for i in range(4)]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends[1:])
        rows, error = outcome(path)
        assert error is None
        assert rows == intact[: each * whole]
        skipping = scan_of(path, on_corruption="skip")
        assert (rows_of(skipping), skipping.problems) == (rows, [])


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("zeros", [1, 11, 12, 16, 17, 18, 61, 5_000, 3 << 20])
def test_trailing_zeros_are_no_error(magic, zeros, tmp_path):
    path = tmp_path / NAME
    path.write_bytes(build(magic, "none", 0) + bytes(zeros))
    rows, error = outcome(path)
    assert (len(rows), error) == (3, None)
    assert scan_of(path).count() == 3


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("zeros", [1, 16, 17, 61, 5_000, 9 << 20])
def test_zeros_between_entries_are_an_error(magic, zeros, tmp_path):
    first, second = build(magic, "none", 0), build(magic, "none", 3)
    path = tmp_path / NAME
    path.write_bytes(first + bytes(zeros) + second)
    rows, error = outcome(path)
    assert len(rows) == 3
    assert isinstance(error, kafkalog.CorruptRecordError)
    assert (error.path, error.position) == (path, len(first))
    skipping = scan_of(path, on_corruption="skip")
    assert [row[2] for row in rows_of(skipping)] == [0, 1, 2, 3, 4, 5]
    [problem] = skipping.problems
    assert (problem.path, problem.position) == (path, len(first))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_garbage_after_the_last_entry_is_an_error_unless_it_may_begin_an_entry(
    magic, tmp_path
):
    rng = random.Random(magic)
    intact = build(magic, "none", 0)
    path = tmp_path / NAME
    found = 0
    for size in [1, 5, 16, 17, 18, 40, 61, 100, 1_000, 5_000] * 8:
        garbage = rng.randbytes(size)
        path.write_bytes(intact + garbage)
        rows, error = outcome(path)
        assert len(rows) == 3
        if error is None:
            assert garbage[0] == 0  # an offset may begin so
        else:
            assert isinstance(error, kafkalog.CorruptRecordError)
            assert (error.path, error.position) == (path, len(intact))
            found += 1
        skipping = scan_of(path, on_corruption="skip")
        assert len(rows_of(skipping)) == 3
        assert len(skipping.problems) == (error is not None)
    assert found > 40


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_a_typed_error_or_no_records(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / NAME
    path.write_bytes(data)
    rows, error = outcome(path)
    assert rows == []
    assert error is None or error.path == path
    assert rows_of(scan_of(path, on_corruption="skip", check_crcs=False)) == []
    try:
        assert scan_of(data).count() == 0
    except LocatedError as error_in_memory:
        assert error_in_memory.path is None  # noqa: PT017 - both results are valid


# ------------------------------------------------------------------------ skipping


def with_flipped_bit(part, at=-1):
    damaged = bytearray(part)
    damaged[at] ^= 1
    return bytes(damaged)


def test_a_damaged_entry_with_a_valid_size_is_skipped(tmp_path):
    parts = [build(2, "none", 3 * i) for i in range(4)]
    path = tmp_path / NAME
    path.write_bytes(b"".join([parts[0], with_flipped_bit(parts[1]), *parts[2:]]))
    skipping = scan_of(path, on_corruption="skip")
    assert [row[2] for row in rows_of(skipping)] == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    [problem] = skipping.problems
    assert problem.path == path
    assert problem.position == len(parts[0])
    assert (problem.first_offset, problem.last_offset) == (3, 5)
    assert problem.reason.startswith("CRC mismatch: stored")


def test_after_an_invalid_size_everything_up_to_the_next_valid_entry_is_skipped(
    tmp_path,
):
    parts = [build(2, "none", 3 * i) for i in range(4)]
    path = tmp_path / NAME
    path.write_bytes(
        b"".join(
            [
                parts[0],
                with_flipped_bit(parts[1], 11),
                with_flipped_bit(parts[2]),
                parts[3],
            ]
        )
    )
    skipping = scan_of(path, on_corruption="skip")
    assert [row[2] for row in rows_of(skipping)] == [0, 1, 2, 9, 10, 11]
    assert [problem.position for problem in skipping.problems] == [len(parts[0])]


@pytest.mark.parametrize("size", [40_000, 90_000, 5_000_000])
def test_an_entry_above_the_limit_is_skipped(size, tmp_path):
    large = build(2, "none", 3, 1, text=bytes(size))
    parts = [build(2, "none", 0), large, build(2, "none", 4)]
    path = tmp_path / NAME
    path.write_bytes(b"".join(parts))
    limited = scan_of(path, on_corruption="skip", max_batch_bytes=30_000)
    assert [row[2] for row in rows_of(limited)] == [0, 1, 2, 4, 5, 6]
    assert [problem.position for problem in limited.problems] == [len(parts[0])]
    with pytest.raises(kafkalog.BatchTooLargeError) as caught:
        scan_of(path, max_batch_bytes=30_000).to_arrow()
    assert (caught.value.path, caught.value.position) == (path, len(parts[0]))


def test_a_flipped_offset_at_the_end_of_a_step_loses_one_entry(tmp_path):
    parts = [build(2, "none", 3 * i) for i in range(1_000)]
    path = tmp_path / NAME
    for flipped in range(470, 520):
        damaged = list(parts)
        damaged[flipped] = with_flipped_bit(parts[flipped], 2)
        path.write_bytes(b"".join(damaged))
        skipping = scan_of(path, on_corruption="skip")
        offsets = [row[2] for row in rows_of(skipping)]
        assert offsets == [o for o in range(3_000) if o // 3 != flipped]
        assert len(skipping.problems) == 1


def test_bounds_hide_no_record_whose_header_is_damaged(tmp_path):
    parts = [build(2, "none", 3 * i) for i in range(3)]
    path = tmp_path / NAME
    path.write_bytes(b"".join([parts[0], with_flipped_bit(parts[1], 26), parts[2]]))
    for bounds in ({"start_offset": 5}, {"start_offset": 4, "end_offset": 6}):
        with pytest.raises(kafkalog.CorruptRecordError, match="CRC mismatch"):
            scan_of(path, **bounds).to_arrow()


def misleading(part):
    """Return a batch with a far offset, and a size with which it ends elsewhere."""
    size = int.from_bytes(part[8:12]) + 7
    return (1000).to_bytes(8) + size.to_bytes(4) + with_flipped_bit(part)[12:]


@pytest.mark.parametrize(
    "damage",
    [misleading, lambda part: with_flipped_bit(part) + misleading(part)],
    ids=["one", "two"],
)
def test_the_offset_of_a_damaged_batch_does_not_end_a_reading(tmp_path, damage):
    parts = [build(2, "none", 3 * i) for i in range(9)]
    path = tmp_path / NAME
    path.write_bytes(b"".join([*parts[:4], damage(parts[4]), *parts[5:]]))
    for end in (18, 21, 27, None):
        expected = [offset for offset in range(end or 27) if offset // 3 != 4]
        scan = scan_of(path, end_offset=end, on_corruption="skip")
        assert [row[2] for row in rows_of(scan)] == expected
        assert len(scan.problems) > 0
        with pytest.raises(kafkalog.CorruptRecordError):
            scan_of(path, end_offset=end).to_arrow()


@pytest.mark.parametrize("lost", ["none", "one", "three", "all but 5 bytes", "all"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_wrong_size_before_the_start_offset_hides_no_record(tmp_path, magic, lost):
    parts = [build(magic, "gzip", 3 * i) for i in range(9)]
    more = {
        "none": 7,
        "one": len(parts[3]) + 7,
        "three": sum(map(len, parts[3:6])) + 7,
        "all but 5 bytes": sum(map(len, parts[3:])) - 5,
        "all": sum(map(len, parts[3:])),
    }[lost]
    damaged = bytearray(with_flipped_bit(parts[2]))
    damaged[8:12] = (int.from_bytes(damaged[8:12]) + more).to_bytes(4)
    path = tmp_path / NAME
    path.write_bytes(b"".join([*parts[:2], damaged, *parts[3:]]))
    for start in (9, 14, 26):
        scan = scan_of(path, start_offset=start, on_corruption="skip")
        assert [row[2] for row in rows_of(scan)] == list(range(start, 27))
        with pytest.raises(kafkalog.CorruptRecordError):
            scan_of(path, start_offset=start).to_arrow()

"""The common part of the three indexes: reading files, lookups, damage."""

import os

import numpy as np
import pytest

from kafkalog.errors import CorruptIndexError
from kafkalog.indexes.index_table import base_offset_of, read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex

SMALL = [
    OffsetIndex.build([1003, 1005, 1007], [115, 230, 345], 1000),
    TimeIndex.build([5, 900, 2**40], [1003, 1003, 1007], 1000),
    TransactionIndex.build([4, 9], [990, 1001], [1005, 1009], [1006, 1010], 1000),
]
EVERY = pytest.mark.parametrize("small", SMALL, ids=lambda index: type(index).__name__)


@EVERY
def test_a_mapped_index_is_mapped_and_a_read_one_is_not(tmp_path, small):
    path = tmp_path / f"{1000:020}.index"
    path.write_bytes(small.to_bytes())
    mapped, read = type(small).open(path), type(small).read(path)
    assert isinstance(mapped.entries, np.memmap)
    assert not isinstance(read.entries, np.memmap)
    changed = bytearray(small.to_bytes())
    changed[-1] += 1
    with path.open("r+b") as file:
        file.write(changed)
    assert mapped.to_bytes() == bytes(changed)
    assert read.to_bytes() == small.to_bytes()
    os.truncate(path, 0)
    assert read.to_bytes() == small.to_bytes()


@EVERY
def test_a_file_truncated_at_any_byte_is_shorter_or_rejected(tmp_path, small):
    data, width = small.to_bytes(), small.ENTRY.itemsize
    path = tmp_path / f"{1000:020}.index"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        whole = data[: size // width * width]
        assert type(small).read_live(path).to_bytes() == whole
        for how in (type(small).open, type(small).read):
            if size % width:
                with pytest.raises(CorruptIndexError, match="bytes after") as caught:
                    how(path)
                assert caught.value.position == len(whole)
            else:
                assert how(path).to_bytes() == whole


@EVERY
def test_a_flipped_bit_is_rejected_or_leaves_an_ordered_index(small):
    data, kind, refused = small.to_bytes(), type(small), 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        valid = kind.count_valid(np.frombuffer(flipped, np.uint8), 1000)
        if valid < len(small):
            refused += 1
            with pytest.raises(CorruptIndexError, match="entry ") as caught:
                kind.from_bytes(flipped, 1000)
            assert caught.value.position == valid * kind.ENTRY.itemsize
        else:
            index = kind.from_bytes(flipped, 1000)
            assert index.to_bytes() == bytes(flipped)
            assert (np.diff(index.offsets) >= 0).all()
    assert refused > 2 * len(small)


@EVERY
def test_of_preallocated_files_only_entries_are_read(tmp_path, small):
    path = tmp_path / f"{1000:020}.index"
    path.write_bytes(small.to_bytes())
    width = small.ENTRY.itemsize
    os.truncate(path, (1 << 20) // width * width)  # sparse, as a broker's
    for how in (type(small).open, type(small).read, type(small).read_live):
        assert how(path).to_bytes() == small.to_bytes()
    data, size = read_slots(path, width)
    assert size == path.stat().st_size
    assert len(data) % width == 0
    os.truncate(path, (1 << 20) // width * width + 1)
    with pytest.raises(CorruptIndexError, match="1 bytes after"):
        type(small).read(path)


@EVERY
def test_data_after_a_hole_is_found(tmp_path, small):
    path = tmp_path / f"{1000:020}.index"
    path.write_bytes(small.to_bytes())
    width = small.ENTRY.itemsize
    with path.open("r+b") as file:
        file.seek(100_000 * width)
        file.write(small.to_bytes())
    with pytest.raises(CorruptIndexError, match=f"entry {len(small)} "):
        type(small).read(path)
    assert type(small).read_live(path).to_bytes() == small.to_bytes()


@pytest.mark.parametrize("index", SMALL[:2], ids=lambda index: type(index).__name__)
class TestLookup:
    def test_answers_have_the_shape_of_the_question(self, index):
        assert index.lookup([]).shape == (0,)
        assert index.lookup([[], []]).shape == (2, 0)
        assert index.lookup(np.arange(12).reshape(3, 4)).shape == (3, 4)
        for scalar in (1005, np.int64(1005), np.array(1005)):
            answer = index.lookup(scalar)
            assert isinstance(answer, np.int64)
            assert answer == index.lookup([1005])[0]
        assert index.lookup([3]).dtype == np.int64

    def test_any_integers_will_do(self, index):
        targets = np.array([0, 900, 1003, 1006, 30_000])
        answer = index.lookup(targets).tolist()
        for kind in (">i8", "<i4", ">i4", "u2", "u4", "u8"):
            assert index.lookup(targets.astype(kind)).tolist() == answer
        assert index.lookup(np.repeat(targets, 3)[::3]).tolist() == answer
        assert index.lookup(targets[::-1]).tolist() == answer[::-1]
        assert index.lookup(tuple(targets.tolist())).tolist() == answer

    def test_targets_out_of_range_are_before_or_after_all_entries(self, index):
        last = index.lookup([2**62])[0]
        first = index.lookup([-1])[0]
        assert index.lookup([2**63 - 1, -(2**63)]).tolist() == [last, first]
        assert index.lookup(np.array([2**64 - 1, 0], np.uint64)).tolist() == [
            last,
            first,
        ]

    @pytest.mark.parametrize(
        "targets",
        [1.0, [1.5], np.empty(0), True, [True, False], ["7"], [None], [2**70]],
        ids=repr,
    )
    def test_anything_but_integers_is_refused(self, index, targets):
        with pytest.raises(TypeError, match="integers"):
            index.lookup(targets)


@pytest.mark.parametrize(
    ("name", "base_offset"),
    [
        ("00000000000000041000.index", 41_000),
        ("00000000000000041000.timeindex.deleted", 41_000),
        ("41000_kCrXQ6jvSJO3vqhdVYPg2w.txnindex", 41_000),
        ("09223372036854775807.index", 2**63 - 1),
    ],
)
def test_the_base_offset_is_read_from_the_name(name, base_offset):
    assert base_offset_of(f"orders-0/{name}") == base_offset


@pytest.mark.parametrize(
    "name", ["index", "x7.index", "9223372036854775808.index", "\u0661.index"]
)
def test_a_name_without_a_base_offset_needs_one(tmp_path, name):
    (tmp_path / name).write_bytes(SMALL[0].to_bytes())
    for how in (OffsetIndex.open, OffsetIndex.read, OffsetIndex.read_live):
        with pytest.raises(ValueError, match="begins with an offset"):
            how(tmp_path / name)
        assert how(str(tmp_path / name), 1000).offsets.tolist() == [1003, 1005, 1007]


def test_a_missing_file_raises_the_error_of_the_system(tmp_path):
    for how in (OffsetIndex.open, OffsetIndex.read, OffsetIndex.read_live):
        with pytest.raises(FileNotFoundError):
            how(tmp_path / f"{0:020}.index")

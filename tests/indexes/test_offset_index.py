"""The offset index against files that brokers wrote, and against damage."""

import numpy as np
import pytest

from kafkalog.errors import CorruptIndexError
from kafkalog.indexes.offset_index import ENTRY, OffsetIndex
from tests.indexes.golden import golden_indexes, greatest

GOLDEN = golden_indexes(".index")
WORKED = bytes.fromhex("000000030000007300000005000000e60000000700000159")


@pytest.fixture
def index():
    return OffsetIndex.build([1003, 1005, 1007], [115, 230, 345], base_offset=1000)


def raw(entries):
    return np.array(entries, dtype=ENTRY).tobytes()


@pytest.mark.parametrize(("path", "truth"), GOLDEN)
@pytest.mark.parametrize("how", ["open", "read", "read_live"])
def test_entries_are_those_that_kafka_reads(path, truth, how):
    index = getattr(OffsetIndex, how)(path)
    assert index.base_offset == int(path.stem)
    columns = index.offsets.tolist(), index.entries["position"].tolist()
    assert [list(pair) for pair in zip(*columns, strict=True)] == truth["entries"]


@pytest.mark.parametrize(("path", "truth"), GOLDEN)
def test_lookups_at_and_around_each_entry_are_right(path, truth):
    index, entries = OffsetIndex.open(path), truth["entries"]
    targets = [offset + d for offset, _ in entries for d in (-1, 0, 1)]
    positions = [greatest(entries, target, 0) for target in targets]
    assert index.lookup(targets).tolist() == positions
    assert [index.lookup(target) for target in targets] == positions
    slots = index.slots_at_positions([position for _, position in entries])
    assert slots.tolist() == list(range(len(entries)))


def test_the_worked_example_is_written_byte_for_byte(index):
    assert index.to_bytes() == WORKED
    assert OffsetIndex.from_bytes(WORKED, 1000).to_bytes() == WORKED


def test_the_worked_example_is_looked_up_as_kafka_does(index):
    targets = [999, 1002, 1003, 1004, 1005, 1007, 1008]
    assert index.lookup(targets).tolist() == [0, 0, 115, 115, 230, 345, 345]
    assert index.slots(targets).tolist() == [-1, -1, 0, 0, 1, 2, 2]


def test_ranges_are_half_open(index):
    assert index.between_offsets(1003, 1007) == slice(0, 2)
    assert index.between_offsets(1004, 1004) == slice(1, 1)
    assert index.between_offsets(1008, 0) == slice(3, 3)
    assert index.between_offsets(-(2**63), 2**63 - 1) == slice(0, 3)
    assert index.between_positions(0, 345) == slice(0, 2)
    assert index.between_positions(116, 10**12) == slice(1, 3)


def test_the_upper_bound_of_a_fetch_is_the_next_entry(index):
    requested = [0, 115, 116, 345, 346]
    found = [index.offset_from(position) for position in requested]
    assert found == [1003, 1003, 1005, 1007, None]


def test_lookups_in_an_empty_index_return_the_start():
    index = OffsetIndex.from_bytes(b"", 500)
    assert index.lookup([0, 500, 2**63 - 1]).tolist() == [0, 0, 0]
    assert index.lookup(500) == 0
    assert index.slots([1]).tolist() == [-1]
    assert index.between_offsets(0, 10) == slice(0, 0)
    assert index.offset_from(0) is None
    assert len(index.offsets) == 0


def test_preallocated_zeros_are_not_entries():
    data = raw([(10, 4096), (20, 8192), (0, 0), (0, 0)])
    index = OffsetIndex.from_bytes(data, 500)
    assert index.lookup([9_000]).tolist() == [8192]
    assert len(OffsetIndex.from_bytes(bytes(4096), 500)) == 0


@pytest.mark.parametrize(
    "third", [(20, 12_288), (15, 12_288), (21, 8192), (21, 4000), (-1, -1), (0, 1)]
)
def test_an_error_names_the_entry_that_does_not_ascend(tmp_path, third):
    path = tmp_path / "500.index"
    path.write_bytes(raw([(10, 4096), (20, 8192), third, (0, 0)]))
    for how in (OffsetIndex.open, OffsetIndex.read):
        with pytest.raises(
            CorruptIndexError, match=r"entry 2 .*500.index at"
        ) as caught:
            how(path)
        assert caught.value.position == 16
        assert caught.value.path == path
    assert OffsetIndex.read_live(path).offsets.tolist() == [510, 520]


def test_zeros_between_entries_are_rejected():
    with pytest.raises(CorruptIndexError, match="entry 1 does not rise above entry 0"):
        OffsetIndex.from_bytes(raw([(10, 4096), (0, 0), (20, 8192)]), 0)
    with pytest.raises(CorruptIndexError, match="entry 1 does not rise above entry 0"):
        OffsetIndex.from_bytes(raw([(0, 0), (0, 0), (20, 8192)]), 0)


def test_an_error_names_negative_fields():
    with pytest.raises(CorruptIndexError, match=r"entry 0 is negative: .* -1, pos.* 8"):
        OffsetIndex.from_bytes(raw([(-1, 8)]), 0)


@pytest.mark.parametrize(
    ("offsets", "positions", "reason"),
    [
        ([499], [8], "entry 0 is negative"),
        ([500 + 2**31], [8], "expected -2147483648"),
        ([501], [2**31], "expected -2147483648"),
        ([501, 501], [8, 9], "entry 1 does not rise"),
        ([501, 502], [8, 8], "entry 1 does not rise"),
        ([501], [8, 9], "different lengths"),
    ],
)
def test_invalid_columns_are_rejected(offsets, positions, reason):
    with pytest.raises(ValueError, match=reason):
        OffsetIndex.build(offsets, positions, 500)


def test_an_empty_index_is_built_from_empty_columns():
    assert OffsetIndex.build([], [], 7).to_bytes() == b""

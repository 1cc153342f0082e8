"""The time index against files that brokers wrote, and against damage."""

import numpy as np
import pytest

from kafkalog.errors import CorruptIndexError
from kafkalog.indexes.time_index import ENTRY, TimeIndex
from tests.indexes.golden import golden_indexes, greatest

GOLDEN = golden_indexes(".timeindex")
T = 1_700_000_000_000
WORKED = bytes.fromhex("0000018bcfe56be9000000030000018bcfe56fd100000007")


@pytest.fixture
def index():
    return TimeIndex.build([T + 1001, T + 2001], [1003, 1007], base_offset=1000)


def raw(entries):
    return np.array(entries, dtype=ENTRY).tobytes()


@pytest.mark.parametrize(("path", "truth"), GOLDEN)
@pytest.mark.parametrize("how", ["open", "read", "read_live"])
def test_entries_are_those_that_kafka_reads(path, truth, how):
    index = getattr(TimeIndex, how)(path)
    columns = index.timestamps.tolist(), index.offsets.tolist()
    assert [list(pair) for pair in zip(*columns, strict=True)] == truth["entries"]


@pytest.mark.parametrize(("path", "truth"), GOLDEN)
def test_lookups_at_and_around_each_entry_are_right(path, truth):
    index, entries = TimeIndex.open(path), truth["entries"]
    targets = [timestamp + d for timestamp, _ in entries for d in (-1, 0, 1)]
    offsets = [greatest(entries, target, index.base_offset) for target in targets]
    assert index.lookup(targets).tolist() == offsets
    assert [index.lookup(target) for target in targets] == offsets


def test_the_worked_example_is_written_byte_for_byte(index):
    assert index.to_bytes() == WORKED


def test_lookups_before_all_entries_return_the_base_offset(index):
    targets = [-1, T + 1000, T + 1001, T + 2000, T + 2001, 2**63 - 1]
    assert index.lookup(targets).tolist() == [1000, 1000, 1003, 1003, 1007, 1007]
    assert TimeIndex.from_bytes(b"", 77).lookup([5, -5]).tolist() == [77, 77]
    assert TimeIndex.from_bytes(b"", 77).lookup(5) == 77


def test_ranges_are_half_open(index):
    assert index.between_timestamps(T + 1001, T + 2001) == slice(0, 1)
    assert index.between_timestamps(T + 1002, 2**63 - 1) == slice(1, 2)
    assert index.between_offsets(1003, 1008) == slice(0, 2)
    assert index.slots_at_offsets([1002, 1003, 1008]).tolist() == [-1, 0, 1]


def test_an_offset_may_repeat_while_timestamps_ascend():
    index = TimeIndex.from_bytes(raw([(5, 7), (6, 7), (7, 8)]), 0)
    assert index.offsets.tolist() == [7, 7, 8]
    assert index.slots_at_offsets([7]).tolist() == [1]


def test_twelve_zero_bytes_are_an_entry_only_before_an_ascending_one():
    zeros_first = TimeIndex.from_bytes(raw([(0, 0), (5, 7), (0, 0)]), 100)
    assert zeros_first.offsets.tolist() == [100, 107]
    assert len(TimeIndex.from_bytes(raw([(0, 0), (0, 0)]), 100)) == 0


@pytest.mark.parametrize("third", [(20, 9), (19, 9), (21, 7), (-1, 9), (0, 9)])
def test_an_error_names_the_entry_that_does_not_ascend(tmp_path, third):
    path = tmp_path / "00000000000000000500.timeindex"
    path.write_bytes(raw([(10, 4), (20, 8), third, (0, 0)]))
    with pytest.raises(CorruptIndexError, match="entry 2") as caught:
        TimeIndex.open(path)
    assert caught.value.position == 24
    assert TimeIndex.read_live(path).timestamps.tolist() == [10, 20]


def test_an_error_names_negative_fields():
    with pytest.raises(CorruptIndexError, match="entry 0 is negative: timestamp -1"):
        TimeIndex.from_bytes(raw([(-1, 8)]), 0)


def test_invalid_columns_are_rejected():
    with pytest.raises(ValueError, match="entry 1 does not rise"):
        TimeIndex.build([5, 5], [1, 2], 0)
    with pytest.raises(ValueError, match="entry 0 is negative"):
        TimeIndex.build([-1], [1], 0)

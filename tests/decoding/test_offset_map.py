"""The offset map has the hashes, slots and probes of Kafka's; full maps."""

import hashlib
import random

import numpy as np
import pytest

from kafkalog import _speedups
from kafkalog.decoding.offset_map import MARKED_OFFSETS, OffsetMap
from kafkalog.encoding.record_columns import ByteColumn
from kafkalog.errors import LogArgumentError

NO_MARKS = np.empty(0, np.uint8)
LENGTHS = [0, 1, 3, 16, 54, 55, 56, 63, 64, 65, 119, 120, 128, 1000]


class ReferenceMap:
    """An offset map as Kafka's SkimpyOffsetMap defines it, in plain Python."""

    def __init__(self, memory):
        self.slots = memory // 24
        self.table = [None] * self.slots
        self.entries = 0

    def _probe(self, hashed, attempt):
        window = min(attempt, 12)
        value = int.from_bytes(hashed[window : window + 4]) + max(0, attempt - 12)
        value = (value + 2**31) % 2**32 - 2**31
        return (0 if value == -(2**31) else abs(value)) % self.slots

    def put(self, key, offset):
        hashed = hashlib.md5(key).digest()
        attempt = 0
        while True:
            slot = self._probe(hashed, attempt)
            if self.table[slot] is None:
                self.table[slot] = [hashed, offset]
                self.entries += 1
                return
            if self.table[slot][0] == hashed:
                self.table[slot][1] = offset
                return
            attempt += 1

    def get(self, key):
        hashed = hashlib.md5(key).digest()
        for attempt in range(self.slots + 12):
            entry = self.table[self._probe(hashed, attempt)]
            if entry is None:
                return -1
            if entry[0] == hashed:
                return entry[1]
        return -1


@pytest.mark.parametrize("count", [1, 15, 16, 17, 64, 200])
def test_the_table_has_the_md5_of_each_key(count):
    draw = random.Random(count)
    keys = [
        None if draw.random() < 0.1 else draw.randbytes(draw.choice(LENGTHS))
        for _ in range(count)
    ]
    offsets = OffsetMap(24 * 300)
    assert offsets.put(ByteColumn.of(keys), np.arange(count), 300) == count
    slots = offsets._table.reshape(-1, 24)
    used = {slot[:16].tobytes() for slot in slots if slot.any()}
    assert used == {hashlib.md5(key).digest() for key in keys if key is not None}


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("share", [0.3, 0.9, 1])
def test_kafka_finds_the_same_offsets_in_the_table(slots, share):
    draw = random.Random(slots)
    offsets, reference = OffsetMap(24 * slots + 23), ReferenceMap(24 * slots + 23)
    most = max(1, int(slots * share))
    keys = [b"%d" % draw.randrange(2 * slots) for _ in range(4 * slots)]
    done = offsets.put(ByteColumn.of(keys), np.arange(len(keys)), most)
    for offset, key in enumerate(keys):
        if reference.entries >= most:
            assert done == offset
            break
        reference.put(key, offset)
    else:
        assert done == len(keys)
    assert offsets.entries == reference.entries
    assert offsets.latest_offset == done - 1
    searched = [b"%d" % number for number in range(3 * slots)]
    expected = [reference.get(key) for key in searched]
    assert offsets.find(ByteColumn.of(searched)).tolist() == expected
    # The slots of new keys are taken in another order, but found by the same probes.
    reference.table = [
        (slot[:16].tobytes(), int(slot[16:].view(np.int64)[0])) if slot.any() else None
        for slot in offsets._table.reshape(-1, 24)
    ]
    assert [reference.get(key) for key in searched] == expected


@pytest.mark.parametrize("start", [0, 5, MARKED_OFFSETS])
@pytest.mark.parametrize("order", ["ascending", "repeated", "descending"])
@pytest.mark.parametrize("first", [4, 40, MARKED_OFFSETS - 300])
def test_records_are_latest_if_the_map_has_no_higher_offset(first, order, start):
    draw = random.Random(first)
    offsets, reference = OffsetMap(24 * 200), ReferenceMap(24 * 200)
    offsets.clear(start)
    numbers, names = np.arange(first, first + 640, 2), []
    if order == "repeated":
        numbers[200] = numbers[199]
    elif order == "descending":
        numbers[160:] = numbers[160:][::-1].copy()
    for part in np.split(numbers, 4):
        added = [b"%d" % draw.randrange(60) for _ in part]
        assert offsets.put(ByteColumn.of(added), part, 200) == len(part)
        for name, offset in zip(added, part.tolist(), strict=True):
            reference.put(name, offset)
        names += added
    # Records that were not put, with offsets before, in and after those that were.
    names += [b"0", b"1", b"2", b"new", b"3", b"4"]
    numbers = np.append(
        numbers, [1, first - 1, first + 1, first + 9, first + 99, 2**30]
    )
    found = offsets.are_latest(ByteColumn.of(names), numbers).tolist()
    for name, offset, is_latest in zip(names, numbers.tolist(), found, strict=True):
        assert is_latest == (offset >= reference.get(name)), (name, offset)


def test_ranges_are_superseded_if_each_of_their_offsets_is():
    draw = random.Random(7)
    offsets, start, put = OffsetMap(24 * 200), 100, {}
    offsets.clear(start)
    # Few keys at first, so that long ranges are superseded; then one offset twice.
    names = [b"%d" % draw.randrange(3 if row < 300 else 40) for row in range(400)]
    numbers = np.arange(90, 490)
    numbers[50] = numbers[49]
    offsets.put(ByteColumn.of(names), numbers, 200)
    for name, offset in zip(names, numbers.tolist(), strict=True):
        put.setdefault(offset, []).append(name)
    last = dict(zip(names, numbers.tolist(), strict=True))
    superseded = {
        offset
        for offset, keys in put.items()
        if offset >= start and len(keys) == 1 and offset < last[keys[0]]
    }
    bounds = [(first, first + size) for first in range(85, 500) for size in range(12)]
    bounds += [(300, 299), (-(2**62), 2**62), (start, 2**62), (2**62, 2**62)]
    columns = np.array(bounds).T
    found = offsets.are_superseded(*columns).tolist()
    expected = [
        first <= end
        and start <= first
        and end < 500
        and set(range(first, end + 1)) <= superseded
        for first, end in bounds
    ]
    assert found == expected
    assert sum(expected) > 100


def test_a_cleared_map_marks_no_offset():
    offsets, keys = OffsetMap(240), ByteColumn.of([b"a", b"a"])
    offsets.put(keys, np.arange(2), 9)
    assert offsets.are_latest(keys, np.arange(2)).tolist() == [False, True]
    offsets.clear()
    assert offsets.are_latest(keys, np.arange(2)).tolist() == [True, True]


def test_the_last_offset_put_wins_even_if_it_is_lower():
    offsets = OffsetMap(240)
    offsets.put(ByteColumn.of([b"a", b"a"]), np.array([9, 4]), 9)
    assert offsets.find(ByteColumn.of([b"a"])).tolist() == [4]
    assert offsets.latest_offset == 4


def test_a_full_map_does_not_change_the_offset_of_a_key():
    offsets = OffsetMap(240)
    assert offsets.put(ByteColumn.of([b"a", b"b", b"a"]), np.arange(3), 2) == 2
    assert offsets.find(ByteColumn.of([b"a"])).tolist() == [0]
    assert offsets.latest_offset == 1


def test_null_keys_are_skipped_also_by_a_full_map():
    offsets = OffsetMap(240)
    keys = ByteColumn.of([None, b"a", None, None, b"b"])
    assert offsets.put(keys, np.arange(5), 1) == 4
    assert offsets.latest_offset == 1
    assert offsets.find(keys).tolist() == [-1, 1, -1, -1, -1]


def test_a_cleared_map_is_empty():
    offsets = OffsetMap(240)
    offsets.put(ByteColumn.of([b"a"]), np.arange(1), 9)
    offsets.clear()
    assert (offsets.entries, offsets.latest_offset, offsets.utilization) == (0, -1, 0)
    assert offsets.find(ByteColumn.of([b"a"])).tolist() == [-1]


def test_a_map_without_a_slot_is_rejected():
    with pytest.raises(LogArgumentError, match="23 bytes, expected at least 24"):
        OffsetMap(23)


@pytest.mark.parametrize("start", [-1, 3, 2**40])
def test_the_kernels_reject_a_key_outside_of_its_data(start):
    keys = ByteColumn(
        np.zeros(4, np.uint8), np.array([0, start]), np.array([4, 2], np.int32)
    )
    table, offsets = np.zeros(240, np.uint8), np.arange(2)
    assert _speedups.put_offsets(table, 0, 9, keys, offsets, NO_MARKS, 0)[0] == -1
    assert _speedups.find_offsets(table, keys, offsets.copy()) == 0


def test_a_table_of_more_slots_than_an_int32_counts_is_rejected(tmp_path):
    table = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(24 << 31,))
    with pytest.raises(ValueError, match="has 2147483648 slots, expected 1 to"):
        _speedups.find_offsets(table, ByteColumn.of([b"a"]), np.empty(1, np.int64))


def test_a_full_table_ends_the_search_for_a_slot():
    table, keys = np.zeros(48, np.uint8), ByteColumn.of([b"a", b"b", b"c"])
    assert _speedups.put_offsets(table, 0, 9, keys, np.arange(3), NO_MARKS, 0) == (
        -1,
        2,
    )
    assert _speedups.find_offsets(table, keys, found := np.empty(3, np.int64)) == 3
    assert found.tolist() == [0, 1, -1]

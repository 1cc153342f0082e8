"""Totals of groups, added up as rows arrive, in bounded memory.

Where there are more than twice `max_groups` groups, those with the least bytes are
dropped, and added to the total of all dropped ones. A group that was dropped may occur
again, so that the bytes stated for it are too few: by no more than the greatest dropped
bytes, summed over all droppings (Misra and Gries, 1982). Until then all totals are
exact.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Bytes, Int32s, Int64s
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.query.chunk_columns import BytesColumn

ROWS: Final = 1 << 17
"""Number of rows after which it is determined whether groups have to be dropped."""

MAX_KEY_BYTES: Final = 1 << 30
"""Bytes of keys above which groups are dropped even if there are few."""

FIRST_GROUPS: Final = 1 << 10
"""Number of groups for which there is memory at first."""

ENTRY_FIELDS: Final = 3
"""The fields of a group in a table: its hash, and the begin and length of its key."""

FUNCTIONS: Final = {
    "first_timestamp": np.minimum,
    "first_offset": np.minimum,
    "max_timestamp": np.maximum,
    "last_offset": np.maximum,
}
"""The functions of measures that are not sums."""

IDENTITIES: Final[dict[np.ufunc, int]] = {
    np.add: 0,
    np.minimum: MAX_INT64,
    np.maximum: MIN_INT64,
}
"""The value of a measure without a value, which leaves any other as it is."""


class Keys(NamedTuple):
    """Keys of rows: the spans of `data` from `starts` on; a length of -1 is null."""

    data: Bytes
    starts: Int32s
    lengths: Int32s

    def between(self, first: int, end: int) -> Keys:
        """Return the keys of the rows from `first` up to `end`."""
        return Keys(self.data, self.starts[first:end], self.lengths[first:end])


def no_keys(count: int) -> Keys:
    """Return null keys, for rows that are not grouped by them."""
    starts = np.zeros(count, np.int32)
    return Keys(np.empty(0, np.uint8), starts, starts - 1)


def function_of(measure: str) -> np.ufunc:
    """Return the function that adds up a measure."""
    return FUNCTIONS.get(measure, np.add)


@dataclass(slots=True)
class GroupTable:
    """A hash table of groups, each of `width` numbers and a key; see `find_groups`."""

    width: int
    count: int = 0
    codes: Int64s = field(init=False)
    _slots: Int32s = field(init=False)
    _entries: Int64s = field(init=False)
    _keys: Bytes = field(init=False)
    _seed: int = field(init=False)

    def __post_init__(self) -> None:
        # No log can be made so that its keys collide: the seed is not known before.
        self._seed = int.from_bytes(os.urandom(8))
        self.codes = np.empty((FIRST_GROUPS, self.width), np.int64)
        self._entries = np.empty((FIRST_GROUPS, ENTRY_FIELDS), np.int64)
        self._keys = np.empty(0, np.uint8)
        self._fill_slots()

    @property
    def capacity(self) -> int:
        """The number of groups for which there is memory."""
        return len(self._entries)

    @property
    def key_bytes(self) -> int:
        """The number of bytes of all keys."""
        if not self.count:
            return 0
        _, begin, length = self._entries[self.count - 1].tolist()
        return int(begin + max(length, 0))

    def find(self, keys: Keys, codes: Int64s) -> Int32s:
        """Return the number of the group of each row; new groups are appended."""
        hashes = np.empty(len(codes), np.uint64)
        hashed = _speedups.hash_rows(*keys, codes, self._seed, hashes)
        assert hashed == len(codes)  # a decoded key is within its data
        groups, done = np.empty(len(codes), np.int32), 0
        while done < len(codes):
            rest = slice(done, None)
            more, self.count = _speedups.find_groups(
                *(keys.data, keys.starts[rest], keys.lengths[rest]),
                *(codes[rest], hashes[rest]),
                (self._slots, self._entries, self.codes, self._keys),
                self.count,
                groups[rest],
            )
            done += more
            if done < len(codes):
                self._grow(max(int(keys.lengths[done]), 0))
        return groups

    def keep(self, groups: npt.NDArray[np.intp]) -> None:
        """Remove all other groups; these get the numbers from 0 on."""
        self._keys, lengths = self._gathered(groups)
        sizes = np.maximum(lengths, 0)
        self._entries, self.codes = self._entries[groups], self.codes[groups]
        self._entries[:, 1] = np.cumsum(sizes) - sizes
        self.count = len(groups)
        self._fill_slots()

    def column(self, groups: npt.NDArray[np.intp]) -> BytesColumn:
        """Return the keys of groups; they have less than 2 GiB."""
        data, lengths = self._gathered(groups)
        offsets = np.zeros(len(groups) + 1, np.int32)
        np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
        return BytesColumn(data, offsets, lengths >= 0)

    def keys(self) -> Keys:
        """Return the keys of all groups; they have less than 2 GiB."""
        spans = np.ascontiguousarray(self._entries[: self.count, 1:].T, np.int32)
        return Keys(self._keys, *spans)

    def _gathered(self, groups: npt.NDArray[np.intp]) -> tuple[Bytes, Int64s]:
        """Return the bytes of the keys of groups, one after another, and lengths."""
        begins, lengths = np.ascontiguousarray(self._entries[groups, 1:].T)
        out = np.empty(int(np.maximum(lengths, 0).sum()), np.uint8)
        _speedups.gather_bytes(self._keys, begins, lengths, out)
        return out, lengths

    def _grow(self, key_size: int) -> None:
        """Enlarge the table for more groups, and for a key of that size."""
        if self.count == self.capacity:
            size = max(2 * self.count, FIRST_GROUPS)
            self._entries = resized(self._entries, size)
            self.codes = resized(self.codes, size)
            self._fill_slots()
        if key_size > len(self._keys) - self.key_bytes:
            size = max(2 * len(self._keys), self.key_bytes + key_size)
            self._keys = resized(self._keys, size)

    def _fill_slots(self) -> None:
        """Make slots for as many groups as fit, which use half of them at most."""
        slots = 1 << (2 * max(self.capacity, 1) - 1).bit_length()
        self._slots = np.full(slots, -1, np.int32)
        _speedups.fill_slots(self._entries[: self.count], self._slots)


def resized(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Return a larger copy of an array, whose new rows are undefined."""
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@dataclass(slots=True, kw_only=True)
class GroupTotals:
    """Totals of groups, by the numbers `groups` and maybe a key, of `measures`.

    Measures are int64; one of them is ``bytes``. `dropped` are the totals of dropped
    groups, None until there are any.
    """

    groups: tuple[str, ...]
    measures: tuple[str, ...]
    max_groups: int
    error_bytes: int = 0
    dropped: dict[str, int] | None = None
    table: GroupTable = field(init=False)
    _totals: Int64s = field(init=False)
    _order: tuple[str, ...] = field(init=False)
    _numbers: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.table = GroupTable(len(self.groups))
        functions = [*IDENTITIES]
        self._order = tuple(
            sorted(self.measures, key=lambda name: functions.index(function_of(name)))
        )
        found = [function_of(name) for name in self.measures]
        self._numbers = found.count(np.add), found.count(np.minimum)
        self._totals = self._no_totals(0)

    def add(self, rows: Mapping[str, Int64s], keys: Keys | None = None) -> None:
        """Add rows: an array for each group and each measure, and maybe keys."""
        count = len(rows["bytes"])
        keys = no_keys(count) if keys is None else keys
        codes = np.empty((count, len(self.groups)), np.int64)
        for i, name in enumerate(self.groups):
            codes[:, i] = rows[name]
        for first in range(0, count, ROWS):
            end = min(first + ROWS, count)
            groups = self.table.find(keys.between(first, end), codes[first:end])
            if self.table.count > len(self._totals):
                more = self._no_totals(self.table.capacity - len(self._totals))
                self._totals = np.concatenate((self._totals, more))
            measures = np.empty((len(self._order), end - first), np.int64)
            for i, name in enumerate(self._order):
                measures[i] = rows[name][first:end]
            _speedups.add_measures(groups, measures, *self._numbers, self._totals)
            if self.table.count > 2 * self.max_groups:
                self._keep_largest(self.max_groups)
            elif self.table.key_bytes > MAX_KEY_BYTES:
                self._keep_largest(max(self.table.count // 2, 1))

    def merge(self, other: GroupTotals) -> None:
        """Add the totals of other rows, grouped in the same way."""
        codes = other.table.codes[: other.table.count].T
        rows = dict(zip(self.groups, codes, strict=True))
        rows |= {name: other.column(name) for name in self.measures}
        self.add(rows, other.table.keys())
        if other.dropped is not None:
            self.dropped = self.with_dropped(other.dropped)
            self.error_bytes += other.error_bytes

    def column(self, measure: str) -> Int64s:
        """Return the totals of a measure, one for each group in the table."""
        return self._totals[: self.table.count, self._order.index(measure)]

    def sum_of(self, groups: npt.NDArray[np.intp]) -> dict[str, int]:
        """Return the totals of some groups together."""
        totals = dict[str, int]()
        for name in self.measures:
            function = function_of(name)
            values = self.column(name)[groups]
            totals[name] = int(function.reduce(values, initial=IDENTITIES[function]))
        return totals

    def with_dropped(self, totals: dict[str, int]) -> dict[str, int]:
        """Return the sum of totals and those of the dropped groups."""
        if self.dropped is None:
            return totals
        return {
            name: int(function_of(name)(value, self.dropped[name]))
            for name, value in totals.items()
        }

    def _no_totals(self, count: int) -> Int64s:
        """Return the totals of groups without rows."""
        none = [IDENTITIES[function_of(name)] for name in self._order]
        return np.tile(np.array(none, np.int64), (count, 1))

    def _keep_largest(self, count: int) -> None:
        """Drop all but the `count` groups with the most bytes."""
        sizes = self.column("bytes")
        order = np.argpartition(sizes, len(sizes) - count)
        rest, kept = np.split(order, [len(sizes) - count])
        self.error_bytes += int(sizes[rest].max())
        self.dropped = self.with_dropped(self.sum_of(rest))
        self._totals = self._totals[kept]
        self.table.keep(kept)

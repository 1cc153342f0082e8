"""Iteration order of a Java ``HashMap`` with ``Long`` keys.

Kafka writes the producers of a snapshot, and updates the producers of an append, in
this order. Entries are in buckets, and within a bucket in insertion order. A map begins
with 16 buckets. Their number doubles when more than three quarters as many entries are
in the map, or when a bucket gets its ninth entry while there are fewer than 64 buckets.
It never decreases.

With 64 buckets or more, Java converts a bucket with nine entries to a tree, whose order
is different. This is not implemented: producer ids collide so only if chosen to.

Source: ``java.util.HashMap``, ``java.lang.Long.hashCode``.
"""

from __future__ import annotations

from typing import Final, TypeVar

_MIN_BUCKETS: Final = 16
_CROWDED_BUCKET: Final = 8
_BUCKETS_FOR_TREES: Final = 64

V = TypeVar("V")


def spread_hash(key: int) -> int:
    """Return the hash of a ``long`` in Java's map, as an unsigned number.

    >>> spread_hash(5), spread_hash(-1), spread_hash(1 << 16)
    (5, 0, 65537)
    """
    folded = (key ^ (key & 0xFFFF_FFFF_FFFF_FFFF) >> 32) & 0xFFFF_FFFF
    return folded ^ (folded >> 16)


class HashOrderedDict(dict[int, V]):
    """Dictionary with ``long`` keys that can also list them in Java's order.

    Its own iteration is in insertion order. Only assignment, ``del``, ``pop`` and
    `clear` maintain the number of buckets. `clear` keeps the buckets, as in Java.

    >>> entries = HashOrderedDict()
    >>> for key in (33, 17, 1, 0):
    ...     entries[key] = None
    >>> entries.in_hash_order()
    [0, 33, 17, 1]
    """

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        super().__init__()
        self.buckets = _MIN_BUCKETS

    def __setitem__(self, key: int, value: V) -> None:
        """Set an entry; a new one may double the number of buckets, even twice."""
        if key in self:
            super().__setitem__(key, value)
            return
        super().__setitem__(key, value)
        if self.buckets < _BUCKETS_FOR_TREES and self._is_crowded(key):
            self.buckets *= 2
        if len(self) > self.buckets * 3 // 4:
            self.buckets *= 2

    def in_hash_order(self) -> list[int]:
        """Return the keys in the iteration order of Java's map."""
        mask = self.buckets - 1
        return sorted(self, key=lambda key: spread_hash(key) & mask)

    def _is_crowded(self, key: int) -> bool:
        mask = self.buckets - 1
        bucket = spread_hash(key) & mask
        same = sum(spread_hash(other) & mask == bucket for other in self)
        return same > _CROWDED_BUCKET


def computed_order(keys: list[int], *, again: bool) -> list[int]:
    """Return keys in the order of a map that they were added to by ``computeIfAbsent``.

    This method adds a key at the front of its bucket, and doubles the buckets in the
    call *after* the one that filled them. `again` states that a call for an existing
    key followed that of the last new key.

    >>> computed_order([17, 1, 0], again=False)
    [0, 1, 17]
    """
    if len(keys) < 2:
        return keys
    buckets = _MIN_BUCKETS
    hashes: list[int] = []
    for count, key in enumerate(keys):
        if count > buckets * 3 // 4:
            buckets *= 2
        if buckets < _BUCKETS_FOR_TREES:
            mask, bucket = buckets - 1, spread_hash(key) & (buckets - 1)
            if sum(other & mask == bucket for other in hashes) >= _CROWDED_BUCKET - 1:
                buckets *= 2
        hashes.append(spread_hash(key))
    if again and len(keys) > buckets * 3 // 4:
        buckets *= 2
    newest_first = keys[::-1]
    return sorted(newest_first, key=lambda key: spread_hash(key) & (buckets - 1))

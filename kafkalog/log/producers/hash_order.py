"""The order in which a Java ``HashMap`` with ``Long`` keys gives its entries.

Kafka writes a snapshot's producers in that order, and takes the producers of one append
over in it. Entries lie in buckets, and in a bucket in the order they came. There are 16
buckets at first, and twice as many when there are entries for more than three quarters
of them, or when a bucket gets its ninth entry while there are fewer than 64; they never
become fewer.

With 64 buckets or more, Java makes a tree of a bucket that gets its ninth entry, and
from then on gives them in an order that depends on the tree. That is not followed here:
ids fall so only if they are chosen to.

Knows: keys and their order. Does not know: what stands under a key.
Source: ``java.util.HashMap``, ``java.lang.Long.hashCode``.
"""

from __future__ import annotations

from typing import Final, TypeVar

_LEAST_BUCKETS: Final = 16
_CROWDED_BUCKET: Final = 8
_BUCKETS_FOR_TREES: Final = 64

V = TypeVar("V")


def spread_hash(key: int) -> int:
    """Hash a ``long`` as Java's map does, without sign.

    >>> spread_hash(5), spread_hash(-1), spread_hash(1 << 16)
    (5, 0, 65537)
    """
    folded = (key ^ (key & 0xFFFF_FFFF_FFFF_FFFF) >> 32) & 0xFFFF_FFFF
    return folded ^ (folded >> 16)


class HashOrderedDict(dict[int, V]):
    """A dictionary by ``long`` keys that knows Java's order, too.

    Entries are set and removed as in any dictionary, whose own order is that of coming;
    only assignment, ``del``, ``pop`` and `clear` keep count of the buckets. `clear`
    keeps the buckets there are, as Java does.

    >>> entries = HashOrderedDict()
    >>> for key in (33, 17, 1, 0):
    ...     entries[key] = None
    >>> entries.in_hash_order()
    [0, 33, 17, 1]
    """

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        super().__init__()
        self.buckets = _LEAST_BUCKETS

    def __setitem__(self, key: int, value: V) -> None:
        """Set an entry; a new one may double the buckets, even twice."""
        if key in self:
            super().__setitem__(key, value)
            return
        super().__setitem__(key, value)
        if self.buckets < _BUCKETS_FOR_TREES and self._is_crowded(key):
            self.buckets *= 2
        if len(self) > self.buckets * 3 // 4:
            self.buckets *= 2

    def in_hash_order(self) -> list[int]:
        """Return the keys as Java's map gives them."""
        mask = self.buckets - 1
        return sorted(self, key=lambda key: spread_hash(key) & mask)

    def _is_crowded(self, key: int) -> bool:
        mask = self.buckets - 1
        bucket = spread_hash(key) & mask
        same = sum(spread_hash(other) & mask == bucket for other in self)
        return same > _CROWDED_BUCKET


def computed_order(keys: list[int], *, again: bool) -> list[int]:
    """Order keys that came by ``computeIfAbsent`` as a map of their own gives them.

    There a key goes to the front of its bucket, and buckets are doubled at the call
    *behind* the one that filled them. `again` says that such a call, for a key that was
    there, followed the last new key.

    >>> computed_order([17, 1, 0], again=False)
    [0, 1, 17]
    """
    if len(keys) < 2:
        return keys
    buckets = _LEAST_BUCKETS
    hashes: list[int] = []
    for count, key in enumerate(keys):
        if count > buckets * 3 // 4:
            buckets *= 2
        if buckets < _BUCKETS_FOR_TREES:
            mask, bucket = buckets - 1, spread_hash(key) & (buckets - 1)
            if sum(one & mask == bucket for one in hashes) >= _CROWDED_BUCKET - 1:
                buckets *= 2
        hashes.append(spread_hash(key))
    if again and len(keys) > buckets * 3 // 4:
        buckets *= 2
    newest_first = keys[::-1]
    return sorted(newest_first, key=lambda key: spread_hash(key) & (buckets - 1))

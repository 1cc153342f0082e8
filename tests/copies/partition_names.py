"""Names whose partitions Kafka's own classes have chosen, and a digest of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

NAMES: Final = 10_000

GROUPS: Final = {
    1: "aa7e035ac5f29775076628e6fddd71a9edaa62e970002d633900babd63ea358f",
    3: "cf16092057bc5d3891b790f2fbcc0c36db3a3e66e38c74d450b473a164f56b61",
    7: "0feac52c9746a45c021ee493a2e89b0d4b577379158691dbfa5fb817af651bbf",
    50: "3e163ebff966026dd1e4ad8df41b323e60455258847a162d85e749e9c68bbb0d",
    64: "3e2e305acdcc4573f1ad7b82f8cca6568afbf31b41ab824be8bff40835fd7c88",
    1000: "cc930892cba143143fed56c02b17e5df5c434e33bac068dd6d2b90911f0701a1",
}
"""Digests of what ``GroupCoordinatorService.partitionFor`` returns, by partitions.

``TransactionStateManager.partitionFor`` returns the same. The program that asks Kafka
is ``tests/interop/KafkaPartitions.java``, and its test compares these digests.
"""

KEYS: Final = {
    1: "aa7e035ac5f29775076628e6fddd71a9edaa62e970002d633900babd63ea358f",
    3: "3d9d049a05d931c184ba1dd6bb45fe167d53c3cc96cc91e359de55c2aec19b5d",
    7: "40685fd6bb0f2e70234fe8280a77695717251bfad627bdfc4f0a85a0ba831a79",
    50: "353e5c78111e4b2cdc7fd1d956715e2e09318ea27b74bb0a598b1abe043fa44b",
    64: "3099a5fc3d6ce1bb9d9944efa3b2787bfb3a54af91aa422011355ed5e65935f7",
    1000: "91ccca45726e32e6a3bb54a28780d7aff134f4ca319b22fe75aca7ab35db0bad",
}
"""Digests of what ``BuiltInPartitioner.partitionForKey`` returns; keys are UTF-16."""

COUNTS: Final = tuple(GROUPS)
"""Numbers of partitions; 50 is the default of Kafka's internal topics."""


def names() -> Iterator[str]:
    """Yield names as users give them, of every length, and of any UTF-16 units."""
    yield ""
    yield "polygenelubricants"  # the hash code of Integer.MIN_VALUE
    for number in range(2, NAMES):
        drawn = hashlib.shake_256(str(number).encode()).digest(2 + 2 * 20)
        if number % 2:
            yield f"{('orders', 'billing', 'connect')[drawn[0] % 3]}-{number}"
        else:
            units = drawn[2 : 2 + 2 * (1 + drawn[1] % 20)]
            yield units.decode("utf-16-be", "surrogatepass")


def as_units(name: str) -> bytes:
    """Return the UTF-16 units of a name."""
    return name.encode("utf-16-be", "surrogatepass")


def digest_of(partitions: Iterable[int]) -> str:
    """Return the digest of the partitions of all names."""
    lines = "".join(f"{partition}\n" for partition in partitions)
    return hashlib.sha256(lines.encode()).hexdigest()

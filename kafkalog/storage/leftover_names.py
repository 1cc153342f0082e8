"""Which files an interrupted deletion, compaction or split left behind, by their names.

| suffix | state of the file | when the log is loaded |
|---|---|---|
| ``.deleted`` | to be removed | removed |
| ``.cleaned`` | being written | removed |
| ``.swap`` | complete, to replace other segments | replaces them |

A ``.swap`` is incomplete if there is a ``.cleaned`` at or below its offset: the split
was not finished. It is removed then. Loading and reading decide by the same functions.

Source: ``LogLoader.load``, ``removeTempFilesAndCollectSwapFiles``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kafkalog.errors import StrayFileError
from kafkalog.integer_limits import MAX_INT64
from kafkalog.storage.file_names import CLEANED, DELETED, SWAP
from kafkalog.text.decimal_text import int_from_text

METADATA_SNAPSHOT: Final = ".checkpoint.deleted"

OFFSET_DIGITS: Final = 20
LAST_OFFSET: Final = "09223372036854775807"


class Leftovers(NamedTuple):
    """The names of files that were left behind, by what is done with them.

    `swaps` replace other files; `incomplete` are the other ``.swap`` files.
    """

    deleted: list[str]
    cleaned: list[str]
    incomplete: list[str]
    swaps: list[str]

    @property
    def swapped_logs(self) -> list[str]:
        """The names of the ``.log.swap`` files that replace segments."""
        return [name for name in self.swaps if name.removesuffix(SWAP).endswith(".log")]


def sort_leftovers(names: Iterable[str]) -> Leftovers:
    """Return which of `names` were left behind, each kind in order.

    Raises `StrayFileError` if the name of a ``.cleaned`` or ``.swap`` has no offset.

    >>> found = sort_leftovers(["5.log.swap", "5.index.swap", "7.log", "9.log.deleted"])
    >>> found.swapped_logs, found.deleted
    (['5.log.swap'], ['9.log.deleted'])
    >>> sort_leftovers(["5.log.swap", "3.log.cleaned"]).swaps
    []
    """
    deleted: list[str] = []
    cleaned: list[str] = []
    swaps: list[str] = []
    for name in sorted(names):
        if name.endswith(CLEANED):
            cleaned.append(name)
        elif name.endswith(SWAP):
            swaps.append(name)
        elif name.endswith(DELETED) and not name.endswith(METADATA_SNAPSHOT):
            deleted.append(name)
    least = min(map(offset_of, cleaned), default=MAX_INT64)
    offsets = {name: offset_of(name) for name in swaps}
    return Leftovers(
        deleted,
        cleaned,
        [name for name in swaps if offsets[name] >= least],
        [name for name in swaps if offsets[name] < least],
    )


def replaced_offsets(
    bases: Iterable[int], next_offset: Callable[[int], int]
) -> tuple[int, int]:
    """Return the offsets that swaps replace, from the first to before the second.

    `bases` are the base offsets of the ``.log.swap`` files, at least one, and
    `next_offset` returns the end offset of one. Files that are named by an offset in
    the range are removed.

    >>> replaced_offsets([0, 50], {0: 40, 50: 90}.__getitem__)
    (0, 90)
    """
    bases = list(bases)
    return min(bases), max(map(next_offset, bases))


def offset_of(name: str) -> int:
    """Return the number at the start of a file name, parsed as in Java.

    Raises `StrayFileError` if there is none.
    """
    if name.startswith(".", OFFSET_DIGITS) and is_offset(
        number := name[:OFFSET_DIGITS]
    ):
        return int(number)
    number, dot, _ = name.partition(".")
    try:
        offset = int_from_text(number, 64)
    except ValueError:
        dot = ""
    if not dot:
        raise StrayFileError(
            f"file name {name!r}, expected one that begins with an offset"
        )
    return offset


def is_offset(text: str) -> bool:
    """Return whether `text` is an offset as Kafka writes it in file names."""
    has_digits = len(text) == OFFSET_DIGITS and text.isascii() and text.isdigit()
    return has_digits and text <= LAST_OFFSET

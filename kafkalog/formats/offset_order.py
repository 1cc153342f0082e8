"""Offsets rise along a segment: which entries' do not, and which of two is wrong.

No checksum covers an entry's offset, so it is held against its neighbours. Where two
contradict each other, one of them is wrong: that for which the others leave a place.
An entry that was at its place left a hole there that is just as wide as it is, if the
log has no gaps, and at least as wide if it has.

Knows: first and last offsets in a row. Does not know: files, how entries hold records.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import CorruptRecordError

Int64s = npt.NDArray[np.int64]

AFTER_ALL: Final = 2**63


def offsets_increase(base: Int64s, last: Int64s, before: int, after: int) -> bool:
    """Whether each entry begins behind the one before it, and all between the two."""
    if not len(base):
        return True
    inside = base[0] > before and last[-1] < after
    return bool(inside and (base[1:] > last[:-1]).all())


def find_misplaced(base: Int64s, last: Int64s, before: int, after: int) -> list[int]:
    """Which entries to leave out so that the others rise, from `before` to `after`.

    >>> find_misplaced(np.array([0, 70, 6]), np.array([2, 72, 8]), -1, 9)
    [1]
    >>> find_misplaced(np.array([0, 1, 6]), np.array([2, 3, 8]), -1, 9)
    [1]
    """
    # Python's integers do not wrap, and damage is rare.
    first = [before + 1, *base.tolist(), after]
    final = [before, *last.tolist(), after]
    kept, stray = [0], []
    for i in range(1, len(first)):
        while kept[-1] and first[i] <= final[kept[-1]]:
            if not _earlier_is_wrong(first, final, kept, i):
                break
            stray.append(kept.pop())
        if first[i] > final[kept[-1]]:
            kept.append(i)
        else:
            stray.append(i)
    return sorted(i - 1 for i in stray if i <= len(base))


def _earlier_is_wrong(
    first: list[int], final: list[int], kept: list[int], later: int
) -> bool:
    """Whether of the last kept and a `later` one that contradict it the former errs."""
    earlier, before = kept[-1], kept[-2]
    if later == len(first) - 1:
        return True
    if first[later] <= final[before]:
        return False
    if final[later] >= first[later + 1] > final[earlier]:
        return False
    hole_of_earlier = first[later] - final[before] - 1
    hole_of_later = first[later + 1] - final[earlier] - 1
    misfit_of_earlier = hole_of_earlier - (final[earlier] - first[earlier] + 1)
    misfit_of_later = hole_of_later - (final[later] - first[later] + 1)
    if misfit_of_later < 0 or misfit_of_earlier < 0:
        return misfit_of_later < misfit_of_earlier
    return misfit_of_earlier < misfit_of_later


def misplaced_error(row: np.void) -> CorruptRecordError:
    """Say in an error that an entry's offsets are not those of its place."""
    reason = f"offset {int(row['last_offset'])} does not lie between its neighbours'"
    return CorruptRecordError(reason, position=int(row["position"]), cause="offset")


def find_overlap(
    rows: npt.NDArray[np.void], before: int
) -> tuple[int, CorruptRecordError] | None:
    """Find the first of `rows`, wrappers measured, whose records lie among others'.

    `before` is the last offset of what precedes them.
    """
    first = rows["base_offset"]
    # A wrapper of magic 0 lies where what is inside says, not its offset.
    last = np.where(rows["magic"] == 0, first, rows["last_offset"])
    if offsets_increase(first, last, before, AFTER_ALL):
        return None
    stray = find_misplaced(first, last, before, AFTER_ALL)
    return (stray[0], misplaced_error(rows[stray[0]])) if stray else None

"""Batches whose offsets do not increase along a log.

No CRC covers the base offset of a batch, so it is compared with those of the batches
before and after it. If two batches contradict each other, the one that does not fit
between the others is corrupt. Without a valid batch, the offsets have a gap exactly as
wide as the range of that batch, or wider if records next to it are missing.

Source: ``LogValidator.java`` and ``UnifiedLog.java`` (offsets that do not increase).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Int64s
from kafkalog.errors import CorruptRecordError

AFTER_ALL: Final = 2**63


def offsets_increase(base: Int64s, last: Int64s, before: int, after: int) -> bool:
    """Return whether ranges of offsets increase, all between `before` and `after`."""
    if not len(base):
        return True
    inside = base[0] > before and last[-1] < after
    return bool(inside and (base[1:] > last[:-1]).all())


def find_misplaced(base: Int64s, last: Int64s, before: int, after: int) -> list[int]:
    """Return the indexes of batches without which the offsets increase.

    The offsets of the others are greater than `before` and less than `after`.

    >>> find_misplaced(np.array([0, 70, 6]), np.array([2, 72, 8]), -1, 9)
    [1]
    >>> find_misplaced(np.array([0, 1, 6]), np.array([2, 3, 8]), -1, 9)
    [1]
    """
    # Python's integers do not wrap, and damage is rare.
    first = [before + 1, *base.tolist(), after]
    final = [before, *last.tolist(), after]
    kept, misplaced = [0], []
    for i in range(1, len(first)):
        while kept[-1] and first[i] <= final[kept[-1]]:
            if not _earlier_is_misplaced(first, final, kept, i):
                break
            misplaced.append(kept.pop())
        if first[i] > final[kept[-1]]:
            kept.append(i)
        else:
            misplaced.append(i)
    return sorted(i - 1 for i in misplaced if i <= len(base))


def _earlier_is_misplaced(
    first: list[int], final: list[int], kept: list[int], later: int
) -> bool:
    """Return whether the last kept range is misplaced, rather than the `later` one."""
    earlier, before = kept[-1], kept[-2]
    if later == len(first) - 1:
        return True
    if first[later] <= final[before]:
        return False
    if final[later] >= first[later + 1] > final[earlier]:
        return False
    gap_of_earlier = first[later] - final[before] - 1
    gap_of_later = first[later + 1] - final[earlier] - 1
    excess_of_earlier = gap_of_earlier - (final[earlier] - first[earlier] + 1)
    excess_of_later = gap_of_later - (final[later] - first[later] + 1)
    if excess_of_later < 0 or excess_of_earlier < 0:
        return excess_of_later < excess_of_earlier
    return excess_of_earlier < excess_of_later


def misplaced_error(row: np.void) -> CorruptRecordError:
    """Return the error for a batch whose offsets do not follow the batch before it."""
    reason = (
        f"last offset {int(row['last_offset'])}, expected one between the offsets of "
        "the batches before and after"
    )
    return CorruptRecordError(reason, position=int(row["position"]), cause="offset")


def find_overlap(
    rows: npt.NDArray[np.void], before: int
) -> tuple[int, CorruptRecordError] | None:
    """Return the index and error of the first batch whose offsets are out of order.

    `before` is the last offset before `rows`, in which wrapper messages have the base
    offset of their first message.
    """
    first = rows["base_offset"]
    # A wrapper of magic 0 has the offsets of its messages, not its own.
    last = np.where(rows["magic"] == 0, first, rows["last_offset"])
    if offsets_increase(first, last, before, AFTER_ALL):
        return None
    misplaced = find_misplaced(first, last, before, AFTER_ALL)
    return (misplaced[0], misplaced_error(rows[misplaced[0]])) if misplaced else None

"""Which entries' offsets cannot be: those of their neighbours and the segment say so.

No checksum covers an entry's offset. Most steps rise, and need not come here.

Knows: entries in a row. Does not know: files, what is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.decompression import first_offsets
from kafkalog.formats.batch_headers import (
    PLAUSIBLE_OFFSETS,
    BatchHeaders,
    Bytes,
    find_crc_mismatches,
)
from kafkalog.formats.layout import MAX_OFFSET_DELTA
from kafkalog.formats.offset_order import find_misplaced, offsets_increase

Bools = npt.NDArray[np.bool_]

UNBOUNDED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Between which offsets a segment's must lie, and whether they must rise."""

    least: int = 0
    most: int = UNBOUNDED
    ordered: bool = True

    @property
    def of_a_tail(self) -> tuple[int, int]:
        """The offsets that an entry cut short at the end may have.

        It need not lie below the next segment: there it may have been written anew.
        """
        if self.most == UNBOUNDED:
            return PLAUSIBLE_OFFSETS
        return self.least, self.least + MAX_OFFSET_DELTA


def find_strays(
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    *,
    least: int,
    most: int,
    before: int | None,
    max_batch_bytes: int,
) -> Bools:
    """Say which of `rows` have offsets that cannot be between `least` and `most`.

    `before` is the last offset of what precedes them; None where none need rise.
    """
    last = rows["last_offset"]
    base = np.where(rows["base_offset"] < 0, last, rows["base_offset"])
    stray: Bools = (base < least) | (last > most)
    if before is None:
        return stray
    stray |= last < base
    held = ~stray
    after = most + 1
    if not offsets_increase(base[held], last[held], before, after):
        # One that is damaged elsewhere, too, says nothing of its neighbours.
        held[find_crc_mismatches(data, origin, rows)] = False
        base = first_offsets(data, origin, rows, max_batch_bytes)
        held &= base <= last
        stray |= base > last
        # A wrapper of magic 0 lies where what is inside says, not its offset.
        free = (rows["magic"] == 0) & (rows["count"] < 0)
        end = np.where(free, base, last)
        places = np.flatnonzero(held)
        wrong = find_misplaced(base[held], end[held], before, after)
        stray[places[wrong]] = True
        places = np.delete(places, wrong)
        stray[places[:-1][last[places[:-1]] >= base[places[1:]]]] = True
    return stray

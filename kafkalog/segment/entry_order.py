"""The offsets that entries of a segment may have, and the entries that violate them.

The CRC does not cover an entry's offset. It is compared with the range of the segment
and with the offsets of the entries around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkalog.array_types import Bools, Bytes
from kafkalog.decoding.decompression import first_offsets
from kafkalog.formats.batch_headers import (
    PLAUSIBLE_OFFSETS,
    BatchHeaders,
    find_crc_mismatches,
)
from kafkalog.formats.offset_order import find_misplaced, offsets_increase
from kafkalog.integer_limits import MAX_INT64


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The range of a segment's offsets, and whether they must ascend.

    `most_of_tail` is the greatest offset that a partial entry at the end may have.
    """

    least: int = 0
    most: int = MAX_INT64
    most_of_tail: int = MAX_INT64
    ordered: bool = True

    @property
    def of_a_tail(self) -> tuple[int, int]:
        """The offsets that a partial entry at the end may have.

        They may reach into the next segment, where it may have been written again.
        """
        if self.most_of_tail == MAX_INT64:
            return PLAUSIBLE_OFFSETS
        return self.least, self.most_of_tail


def find_out_of_order(
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    *,
    least: int,
    most: int,
    before: int | None,
    max_batch_bytes: int,
) -> Bools:
    """Return which of `rows` have offsets out of order, or not in `least` to `most`.

    `before` is the last offset before them; None if offsets need not ascend.
    """
    last = rows["last_offset"]
    base = np.where(rows["base_offset"] < 0, last, rows["base_offset"])
    out_of_order: Bools = (base < least) | (last > most)
    if before is None:
        return out_of_order
    out_of_order |= last < base
    kept = ~out_of_order
    after = most + 1
    if not offsets_increase(base[kept], last[kept], before, after):
        # An entry with a wrong CRC is no evidence about the others.
        kept[find_crc_mismatches(data, origin, rows)] = False
        base = first_offsets(data, origin, rows, max_batch_bytes)
        kept &= base <= last
        out_of_order |= base > last
        # The position of a wrapper of magic 0 follows the offsets inside, not its own.
        free = (rows["magic"] == 0) & (rows["count"] < 0)
        end = np.where(free, base, last)
        places = np.flatnonzero(kept)
        wrong = find_misplaced(base[kept], end[kept], before, after)
        out_of_order[places[wrong]] = True
        places = np.delete(places, wrong)
        out_of_order[places[:-1][last[places[:-1]] >= base[places[1:]]]] = True
    return out_of_order

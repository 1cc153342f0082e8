"""Which offsets of a log its valid batches cover, and which are missing.

A gap between two batches is legal if no byte between them is damaged, as compaction
leaves such gaps. All other offsets between the known start and end of a log that no
batch covers are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.formats.batch_headers import BatchHeaders


class OffsetInterval(NamedTuple):
    """Offsets from the first to the last one, both included."""

    first: int
    last: int


@dataclass(slots=True)
class OffsetCoverage:
    """The offsets that batches cover, taken in their order.

    `reached` is the offset up to which all offsets are covered or missing: at first the
    known start of the log, or None.
    """

    reached: int | None = None
    missing: list[OffsetInterval] = field(default_factory=list)
    is_damaged: bool = False
    """Whether bytes after the last batch are damaged."""

    def reach(self, offset: int) -> None:
        """Continue at `offset`: those before it are missing if bytes are damaged."""
        if self.reached is not None and offset > self.reached and self.is_damaged:
            first = self.reached
            if self.missing and self.missing[-1].last == first - 1:
                first = self.missing.pop().first
            self.missing.append(OffsetInterval(first, offset - 1))
        if self.reached is None or offset > self.reached:
            self.reached = offset
        self.is_damaged = False

    def reach_end(self, end: int) -> None:
        """Reach the known end of the log: the offsets up to it are missing.

        A log of which nothing is left began at 0, as far as is known.
        """
        if self.reached is None:
            self.reached = 0
        self.is_damaged = True
        self.reach(end)

    def add(self, rows: BatchHeaders, first_offsets: Int64s, end: int) -> int:
        """Add valid batches; `end` is the position after the batch before them.

        Returns the position after the last of them.
        """
        ends = rows["position"] + rows["size_in_bytes"]
        damaged = rows["position"] != np.append(end, ends[:-1])
        damaged[0] |= self.is_damaged
        for i in np.flatnonzero(damaged).tolist():
            if i:
                self.reach(int(rows["last_offset"][i - 1]) + 1)
            self.is_damaged = True
            self.reach(int(first_offsets[i]))
        self.reach(int(rows["last_offset"][-1]) + 1)
        return int(ends[-1])

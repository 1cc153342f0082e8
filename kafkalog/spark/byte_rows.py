"""Rows of bytes that are read together: what lies behind one another, as one stretch.

Arrow keeps the bytes of a column's rows in one buffer. Where each row ends with the end
of a batch, as it should, many are read at once, which for small rows is a hundred times
faster than one by one. A row that ends otherwise is read alone, so that what is wrong
with it stays its own.

Knows: where rows begin and end. Does not know: what is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkalog.formats.batch_headers import Bytes, scan_headers

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Rows from number `first` on: their bytes, and where in them each begins."""

    first: int
    starts: Positions
    data: Bytes

    def rows_at(self, positions: npt.ArrayLike) -> Positions:
        """Say which rows of the run have these positions; an empty row has none.

        >>> run = Run(4, np.array([0, 10, 10]), np.zeros(30, np.uint8))
        >>> run.rows_at([0, 9, 10, 29])
        array([0, 0, 2, 2])
        """
        return np.searchsorted(self.starts, positions, side="right") - 1


def find_runs(column: Any) -> Iterator[Run]:
    """Divide an Arrow column of bytes into runs; rows without bytes may be left out."""
    count = len(column)
    if not count:
        return
    _, offsets, content = column.buffers()
    kind = np.int64 if str(column.type).startswith("large") else np.int32
    ends = np.frombuffer(offsets, kind)[column.offset :][: count + 1].astype(np.int64)
    data = np.frombuffer(content or b"", np.uint8)
    null = column.is_null().to_numpy(zero_copy_only=False)
    barred = np.flatnonzero(null & (np.diff(ends) > 0))
    filled = np.flatnonzero(~null & (np.diff(ends) > 0))
    row = 0
    while (place := int(np.searchsorted(filled, row))) < len(filled):
        row = int(filled[place])
        limit = int(np.append(barred, count)[np.searchsorted(barred, row)])
        stop = row + max(1, _whole_rows(data, ends[row : limit + 1]))
        starts = ends[row:stop] - ends[row]
        yield Run(row, starts, data[ends[row] : ends[stop]])
        row = stop


def _whole_rows(data: Bytes, ends: Positions) -> int:
    """How many rows from the first on end where an entry ends."""
    found, _, place = scan_headers(data[ends[0] : ends[-1]])
    wanted = ends[1:] - ends[0]
    wanted = wanted[: np.searchsorted(wanted, place, side="right")]
    whole = np.isin(wanted, found["position"] + found["size_in_bytes"])
    return len(wanted) if whole.all() else int(np.argmin(whole))

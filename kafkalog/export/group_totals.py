"""Totals of groups, added up as rows arrive, in bounded memory.

Rows are grouped by Arrow a hundred thousand at a time, and the totals of these are
grouped again. Where there are more than twice `max_groups` groups, those with the least
bytes are dropped, and added to the total of all dropped ones. A group that was dropped
may occur again, so that the bytes stated for it are too few: by no more than the
greatest dropped bytes, summed over all droppings (Misra and Gries, 1982). Until then
all totals are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import FIRST, LAST
from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

ROWS: Final = 1 << 17
"""Number of rows that are grouped at once."""

MAX_BYTES: Final = 1 << 30
"""Size of the totals above which groups are dropped even if there are few: long keys
take more memory."""

FUNCTIONS: Final = {
    "first_timestamp": np.minimum,
    "first_offset": np.minimum,
    "max_timestamp": np.maximum,
    "last_offset": np.maximum,
}
"""The functions of measures that are not sums."""

IDENTITIES: Final = {np.minimum: LAST, np.maximum: FIRST, np.add: 0}
"""The value of a measure without a value, which leaves any other as it is."""

ARROW: Final = {np.minimum: "min", np.maximum: "max", np.add: "sum"}
"""The name of each function in Arrow."""

Rows: TypeAlias = "Mapping[str, npt.NDArray[Any] | pa.Array]"


@dataclass(slots=True, kw_only=True)
class GroupTotals:
    """Totals of groups, by the columns of a schema, of the columns `measures`.

    Measures are int64; one of them is ``bytes``. `dropped` are the totals of dropped
    groups, None until there are any.
    """

    groups: pa.Schema
    measures: tuple[str, ...]
    max_groups: int
    error_bytes: int = 0
    dropped: dict[str, int] | None = None
    _waiting: list[Rows] = field(default_factory=list)
    _waiting_rows: int = 0
    _partial: list[pa.Table] = field(default_factory=list)
    _merged_rows: int = 0

    def add(self, rows: Rows) -> None:
        """Add rows: an array for each group column and each measure."""
        self._waiting.append(rows)
        self._waiting_rows += len(rows[self.measures[0]])
        if self._waiting_rows >= ROWS:
            self._flush()

    def table(self) -> pa.Table:
        """Return the groups that were not dropped, each with its totals."""
        self._flush()
        self._merge()
        if not self._partial:
            measures = [pa.field(name, pa.int64()) for name in self.measures]
            return pa.schema([*self.groups, *measures]).empty_table()
        [table] = self._partial
        return table

    def _flush(self) -> None:
        """Group the rows that wait."""
        if not self._waiting:
            return
        names = (*self.groups.names, *self.measures)
        columns = [_joined([rows[name] for rows in self._waiting]) for name in names]
        table = pa.Table.from_arrays(columns, list(names))
        self._waiting, self._waiting_rows = [], 0
        self._partial.append(self._grouped([table]))
        rows = sum(len(table) for table in self._partial)
        if rows > max(2 * self._merged_rows, ROWS):
            self._merge()

    def _merge(self) -> None:
        """Group the totals; drop the groups with the least bytes if there are many."""
        if len(self._partial) > 1:
            self._partial = [self._grouped(self._partial)]
        if self._partial:
            [table] = self._partial
            if len(table) > 2 * self.max_groups:
                table = self._largest(table, self.max_groups)
            elif table.nbytes > MAX_BYTES:
                table = self._largest(table, max(len(table) // 2, 1))
            self._partial, self._merged_rows = [table], len(table)

    def _grouped(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the totals of tables, of which each has groups and measures."""
        table = pa.concat_tables(tables)
        aggregates = [
            (name, ARROW[FUNCTIONS.get(name, np.add)]) for name in self.measures
        ]
        grouped = table.group_by(self.groups.names, use_threads=False)
        totals = grouped.aggregate(aggregates)
        names = dict.fromkeys(self.groups.names) | {
            f"{name}_{function}": name for name, function in aggregates
        }
        return totals.select(list(names)).rename_columns(
            [new or old for old, new in names.items()]
        )

    def _largest(self, table: pa.Table, count: int) -> pa.Table:
        """Return the groups with the most bytes; add the others to `dropped`."""
        sizes = table["bytes"].to_numpy()
        order = np.argpartition(sizes, len(sizes) - count)
        rest = order[: len(sizes) - count]
        self.error_bytes += int(sizes[rest].max())
        dropped = totals_of(table.take(rest), self.measures)
        self.dropped = added(dropped, self.dropped)
        return table.take(np.sort(order[len(sizes) - count :]))


def totals_of(table: pa.Table, measures: Sequence[str]) -> dict[str, int]:
    """Return the totals of all rows of a table."""
    functions = {name: FUNCTIONS.get(name, np.add) for name in measures}
    return {
        name: int(function.reduce(table[name].to_numpy(), initial=IDENTITIES[function]))
        for name, function in functions.items()
    }


def added(one: dict[str, int], other: dict[str, int] | None) -> dict[str, int]:
    """Return the totals of two sets of groups.

    >>> added({"bytes": 5, "first_offset": 7}, {"bytes": 6, "first_offset": 3})
    {'bytes': 11, 'first_offset': 3}
    """
    if other is None:
        return one
    return {
        name: int(FUNCTIONS.get(name, np.add)(value, other[name]))
        for name, value in one.items()
    }


def _joined(arrays: Sequence[npt.NDArray[Any] | pa.Array]) -> pa.Array:
    if isinstance(arrays[0], pa.Array):
        return pa.concat_arrays(arrays)
    return pa.array(np.concatenate(arrays))

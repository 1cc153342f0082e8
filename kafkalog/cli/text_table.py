"""Tables of text: aligned, as wide as the terminal, long cells cut or wrapped.

Column widths are determined from the first rows, so that rows can be printed as they
arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

import click
from rich.cells import cell_len, chop_cells, set_cell_size

GAP: Final = "  "
CUT: Final = "…"
SAMPLE_ROWS: Final = 200
"""Rows from which column widths are determined."""
LEAST_WIDTH: Final = 8
"""Width to which columns shrink before lines exceed the terminal."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A heading, the alignment of its cells, and whether they may be cut or wrapped.

    Both shrink a column to the terminal. A wrapped cell takes several lines of its row.
    """

    title: str
    right: bool = False
    may_be_cut: bool = False
    wraps: bool = False

    @property
    def may_shrink(self) -> bool:
        """Whether the column may be narrower than its cells."""
        return self.may_be_cut or self.wraps


def lines_of(
    columns: Sequence[TableColumn],
    rows: Iterable[Sequence[str]],
    *,
    width: int,
    coloured: bool = False,
) -> Iterator[str]:
    """Yield the heading, then each row, as lines of at most `width` where possible.

    >>> columns = [
    ...     TableColumn("offset", right=True),
    ...     TableColumn("key", may_be_cut=True),
    ... ]
    >>> rows = [["7", "a"], ["1000000", "long" * 10]]
    >>> for line in lines_of(columns, rows, width=20):
    ...     print(line)
     offset  key
          7  a
    1000000  longlonglo…
    """
    rows = iter(rows)
    first, failure = _first_of(rows)
    table = Table(columns, first, width=width, coloured=coloured)
    yield table.heading
    yield from map(table.line, first)
    if failure is not None:
        raise failure
    yield from map(table.line, rows)


class Table:
    """A heading and lines, with column widths that fit the rows given.

    >>> table = Table([TableColumn("offset", right=True)], [["1000"]], width=20)
    >>> table.heading, table.line(["7"])
    ('offset', '     7')
    """

    def __init__(
        self,
        columns: Sequence[TableColumn],
        rows: Sequence[Sequence[str]],
        *,
        width: int,
        coloured: bool = False,
    ) -> None:
        self._columns = columns
        self._widths = _widths(columns, rows, width)
        heading = self.line([column.title for column in columns])
        self.heading = click.style(heading, bold=True) if coloured else heading

    def line(self, cells: Sequence[str]) -> str:
        """Return a row; several lines if a cell wraps."""
        parted = [
            _wrapped(cell, width) if column.wraps else [cell]
            for cell, column, width in zip(
                cells, self._columns, self._widths, strict=True
            )
        ]
        return "\n".join(map(self._fitted, zip_longest(*parted, fillvalue="")))

    def _fitted(self, cells: Sequence[str]) -> str:
        fitted = map(_fit, cells, self._columns, self._widths)
        return GAP.join(fitted).rstrip()


def _first_of(
    rows: Iterator[Sequence[str]],
) -> tuple[list[Sequence[str]], Exception | None]:
    """Return the first rows; if one raises, those before it and the exception."""
    first: list[Sequence[str]] = []
    try:
        for row in islice(rows, SAMPLE_ROWS):
            first.append(row)  # noqa: PERF402 (what came before a failure is kept)
    except Exception as failure:
        return first, failure
    return first, None


def _widths(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int
) -> list[int]:
    """Return widths that fit the rows, after narrowing columns that may shrink."""
    widths = [
        max(cell_len(cell) for cell in (column.title, *cells))
        for column, *cells in zip(columns, *rows, strict=True)
    ]
    available = width - len(GAP) * (len(columns) - 1)
    cuttable = [i for i, column in enumerate(columns) if column.may_shrink]
    while cuttable and sum(widths) > available:
        widest = max(cuttable, key=lambda i: widths[i])
        others = [widths[i] for i in cuttable if widths[i] < widths[widest]]
        least = max(LEAST_WIDTH, *others) if others else LEAST_WIDTH
        alike = sum(widths[i] == widths[widest] for i in cuttable)
        excess = -(-(sum(widths) - available) // alike)
        if widths[widest] <= LEAST_WIDTH:
            break
        widths[widest] = max(least, widths[widest] - excess, LEAST_WIDTH)
    return widths


def _wrapped(cell: str, width: int) -> list[str]:
    """Split a cell into lines of at most `width`."""
    return chop_cells(cell, width) or [""]


def _fit(cell: str, column: TableColumn, width: int) -> str:
    length = cell_len(cell)
    if length > width and column.may_be_cut:
        return set_cell_size(cell, width - 1) + CUT
    padding = " " * (width - length)
    return padding + cell if column.right else cell + padding

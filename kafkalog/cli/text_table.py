"""Tables of text: aligned, as wide as the terminal, a line for each row.

Where a terminal is too narrow for all columns, those of least importance are dropped,
and then long texts are cut. Column widths are determined from the first rows, so that
rows can be printed as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Final, Literal, TypeAlias

import click
from rich.cells import cell_len, chop_cells, set_cell_size

GAP: Final = "  "
CUT: Final = "…"
SAMPLE_ROWS: Final = 200
"""Rows from which column widths are determined."""
LEAST_WIDTH: Final = 8
"""Width to which columns shrink before lines exceed the line."""
EMPTY: Final = ("", "-")
"""Cells without a value."""

LONG_LINE: Final = 120

Cut: TypeAlias = Literal["key", "value", "text", "path", "name"]
"""What a column that may be cut has. A path is cut at its start, others at their end.

Where columns may not be dropped, only keys and values are cut.
"""
PERCENT: Final[dict[Cut, int]] = {
    "key": 20,
    "value": 33,
    "text": 33,
    "path": 45,
    "name": 50,
}
"""The part of a line, at most of `LONG_LINE`, that a column keeps: others are dropped
before it is cut to less."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A heading, the alignment of its cells, and how they are cut or wrapped.

    Both shrink a column to the terminal. A wrapped cell takes several lines of its row.
    Columns with a lower `rank` are more important.
    """

    title: str
    right: bool = False
    cut: Cut | None = None
    wraps: bool = False
    rank: int = 0


def lay_out(
    columns: Sequence[TableColumn],
    rows: Iterable[Sequence[str]],
    *,
    width: int,
    drops: bool = False,
    coloured: bool = False,
) -> tuple[Table, Iterator[str]]:
    """Return a table, and its lines: the heading, then each row.

    >>> columns = [
    ...     TableColumn("offset", right=True),
    ...     TableColumn("key", cut="value"),
    ... ]
    >>> rows = [["7", "a"], ["1000000", "long" * 10]]
    >>> table, lines = lay_out(columns, rows, width=20)
    >>> for line in lines:
    ...     print(line)
     offset  key
          7  a
    1000000  longlonglo…
    """
    rows = iter(rows)
    first, failure = _first_of(rows)
    table = Table(columns, first, width=width, drops=drops, coloured=coloured)

    def lines() -> Iterator[str]:
        yield table.heading
        yield from map(table.line, first)
        if failure is not None:
            raise failure
        yield from map(table.line, rows)

    return table, lines()


class Table:
    """A heading and lines of at most `width`, unless they have too many numbers.

    With `drops`, columns are dropped if not all of them fit: those without a value, and
    those of least importance. `dropped` has their indexes.

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
        drops: bool = False,
        coloured: bool = False,
    ) -> None:
        if not drops:
            columns = [
                column if column.cut in ("key", "value") else replace(column, cut=None)
                for column in columns
            ]
        natural = [
            max(cell_len(cell) for cell in (column.title, *cells))
            for column, *cells in zip(columns, *rows, strict=True)
        ]
        least = [
            _least(column, size, width if drops else 0)
            for column, size in zip(columns, natural, strict=True)
        ]
        shown = [*range(len(columns))]
        if drops and _line_width(natural) > width:
            valued = [i for i in shown if any(row[i] not in EMPTY for row in rows)]
            order = sorted(valued or shown, key=lambda i: columns[i].rank)
            shown = _that_fit(order, least, width)
        self._shown: Final = shown
        self._columns: Final = [columns[i] for i in shown]
        self._width: Final = width if drops else None
        self._widths: Final = _narrowed(
            [natural[i] for i in shown], [least[i] for i in shown], width
        )
        self.dropped: Final = [i for i in range(len(columns)) if i not in shown]
        heading = self.line([column.title for column in columns])
        self.heading: Final = click.style(heading, bold=True) if coloured else heading

    def line(self, cells: Sequence[str]) -> str:
        """Return a row; several lines if a cell wraps."""
        shown = [cells[i] for i in self._shown]
        widths = self._widths
        parted = [
            chop_cells(cell, width) or [""] if column.wraps else [cell]
            for cell, column, width in zip(shown, self._columns, widths, strict=True)
        ]
        return "\n".join(map(self._fitted, zip_longest(*parted, fillvalue="")))

    def _fitted(self, cells: Sequence[str]) -> str:
        """Return a line; where a number is wider than its column, texts give way."""
        widths = self._widths
        if self._width is not None:
            wide = [
                width if column.cut else max(width, cell_len(cell))
                for cell, column, width in zip(
                    cells, self._columns, widths, strict=True
                )
            ]
            if wide != widths:
                least = [
                    min(width, LEAST_WIDTH) if column.cut else width
                    for column, width in zip(self._columns, wide, strict=True)
                ]
                widths = _narrowed(wide, least, self._width)
        return GAP.join(map(_fit, cells, self._columns, widths)).rstrip()


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


def _least(column: TableColumn, natural: int, width: int) -> int:
    """Return the width to which a column may shrink in a line of `width`."""
    cut: Cut | None = "value" if column.wraps else column.cut
    if cut is None:
        return natural
    kept = min(width, LONG_LINE) * PERCENT[cut] // 100
    return min(natural, max(kept, LEAST_WIDTH))


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _that_fit(order: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return the first column of an order and the next ones that fit, as they stand."""
    fitting = [order[0]]
    for i in order[1:]:
        if _line_width([least[j] for j in (*fitting, i)]) <= width:
            fitting.append(i)
    return sorted(fitting)


def _narrowed(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return widths that fit a line, the widest columns narrowed to what is least.

    >>> _narrowed([6, 40, 30], [6, 8, 8], 50)
    [6, 20, 20]
    """
    narrowed = [*widths]
    excess = _line_width(widths) - width
    while excess > 0:
        wide = [i for i, size in enumerate(narrowed) if size > least[i]]
        if not wide:
            break
        widest = max(narrowed[i] for i in wide)
        narrowed[next(i for i in wide if narrowed[i] == widest)] -= 1
        excess -= 1
    return narrowed


def _fit(cell: str, column: TableColumn, width: int) -> str:
    length = cell_len(cell)
    if length > width and column.cut == "path":
        return CUT + set_cell_size(cell[::-1], width - 1)[::-1]
    if length > width and column.cut:
        return set_cell_size(cell, width - 1) + CUT
    padding = " " * (width - length)
    return padding + cell if column.right else cell + padding

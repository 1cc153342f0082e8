"""HTML tables, for the display of objects in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalog.reports import counted, html_table

SHOWN: Final = 20
"""Maximum number of rows of a report."""


def html_rows(
    title: str,
    names: Sequence[str],
    rows: Sequence[object],
    noun: str,
    notes: Sequence[str] = (),
) -> str:
    """Return attributes of the first rows as a table, and how many more rows there are.

    >>> html_rows("Numbers", ("real", "imag"), range(21), "number")[-21:]
    '<p>1 more number.</p>'
    """
    cells = [[_cell(getattr(row, name)) for name in names] for row in rows[:SHOWN]]
    more = [f"{counted(len(rows) - SHOWN, f'more {noun}')}."] * (len(rows) > SHOWN)
    return html_table(title, names, cells, " ".join([*notes, *more]))


def _cell(value: object) -> str:
    return "" if value is None else str(value)

"""Rows on standard output that come one by one, of several kinds, in any format.

Knows: formats, and when a heading is due. Does not know: what is printed.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from typing import Any, Final

from kafkalog.cli import output, terminal
from kafkalog.cli.output import Field, Row
from kafkalog.cli.table import LOOKED_AT, Table

FIELDS: Final = (
    Field("file", "file"),
    Field("kind", "kind"),
    Field("says", "says", may_be_cut=True),
)
"""A table's columns: rows of all kinds have them, the last says all else."""


class RowPrinter(AbstractContextManager["RowPrinter"]):
    """Prints rows as they come; of a table the first when it is seen how wide it is."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._on_terminal = sys.stdout.isatty()
        self._before = "["
        self._names: list[str] = []
        self._kept: list[list[str]] = []
        self._table: Table | None = None

    def print(self, row: Row) -> None:
        """Print a row, or keep it until a table's widths are found."""
        match self._form:
            case "jsonl":
                self._emit_json(f"{_json(row)}\n")
            case "json":
                self._emit_json(f"{self._before}{_json(row)}")
                self._before = output.BETWEEN
            case "csv":
                lines = self._csv_lines(row)
                shown = terminal.harmless_lines(lines) if self._on_terminal else lines
                output.emit(shown)
            case "table":
                rest = {name: row[name] for name in row if name not in ("file", "kind")}
                says = ", ".join(f"{name} {_cell(rest[name])}" for name in rest)
                self._show(output.cells_of({**row, "says": says}, FIELDS))

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        if self._form == "json":
            output.emit("[]\n" if self._before == "[" else "]\n")
        elif self._form == "table":
            self._begin_table()

    def _show(self, cells: list[str]) -> None:
        if self._table is not None:
            output.emit(f"{self._table.line(cells)}\n")
            return
        self._kept.append(cells)
        if len(self._kept) == LOOKED_AT:
            self._begin_table()

    def _begin_table(self) -> None:
        """Print the heading, and the rows kept; once."""
        if self._table is None:
            self._table = output.table_of(FIELDS, self._kept)
            output.emit(f"{self._table.heading}\n")
            for cells in self._kept:
                output.emit(f"{self._table.line(cells)}\n")
            self._kept.clear()

    def _csv_lines(self, row: Row) -> str:
        """Spell a row; where members change, another heading comes before it."""
        names, before = list(row), self._names
        self._names = names
        line = output.csv_line(map(_cell, row.values()))
        heading = "" if names == before else f"{output.csv_line(names)}\n"
        return f"{heading}{line}\n"

    def _emit_json(self, text: str) -> None:
        output.emit(terminal.harmless_json(text) if self._on_terminal else text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> Any:
    """Spell what is no plain value as JSON."""
    return _json(value) if isinstance(value, dict | list | bool) else value

"""Rows of several kinds on standard output, as they arrive, in any format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from kafkalog.cli import command_output
from kafkalog.cli.command_output import Row, TableField
from kafkalog.cli.text_table import SAMPLE_ROWS, Table

FIELDS: Final = (
    TableField("file", "file", cut="path"),
    TableField("kind", "kind"),
    TableField("members", "members", cut="value"),
)
"""A table's columns: members of all rows, and one for the other members."""


class RowPrinter(AbstractContextManager["RowPrinter"]):
    """A printer of rows as they arrive; the first rows of a table set its widths.

    For CSV, `columns` are all that a row may have; a missing member is an empty cell.
    """

    def __init__(self, form: str, columns: Sequence[str] = ()) -> None:
        self._form, self._columns = form, columns
        self._known = frozenset(columns)
        self._list = command_output.JsonList()
        self._kept: list[list[str]] = []
        self._table: Table | None = None

    def print(self, row: Row) -> None:
        """Print a row, or keep it until a table's widths are known."""
        match self._form:
            case "jsonl":
                command_output.emit_json(f"{_json(row)}\n")
            case "json":
                self._list.add([_json(row)])
            case "csv":
                self._emit_csv(self._csv_cells(row))
            case "table":
                rest = {name: row[name] for name in row if name not in ("file", "kind")}
                members = ", ".join(f"{name} {_cell(rest[name])}" for name in rest)
                self._show(command_output.cells_of({**row, "members": members}, FIELDS))

    def __enter__(self) -> RowPrinter:
        """Print the heading of CSV."""
        if self._form == "csv":
            self._emit_csv(self._columns)
        return self

    def __exit__(self, *_: object) -> None:
        """Print the end of a list, or a table shorter than its sample."""
        if self._form == "json":
            self._list.end()
        elif self._form == "table":
            table = self._begin_table()
            command_output.report_dropped([FIELDS[i].name for i in table.dropped])

    def _show(self, cells: list[str]) -> None:
        if self._table is not None:
            command_output.emit(f"{self._table.line(cells)}\n")
            return
        self._kept.append(cells)
        if len(self._kept) == SAMPLE_ROWS:
            self._begin_table()

    def _begin_table(self) -> Table:
        """Print the heading and the rows kept, once; return the table."""
        if self._table is None:
            self._table = command_output.table_of(FIELDS, self._kept)
            command_output.emit(f"{self._table.heading}\n")
            for cells in self._kept:
                command_output.emit(f"{self._table.line(cells)}\n")
            self._kept.clear()
        return self._table

    def _csv_cells(self, row: Row) -> Iterator[str]:
        """Yield a row's cells; text is quoted: an empty string differs from null."""
        from kafkalog.export.text_lines import quote_csv

        assert row.keys() <= self._known
        for name in self._columns:
            cell = _cell(row.get(name))
            if isinstance(cell, str):
                yield quote_csv(cell)
            else:
                yield "" if cell is None else str(cell)

    def _emit_csv(self, cells: Iterable[str]) -> None:
        command_output.emit_csv(",".join(cells) + "\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> Any:
    """Return a list, object or boolean as JSON, and anything else unchanged."""
    return _json(value) if isinstance(value, dict | list | bool) else value

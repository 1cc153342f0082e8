"""Data on standard output: a table, JSON Lines, JSON or CSV; of rows, or of records.

To a terminal nothing is sent that it would obey, whatever the format.

Knows: formats. Does not know: what is printed.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalog.cli import terminal
from kafkalog.cli.table import Column, lines_of

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A member of rows: how a table heads it and spells it."""

    name: str
    title: str
    spell: Callable[[Any], str] = str
    right: bool = False
    may_be_cut: bool = False


def chosen_format(form: str | None) -> str:
    """Return the format asked for, or the one that fits where the output goes."""
    return form or ("table" if sys.stdout.isatty() else "jsonl")


def print_rows(
    rows: Iterable[Row],
    fields: Sequence[Field],
    form: str,
    *,
    no_color: bool = False,
) -> None:
    """Print rows as they come; of their members a table shows only `fields`."""
    if form == "table":
        columns = [Column(f.title, f.right, f.may_be_cut) for f in fields]
        cells = ([_cell(field, row) for field in fields] for row in rows)
        _print_table(columns, cells, no_color=no_color)
    elif form == "csv":
        _print(_csv_of(rows), terminal.harmless_lines)
    else:
        texts = (json.dumps(row, ensure_ascii=False) for row in rows)
        _print_json(([text] for text in texts), form)


def print_records(
    scan: Scan, form: str, *, limit: int | None = None, no_color: bool = False
) -> None:
    """Print the first `limit` records of a scan, all if None, as they are read."""
    from kafkalog.cli import record_cells
    from kafkalog.export import text

    if form == "table":
        columns = record_cells.table_columns(scan.columns)
        blocks = _taken(scan, record_cells.rows, limit)
        rows = (row for block in blocks for row in block)
        _print_table(columns, rows, no_color=no_color)
    elif form == "csv":
        _print([[text.csv_header(scan.columns)]], terminal.harmless_lines)
        _print(_taken(scan, text.csv_lines, limit), terminal.harmless_lines)
    else:
        _print_json(_taken(scan, text.json_lines, limit), form)


def _taken(
    scan: Scan,
    spell: Callable[[Any, tuple[str, ...]], list[Any]],
    limit: int | None,
) -> Iterator[list[Any]]:
    """Yield the records of each chunk as `spell` gives them, and stop at the limit."""
    left = sys.maxsize if limit is None else limit
    if not left:
        return
    for records in scan.chunks(reuse=scan.threads == 1):
        spelled = spell(records, scan.columns)[:left]
        yield spelled
        left -= len(spelled)
        if not left:
            return


def _cell(field: Field, row: Row) -> str:
    value = row.get(field.name)
    return "-" if value is None else terminal.harmless(field.spell(value))


def _print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, no_color: bool
) -> None:
    lines = lines_of(
        columns,
        rows,
        width=terminal.columns_wide(),
        coloured=terminal.is_coloured(no_color=no_color),
    )
    for line in lines:
        emit(f"{line}\n")


def _csv_of(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Spell rows as CSV; where their members change, another heading begins."""
    names: list[str] = []
    for row in rows:
        lines = []
        if list(row) != names:
            names = list(row)
            lines.append(_csv_line(names))
        lines.append(_csv_line(row.values()))
        yield lines


def _csv_line(cells: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _print(blocks: Iterable[list[str]], harmless: Callable[[str], str]) -> None:
    on_terminal = sys.stdout.isatty()
    for lines in blocks:
        text = "\n".join(lines) + "\n"
        emit(harmless(text) if on_terminal else text)


BETWEEN: Final = ",\n"


def _print_json(blocks: Iterable[list[str]], form: str) -> None:
    """Print objects, one a line; for ``json`` as one list, closed whatever happens."""
    if form == "jsonl":
        _print(blocks, terminal.harmless_json)
        return
    on_terminal = sys.stdout.isatty()
    before = "["
    try:
        for lines in blocks:
            text = BETWEEN.join(lines)
            emit(before + (terminal.harmless_json(text) if on_terminal else text))
            before = BETWEEN
    finally:
        emit("]\n" if before == BETWEEN else "[]\n")


def emit(text: str) -> None:
    """Write text to standard output, as UTF-8 whatever the locale says."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))

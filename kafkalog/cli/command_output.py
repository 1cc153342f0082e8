"""Standard output of the commands: tables, JSON Lines, JSON and CSV.

On a terminal, control characters in the data are escaped in every format.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self

from kafkalog.cli import exits, terminal
from kafkalog.cli.text_table import SAMPLE_ROWS, Cut, Table, TableColumn, lay_out
from kafkalog.reports import as_cell, counted

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.cli.command_options import ValueOptions
    from kafkalog.cli.value_cells import ValueCells
    from kafkalog.query.records import Records
    from kafkalog.query.scan import Scan
    from kafkalog.reports import ReportBase

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableField:
    """A member of a row: its heading and how its values are formatted in a table."""

    name: str
    title: str
    spell: Callable[[Any], str] = as_cell
    right: bool = False
    cut: Cut | None = None

    def column(self, importance: Sequence[str]) -> TableColumn:
        """Return the column; one that is not in `importance` is least important."""
        rank = [*importance, self.name].index(self.name)
        return TableColumn(self.title, self.right, self.cut, rank=rank)


def chosen_format(form: str | None) -> str:
    """Return the requested format, or the default for a terminal or a pipe."""
    return form or ("table" if sys.stdout.isatty() else "jsonl")


def print_rows(
    rows: Iterable[Row],
    fields: Sequence[TableField],
    form: str,
    *,
    importance: Sequence[str] = (),
    no_color: bool = False,
    schema: int | None = None,
) -> None:
    """Print rows as they arrive; a table shows only `fields` of their members.

    `importance` has the names of columns, beginning with those that are shown on the
    narrowest terminal; then come the others in their order. If `schema` is given, each
    JSON object begins with it.
    """
    if form == "table":
        report_dropped(print_table(rows, fields, importance, no_color=no_color))
    elif form == "csv":
        for lines in _csv_of(rows):
            emit_csv("\n".join(lines) + "\n")
    else:
        if schema is not None:
            rows = ({"schema": schema, **row} for row in rows)
        texts = (json.dumps(row, ensure_ascii=False) for row in rows)
        _print_json(texts, form)


def print_report(
    report: ReportBase,
    fields: Sequence[TableField],
    form: str | None,
    *,
    no_color: bool = False,
    rows: Iterable[Row] | None = None,
    details: Iterable[str] = (),
    as_list: bool = False,
    summary: bool = True,
    quiet: bool = False,
) -> None:
    """Print a report: as one JSON object, or as a list of its rows; else as rows.

    After a table come `details`, the notes of the report and, if `summary` is true, its
    text. With JSON Lines and CSV the notes are printed on standard error; if there is
    neither a note nor a row, the text is, unless `quiet` is true.

    `rows` are printed in place of those of the report.
    """
    form = chosen_format(form)
    if form == "json" and not as_list:
        print_object(report.as_dict())
        return
    rows = iter(report.rows() if rows is None else rows)
    first = list(islice(rows, 1))
    dropped: Sequence[str] = ()
    if form != "table":
        print_rows(chain(first, rows), fields, form, schema=report.schema)
    elif first:
        importance = report.importance()
        rows = chain(first, rows)
        dropped = print_table(rows, fields, importance, no_color=no_color)
    if form == "table":
        for line in (*details, *report.notes(), *[str(report)] * summary):
            emit(f"{terminal.escape(line)}\n")
        report_dropped(dropped)
    elif form != "json":
        lines = [*report.notes()]
        if not lines and not first and not quiet:
            lines = [str(report)]
        for line in lines:
            exits.print_error(line)


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, with times in ms since 1970."""
    import pyarrow as pa

    plain = pa.schema(
        [
            field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
            for field in table.schema
        ]
    )
    for batch in table.cast(plain).to_batches():
        yield from batch.to_pylist()


@contextmanager
def record_printer(
    scan: Scan, form: str | None, *, no_color: bool, decode: bool, values: ValueOptions
) -> Iterator[tuple[Scan, RecordPrinter]]:
    """Yield the scan to read, with what `decode` and `values` need, and its printer."""
    shown, form = scan.columns, chosen_format(form)
    scan, cells = values.prepare(scan, decode=decode)
    importance = scan_importance(scan)
    if decode:
        scan = decodable(scan)
    with RecordPrinter(
        shown,
        form,
        no_color=no_color,
        decode=decode,
        values=values,
        cells=cells,
        importance=importance,
    ) as printer:
        yield scan, printer


def print_records(
    scan: Scan,
    form: str | None,
    *,
    limit: int | None = None,
    no_color: bool = False,
    decode: bool = False,
    values: ValueOptions,
) -> None:
    """Print the first `limit` records of a scan as they are read; all if None.

    Then report the problems that the scan skipped.
    """
    left = sys.maxsize if limit is None else limit
    with record_printer(
        scan, form, no_color=no_color, decode=decode, values=values
    ) as (scan, printer):
        chunks = scan.chunks(reuse=scan.threads == 1) if left else iter(())
        for records in chunks:
            left -= printer.show(records, left)
            if not left:
                break
    if left == (sys.maxsize if limit is None else limit) > 0:
        report_none(scan)
    exits.report_problems(scan.problems)


def report_none(scan: Scan) -> None:
    """Report on standard error that a scan has no record."""
    sys.stdout.flush()
    exits.print_error(
        f"no record found, partitions and files searched: {len(scan.sources)}"
    )


def scan_importance(scan: Scan) -> list[str]:
    """Return the columns of a scan, the most important first."""
    from kafkalog.query.scan_columns import importance_of

    places = ((source.topic, source.partition) for source, _ in scan.sources)
    return importance_of(scan.columns, places)


def decodable(scan: Scan) -> Scan:
    """Return a scan that also reads the columns that decoding needs."""
    from kafkalog.export.internal_topic_json import NEEDED

    more = (name for name in NEEDED if name not in scan.columns)
    return replace(scan, columns=(*scan.columns, *more))


class RecordPrinter:
    """A printer of record chunks: one table, list or stream.

    `cells` decodes typed columns. With `decode`, records of internal topics are printed
    decoded. Rows of a table are kept until there are enough
    to determine the column widths; `flush` prints the rows kept. Leaving the context
    ends the list of ``json``.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        form: str,
        *,
        no_color: bool = False,
        decode: bool = False,
        values: ValueOptions,
        cells: ValueCells | None = None,
        importance: Sequence[str],
    ) -> None:
        from kafkalog.export import text_lines

        self._spellings, self._importance = values.formats, importance
        self._value_cells = cells
        self._columns, self._form, self._decode = columns, form, decode
        self._coloured = terminal.is_coloured(no_color=no_color)
        self._table: Table | None = None
        self._rows: list[tuple[str, ...]] = []
        self._list = JsonList()
        if form == "csv":
            emit_csv(f"{text_lines.csv_header(columns)}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        if self._form == "table":
            if self._table is None:
                self._print_rows()
            assert self._table is not None
            report_dropped(
                [self._columns[i] for i in self._table.dropped],
                "--columns or --format jsonl",
            )
        elif self._form == "json":
            self._list.end()

    def show(self, records: Records, most: int = sys.maxsize) -> int:
        """Print the first `most` records of a chunk; return how many were printed."""
        from kafkalog.cli import record_cells
        from kafkalog.export import text_lines
        from kafkalog.export.internal_topic_json import decoded_cells

        decoded = decoded_cells(records) if self._decode else {}
        if not decoded and self._value_cells is not None:
            decoded = self._value_cells(records)
        if self._form == "table":
            rows = record_cells.rows(
                records,
                self._columns,
                decoded=decoded,
                spellings=self._spellings,
            )[:most]
            self._rows += rows
            if self._table is not None or len(self._rows) >= SAMPLE_ROWS:
                self._print_rows()
            return len(rows)
        spell = text_lines.csv_lines if self._form == "csv" else text_lines.json_lines
        lines = spell(
            records, self._columns, decoded=decoded, spellings=self._spellings
        )[:most]
        if self._form == "csv":
            emit_csv("\n".join(lines) + "\n")
        elif self._form == "jsonl":
            emit_json("\n".join(lines) + "\n")
        else:
            self._list.add(lines)
        return len(lines)

    def flush(self) -> None:
        """Print the table rows that are kept."""
        if self._rows:
            self._print_rows()

    def _print_rows(self) -> None:
        rows, self._rows = self._rows, []
        if self._table is None:
            from kafkalog.cli.record_cells import table_columns

            self._table = Table(
                table_columns(
                    self._columns, decode=self._decode, importance=self._importance
                ),
                rows[:SAMPLE_ROWS],
                width=terminal.columns_wide(),
                drops=sys.stdout.isatty(),
                coloured=self._coloured,
            )
            emit(f"{self._table.heading}\n")
        for line in map(self._table.line, rows):
            emit(f"{line}\n")


def cells_of(row: Row, fields: Sequence[TableField]) -> list[str]:
    """Return a row's cells for a table, with control characters escaped."""
    return [_cell(field, row) for field in fields]


def table_of(fields: Sequence[TableField], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for the terminal, with widths that fit `rows`."""
    return Table(
        [field.column(()) for field in fields],
        rows,
        width=terminal.columns_wide(),
        drops=sys.stdout.isatty(),
        coloured=terminal.is_coloured(no_color=False),
    )


def _cell(field: TableField, row: Row) -> str:
    value = row.get(field.name)
    return "-" if value is None else terminal.escape(field.spell(value))


def print_table(
    rows: Iterable[Row],
    fields: Sequence[TableField],
    importance: Sequence[str] = (),
    *,
    no_color: bool = False,
) -> list[str]:
    """Print rows as a table; return the names of the columns that did not fit."""
    table, lines = lay_out(
        [field.column(importance) for field in fields],
        (cells_of(row, fields) for row in rows),
        width=terminal.columns_wide(),
        drops=sys.stdout.isatty(),
        coloured=terminal.is_coloured(no_color=no_color),
    )
    for line in lines:
        emit(f"{line}\n")
    return [fields[i].name for i in table.dropped]


def report_dropped(names: Sequence[str], shown_by: str = "--format jsonl") -> None:
    """Report the columns that did not fit on standard error, in one line."""
    if names:
        sys.stdout.flush()
        more = counted(len(names), "more column")
        exits.print_error(f"{more}: {', '.join(names)}; {shown_by} shows them")


def _csv_of(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Yield rows as CSV lines; another heading begins where their members change."""
    names: list[str] = []
    for row in rows:
        lines = []
        if list(row) != names:
            names = list(row)
            lines.append(csv_line(names))
        lines.append(csv_line(row.values()))
        yield lines


def csv_line(cells: Iterable[Any]) -> str:
    """Return a line of CSV, without its end; None is an empty cell.

    >>> csv_line(["", None, {"base64": "/w=="}])
    '"",,"{""base64"": ""/w==""}"'
    """
    return ",".join(map(_csv_cell, cells))


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    cell = io.StringIO()
    csv.writer(cell, lineterminator="").writerow([value])
    return cell.getvalue()


class JsonList:
    """A JSON list on standard output, with each element on a line."""

    def __init__(self) -> None:
        self._before = "["

    def add(self, texts: Iterable[str]) -> None:
        """Print one or more elements, which are JSON already."""
        emit_json(self._before + ",\n".join(texts))
        self._before = ",\n"

    def end(self) -> None:
        """Print the end of the list, which may be empty."""
        emit("[]\n" if self._before == "[" else "]\n")


def _print_json(texts: Iterable[str], form: str) -> None:
    """Print objects, one a line; as ``json``, a list that is closed after an error."""
    if form == "jsonl":
        for text in texts:
            emit_json(f"{text}\n")
        return
    elements = JsonList()
    try:
        for text in texts:
            elements.add([text])
    finally:
        elements.end()


def print_object(value: Row) -> None:
    """Print one JSON object on a line."""
    emit_json(f"{json.dumps(value, ensure_ascii=False)}\n")


def emit(text: str) -> None:
    """Write text to standard output, as UTF-8 in any locale.

    Names of files that are not UTF-8 have the bytes that they have on disk.
    """
    _write(text.encode("utf-8", "surrogateescape"))


def emit_csv(text: str) -> None:
    """Write lines of CSV to standard output, escaped on a terminal."""
    emit(terminal.escape_lines(text) if sys.stdout.isatty() else text)


def emit_json(text: str) -> None:
    r"""Write JSON to standard output, escaped on a terminal.

    JSON is UTF-8. A byte in the name of a file that is not has an escape, such as
    ``\udcff`` for ff, from which `os.fsencode` returns the byte.
    """
    escaped = terminal.escape_json(text) if sys.stdout.isatty() else text
    _write(escaped.encode("utf-8", "backslashreplace"))


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)

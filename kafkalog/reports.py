"""Reports: results as JSON, as a table of Arrow, as text and as HTML.

A report is a dataclass, as are its rows. The annotations of the rows state the
columns of the table. A field with ``repr=False`` is neither a column nor in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from kafkalog.optional_packages import require
from kafkalog.renamed import missing_attribute

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN: Final = 20
"""Maximum number of rows of a report in HTML."""

SHOWN_RANGES: Final = 5
"""Maximum number of ranges in a cell."""

SCALARS: Final = {bool: "bool", int: "int64", float: "float64", str: "string"}

Int32 = Annotated[int, "int32"]
"""An annotation: a number whose column is int32."""


class ReportRow:
    """A row of a report, or an object in it: a dataclass.

    Attributes
    ----------
    IMPORTANCE : tuple of str
        The columns that a narrow table shows, beginning with the most important; then
        come the others in their order.
    """

    __slots__ = ()

    IMPORTANCE: ClassVar[Sequence[str]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as they are printed in JSON.

        Returns
        -------
        dict
            A member for each attribute, in their order; ranges are lists.

        Examples
        --------
        >>> from kafkalog.query.diff_report import PartitionDiff
        >>> row = PartitionDiff("orders", 0, True, None, None, 0, 0, "", ((0, 3),))
        >>> row.as_dict()["not_compared"]
        [[0, 3]]
        """
        members = fields(cast("Any", self))
        return {m.name: as_json(getattr(self, m.name)) for m in members if m.repr}


class ReportBase(ReportRow):
    """A report: a dataclass with rows in one of its fields.

    Attributes
    ----------
    schema : int
        The version of the JSON form.
    ROWS, NOUN : str
        The field that has the rows, and the name of one; empty if the report is its own
        row.
    HTML_COLUMNS : tuple of str
        The columns in HTML; if empty, all.
    RENAMED : dict
        Former names of attributes and methods, and the names of today.
    """

    __slots__ = ()

    schema: ClassVar[int] = 1
    ROWS: ClassVar[str] = ""
    NOUN: ClassVar[str] = "row"
    HTML_COLUMNS: ClassVar[Sequence[str]] = ()
    RENAMED: ClassVar[Mapping[str, str]] = {}

    @property
    def ok(self) -> bool:
        """Whether there is nothing to act on; if not, the command's exit code is 1."""
        return True

    def as_dict(self) -> dict[str, Any]:
        """Return the report as ``--format json`` prints it.

        Returns
        -------
        dict
            ``schema``, then a member for each attribute; rows are dictionaries.

        Examples
        --------
        >>> from kafkalog.query.diff_report import DiffReport
        >>> DiffReport(()).as_dict()
        {'schema': 1, 'partitions': []}
        """
        return {"schema": self.schema, **ReportRow.as_dict(self)}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as they are printed in JSON Lines and CSV.

        Yields
        ------
        dict
            A member for each column.

        Examples
        --------
        >>> from kafkalog.query.diff_report import DiffReport, PartitionDiff
        >>> row = PartitionDiff("orders", 0, True, None, None, 0, 0, "equal")
        >>> [row["why"] for row in DiffReport((row,)).rows()]
        ['equal']
        """
        if self.ROWS:
            yield from (row.as_dict() for row in getattr(self, self.ROWS))
        else:
            yield ReportRow.as_dict(self)

    @classmethod
    def _columns(cls) -> dict[str, Any]:
        """Return the columns of the rows and their annotations, in order."""
        return columns_of(cls._row())

    @classmethod
    def _row(cls) -> type[Any]:
        """Return the class of the rows."""
        if not cls.ROWS:
            return cls
        row: type[Any] = get_args(get_type_hints(cls)[cls.ROWS])[0]
        return row

    @classmethod
    def importance(cls) -> Sequence[str]:
        """Return the columns that a narrow table shows, the most important first.

        Examples
        --------
        >>> from kafkalog.query.diff_report import DiffReport
        >>> DiffReport.importance()[:3]
        ('topic', 'partition', 'equal')
        """
        importance: Sequence[str] = cls._row().IMPORTANCE
        return importance

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of a row, in their order.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> from kafkalog.query.diff_report import DiffReport
        >>> DiffReport(()).to_arrow().column_names[:3]
        ['topic', 'partition', 'equal']
        """
        arrow = require("pyarrow", "arrow")
        types = {name: arrow_type(kind) for name, kind in self._columns().items()}
        maps = {name for name, kind in types.items() if arrow.types.is_map(kind)}
        rows = [
            {n: [*v.items()] if n in maps else v for n, v in row.items()}
            for row in self.rows()
        ]
        return arrow.Table.from_pylist(rows, arrow.schema(list(types.items())))

    def notes(self) -> Iterator[str]:
        """Yield what the rows do not have, a line each.

        Examples
        --------
        >>> from kafkalog.query.diff_report import DiffReport
        >>> list(DiffReport(()).notes())
        []
        """
        yield from ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def _repr_html_(self) -> str:
        """Return the text, the first rows and the notes as HTML, for notebooks."""
        title = f"{type(self).__name__}: {self}"
        rows = list(self._html_rows())
        notes = list(self.notes())
        if len(rows) > SHOWN:
            notes.append(f"{counted(len(rows) - SHOWN, f'more {self.NOUN}')}.")
        names = self.HTML_COLUMNS or list(rows[0] if rows else ())
        cells = [[as_cell(row[name]) for name in names] for row in rows[:SHOWN]]
        return html_table(title, names, cells, *notes)

    def _html_rows(self) -> Iterable[Mapping[str, Any]]:
        return self.rows()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(type(self), name, self.RENAMED)


def columns_of(row: type[Any]) -> dict[str, Any]:
    """Return the columns of a row and their annotations, in order.

    >>> from kafkalog.query.diff_report import PartitionDiff
    >>> columns_of(PartitionDiff)["equal"]
    <class 'bool'>
    """
    hints = get_type_hints(row, include_extras=True)
    return {member.name: hints[member.name] for member in fields(row) if member.repr}


def arrow_type(kind: Any) -> Any:
    """Return the type of Arrow of an annotation; None may be a value of each.

    >>> str(arrow_type(tuple[str, ...] | None)), str(arrow_type(dict[int, str]))
    ('list<item: string>', 'map<int64, string>')
    """
    arrow = require("pyarrow", "arrow")
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return arrow.type_for_alias(kind.__metadata__[0])
    if origin in (Union, UnionType):
        return arrow_type(next(each for each in args if each is not NoneType))
    if origin is tuple:
        size = -1 if args[-1] is ... else len(args)
        return arrow.list_(arrow_type(args[0]), size)
    if origin is dict:
        return arrow.map_(*map(arrow_type, args))
    if is_dataclass(kind):
        columns = columns_of(cast("type[Any]", kind))
        return arrow.struct([(name, arrow_type(one)) for name, one in columns.items()])
    if issubclass(kind, tuple):
        hints = tuple(get_type_hints(kind).values())
        return arrow.list_(arrow_type(hints[0]), len(hints))
    return arrow.type_for_alias(
        next(name for scalar, name in SCALARS.items() if issubclass(kind, scalar))
    )


def as_json(value: Any) -> Any:
    """Return a value of a report as JSON has it: rows are dictionaries, pairs lists.

    >>> as_json(((4, 6), (9, 9)))
    [[4, 6], [9, 9]]
    """
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, tuple):
        return [as_json(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def as_cell(value: Any) -> str:
    """Return a value of a row as the text of a cell.

    >>> as_cell([[4, 6], [9, 9]]), as_cell(["one", "two"]), as_cell(True)
    ('4-6, 9', 'one; two', 'yes')
    """
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case [[int(), int()], *_]:
            texts = [str(a) if a == b else f"{a}-{b}" for a, b in value[:SHOWN_RANGES]]
            more = len(value) - SHOWN_RANGES
            return ", ".join([*texts, *[f"{more} more"] * (more > 0)])
        case list():
            return "; ".join(map(as_cell, value))
        case dict():
            return "; ".join(f"{name}: {as_cell(value[name])}" for name in value)
    return str(value)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> counted(1, "record"), counted(2500, "batch", "batches")
    ('1 record', '2,500 batches')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def html_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *notes: str,
) -> str:
    """Return a table with a caption, and notes after it; without rows, no table.

    >>> html_table("Log", ("file",), [("<a>",)])
    '<table><caption>Log</caption><thead><tr><th>file</th></tr></thead>\
<tbody><tr><td>&lt;a&gt;</td></tr></tbody></table>'
    >>> html_table("Report: 1 < 2", (), [], "It is.")
    '<p>Report: 1 &lt; 2</p><p>It is.</p>'
    """
    # Not imported by each command: it has all names of HTML's characters.
    from html import escape

    def tagged(tag: str, texts: Iterable[object]) -> str:
        return "".join(f"<{tag}>{escape(str(each))}</{tag}>" for each in texts)

    paragraphs = tagged("p", filter(None, notes))
    if not rows:
        return tagged("p", [title]) + paragraphs
    body = "".join(f"<tr>{tagged('td', row)}</tr>" for row in rows)
    return (
        f"<table>{tagged('caption', [title])}"
        f"<thead><tr>{tagged('th', header)}</tr></thead><tbody>{body}</tbody></table>"
        f"{paragraphs}"
    )

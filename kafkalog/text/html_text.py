"""HTML tables, for the display of objects in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafkalog.text.counted_nouns import counted

SHOWN: Final = 20
"""Maximum number of rows of a report."""


def html_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    footer: str = "",
) -> str:
    """Return a table with a caption, and a line of text after it.

    >>> html_table("Log", ("file",), [("<a>",)])
    '<table><caption>Log</caption><thead><tr><th>file</th></tr></thead>\
<tbody><tr><td>&lt;a&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{_escaped(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    table = (
        f"<table><caption>{_escaped(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    return table + (f"<p>{_escaped(footer)}</p>" if footer else "")


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


def _escaped(value: object) -> str:
    text = str(value)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text

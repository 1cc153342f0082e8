"""HTML tables, for the display of objects in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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


def _escaped(value: object) -> str:
    text = str(value)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text

"""Records as cells of a table: shortened, with control characters escaped.

This is a separate module because it needs NumPy, which most commands do not import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafkalog.cli.terminal import escape, in_utc
from kafkalog.cli.text_table import Cut, TableColumn
from kafkalog.export.text_lines import BASE64, TEXT, Decoded, spell_base64
from kafkalog.query.chunk_columns import BytesColumn, HeadersColumn
from kafkalog.query.records import Records

NULL: Final = "null"
SHOWN_BYTES: Final = 1024
"""The rest of a value is ignored: no terminal is that wide."""
CUTS: Final[dict[str, Cut]] = {
    "topic": "name",
    "key": "key",
    "value": "value",
    "headers": "key",
}
DECODED: Final = ("key", "value")
LEFT: Final = ("timestamp", "codec", "segment", *CUTS)


def table_columns(
    names: tuple[str, ...], *, importance: Sequence[str], decode: bool = False
) -> list[TableColumn]:
    """Return the table's columns for those of a scan; decoded columns are never cut."""
    return [
        TableColumn(
            name,
            name not in LEFT,
            CUTS.get(name),
            wraps=decode and name in DECODED,
            rank=importance.index(name),
        )
        for name in names
    ]


def rows(
    records: Records,
    columns: tuple[str, ...],
    *,
    decoded: Decoded,
    spellings: Mapping[str, str],
) -> list[tuple[str, ...]]:
    """Return each record's cells, in the order of `columns`."""
    cells = (
        [NULL if cell is None else escape(cell) for cell in decoded[name]]
        if name in decoded
        else _cells(name, records, spellings.get(name, TEXT))
        for name in columns
    )
    return list(zip(*cells, strict=True))


def _cells(name: str, records: Records, spelling: str) -> list[str]:
    if name == "topic":
        return [escape(records.topic)] * len(records)
    column = getattr(records, name)
    if isinstance(column, BytesColumn):
        if spelling == BASE64:
            rows = column.to_list()
            return [NULL if row is None else spell_base64(row) for row in rows]
        return [_shown(value) for value in column.to_list()]
    if isinstance(column, HeadersColumn):
        return [
            ", ".join(f"{_shown(key)}={_shown(value)}" for key, value in pairs)
            for pairs in column.to_list()
        ]
    values: list[Any] = column.tolist()
    if name == "timestamp":
        return [in_utc(None if value == -1 else value) for value in values]
    if name in ("codec", "segment"):
        names = records.codecs if name == "codec" else records.segments
        return [escape(names[code]) for code in values]
    return [str(value).lower() for value in values]


def _shown(value: bytes | None) -> str:
    if value is None:
        return NULL
    return escape(value[:SHOWN_BYTES].decode("utf-8", "backslashreplace"))

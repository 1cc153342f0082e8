"""Records as text: JSON Lines and CSV.

A byte string is text if it is valid UTF-8, and ``{"base64": "..."}`` otherwise. Keys
and values can have another spelling: ``json`` puts a valid JSON document into the line
as it is, and with ``base64`` all bytes have the same form. Header keys are text in
Kafka; invalid UTF-8 is replaced as Java does. In CSV the cell of null is empty, and
that of an empty string is ``""``.

Each column is converted to a list of cells, and the lists are joined line by line.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import pairwise
from json.decoder import JSONDecoder
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.export.internal_topic_json import on_one_line
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.query.chunk_columns import BytesColumn, HeadersColumn
from kafkalog.query.records import Records
from kafkalog.text.bytes_text import bytes_as_data, repair_utf8

NULL: Final = "null"
BOOLEANS: Final = ("false", "true")
SEPARATOR: Final = "\x7f"
"""Separator of rows that are quoted together; neither JSON nor CSV escapes it."""

TEXT: Final = "text"
JSON: Final = "json"
BASE64: Final = "base64"
ALL_TEXT: Final[Mapping[str, str]] = {}
"""The spelling of no column is set, so that it is `TEXT`."""

Decoded = Mapping[str, list[str | None]]
"""Columns of a chunk that are JSON already; None is null."""
NOT_DECODED: Final[Decoded] = {}

ON_ONE_LINE: Final = str.maketrans("\t\n\r", "   ")
"""In valid JSON, these characters are only between tokens."""


def json_lines(
    records: Records,
    columns: tuple[str, ...],
    *,
    decoded: Decoded = NOT_DECODED,
    spellings: Mapping[str, str] = ALL_TEXT,
) -> list[str]:
    r"""Return each record as a JSON object, its members named and ordered as `columns`.

    `spellings` has those of key and value that are not `TEXT`. Columns in `decoded` are
    JSON already, None for null.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"\xff", "é".encode(), timestamp=-1)
    >>> columns = ("offset", "timestamp", "key", "value")
    >>> [records] = kafkalog.scan(batch.build(), columns=columns).chunks()
    >>> json_lines(records, columns)
    ['{"offset": 7, "timestamp": null, "key": {"base64": "/w=="}, "value": "é"}']
    """
    cells = [
        [cell or NULL for cell in decoded[name]]
        if name in decoded
        else _json_cells(name, records, spellings.get(name, TEXT))
        for name in columns
    ]
    members = [
        f'"{name}": {_slot(column)}'
        for name, column in zip(columns, cells, strict=True)
    ]
    return _fill("{" + ", ".join(members) + "}", cells, len(records))


def csv_lines(
    records: Records,
    columns: tuple[str, ...],
    *,
    decoded: Decoded = NOT_DECODED,
    spellings: Mapping[str, str] = ALL_TEXT,
) -> list[str]:
    """Return each record as a line of CSV, without a line end.

    Headers are a cell of JSON; timestamps are in ms since 1970. A cell is text, so that
    the spellings `TEXT` and `JSON` are the same.
    """
    cells = [
        [quote_csv(cell) if cell else "" for cell in decoded[name]]
        if name in decoded
        else _csv_cells(name, records, spellings.get(name, TEXT))
        for name in columns
    ]
    return _fill(",".join(map(_slot, cells)), cells, len(records))


def csv_header(columns: tuple[str, ...]) -> str:
    """Return the first line of a CSV file, the names of the columns."""
    return ",".join(columns)


def spell_bytes(value: bytes) -> str:
    r"""Return bytes as text if they are UTF-8, else as a JSON object with base64.

    >>> spell_bytes(b"text"), spell_bytes(b"\xff")
    ('text', '{"base64": "/w=="}')
    """
    data = bytes_as_data(value)
    return data if isinstance(data, str) else _object(data)


def spell_base64(value: bytes) -> str:
    r"""Return bytes as a JSON object with base64.

    >>> spell_base64(b"text")
    '{"base64": "dGV4dA=="}'
    """
    return _object({"base64": b64encode(value).decode()})


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Numbers are not converted: they are printed with all their digits.
_DECODER: Final = JSONDecoder(
    parse_float=str, parse_int=str, parse_constant=_reject_constant
)


def spell_document(value: bytes) -> str | None:
    r"""Return a JSON document on one line, None if the bytes are not valid JSON.

    The document is not converted: members, numbers and escapes stay as they are.

    >>> spell_document(b'{"price":\n1.10}'), spell_document(b"text")
    ('{"price": 1.10}', None)
    """
    try:
        text = value.decode()
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return on_one_line(text.translate(ON_ONE_LINE).strip(" "))


def quote_json(text: str) -> str:
    r"""Return text quoted as JSON, line ends of all kinds escaped.

    >>> print(quote_json("é\u2028"))
    "é\u2028"
    """
    return on_one_line(encode_basestring(text))


Cells = list[Any] | str
"""A cell for each record, or one that all records share."""


def _slot(cells: Cells) -> str:
    """Return the placeholder of a column in the template of a line."""
    return cells.replace("%", "%%") if isinstance(cells, str) else "%s"


def _fill(template: str, cells: list[Cells], count: int) -> list[str]:
    lists = [column for column in cells if not isinstance(column, str)]
    if not lists:
        return [template % ()] * count
    return list(map(template.__mod__, zip(*lists, strict=True)))


def _json_cells(name: str, records: Records, spelling: str) -> Cells:
    if name == "topic":
        return quote_json(records.topic)
    column: Any = getattr(records, name)
    if isinstance(column, BytesColumn):
        if spelling == TEXT:
            return json_strings(column)
        spell = _json_document if spelling == JSON else spell_base64
        return [NULL if value is None else spell(value) for value in column.to_list()]
    if isinstance(column, HeadersColumn):
        return _headers(column)
    return _fixed_width(name, column, records, quote_json, NULL)


def _csv_cells(name: str, records: Records, spelling: str) -> Cells:
    if name == "topic":
        return quote_csv(records.topic)
    column: Any = getattr(records, name)
    if isinstance(column, BytesColumn):
        if spelling != BASE64:
            return csv_strings(column)
        values = column.to_list()
        return ["" if v is None else quote_csv(spell_base64(v)) for v in values]
    if isinstance(column, HeadersColumn):
        headers = _headers(column)
        if isinstance(headers, str):
            return quote_csv(headers)
        return list(map(quote_csv, headers))
    return _fixed_width(name, column, records, quote_csv, "")


def _fixed_width(
    name: str,
    column: npt.NDArray[Any],
    records: Records,
    quote: Callable[[str], str],
    null: str,
) -> Cells:
    """Return the cells of a column of one width; one cell if all values are equal."""
    if name in ("codec", "segment"):
        names = records.codecs if name == "codec" else records.segments
        return _pick([quote(name_of_code) for name_of_code in names], column)
    if column.dtype == np.bool_:
        return _pick(list(BOOLEANS), column.view(np.int8))
    if name == "timestamp":
        values: list[Any] = column.tolist()
        if (column == NO_TIMESTAMP).any():
            return [null if value == NO_TIMESTAMP else value for value in values]
        return values
    if len(column) and (column == column[0]).all():
        return str(column[0])
    return list(column.tolist())


def _pick(names: list[str], codes: npt.NDArray[Any]) -> Cells:
    if len(codes) and (codes == codes[0]).all():
        return names[int(codes[0])]
    return [names[code] for code in codes.tolist()]


def json_strings(column: BytesColumn) -> list[str]:
    """Return byte strings as JSON strings, objects with base64, or null."""
    text = _joined(column)
    if text is None:
        return [_json_value(value) for value in column.to_list()]
    return _split(quote_json(text), column, NULL)


def csv_strings(column: BytesColumn) -> list[str]:
    """Return byte strings as cells of CSV, null as an empty cell."""
    text = _joined(column)
    if text is None:
        return [
            "" if value is None else quote_csv(spell_bytes(value))
            for value in column.to_list()
        ]
    return _split(quote_csv(text), column, "")


def _joined(column: BytesColumn) -> str | None:
    """Return all rows as one text, separated by `SEPARATOR`, if they are UTF-8.

    The joined bytes are valid if and only if each row is, since no character contains
    the separator. Returns None if a row is invalid, or contains the separator.
    """
    data = column.data
    if not len(column) or (data == ord(SEPARATOR)).any():
        return None
    joined = np.insert(data, column.offsets[1:-1], ord(SEPARATOR))
    try:
        return joined.tobytes().decode()
    except UnicodeDecodeError:
        return None


def _split(quoted: str, column: BytesColumn, null: str) -> list[str]:
    """Return the rows of a quoted text, each quoted."""
    cells = quoted.replace(SEPARATOR, f'"{SEPARATOR}"').split(SEPARATOR)
    if column.valid is not None:
        for row in np.flatnonzero(~column.valid).tolist():
            cells[row] = null
    return cells


def _json_value(value: bytes | None) -> str:
    if value is None:
        return NULL
    data = bytes_as_data(value)
    return quote_json(data) if isinstance(data, str) else _object(data)


def _json_document(value: bytes) -> str:
    """Return a JSON document, and other bytes as `_json_value` does."""
    document = spell_document(value)
    return _json_value(value) if document is None else document


def _object(data: dict[str, str]) -> str:
    return f'{{"base64": "{data["base64"]}"}}'


def _headers(column: HeadersColumn) -> Cells:
    """Return each record's headers as a JSON list of pairs."""
    if not len(column.key):
        return "[]"
    pairs = [
        f"[{quote_json(repair_utf8(key or b''))}, {_json_value(value)}]"
        for key, value in zip(column.key.to_list(), column.value.to_list(), strict=True)
    ]
    return [f"[{', '.join(pairs[a:b])}]" for a, b in pairwise(column.offsets.tolist())]


def quote_csv(text: str) -> str:
    """Return text as a quoted cell.

    >>> quote_csv('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + text.replace('"', '""') + '"'

r"""JSON values as columns of Arrow, which its own reader of JSON makes.

The reader takes lines, each an object. So a value is put into an object of its own, on
a line: ``{"v":`` value ``}\n``. That line end and the brackets around it are in no JSON
document, not even in a string, so that a value never reaches into the next line; and
`find_single_documents` makes sure that it does not end its object, or add another
member. So if as many rows are read as there are values, each row is its value.

Where the reader refuses a block, it names the row in most errors. Otherwise the block
is halved until the row is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalog import _speedups
from kafkalog.errors import ConfigError
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.optional_packages import require
from kafkalog.values.schema_headers import payloads, rows_of_arrow
from kafkalog.values.value_format import (
    Faults,
    Sample,
    missing_schema,
    with_nulls,
)

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

pc: Any = require("pyarrow.compute", "arrow")
pj: Any = require("pyarrow.json", "arrow")

BEFORE: Final = pa.scalar(b'{"v":')
AFTER: Final = pa.scalar(b"}\n")
NOTHING: Final = pa.scalar(b"")
ROW: Final = re.compile(r" in row (\d+)$")
RETRIED: Final = 4096
"""Lines that are read at once after the reader has refused a block."""

NOT_JSON: Final = "expected one JSON document"
NOT_TEXT: Final = "expected UTF-8"


class JsonFormat:
    """JSON documents, decoded to `type`.

    Members that `type` does not have are ignored. A header of a schema registry is
    skipped: no JSON document begins with its magic byte.

    Raises `ConfigError` for a type that Arrow does not read from JSON.
    """

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self._read_type = _as_read(type_)
        try:
            self.decode(pa.array([b"null"], pa.binary()))
        except pa.ArrowNotImplementedError as error:
            raise ConfigError(f"a schema that JSON is not read to: {error}") from None

    def decode(self, values: pa.Array) -> tuple[pa.Array, Faults]:
        """Return values of `type`; null where a value is null, or has a fault."""
        values = _without_headers(values)
        single = _are_single(values)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        faults = dict.fromkeys(np.flatnonzero(valid & ~single).tolist(), NOT_JSON)
        not_text = _find_not_text(values)
        faults |= dict.fromkeys(not_text, NOT_TEXT)
        single &= valid
        single[not_text] = False
        kept = np.flatnonzero(single)
        if len(kept) < len(values):
            values = values.take(pa.array(kept))
        pieces: list[pa.Array] = []
        good: list[np.ndarray] = []
        self._decode_all(values, kept, pieces, good, faults)
        if len(pieces) == 1:
            decoded, kept = pieces[0], good[0]
        else:
            decoded = pa.concat_arrays([pa.array([], self.type), *pieces])
            kept = np.concatenate([np.empty(0, np.int64), *good])
        return with_nulls(decoded, kept, len(single)), faults

    def _decode_all(
        self,
        values: pa.Array,
        rows: np.ndarray,
        pieces: list[pa.Array],
        good: list[np.ndarray],
        faults: Faults,
    ) -> None:
        """Decode the values of some rows: add those that are good, and the faults."""
        joined = pc.binary_join_element_wise(BEFORE, values, AFTER, NOTHING)
        _, places, data = joined.buffers()
        lines = np.frombuffer(places, np.int32, len(values) + 1).tolist()
        waiting = [(0, len(values))]
        while waiting:
            begin, end = waiting.pop()
            if begin == end:
                continue
            try:
                block = data.slice(lines[begin], lines[end] - lines[begin])
                pieces.append(self._decode_lines(block, end - begin))
            except pa.ArrowNotImplementedError:
                raise
            except pa.ArrowInvalid as error:
                if end - begin > RETRIED:
                    parts = range(begin, end, RETRIED)
                    waiting += [(at, min(at + RETRIED, end)) for at in reversed(parts)]
                    continue
                found = ROW.search(str(error))
                row = begin if found is None else begin + int(found[1])
                if end - begin == 1 or (found is not None and row < end):
                    faults[int(rows[row])] = ROW.sub("", str(error))
                    waiting += [(row + 1, end), (begin, row)]
                else:
                    middle = (begin + end) // 2
                    waiting += [(middle, end), (begin, middle)]
            else:
                good.append(rows[begin:end])

    def _decode_lines(self, data: pa.Buffer, count: int) -> pa.Array:
        """Return values of `type`. Raise `pyarrow.ArrowInvalid` if one has a fault."""
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([("v", self._read_type)]),
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != count:
            raise pa.ArrowInvalid(NOT_JSON)
        column = table["v"].combine_chunks()
        return column if self._read_type == self.type else column.cast(self.type)


def json_format(
    sample: Sample, schema: pa.Schema | pa.DataType | None, most: int
) -> JsonFormat:
    """Return the format of a schema, or of one inferred from at most `most` values."""
    if schema is None:
        return JsonFormat(_inferred(sample, most))
    if isinstance(schema, pa.Schema):
        return JsonFormat(pa.struct(list(schema)))
    if isinstance(schema, pa.DataType):
        return JsonFormat(schema)
    raise TypeError(
        f"schema of type {type(schema).__name__}, expected an Arrow schema for JSON"
    )


def _as_read(kind: pa.DataType) -> pa.DataType:
    """Return the type that the reader makes, which is cast: dates are strings."""
    types = pa.types
    if types.is_date(kind):
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_as_read(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_read(kind.value_type)))
    return kind


def _without_headers(values: pa.Array) -> pa.Array:
    """Return values without the headers of a schema registry."""
    if not pc.any(pc.starts_with(values, b"\0")).as_py():
        return values
    return pc.coalesce(payloads(values), values)


def _are_single(values: pa.Array) -> np.ndarray:
    """Return whether each value may be one JSON document."""
    rows = rows_of_arrow(values)
    single = np.empty(len(values), np.uint8)
    rows.call(_speedups.find_single_documents, single)
    return single.view(np.bool_)


def _find_not_text(values: pa.Array) -> list[int]:
    """Return the rows that are not UTF-8, which the reader does not check."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return [row for row, value in enumerate(values.to_pylist()) if _is_bad(value)]
    return []


def _is_bad(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


# -------------------------------------------------------------------- inferred types

Kind = dict[str, Any]
"""What a member was found to be: its `name`, `members` of objects, `item` of lists."""


def _inferred(sample: Sample, most: int) -> pa.DataType:
    """Return the type of the first `most` values."""
    kind: Kind = {}
    for values in sample.values():
        for value in _without_headers(values[:most]).to_pylist():
            try:
                document = json.loads(value)
            except (ValueError, RecursionError):
                continue
            _merge(kind, document, sample.name)
        most -= len(values)
        if most <= 0:
            break
    if "name" not in kind:
        raise missing_schema(sample.name, "schema, an Arrow schema")
    return _type_of(kind)


def _merge(kind: Kind, document: Any, place: str) -> None:
    """Extend a kind by a document. Raise `ValueError` if it is of another kind."""
    if document is None:
        return
    name = _name_of(document)
    known = kind.get("name", name)
    if {name, known} <= {"integer", "number"}:
        kind["name"] = "number" if "number" in (name, known) else "integer"
        return
    if known != name:
        raise ValueError(
            f"{place} is {known} and {name} in different values, expected schema: an "
            "Arrow schema"
        )
    kind["name"] = name
    if name == "object":
        members = kind.setdefault("members", {})
        for member, value in document.items():
            _merge(members.setdefault(member, {}), value, f"{place}.{member}")
    elif name == "list":
        for value in document:
            _merge(kind.setdefault("item", {}), value, f"{place}[]")


def _name_of(document: Any) -> str:
    match document:
        case bool():
            return "boolean"
        case int():
            return "integer" if MIN_INT64 <= document <= MAX_INT64 else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "object"


def _type_of(kind: Kind) -> pa.DataType:
    """Return the Arrow type of a kind; strings where only null was found."""
    match kind.get("name"):
        case "boolean":
            return pa.bool_()
        case "integer":
            return pa.int64()
        case "number":
            return pa.float64()
        case "list":
            return pa.list_(_type_of(kind.get("item", {})))
        case "object":
            return pa.struct(
                _fields_of(kind["members"].items() if "members" in kind else ())
            )
        case _:
            return pa.string()


def _fields_of(members: Iterable[tuple[str, Kind]]) -> list[tuple[str, pa.DataType]]:
    return [(name, _type_of(kind)) for name, kind in members]

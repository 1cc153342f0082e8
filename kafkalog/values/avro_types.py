"""Avro's types as Arrow's, and what is changed in values for them.

| Avro | Arrow |
|---|---|
| ``null``, ``boolean``, ``string``, ``bytes``, ``float``, ``double`` | the same |
| ``int``, ``long`` | ``int32``, ``int64`` |
| ``fixed``, ``enum`` | ``fixed_size_binary``, ``string`` |
| ``record``, ``array``, ``map`` | ``struct``, ``list``, ``map`` |
| a union of a type and null | the type |
| ``int`` and ``long``, or ``float`` and ``double`` in a union | the wider one |
| a union of other types | a struct of ``member0``, ``member1`` and so on, of which one is not null, as in Spark |
| ``decimal``, ``date`` | ``decimal128`` or ``decimal256``, ``date32`` |
| ``time-millis``, ``time-micros`` | ``time32[ms]``, ``time64[us]`` |
| ``timestamp-millis``, ``timestamp-micros``, ``timestamp-nanos`` | ``timestamp`` in UTC |
| ``local-timestamp-millis`` and the like | ``timestamp`` without a zone |

Other logical types are read as what they annotate. Numbers of days and milliseconds are
the same in both, so that only decimals are converted by the library.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import ConfigError
from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", f"{prefix}timestamp-{unit}"): pa.timestamp(short, tz=zone)
        for prefix, zone in (("", "UTC"), ("local-", None))
        for unit, short in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
NESTED: Final = ("type", "items", "values", "fields")
"""Attributes whose values are schemas, or have them."""
WIDENED: Final = ({"int", "long"}, {"float", "double"})
MOST_DIGITS: Final = 38
"""The most that ``decimal128`` has."""

Convert = Callable[[Any], Any]


def readable(schema: Any) -> Any:
    """Return a schema without logical types, but for decimals.

    >>> readable({"type": "long", "logicalType": "timestamp-millis"})
    {'type': 'long'}
    """
    if isinstance(schema, list):
        return [readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: readable(value) if name in NESTED else value
        for name, value in schema.items()
        if name != "logicalType" or value == "decimal"
    }


def arrow_type(schema: Any) -> pa.DataType:
    """Return the Arrow type of a schema in which all names are expanded.

    Raises `ConfigError` for a type that contains itself.

    >>> arrow_type(["null", {"type": "array", "items": "long"}])
    ListType(list<item: int64>)
    """
    if isinstance(schema, list):
        return _union_type(schema)
    if isinstance(schema, str):
        found = PRIMITIVES.get(schema)
        if found is None:
            raise ConfigError(
                f"the type {schema} contains itself, which columns cannot: expected "
                "schema, one without it"
            )
        return found
    kind = schema["type"]
    match kind:
        case "record" | "error":
            return pa.struct(
                [
                    pa.field(one["name"], arrow_type(one["type"]))
                    for one in schema["fields"]
                ]
            )
        case "array":
            return pa.list_(arrow_type(schema["items"]))
        case "map":
            return pa.map_(pa.string(), arrow_type(schema["values"]))
        case "enum":
            return pa.string()
        case "fixed" | "bytes" if schema.get("logicalType") == "decimal":
            digits, scale = schema["precision"], schema.get("scale", 0)
            wide = digits > MOST_DIGITS
            return (pa.decimal256 if wide else pa.decimal128)(digits, scale)
        case "fixed":
            return pa.binary(schema["size"])
        case str():
            return LOGICAL.get((kind, schema.get("logicalType"))) or arrow_type(kind)
        case _:
            return arrow_type(kind)


def _members(union: list[Any]) -> list[Any]:
    """Return the types of a union besides null; the wider one of two numbers."""
    members = [one for one in union if _kind(one) != "null"]
    kinds = {_kind(one) for one in members}
    if len(members) > 1 and any(kinds <= both for both in WIDENED):
        return [one for one in members if _kind(one) in ("long", "double")]
    return members


def _kind(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    return kind if isinstance(kind, str) else _kind(kind)


def _union_type(union: list[Any]) -> pa.DataType:
    members = _members(union)
    if len(members) <= 1:
        return arrow_type(members[0]) if members else pa.null()
    return pa.struct(
        [(f"member{i}", arrow_type(member)) for i, member in enumerate(members)]
    )


def has_choices(schema: Any) -> bool:
    """Return whether a schema has a union of several types, null aside.

    >>> has_choices(["null", "long"]), has_choices(["string", "long"])
    (False, True)
    """
    if isinstance(schema, list):
        return len(_members(schema)) > 1 or any(map(has_choices, schema))
    if not isinstance(schema, dict):
        return False
    if schema["type"] in ("record", "error"):
        return any(has_choices(one["type"]) for one in schema["fields"])
    nested = (schema.get(name) for name in ("type", "items", "values"))
    return any(has_choices(one) for one in nested)


def union_converter(schema: Any) -> Convert:
    """Return what makes a value of a schema with choices one of its Arrow type.

    Named types in unions are pairs of their name and value, as the library reads them
    with ``return_named_type``.
    """
    if isinstance(schema, list):
        return _choice_converter(schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "record" | "error":
            parts = {
                one["name"]: union_converter(one["type"]) for one in schema["fields"]
            }
            return lambda value: {
                name: part(value[name]) for name, part in parts.items()
            }
        case "array":
            item = union_converter(schema["items"])
            return lambda value: list(map(item, value))
        case "map":
            item = union_converter(schema["values"])
            return lambda value: {name: item(one) for name, one in value.items()}
        case list() | dict():
            return union_converter(kind)
        case _:
            return lambda value: value


def _choice_converter(union: list[Any]) -> Convert:
    members = _members(union)
    parts = {_label(one): union_converter(one) for one in members}
    if len(parts) <= 1:
        single = next(iter(parts.values()), lambda value: value)
        return lambda value: None if value is None else single(_unnamed(value)[1])
    names = {label: f"member{i}" for i, label in enumerate(parts)}

    def convert(value: Any) -> Any:
        if value is None:
            return None
        label, plain = _unnamed(value)
        return {names[label]: parts[label](plain)}

    return convert


def _label(schema: Any) -> str:
    """Return how a member of a union is told from the others."""
    kind = _kind(schema)
    if isinstance(schema, dict) and kind in ("record", "error", "enum", "fixed"):
        return str(schema["name"])
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return "Decimal"
    return {"int": "int", "long": "int", "float": "float", "double": "float"}.get(
        kind,
        {"boolean": "bool", "string": "str", "array": "list", "map": "dict"}.get(
            kind, kind
        ),
    )


def _unnamed(value: Any) -> tuple[str, Any]:
    """Return the label of a value of a union, and the value."""
    if isinstance(value, tuple):
        name, plain = value
        return name, plain
    return type(value).__name__, value

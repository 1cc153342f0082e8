"""Schemas of the records in internal topics, from the table that Kafka's files made.

The table, ``schemas/internal_topics.json``, has what Kafka's own ``.json`` files say, a
message a line, under the topic's name; `tests.schemas.make_tables` makes it anew for
another release.

Knows: how Kafka spells schemas. Does not know: bytes, records.
Source: ``FieldSpec.java``, ``MessageSpec.java``, ``Versions.java``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from kafkalog.messages.message import Schema
from kafkalog.messages.schema import (
    ANY_VERSION,
    FIXED_WIDTH,
    INTEGERS,
    NOT_GIVEN,
    Array,
    Field,
    FieldType,
)

TABLE: Final = "schemas/internal_topics.json"
PRIMITIVES: Final = {*FIXED_WIDTH, "uuid", "string", "bytes"}
Spec = dict[str, Any]


@cache
def schemas_of(topic: str) -> Mapping[tuple[str, int | None], Schema]:
    """Return a topic's schemas, by what they describe and the type of the record.

    Described are ``coordinator-key``, ``coordinator-value``, ``metadata``; the messages
    that members of consumer groups send each other (``consumer protocol``) have no
    type, and their names are what they describe.

    >>> schemas_of("__consumer_offsets")["coordinator-value", 1].name
    'OffsetCommitValue'
    """
    found = {}
    for spec in _table()[topic]:
        described = spec["type"] if "apiKey" in spec else spec["name"]
        found[described, spec.get("apiKey")] = schema_from(spec)
    return found


def release() -> str:
    """Return the release of Kafka whose schemas these are."""
    text: str = _table()["release"]
    return text


@cache
def _table() -> dict[str, Any]:
    text = files("kafkalog.messages").joinpath(TABLE).read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def schema_from(spec: Spec) -> Schema:
    """Read a schema, spelled as in Kafka's ``.json`` files."""
    lowest, highest = _range(spec["validVersions"])
    structs = {one["name"]: one["fields"] for one in spec.get("commonStructs", ())}
    return Schema(
        spec["name"],
        _fields(spec["fields"], structs),
        lowest_version=lowest,
        highest_version=highest,
        flexible_since=_since(spec["flexibleVersions"]),
    )


def _fields(specs: list[Spec], structs: dict[str, list[Spec]]) -> tuple[Field, ...]:
    return tuple(_field(spec, structs) for spec in specs)


def _field(spec: Spec, structs: dict[str, list[Spec]]) -> Field:
    name: str = spec["name"]
    kind = _type(spec, structs)
    since, until = _range(spec.get("versions") or spec["taggedVersions"])
    nullable = _since(spec.get("nullableVersions", "none"))
    return Field(
        name[0].lower() + name[1:],
        kind,
        since=since,
        until=until,
        nullable_since=None if nullable > ANY_VERSION else nullable,
        tag=spec.get("tag"),
        default=_default(spec.get("default"), kind),
    )


def _type(spec: Spec, structs: dict[str, list[Spec]]) -> FieldType:
    """Read a type; a struct is spelled at its first use, or with the message."""
    name: str = spec["type"].removeprefix("[]")
    kind: FieldType = name
    if name not in PRIMITIVES:
        inner = structs.setdefault(name, spec.get("fields", []))
        kind = _fields(inner, structs)
    return Array(kind) if spec["type"].startswith("[]") else kind


def _default(given: Any, kind: FieldType) -> Any:
    """Read a default; one that is not in quotes, null, is none at all."""
    if given is None or given == "":
        return NOT_GIVEN
    if given == "null":
        return None
    if kind == "bool":
        return given in (True, "true")
    return int(given) if kind in INTEGERS else given


def _range(versions: str) -> tuple[int, int]:
    """Read ``3``, ``1-3`` or ``2+``.

    >>> _range("3"), _range("1-3"), _range("2+")
    ((3, 3), (1, 3), (2, 32767))
    """
    if versions.endswith("+"):
        return int(versions[:-1]), ANY_VERSION
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


def _since(versions: str) -> int:
    """Read ``2+``, or ``none``, which is above all versions."""
    if versions == "none":
        return ANY_VERSION + 1
    since, until = _range(versions)
    if until != ANY_VERSION:
        raise ValueError(f"versions {versions} end, and should be open")
    return since

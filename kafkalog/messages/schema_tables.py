"""Schemas of the records of internal topics, parsed from Kafka's own definitions.

``schemas/internal_topics.json`` holds the content of Kafka's ``.json`` files by topic,
one message per line. `tests.schemas.make_tables` generates it from a release of Kafka.

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
    TYPE_DEFAULT,
    Array,
    Field,
    FieldType,
)

TABLE: Final = "schemas/internal_topics.json"
PRIMITIVES: Final = {*FIXED_WIDTH, "uuid", "string", "bytes", "records"}
Spec = dict[str, Any]


@cache
def schemas_of(topic: str) -> Mapping[tuple[str, int | None], Schema]:
    """Return a topic's schemas, by role and type of the record.

    The role is ``coordinator-key``, ``coordinator-value`` or ``metadata``. The messages
    that members of consumer groups exchange (topic ``consumer protocol``) have no type;
    their role is their name.

    >>> schemas_of("__consumer_offsets")["coordinator-value", 1].name
    'OffsetCommitValue'
    """
    schemas = {}
    for spec in read_table(TABLE)[topic]:
        role = spec["type"] if "apiKey" in spec else spec["name"]
        schemas[role, spec.get("apiKey")] = schema_from(spec)
    return schemas


def release() -> str:
    """Return the release of Kafka that the schemas are from."""
    text: str = read_table(TABLE)["release"]
    return text


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return a table of messages, as generated from a release of Kafka."""
    text = files("kafkalog.messages").joinpath(name).read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def schema_from(spec: Spec) -> Schema:
    """Parse a schema in the form of Kafka's ``.json`` files."""
    lowest, highest = _range(spec["validVersions"])
    structs = {
        struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())
    }
    # A version that Kafka does not offer unless it is told to.
    highest -= bool(spec.get("latestVersionUnstable"))
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
    nullable = spec.get("nullableVersions", "none")
    nullable_since, nullable_until = (
        (None, ANY_VERSION) if nullable == "none" else _range(nullable)
    )
    return Field(
        name[0].lower() + name[1:],
        kind,
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=spec.get("tag"),
        default=_default(spec.get("default"), kind),
        nullable_until=nullable_until,
        is_classic=spec.get("flexibleVersions") == "none",
    )


def _type(spec: Spec, structs: dict[str, list[Spec]]) -> FieldType:
    """Parse a type; a struct is defined at its first use, or in ``commonStructs``."""
    name: str = spec["type"].removeprefix("[]")
    kind: FieldType = name
    if name not in PRIMITIVES:
        inner = structs.setdefault(name, spec.get("fields", []))
        kind = _fields(inner, structs)
    return Array(kind) if spec["type"].startswith("[]") else kind


def _default(default: Any, kind: FieldType) -> Any:
    """Parse a default; null without quotes stands for that of the type."""
    if default is None or default == "":
        return TYPE_DEFAULT
    if default == "null":
        return None
    if kind == "bool":
        return default in (True, "true")
    return int(str(default), 0) if kind in INTEGERS else default


def _range(versions: str) -> tuple[int, int]:
    """Parse ``3``, ``1-3`` or ``2+``; return the first and the last version.

    >>> _range("3"), _range("1-3"), _range("2+")
    ((3, 3), (1, 3), (2, 32767))
    """
    if versions.endswith("+"):
        return int(versions[:-1]), ANY_VERSION
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


def _since(versions: str) -> int:
    """Parse ``2+``; return the first version, or one above all for ``none``."""
    if versions == "none":
        return ANY_VERSION + 1
    since, until = _range(versions)
    if until != ANY_VERSION:
        raise ValueError(f"versions {versions}, expected an open range such as 2+")
    return since

"""Compiler of a topic's schemas into a table of integers, which a kernel prints from.

The layout is that of the structs in ``_speedups/_message_text.pxd`` and
``_speedups/_message_values.pxd``, all fields int32:

    form, count                   0 coordinators, 1 metadata; number of types
    types      a row each         key, lowest version, number of versions, their index
    versions   a row each         index of the struct, whether flexible, opening text
    structs    count, then a      kind, nullable, index of a struct, tag, name, default
               row per field

A text is a start and a size in the bytes of texts. Index 0 marks what the kernel does
not support: it is left to `kafkalog.messages.message_parsers`. Tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.messages.internal_records import CONSUMER_PROTOCOL, COORDINATORS
from kafkalog.messages.message import Schema
from kafkalog.messages.message_json import message_to_json
from kafkalog.messages.message_parsers import GROUP_METADATA, TOPICS, metadata_type
from kafkalog.messages.schema import Array, Field
from kafkalog.messages.schema_tables import schemas_of

_KINDS: Final = (
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uuid",
    "string",
    "bytes",
)
_STRUCT: Final = 10
_OTHER: Final = 11
_PROTOCOL_TYPE: Final = 12
_CONSUMER_MESSAGE: Final = 13
_ARRAY: Final = 16
_MAX_FIELDS: Final = 32
_HEADER_WIDTH: Final = 2
_TYPE_WIDTH: Final = 8
_NO_VERSION: Final = [0, 0, 0, 0]

SchemaTable = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]


@cache
def compile_schemas(kind: str) -> SchemaTable | None:
    """Return the integers and the texts for a kind of `message_parsers.KINDS`.

    Return None for ``remote-log-metadata``, whose records are not printed as JSON.
    """
    if kind == "remote-log-metadata":
        return None
    topic = TOPICS[kind]
    schemas = schemas_of(topic)
    is_coordinator = topic in COORDINATORS
    role = "coordinator-value" if is_coordinator else "metadata"
    types = 1 + max(number or 0 for _, number in schemas)
    table = _TableBuilder([int(not is_coordinator), types, *[0] * types * _TYPE_WIDTH])
    for number in range(types):
        schema = schemas.get((role, number))
        if schema is not None:
            row = _type(table, topic, number, schema)
            at = _HEADER_WIDTH + number * _TYPE_WIDTH
            table.code[at : at + _TYPE_WIDTH] = row
    texts = np.frombuffer(bytes(table.texts), np.uint8)
    return np.array(table.code, np.int32), texts


@dataclass(slots=True)
class _TableBuilder:
    """A schema table under construction."""

    code: list[int]
    texts: bytearray = field(default_factory=bytearray)
    special: dict[str, list[int]] = field(default_factory=dict)
    """Kind and struct index of fields that the kernel treats specially, by name."""

    def text(self, text: str) -> list[int]:
        """Add a text; return its start and its size."""
        data = text.encode()
        start = self.texts.find(data)
        if start < 0:
            start = len(self.texts)
            self.texts += data
        return [start, len(data)]

    def rows(self, rows: Iterable[list[int]]) -> int:
        """Add rows; return the index of the first."""
        at = len(self.code)
        for row in rows:
            self.code += row
        return at


def _type(table: _TableBuilder, topic: str, number: int, schema: Schema) -> list[int]:
    """Add the schemas of a type; return its row."""
    key_schema = schemas_of(topic).get(("coordinator-key", number))
    key = _NO_VERSION
    if key_schema is not None:
        key = _version(table, key_schema, 0, f'{{"type":"{number}","data":')
    versions = range(schema.lowest_version, schema.highest_version + 1)
    if topic == "__consumer_offsets" and number == GROUP_METADATA:
        table.special = _consumer_protocol(table)
    rows = []
    for version in versions:
        opening = f'{{"version":"{version}","data":'
        if key_schema is None:
            name = metadata_type(schema)
            opening = f'{{"type":"{name}","version":{version},"data":'
        rows.append(_version(table, schema, version, opening))
    table.special = {}
    return [*key, versions.start, len(versions), table.rows(rows), 0]


def _consumer_protocol(table: _TableBuilder) -> dict[str, list[int]]:
    """Add the schemas of the consumer protocol; return the fields that hold them."""
    special = {"protocolType": [_PROTOCOL_TYPE, 0]}
    for name, schema_name in CONSUMER_PROTOCOL.items():
        schema = schemas_of("consumer protocol")[schema_name, None]
        versions = range(schema.lowest_version, schema.highest_version + 1)
        rows = [_version(table, schema, version, "") for version in versions]
        at = table.rows(rows)
        row = [*_NO_VERSION, versions.start, len(versions), at, 0]
        special[name] = [_CONSUMER_MESSAGE, table.rows([row])]
    return special


def _version(
    table: _TableBuilder, schema: Schema, version: int, opening: str
) -> list[int]:
    is_flexible = version >= schema.flexible_since
    struct_at = _struct(table, schema.fields, version)
    return [struct_at, int(is_flexible), *table.text(opening)]


def _struct(table: _TableBuilder, fields: tuple[Field, ...], version: int) -> int:
    here = [
        schema_field
        for schema_field in fields
        if schema_field.exists(version) or schema_field.tag is not None
    ]
    if len(here) > _MAX_FIELDS:
        reason = f"struct of {len(here)} fields, expected at most {_MAX_FIELDS}"
        raise ValueError(reason)
    rows = [_field(table, schema_field, version) for schema_field in here]
    return table.rows([[len(rows)], *rows])


def _field(table: _TableBuilder, schema_field: Field, version: int) -> list[int]:
    kind, struct_at = _OTHER, 0
    if schema_field.exists(version):  # else only the tag is needed, to reject the field
        of = (
            schema_field.type.of
            if isinstance(schema_field.type, Array)
            else schema_field.type
        )
        if isinstance(of, tuple):
            kind, struct_at = _STRUCT, _struct(table, of, version)
        elif of in _KINDS:
            kind = _KINDS.index(of)
        if isinstance(schema_field.type, Array) and kind != _OTHER:
            kind += _ARRAY
    kind, struct_at = table.special.get(schema_field.name, (kind, struct_at))
    tag, default = -1, [0, 0]
    if schema_field.tag is not None:
        tag, default = (
            schema_field.tag,
            table.text(message_to_json(schema_field.default_in(version))),
        )
    name = table.text(f',"{schema_field.name}":')
    nullable = int(schema_field.nullable(version))
    return [kind, nullable, struct_at, tag, *name, *default]

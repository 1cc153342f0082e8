"""Schemas of an internal topic as a book: rows of numbers, by which a kernel prints.

Laid out as the structs of ``_message_text.pxd`` and ``_message_values.pxd`` in
``_speedups``, all of int32:

    form, types                   0 coordinators, 1 metadata; how many types there are
    types      a row each         key, lowest version, count of versions, place of these
    versions   a row each         place of the struct, whether flexible, opening text
    structs    fields, a row each kind, nullable, place of a struct, tag, name, default

A text is a start and a size among the texts. Place 0 is for what has no place: what is
left to `kafkalog.messages.message_parsers`, which judges the kernel in the tests.

Knows: schemas. Does not know: records.
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
_GROUP: Final = 12
_TOLD: Final = 13
_ARRAY: Final = 16
_MOST_FIELDS: Final = 32
_HEAD: Final = 2
_TYPE_WIDTH: Final = 8
_NOWHERE: Final = [0, 0, 0, 0]

Book = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]


@cache
def compile_schemas(kind: str) -> Book | None:
    """Return the numbers and the texts for a kind of `message_parsers.KINDS`.

    None for ``remote-log-metadata``, whose records are not printed as JSON.
    """
    if kind == "remote-log-metadata":
        return None
    topic = TOPICS[kind]
    schemas = schemas_of(topic)
    is_coordinator = topic in COORDINATORS
    described = "coordinator-value" if is_coordinator else "metadata"
    types = 1 + max(number or 0 for _, number in schemas)
    pages = _Pages([int(not is_coordinator), types, *[0] * (types * _TYPE_WIDTH)])
    for number in range(types):
        schema = schemas.get((described, number))
        if schema is not None:
            row = _type(pages, topic, number, schema)
            at = _HEAD + number * _TYPE_WIDTH
            pages.code[at : at + _TYPE_WIDTH] = row
    texts = np.frombuffer(bytes(pages.texts), np.uint8)
    return np.array(pages.code, np.int32), texts


@dataclass(slots=True)
class _Pages:
    """A book being written."""

    code: list[int]
    texts: bytearray = field(default_factory=bytearray)
    special: dict[str, list[int]] = field(default_factory=dict)
    """Kind and place, by the names of fields that are more than their type says."""

    def text(self, text: str) -> list[int]:
        """Add a text: where it starts, and its size."""
        data = text.encode()
        start = self.texts.find(data)
        if start < 0:
            start = len(self.texts)
            self.texts += data
        return [start, len(data)]

    def rows(self, rows: Iterable[list[int]]) -> int:
        """Add rows: the place of the first."""
        at = len(self.code)
        for row in rows:
            self.code += row
        return at


def _type(pages: _Pages, topic: str, number: int, schema: Schema) -> list[int]:
    """Add a type's schemas; its row."""
    key_schema = schemas_of(topic).get(("coordinator-key", number))
    key = _NOWHERE
    if key_schema is not None:
        key = _version(pages, key_schema, 0, f'{{"type":"{number}","data":')
    versions = range(schema.lowest_version, schema.highest_version + 1)
    if topic == "__consumer_offsets" and number == GROUP_METADATA:
        pages.special = _told(pages)
    rows = []
    for version in versions:
        opening = f'{{"version":"{version}","data":'
        if key_schema is None:
            name = metadata_type(schema)
            opening = f'{{"type":"{name}","version":{version},"data":'
        rows.append(_version(pages, schema, version, opening))
    pages.special = {}
    return [*key, versions.start, len(versions), pages.rows(rows), 0]


def _told(pages: _Pages) -> dict[str, list[int]]:
    """Add what members of a group of consumers tell each other."""
    special = {"protocolType": [_GROUP, 0]}
    for name, schema_name in CONSUMER_PROTOCOL.items():
        schema = schemas_of("consumer protocol")[schema_name, None]
        versions = range(schema.lowest_version, schema.highest_version + 1)
        rows = [_version(pages, schema, version, "") for version in versions]
        at = pages.rows(rows)
        row = [*_NOWHERE, versions.start, len(versions), at, 0]
        special[name] = [_TOLD, pages.rows([row])]
    return special


def _version(pages: _Pages, schema: Schema, version: int, opening: str) -> list[int]:
    is_flexible = version >= schema.flexible_since
    struct_at = _struct(pages, schema.fields, version)
    return [struct_at, int(is_flexible), *pages.text(opening)]


def _struct(pages: _Pages, fields: tuple[Field, ...], version: int) -> int:
    here = [one for one in fields if one.exists(version) or one.tag is not None]
    if len(here) > _MOST_FIELDS:
        raise ValueError(f"a struct has {len(here)} fields, more than {_MOST_FIELDS}")
    rows = [_field(pages, one, version) for one in here]
    return pages.rows([[len(rows)], *rows])


def _field(pages: _Pages, one: Field, version: int) -> list[int]:
    kind, struct_at = _OTHER, 0
    if one.exists(version):  # else only its tag counts: it may not be there
        of = one.type.of if isinstance(one.type, Array) else one.type
        if isinstance(of, tuple):
            kind, struct_at = _STRUCT, _struct(pages, of, version)
        elif of in _KINDS:
            kind = _KINDS.index(of)
        if isinstance(one.type, Array) and kind != _OTHER:
            kind += _ARRAY
    kind, struct_at = pages.special.get(one.name, (kind, struct_at))
    tag, default = -1, [0, 0]
    if one.tag is not None:
        tag, default = one.tag, pages.text(message_to_json(one.default_in(version)))
    name = pages.text(f',"{one.name}":')
    return [kind, int(one.nullable(version)), struct_at, tag, *name, *default]

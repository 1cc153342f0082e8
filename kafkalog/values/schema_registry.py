"""Avro schemas by id: in a directory, a mapping, or a schema registry.

A directory has a file ``<id>.avsc`` for each schema. A registry is one with the HTTP
interface of Confluent's; each schema is requested once.

Source: *Schema Registry API Reference* in Confluent's documentation.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

TIMEOUT_SECONDS: Final = 30
NOT_FOUND: Final = 404

SchemaJson: TypeAlias = "str | list[Any] | dict[str, Any]"
"""A schema, as JSON is in Python: a name, a union, or a type with attributes."""

Schemas: TypeAlias = "str | os.PathLike[str] | Mapping[int, SchemaJson]"


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """A schema, and the schemas whose types it uses, in the order of their use."""

    schema: SchemaJson
    references: tuple[SchemaJson, ...] = ()


class SchemaStore(Protocol):
    """Where schemas are."""

    def get(self, schema_id: int) -> WrittenSchema | None:
        """Return the schema with an id, None if there is none."""

    def newest(self, schema_id: int, subject: str) -> WrittenSchema:
        """Return the newest schema of what the schema with an id is a version of.

        If it is one of several subjects, `subject` is meant.
        """


def open_schemas(schemas: Schemas) -> SchemaStore:
    """Return the schemas in a directory, in a mapping, or of a registry's URL.

    Raises `TypeError`, `FileNotFoundError`, and `ValueError` for text that is no JSON.
    """
    if isinstance(schemas, Mapping):
        return _SchemaMapping({key: as_json(value) for key, value in schemas.items()})
    if not isinstance(schemas, (str, os.PathLike)):
        raise TypeError(
            f"schemas of type {type(schemas).__name__}, expected a directory, a "
            "registry's URL or a mapping of ids"
        )
    if str(schemas).startswith(("http://", "https://")):
        return _Registry(*_without_user(str(schemas)))
    return _SchemaMapping(dict(_files(Path(schemas))))


def as_json(schema: SchemaJson | os.PathLike[str]) -> SchemaJson:
    """Return a schema given as itself, as JSON text, or as a file.

    >>> as_json('"long"'), as_json({"type": "long"})
    ('long', {'type': 'long'})
    """
    if isinstance(schema, os.PathLike):
        path = Path(schema)
        try:
            return _loaded(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"expected a schema as JSON: {path}: {error}") from None
    return _loaded(schema) if isinstance(schema, str) else schema


def _loaded(text: str) -> SchemaJson:
    found: SchemaJson = json.loads(text)
    return found


def _files(directory: Path) -> list[tuple[int, SchemaJson]]:
    if not directory.is_dir():
        raise FileNotFoundError(2, os.strerror(2), str(directory))
    found = [path for path in directory.iterdir() if _is_schema_file(path)]
    if not found:
        raise FileNotFoundError(2, "No file <id>.avsc in the directory", str(directory))
    return [(int(path.stem), as_json(path)) for path in found]


def _is_schema_file(path: Path) -> bool:
    return path.suffix == ".avsc" and path.stem.isascii() and path.stem.isdigit()


@dataclass(frozen=True, slots=True)
class _SchemaMapping:
    """Schemas by id. The newest version of a type is that with the greatest id."""

    schemas: dict[int, SchemaJson]

    def get(self, schema_id: int) -> WrittenSchema | None:
        schema = self.schemas.get(schema_id)
        return None if schema is None else WrittenSchema(schema)

    def newest(self, schema_id: int, subject: str) -> WrittenSchema:
        name = _full_name(self.schemas[schema_id])
        same = [key for key, one in self.schemas.items() if _full_name(one) == name]
        return WrittenSchema(self.schemas[max(same)])


def _full_name(schema: SchemaJson) -> str:
    """Return the full name of a type; of a type without a name, its JSON.

    >>> _full_name({"type": "record", "name": "Order", "namespace": "shop"})
    'shop.Order'
    """
    if not isinstance(schema, dict) or "name" not in schema:
        return json.dumps(schema)
    name, namespace = schema["name"], schema.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else str(name)


@dataclass(slots=True)
class _Registry:
    """A schema registry; `user` is the header that states the user, if any."""

    url: str
    user: dict[str, str]
    known: dict[int, WrittenSchema | None] = field(default_factory=dict)

    def get(self, schema_id: int) -> WrittenSchema | None:
        if schema_id not in self.known:
            found = self._request("schemas", "ids", str(schema_id))
            self.known[schema_id] = found and self._with_references(found)
        return self.known[schema_id]

    def newest(self, schema_id: int, subject: str) -> WrittenSchema:
        versions = self._request("schemas", "ids", str(schema_id), "versions")
        subjects = sorted({version["subject"] for version in versions or ()})
        if subject not in subjects and len(subjects) != 1:
            raise ValueError(
                f"schema {schema_id} is of {', '.join(subjects) or 'no subject'}, "
                "expected schema: which one"
            )
        subject = subject if subject in subjects else subjects[0]
        found = self._request("subjects", subject, "versions", "latest")
        return self._with_references(found)

    def _with_references(self, found: dict[str, Any]) -> WrittenSchema:
        before: dict[str, SchemaJson] = {}
        self._add_references(found, before)
        return WrittenSchema(_loaded(found["schema"]), tuple(before.values()))

    def _add_references(
        self, found: dict[str, Any], before: dict[str, SchemaJson]
    ) -> None:
        """Add the schemas that a schema refers to, each after those it refers to."""
        for reference in found.get("references", ()):
            if reference["name"] in before:
                continue
            subject, version = reference["subject"], str(reference["version"])
            referred = self._request("subjects", subject, "versions", version)
            if referred is None:
                raise ValueError(f"no version {version} of {subject}: {self.url}")
            self._add_references(referred, before)
            before[reference["name"]] = _loaded(referred["schema"])

    def _request(self, *path: str) -> Any:
        """Return the answer to a request, None if there is no such thing."""
        place = "/".join(quote(part, safe="") for part in path)
        accepted = "application/vnd.schemaregistry.v1+json, application/json"
        headers = {"Accept": accepted, **self.user}
        try:
            with urlopen(
                Request(f"{self.url}/{place}", headers=headers), timeout=TIMEOUT_SECONDS
            ) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                if error.code == NOT_FOUND:
                    return None
            raise


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without user and password, and the header that states them.

    >>> _without_user("http://ada:secret@registry:8081/")
    ('http://registry:8081', {'Authorization': 'Basic YWRhOnNlY3JldA=='})
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    header = {}
    if at:
        credentials = b64encode(unquote(user).encode()).decode()
        header["Authorization"] = f"Basic {credentials}"
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), header

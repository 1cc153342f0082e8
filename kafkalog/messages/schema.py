"""Fields of Kafka's messages: names, types, versions, tags, defaults.

A schema is a tuple of `Field`, in the order of the bytes; see ``schemas/``. The
encoding is described in `kafkalog.messages.message`.

Source: the ``.json`` schemas of Kafka's modules, ``FieldSpec.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafkalog.text.uuid_text import ZERO_UUID

Message: TypeAlias = dict[str, Any]
FieldType: TypeAlias = "str | Array | tuple[Field, ...]"

UNKNOWN_TAGS: Final = "_unknown_tags"
"""Member of a decoded struct with the tagged fields not in its schema: {tag: bytes}."""

ANY_VERSION: Final = 2**15 - 1

INTEGERS: Final = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
}
FIXED_WIDTH: Final = {"bool": ">?", **INTEGERS, "float64": ">d"}
"""Types with the same encoding in every version, and their `struct` formats."""

TYPE_DEFAULT: Final[Any] = object()
"""Stands for the default of the field's type."""

_ZERO: Final[dict[str, Any]] = {
    "bool": False,
    "bytes": b"",
    "records": b"",
    "float64": 0.0,
    "string": "",
    "uuid": ZERO_UUID,
}


@dataclass(frozen=True, slots=True)
class Array:
    """The type of a field that is an array of values of one type."""

    of: FieldType


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema.

    `type` is the name of a primitive type, an `Array`, or a tuple of fields for a
    struct. The field exists in versions `since` to `until`, and may be null from
    `nullable_since` to `nullable_until`. It is a tagged field if it has a `tag`. With
    `is_classic` it has the classic encoding in flexible versions, too. Without a
    `default`, that of the type is used: zero, an empty value, or a struct of defaults;
    never null.
    """

    name: str
    type: FieldType
    since: int = 0
    until: int = ANY_VERSION
    nullable_since: int | None = None
    tag: int | None = None
    default: Any = TYPE_DEFAULT
    nullable_until: int = ANY_VERSION
    is_classic: bool = False

    def exists(self, version: int) -> bool:
        """Return whether `version` of the message has this field."""
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        """Return whether the field may be null in `version`."""
        since = self.nullable_since
        return since is not None and since <= version <= self.nullable_until

    def default_in(self, version: int) -> Any:
        """Return the default of the field, its value if it is not written.

        >>> Field("epoch", "int32", default=-1).default_in(0)
        -1
        >>> Field("names", Array("string")).default_in(0)
        []
        """
        if self.default is not TYPE_DEFAULT:
            return self.default
        if isinstance(self.type, Array):
            return []
        if isinstance(self.type, tuple):
            here = (f for f in self.type if f.exists(version) and f.tag is None)
            return {field.name: field.default_in(version) for field in here}
        return _ZERO.get(self.type, 0)

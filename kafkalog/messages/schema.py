"""What a message of Kafka's looks like: schemas, as plain tables of fields.

A schema is a tuple of `Field` rows, in the order of the bytes; see the tables under
``schemas/``. `kafkalog.messages.message` says how the bytes follow from them.

Knows: types and versions. Does not know: bytes.
Source: the ``.json`` schemas of Kafka's modules, ``FieldSpec.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafkalog.codecs.uuid_text import ZERO_UUID

Message: TypeAlias = dict[str, Any]
FieldType: TypeAlias = "str | Array | tuple[Field, ...]"

UNKNOWN_TAGS: Final = "_unknown_tags"
"""Where a decoded struct keeps tagged fields its schema lacks: ``{tag: bytes}``."""

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
"""The types that are the same in every version, and how `struct` spells them."""

NOT_GIVEN: Final[Any] = object()
"""In place of a default: that of the type counts."""

_ZERO: Final[dict[str, Any]] = {
    "bool": False,
    "bytes": b"",
    "float64": 0.0,
    "string": "",
    "uuid": ZERO_UUID,
}


@dataclass(frozen=True, slots=True)
class Array:
    """The type of a field that holds any number of values of one type."""

    of: FieldType


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a schema: where the field is there, and what it may be.

    `type` names a primitive, or is an `Array`, or a tuple of fields: a struct. The
    field is in versions `since` to `until`, may be null from `nullable_since` on, and
    is a tagged one where it has a `tag`. Without `default` that of its type counts:
    zero, nothing, a struct of such; never null, even where null is allowed.
    """

    name: str
    type: FieldType
    since: int = 0
    until: int = ANY_VERSION
    nullable_since: int | None = None
    tag: int | None = None
    default: Any = NOT_GIVEN

    def exists(self, version: int) -> bool:
        """Say whether `version` of the message has this field."""
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        """Say whether the field may be null in `version`."""
        return self.nullable_since is not None and version >= self.nullable_since

    def default_in(self, version: int) -> Any:
        """Return what the field is where it is not written.

        >>> Field("epoch", "int32", default=-1).default_in(0)
        -1
        >>> Field("names", Array("string")).default_in(0)
        []
        """
        if self.default is not NOT_GIVEN:
            return self.default
        if isinstance(self.type, Array):
            return []
        if isinstance(self.type, tuple):
            here = (f for f in self.type if f.exists(version) and f.tag is None)
            return {field.name: field.default_in(version) for field in here}
        return _ZERO.get(self.type, 0)

"""Messages to bytes: the writing half of `kafkalog.messages.message`.

Source: ``MessageDataGenerator.java``, ``RawTaggedFieldWriter.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkalog.codecs.uuid_text import uuid_from_text
from kafkalog.errors import InvalidRecordError
from kafkalog.messages.message_reader import MAX_STRING_BYTES
from kafkalog.messages.schema import (
    FIXED_WIDTH,
    INTEGERS,
    UNKNOWN_TAGS,
    Array,
    Field,
    FieldType,
)

_NULL: Final = -1


class MessageWriter:
    """Writes one message of `version` behind what `out` holds."""

    __slots__ = ("field", "flexible", "out", "version")

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.out = bytearray()
        self.field = "message"  # being written, for errors

    def struct(self, fields: tuple[Field, ...], message: Mapping[str, Any]) -> None:
        """Write a struct: its fields in order, then its tagged ones."""
        if not isinstance(message, Mapping):
            raise self._fault(f"is {message!r:.64}, not a mapping")
        here = [field for field in fields if field.exists(self.version)]
        names = {field.name for field in here}
        required = {field.name for field in here if field.tag is None}
        if strange := message.keys() - names - {UNKNOWN_TAGS}:
            raise self._fault(f"has no {', '.join(sorted(strange))} in this version")
        if missing := required - message.keys():
            raise self._fault(f"lacks {', '.join(sorted(missing))}")
        for field in here:
            if field.tag is None:
                self._field(field, message[field.name])
        self._tagged_fields([f for f in here if f.tag is not None], message)

    def _field(self, field: Field, value: Any, *, tagged: bool = False) -> None:
        outer, self.field = self.field, field.name
        nullable = field.nullable(self.version)
        if value is None and not nullable:
            raise self._fault("is null, and may not be")
        self._value(field.type, value, prefixed=nullable, tagged=tagged)
        self.field = outer

    def _tagged_fields(
        self, fields: Iterable[Field], message: Mapping[str, Any]
    ) -> None:
        values: dict[int, bytes] = dict(message.get(UNKNOWN_TAGS, {}))
        if not self.flexible:
            if values:
                raise self._fault("has tagged fields, and its version has none")
            return
        for field in fields:
            default = field.default_in(self.version)
            value = message.get(field.name, default)
            if field.tag is not None and value != default:
                inner = MessageWriter(self.version, flexible=True)
                inner._field(field, value, tagged=True)
                values[field.tag] = bytes(inner.out)
        self._varint(len(values))
        for tag, data in sorted(values.items()):
            self._varint(tag)
            self._varint(len(data))
            self.out += data

    def _value(
        self,
        kind: FieldType,
        value: Any,
        *,
        prefixed: bool = False,
        tagged: bool = False,
    ) -> None:
        """Write a value, or null; `prefixed` structs say first which of them it is."""
        if isinstance(kind, tuple):
            if prefixed:
                null, there = (0, 1) if tagged else (_NULL & 0xFF, 1)
                self.out.append(null if value is None else there)
            if value is not None:
                self.struct(kind, value)
        elif isinstance(kind, Array):
            self._array(kind.of, value)
        elif kind in FIXED_WIDTH:
            self._fixed(kind, value)
        elif kind == "uuid":
            try:
                self.out += uuid_from_text(value)
            except (TypeError, ValueError) as error:
                raise self._fault(str(error)) from None
        else:
            self._sized(kind, value)

    def _array(self, kind: FieldType, values: Any) -> None:
        if values is None:
            self._length("int32", _NULL)
            return
        if not isinstance(values, list | tuple):
            raise self._fault(f"is {values!r:.64}, not a list")
        self._length("int32", len(values))
        for value in values:
            if value is None:
                raise self._fault("has an element that is null")
            self._value(kind, value)

    def _sized(self, kind: str, value: Any) -> None:
        """Write a string or bytes behind its length."""
        width = "int16" if kind == "string" else "int32"
        if value is None:
            self._length(width, _NULL)
            return
        if not isinstance(value, str if kind == "string" else bytes):
            raise self._fault(f"is {value!r:.64}, not {kind}")
        try:
            data = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError as error:
            raise self._fault(f"cannot be UTF-8: {error.reason}") from None
        if kind == "string" and len(data) > MAX_STRING_BYTES:
            raise self._fault(f"is a string of {len(data)} bytes")
        self._length(width, len(data))
        self.out += data

    def _length(self, width: str, length: int) -> None:
        if self.flexible:
            self._varint(length + 1)
        else:
            self._fixed(width, length)

    def _fixed(self, kind: str, value: Any) -> None:
        if kind in INTEGERS and type(value) is bool:
            raise self._fault(f"is {value}, not {kind}")
        try:
            self.out += struct.pack(FIXED_WIDTH[kind], value)
        except (struct.error, OverflowError) as error:
            raise self._fault(f"is {value!r:.64}, not {kind}: {error}") from None

    def _varint(self, value: int) -> None:
        if not 0 <= value < 1 << 31:
            raise self._fault(f"has a length or tag of {value}")
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def _fault(self, reason: str) -> InvalidRecordError:
        return InvalidRecordError(f"{self.field} {reason}")

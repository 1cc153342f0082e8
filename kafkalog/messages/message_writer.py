"""Encoder of messages, used by `kafkalog.messages.message`.

Source: ``MessageDataGenerator.java``, ``RawTaggedFieldWriter.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

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
from kafkalog.text.uuid_text import uuid_from_text

_NULL: Final = -1


class MessageWriter:
    """An encoder of one message of `version`, which is appended to `out`."""

    __slots__ = ("field", "flexible", "out", "version")

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.out = bytearray()
        self.field = "message"  # the current field, for errors

    def struct(self, fields: tuple[Field, ...], message: Mapping[str, Any]) -> None:
        """Write a struct: its fields in order, then its tagged ones."""
        if not isinstance(message, Mapping):
            raise self._error(f"{message!r:.64}, expected a mapping")
        here = [field for field in fields if field.exists(self.version)]
        names = {field.name for field in here}
        required = {field.name for field in here if field.tag is None}
        if unknown := message.keys() - names - {UNKNOWN_TAGS}:
            listed = ", ".join(sorted(unknown))
            raise self._error(f"unknown fields in version {self.version}: {listed}")
        if missing := required - message.keys():
            listed = ", ".join(sorted(missing))
            raise self._error(f"missing fields of version {self.version}: {listed}")
        for field in here:
            if field.tag is None:
                self._field(field, message[field.name])
        self._tagged_fields([f for f in here if f.tag is not None], message)

    def _field(self, field: Field, value: Any, *, tagged: bool = False) -> None:
        outer, self.field = self.field, field.name
        nullable = field.nullable(self.version)
        if value is None and not nullable:
            raise self._error("null, expected a value")
        flexible, self.flexible = self.flexible, self.flexible and not field.is_classic
        self._value(field.type, value, prefixed=nullable, tagged=tagged)
        self.field, self.flexible = outer, flexible

    def _tagged_fields(
        self, fields: Iterable[Field], message: Mapping[str, Any]
    ) -> None:
        values: dict[int, bytes] = dict(message.get(UNKNOWN_TAGS, {}))
        if not self.flexible:
            if values:
                raise self._error(
                    f"tagged fields, expected none in version {self.version}"
                )
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
        """Write a value or null; a `prefixed` struct begins with a null marker."""
        if isinstance(kind, tuple):
            if prefixed:
                null = 0 if tagged else _NULL & 0xFF
                self.out.append(null if value is None else 1)
            if value is not None:
                self.struct(kind, value)
        elif isinstance(kind, Array):
            self._array(kind.of, value)
        elif kind in FIXED_WIDTH:
            self._fixed(kind, value)
        elif kind == "uuid":
            if not isinstance(value, str):
                raise self._error(f"{value!r:.64}, expected uuid")
            try:
                self.out += uuid_from_text(value)
            except ValueError as error:
                raise self._error(str(error)) from None
        else:
            self._sized(kind, value)

    def _array(self, kind: FieldType, values: Any) -> None:
        if values is None:
            self._length("int32", _NULL)
            return
        if not isinstance(values, list | tuple):
            raise self._error(f"{values!r:.64}, expected a list")
        self._length("int32", len(values))
        for value in values:
            if value is None:
                raise self._error("null element, expected a value")
            self._value(kind, value)

    def _sized(self, kind: str, value: Any) -> None:
        """Write the length of a string or of bytes, then the bytes."""
        width = "int16" if kind == "string" else "int32"
        if value is None:
            self._length(width, _NULL)
            return
        if not isinstance(value, str if kind == "string" else bytes):
            raise self._error(f"{value!r:.64}, expected {kind}")
        try:
            data = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError as error:
            reason = f"{value!r:.64}, expected text that UTF-8 can encode"
            raise self._error(f"{reason}: {error.reason}") from None
        if kind == "string" and len(data) > MAX_STRING_BYTES:
            raise self._error(
                f"string of {len(data)} bytes, expected at most {MAX_STRING_BYTES}"
            )
        self._length(width, len(data))
        self.out += data

    def _length(self, width: str, length: int) -> None:
        if self.flexible:
            self._varint(length + 1)
        else:
            self._fixed(width, length)

    def _fixed(self, kind: str, value: Any) -> None:
        if kind in INTEGERS and type(value) is bool:
            raise self._error(f"{value}, expected {kind}")
        try:
            self.out += struct.pack(FIXED_WIDTH[kind], value)
        except (struct.error, OverflowError) as error:
            raise self._error(f"{value!r:.64}, expected {kind}: {error}") from None

    def _varint(self, value: int) -> None:
        if not 0 <= value < 1 << 31:
            raise self._error(f"length or tag {value}, expected 0 to {2**31 - 1}")
        while value >= 0x80:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def _error(self, reason: str) -> InvalidRecordError:
        return InvalidRecordError(f"{self.field}: {reason}")

"""Decoder of messages, used by `kafkalog.messages.message`.

The size of each read, and the count of each collection, are checked against the
remaining bytes before anything is allocated.

The decoder accepts and rejects the same bytes as Kafka's classes, in the same order.
So tags may be in any order, and the size of a known tagged field is not checked against
its value. The texts of errors are Kafka's where Kafka has one.

Source: ``ByteBufferAccessor.java``, ``MessageDataGenerator.java``, ``ByteUtils.java``.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from kafkalog.errors import CorruptMessageError
from kafkalog.messages.schema import (
    FIXED_WIDTH,
    UNKNOWN_TAGS,
    Array,
    Field,
    FieldType,
    Message,
)
from kafkalog.text.bytes_text import repair_utf8
from kafkalog.text.uuid_text import UUID_BYTES, uuid_to_text

MAX_STRING_BYTES: Final = 2**15 - 1
_NO_MESSAGE: Final = "null"
"""The message of a Java exception that has none."""
_VARINT_BYTES: Final = 5
_FIXED: Final = {name: Struct(code) for name, code in FIXED_WIDTH.items()}
_INT8: Final = _FIXED["int8"]
_INT16: Final = _FIXED["int16"]
_INT32: Final = _FIXED["int32"]


class MessageReader:
    """A decoder of one message of `version`, from `position` of `data` on.

    `position` moves with each read. `reads_structs` is False for a message whose own
    version is above `version`.
    """

    __slots__ = (
        "data",
        "end",
        "field",
        "flexible",
        "position",
        "reads_structs",
        "version",
    )

    def __init__(
        self, data: bytes, position: int, version: int, *, flexible: bool
    ) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.version = version
        self.flexible = flexible
        self.reads_structs = True
        self.field = "message"  # the current field, for errors

    def message(self, fields: tuple[Field, ...]) -> Message:
        """Read fields in order, then the tagged ones."""
        message: Message = {}
        for field in fields:
            if field.tag is None and field.exists(self.version):
                message[field.name] = self._field(field)
        if self.flexible and self._tagged_fields(fields, message):
            names = [field.name for field in fields] + [UNKNOWN_TAGS]
            return {name: message[name] for name in names if name in message}
        return message

    def _tagged_fields(self, fields: tuple[Field, ...], message: Message) -> bool:
        """Read the tagged fields into `message`; return whether there are any."""
        unknown: dict[int, bytes] = {}
        self.field = "tagged fields"
        count = self.varint()
        for _ in range(count):  # each reads a byte at least: the data bound the loop
            at = self.position
            tag, size = self.varint(), self.varint()
            field = next(
                (candidate for candidate in fields if candidate.tag == tag), None
            )
            if field is None:
                unknown[tag] = self._bytes(size)
                continue
            if not field.exists(self.version):
                reason = f"Tag {tag} is not valid for version {self.version}"
                raise self._error(reason, at)
            value = self._field(field)
            message.pop(field.name, None)
            if value != field.default_in(self.version):
                message[field.name] = value
            self.field = "tagged fields"
        if unknown:
            message[UNKNOWN_TAGS] = unknown
        return count > 0

    def _field(self, field: Field) -> Any:
        flexible, self.field = self.flexible, field.name
        self.flexible = flexible and not field.is_classic
        try:
            return self._content(field)
        finally:
            self.flexible = flexible

    def _content(self, field: Field) -> Any:
        nullable = field.nullable(self.version)
        if isinstance(field.type, tuple):
            if nullable and self._is_null_struct(tagged=field.tag is not None):
                return None
            return self._struct(field.type)
        return self._value(field.type, nullable=nullable)

    def _value(self, kind: FieldType, *, nullable: bool = False) -> Any:
        if isinstance(kind, tuple):
            return self._struct(kind)
        if isinstance(kind, Array):
            count = self._length(_INT32, nullable=nullable)
            return None if count is None else self._elements(kind.of, count)
        if kind in _FIXED:
            return self._fixed(_FIXED[kind])
        if kind == "uuid":
            return uuid_to_text(self._take(UUID_BYTES))
        at = self.position
        length = self._length(_INT16 if kind == "string" else _INT32, nullable=nullable)
        if length is None:
            return None
        if kind in ("bytes", "records"):
            return self._bytes(length)
        if length > MAX_STRING_BYTES:
            reason = f"string field {self.field} had invalid length {length}"
            raise self._error(reason, at)
        return repair_utf8(self._bytes(length))

    def _struct(self, fields: tuple[Field, ...]) -> Message:
        if not self.reads_structs:
            reason = f"Can't read a struct of a version above {self.version}"
            raise self._error(reason, self.position)
        return self.message(fields)

    def _elements(self, kind: FieldType, count: int) -> list[Any]:
        left = self.end - self.position
        if count > left:  # an element has at least one byte
            raise self._error(
                f"Tried to allocate a collection of size {count}, but there are only "
                f"{left} bytes remaining.",
                self.position,
            )
        name, values = f"{self.field} element", []
        for _ in range(count):
            self.field = name
            values.append(self._value(kind))
        return values

    def _is_null_struct(self, *, tagged: bool) -> bool:
        return self.varint() <= 0 if tagged else self._fixed(_INT8) < 0

    def _length(self, classic: Struct, *, nullable: bool) -> int | None:
        """Read a length or count; return None for null if null is allowed."""
        at = self.position
        length = _int32(self.varint() - 1) if self.flexible else self._fixed(classic)
        if length < 0:
            if nullable:
                return None
            reason = f"non-nullable field {self.field} was serialized as null"
            raise self._error(reason, at)
        return int(length)

    def varint(self) -> int:
        """Read an unsigned varint as an int32; higher bits are dropped."""
        value, at = 0, self.position
        for i in range(_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return _int32(value)
        bits = (value | 0x80 << 28) & 0xFFFFFFFF
        raise self._error(
            "Varint is too long, the most significant bit in the 5th byte is set, "
            f"converted value: {bits:x}",
            at,
        )

    def _fixed(self, layout: Struct) -> Any:
        return layout.unpack(self._take(layout.size))[0]

    def _bytes(self, size: int) -> bytes:
        """Read `size` bytes."""
        left = self.end - self.position
        if size < 0:
            reason = f"{self.field}: size {size}, expected 0 or more"
            raise self._error(reason, self.position, str(size))
        if size > left:
            raise self._error(
                f"Error reading byte array of {size} byte(s): only {left} byte(s) "
                "available",
                self.position,
            )
        return self._take(size)

    def _take(self, count: int) -> bytes:
        at, left = self.position, self.end - self.position
        if count > left:
            reason = f"{self.field}: {left} bytes left, expected {count}"
            raise self._error(reason, at, _NO_MESSAGE)
        self.position = at + count
        return self.data[at : at + count]

    def _error(
        self, reason: str, at: int, kafka_message: str | None = None
    ) -> CorruptMessageError:
        return CorruptMessageError(reason, position=at, kafka_message=kafka_message)


def _int32(value: int) -> int:
    """Return the low 32 bits, as an int32."""
    return (value + 2**31) % 2**32 - 2**31

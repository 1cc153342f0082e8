"""Bytes to messages: the reading half of `kafkalog.formats.messages`.

Every step is held against what remains before it is taken, and every count against the
bytes it would need before anything is made for it.

Source: ``ByteBufferAccessor.java``, ``MessageDataGenerator.java``.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from kafkalog.codecs.uuid_text import UUID_BYTES, uuid_to_text
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.schema import (
    FIXED_WIDTH,
    UNKNOWN_TAGS,
    Array,
    Field,
    FieldType,
    Message,
)

MAX_STRING_BYTES: Final = 2**15 - 1
_MAX_INT32: Final = 2**31 - 1
_VARINT_BYTES: Final = 5
_FIXED: Final = {name: Struct(code) for name, code in FIXED_WIDTH.items()}
_INT16: Final = _FIXED["int16"]
_INT32: Final = _FIXED["int32"]


class MessageReader:
    """Reads one message of `version` from `position` of `data`; moves `position`."""

    __slots__ = ("data", "end", "field", "flexible", "position", "version")

    def __init__(
        self, data: bytes, position: int, version: int, *, flexible: bool
    ) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.version = version
        self.flexible = flexible
        self.field = "message"  # being read, for errors

    def struct(self, fields: tuple[Field, ...]) -> Message:
        """Read a struct: its fields in order, then its tagged ones."""
        message: Message = {}
        tagged: dict[int, Field] = {}
        for field in fields:
            if not field.exists(self.version):
                continue
            if field.tag is not None:
                tagged[field.tag] = field
                continue
            self.field = field.name
            nullable = field.nullable(self.version)
            message[field.name] = self._value(field.type, nullable=nullable)
        if self.flexible:
            self._tagged_fields(tagged, message)
        return message

    def _tagged_fields(self, known: dict[int, Field], message: Message) -> None:
        unknown: dict[int, bytes] = {}
        last = -1
        self.field = "tagged fields"
        for _ in range(self._varint()):  # each takes bytes: the data ends the loop
            at = self.position
            tag = self._varint()
            if tag <= last:
                raise self._fault(f"have tag {tag} behind tag {last}", at)
            last, size = tag, self._varint()
            self._need(size, at)
            if tag not in known:
                unknown[tag] = self._take(size)
                continue
            value = self._tagged_value(known[tag], self.position + size)
            if value != known[tag].default_in(self.version):
                message[known[tag].name] = value
            self.field = "tagged fields"
        if unknown:
            message[UNKNOWN_TAGS] = unknown

    def _tagged_value(self, field: Field, end: int) -> Any:
        """Read the value of a tagged field, which is to end at `end` exactly."""
        outer, self.end, self.field = self.end, end, field.name
        nullable = field.nullable(self.version)
        value = self._value(field.type, nullable=nullable, tagged=True)
        if self.position != end:
            self.field = field.name
            over = end - self.position
            raise self._fault(f"leaves {over} of its bytes", self.position)
        self.end = outer
        return value

    def _value(
        self, kind: FieldType, *, nullable: bool = False, tagged: bool = False
    ) -> Any:
        if isinstance(kind, tuple):
            if nullable and self._null_struct(tagged=tagged):
                return None
            return self.struct(kind)
        if isinstance(kind, Array):
            count = self._length(_INT32, nullable=nullable)
            return None if count is None else self._elements(kind.of, count)
        if kind in _FIXED:
            return self._fixed(_FIXED[kind])
        if kind == "uuid":
            return uuid_to_text(self._take(UUID_BYTES))
        length = self._length(_INT16 if kind == "string" else _INT32, nullable=nullable)
        if length is None:
            return None
        if kind == "bytes":
            return self._take(length)
        if length > MAX_STRING_BYTES:
            raise self._fault(f"is a string of {length} bytes", self.position)
        return self._take(length).decode("utf-8", "replace")

    def _elements(self, kind: FieldType, count: int) -> list[Any]:
        name, values = self.field, []
        for _ in range(count):
            self.field = name
            values.append(self._value(kind))
        return values

    def _null_struct(self, *, tagged: bool) -> bool:
        return self._varint() == 0 if tagged else self._fixed(_FIXED["int8"]) < 0

    def _length(self, classic: Struct, *, nullable: bool) -> int | None:
        """Read a length or count; None for null, where null is allowed."""
        at = self.position
        length = self._varint() - 1 if self.flexible else self._fixed(classic)
        if length < 0:
            if nullable:
                return None
            raise self._fault("is null, and may not be", at)
        self._need(length, at)  # an element has at least one byte
        return length

    def _varint(self) -> int:
        value, at = 0, self.position
        for i in range(_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                if value > _MAX_INT32:
                    raise self._fault(f"has a varint of {value}", at)
                return value
        raise self._fault("has a varint that continues past its fifth byte", at)

    def _fixed(self, form: Struct) -> Any:
        return form.unpack(self._take(form.size))[0]

    def _take(self, count: int) -> bytes:
        at = self.position
        self._need(count, at)
        self.position = at + count
        return self.data[at : at + count]

    def _need(self, count: int, at: int) -> None:
        if count > self.end - self.position:
            over = count - (self.end - self.position)
            raise self._fault(f"ends {over} bytes past its message", at)

    def _fault(self, reason: str, at: int) -> CorruptRecordError:
        return CorruptRecordError(f"{self.field} {reason}", position=at)

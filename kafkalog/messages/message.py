"""Kafka's messages: structs encoded and decoded by a schema and a version.

Records of internal topics and control records of the metadata log are messages. The
bytes hold no names or types: the fields follow each other in the order of the schema.
A version is either classic or flexible:

                 classic                     flexible
    integers     big-endian                  the same
    string       int16 length, UTF-8         varint length + 1, UTF-8      null: -1 / 0
    bytes        int32 length                varint length + 1             null: -1 / 0
    array        int32 count, elements       varint count + 1, elements    null: -1 / 0
    struct       its fields                  its fields, tagged fields
    ?struct      int8, -1 null               the same; inside a tag varint, 0 null

Varints are unsigned, at most five bytes. In a flexible version, every struct ends with
its tagged fields: their count, then tag, size and value of each, in order of tags. A
tagged field that equals its default is not written. One that is missing in the schema
is kept as bytes under `UNKNOWN_TAGS`, and written again.

A decoded struct is a dict under Kafka's names, as in Kafka's JSON. Fields that do not
exist in the version, and tagged fields that equal their default, are missing. Uuids are
text (`kafkalog.text.uuid_text`). A string that is not valid UTF-8 is decoded with
replacement characters, as in Java.

Source: ``MessageDataGenerator.java``, ``ByteBufferAccessor.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.messages.message_reader import MessageReader
from kafkalog.messages.schema import ANY_VERSION, Field, Message


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a message: its fields, its versions, its first flexible version."""

    name: str
    fields: tuple[Field, ...]
    lowest_version: int = 0
    highest_version: int = 0
    flexible_since: int = ANY_VERSION + 1

    def decode(
        self, data: bytes, version: int, position: int = 0
    ) -> tuple[Message, int]:
        r"""Decode a message of `version` from byte `position` of `data`.

        Returns the message and the position after it. Bytes that follow are not
        checked.

        Raises `CorruptRecordError`, whose `position` is the byte of `data` at which the
        invalid part begins, and `ValueError` for a version that does not exist.

        >>> point = Schema("Point", (Field("x", "int16"), Field("name", "string")))
        >>> point.decode(b"\0\7\0\1!", 0)
        ({'x': 7, 'name': '!'}, 5)
        """
        self._check(version)
        return self.decode_nearest(data, version, position)

    def decode_nearest(
        self, data: bytes, version: int, position: int = 0
    ) -> tuple[Message, int]:
        """Decode a message by the nearest known version, as Kafka does.

        Kafka decodes no nested struct of a message whose version is above the highest
        known. That is a `CorruptMessageError`, like every other invalid encoding.
        """
        nearest = min(max(version, self.lowest_version), self.highest_version)
        reader = MessageReader(
            data, position, nearest, flexible=nearest >= self.flexible_since
        )
        reader.reads_structs = version <= self.highest_version
        return reader.message(self.fields), reader.position

    def encode(self, message: Mapping[str, Any], version: int) -> bytes:
        """Return `message`, encoded as `version` of this schema.

        All fields of the version except tagged ones are required.

        Raises `InvalidRecordError`, which names the field, for a value that is missing,
        has the wrong type or range, or does not exist in the version. Raises
        `ValueError` for a version that does not exist.

        >>> Schema("Point", (Field("x", "int16"),)).encode({"x": 7}, 0).hex()
        '0007'
        """
        from kafkalog.messages.message_writer import MessageWriter  # readers need none

        self._check(version)
        writer = MessageWriter(version, flexible=version >= self.flexible_since)
        writer.struct(self.fields, message)
        return bytes(writer.out)

    def _check(self, version: int) -> None:
        if not self.lowest_version <= version <= self.highest_version:
            expected = f"{self.lowest_version} to {self.highest_version}"
            raise ValueError(f"{self.name} version {version}, expected {expected}")

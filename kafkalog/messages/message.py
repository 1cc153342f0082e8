"""Kafka's messages: bytes that only a schema and a version explain, read and written.

Records of internal topics and control records of the metadata log are messages: fields
in the order of a schema, one behind the other. Versions are either classic or flexible:

                 classic                     flexible
    integers     big-endian                  the same
    string       int16 length, UTF-8         varint length + 1, UTF-8      null: -1 / 0
    bytes        int32 length                varint length + 1             null: -1 / 0
    array        int32 count, elements       varint count + 1, elements    null: -1 / 0
    struct       its fields                  its fields, tagged fields
    ?struct      int8, -1 null               the same; inside a tag varint, 0 null

Varints are unsigned, at most five bytes. Tagged fields end every struct: their count,
then tag, size and value of each, tags rising. One that equals its default is left out;
one that the schema lacks is kept as bytes (under `UNKNOWN_TAGS`) and written again.

Decoded, a struct is a dict under Kafka's names, as Kafka's own JSON has it: fields that
the version lacks, and tagged ones that equal their default, are not there. Uuids are
text (`kafkalog.codecs.uuid_text`); a string that is no UTF-8 is repaired as in Java.

Knows: encodings. Does not know: which message a record holds.
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
    """A message: its fields, its versions, and from which of them on it is flexible."""

    name: str
    fields: tuple[Field, ...]
    lowest_version: int = 0
    highest_version: int = 0
    flexible_since: int = ANY_VERSION + 1

    def decode(
        self, data: bytes, version: int, position: int = 0
    ) -> tuple[Message, int]:
        r"""Read one message of `version` from `position` of `data`.

        Returns it and the position behind it: what follows is the caller's to judge.
        Raises `CorruptRecordError`, its `position` the byte of `data` where what cannot
        be read begins, and `ValueError` for a version there is none of.

        >>> point = Schema("Point", (Field("x", "int16"), Field("name", "string")))
        >>> point.decode(b"\0\7\0\1!", 0)
        ({'x': 7, 'name': '!'}, 5)
        """
        self._check(version)
        return self.decode_nearest(data, version, position)

    def decode_nearest(
        self, data: bytes, version: int, position: int = 0
    ) -> tuple[Message, int]:
        """Read a message of any version as Kafka does: by the nearest version it knows.

        Kafka reads no struct inside a message whose version is too high: that is a
        `CorruptMessageError`, as is all else that `decode` refuses.
        """
        nearest = min(max(version, self.lowest_version), self.highest_version)
        reader = MessageReader(
            data, position, nearest, flexible=nearest >= self.flexible_since
        )
        reader.reads_structs = version <= self.highest_version
        return reader.message(self.fields), reader.position

    def encode(self, message: Mapping[str, Any], version: int) -> bytes:
        """Write `message` as `version` of this schema.

        Every field of the version has to be there, tagged ones aside. Raises
        `InvalidRecordError`, naming the field, where a value is missing, has no room,
        or has no place in the version; `ValueError` for a version there is none of.

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
            span = f"{self.lowest_version} to {self.highest_version}"
            raise ValueError(f"{self.name} has versions {span}, not {version}")

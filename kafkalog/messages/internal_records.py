"""Records of Kafka's internal topics: keys and values as messages.

Two frames, and in either a message of Kafka's (`kafkalog.messages.message`), whose
schema follows from the topic and the type:

    coordinators    key: int16 type, message     value: int16 version, message
    metadata        key: null    value: varints 1, type and version, message

Coordinators are those of groups (``__consumer_offsets``), transactions
(``__transaction_state``) and share groups (``__share_group_state``); metadata is that
of the cluster (``__cluster_metadata``) and of tiered segments
(``__remote_log_metadata``). The value of a coordinator's record is null where it
deletes what the key names. Behind it bytes may follow, which Kafka does not look at;
behind a metadata message none may.

Knows: which message a record holds. Does not know: where records lie.
Source: ``CoordinatorRecordSerde.java``, ``AbstractApiMessageSerde.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafkalog.errors import CorruptMessageError, UnsupportedFormatError
from kafkalog.messages.message import Schema
from kafkalog.messages.message_reader import MessageReader
from kafkalog.messages.schema import Message
from kafkalog.messages.schema_tables import schemas_of

COORDINATORS: Final = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
)
METADATA: Final = ("__cluster_metadata", "__remote_log_metadata")
INTERNAL_TOPICS: Final = COORDINATORS + METADATA

_PREFIX_BYTES: Final = 2
_FRAME_VERSION: Final = 1
_KEY_VERSION: Final = 0
CONSUMER_PROTOCOL: Final = {
    "subscription": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
}
"""What members of a classic group of consumers told: fields of theirs, and schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRecord:
    """What a record of an internal topic says.

    `type` is Kafka's number of it and `name` its name: ``OffsetCommit``,
    ``FeatureLevelRecord``. `key` is None for metadata, which has none. `value` is None,
    and `version` (of the value's layout) too, where the record deletes what its key
    names.
    """

    type: int
    name: str
    key: Message | None
    version: int | None
    value: Message | None


def decode_internal(
    topic: str, key: bytes | None, value: bytes | None
) -> InternalRecord:
    r"""Read a record of an internal topic; control records are none of these.

    Raises `CorruptMessageError`, its `position` the byte of the key or the value, where
    that does not have its form, `UnsupportedFormatError` for a type or a version that
    Kafka's release of `kafkalog.messages.schema_tables.release` does not know, and
    `ValueError` where `topic` is none of `INTERNAL_TOPICS`.

    >>> record = decode_internal("__consumer_offsets", b"\0\3\0\1g", b"\0\0\0\0\0\7\0")
    >>> record.name, record.key, record.value
    ('ConsumerGroupMetadata', {'groupId': 'g'}, {'epoch': 7})
    """
    if topic in COORDINATORS:
        return _coordinators_record(topic, key, value)
    if topic not in METADATA:
        raise ValueError(f"{topic!r} is none of {', '.join(INTERNAL_TOPICS)}")
    schema, number, version, message = decode_metadata(topic, value)
    if version > schema.highest_version:
        raise UnsupportedFormatError(f"{schema.name} of version {version}", position=0)
    return InternalRecord(
        type=number, name=schema.name, key=None, version=version, value=message
    )


def record_type(key: bytes | None) -> int:
    """Return the type of a coordinator's record: the number its key begins with."""
    return _prefix(key or b"", "key")


def decode_metadata(
    topic: str, value: bytes | None
) -> tuple[Schema, int, int, Message]:
    """Read a metadata record as Kafka does: schema, type, version, and the message.

    A version that is too high is taken for the highest there is.
    """
    reader = MessageReader(value or b"", 0, 0, flexible=True)
    number, version = _metadata_frame(reader)
    schema = schemas_of(topic).get(("metadata", number))
    if schema is None:
        raise UnsupportedFormatError(f"Unknown metadata id {number}", position=0)
    try:
        message, end = schema.decode_nearest(reader.data, version, reader.position)
    except CorruptMessageError as error:
        error.kafka_message = f"Failed to deserialize record with type {number}"
        raise
    if left := len(reader.data) - end:
        said = f"Found {left} byte(s) of garbage after {number}"
        raise CorruptMessageError(said, position=end)
    return schema, number, version, message


def metadata_type(value: bytes | None) -> int:
    """Return the type of a metadata record; its message is not read."""
    return _metadata_frame(MessageReader(value or b"", 0, 0, flexible=True))[0]


def _metadata_frame(reader: MessageReader) -> tuple[int, int]:
    """Read what a metadata record begins with: type and version."""
    frame = _framed(reader, "frame version")
    if frame == 0:
        raise CorruptMessageError(
            "Could not deserialize metadata record with frame version 0. Note that "
            "upgrades from the preview release of KRaft in 2.8 to newer versions are "
            "not supported.",
            position=0,
        )
    if frame != _FRAME_VERSION:
        raise CorruptMessageError(
            "Could not deserialize metadata record due to unknown frame version "
            f"{frame}(only frame version {_FRAME_VERSION} is supported)",
            position=0,
        )
    return _framed(reader, "type"), _framed(reader, "version")


def with_consumer_protocol(group: Message) -> Message:
    """Read what the members of a classic group told each other, if it is of consumers.

    Their subscriptions and assignments are messages then, in place of bytes; one that
    cannot be read stays as it is.
    """
    if group["protocolType"] != "consumer":
        return group
    members = [
        {
            name: _told(CONSUMER_PROTOCOL.get(name), told)
            for name, told in member.items()
        }
        for member in group["members"]
    ]
    return {**group, "members": members}


def _told(schema_name: str | None, told: Any) -> Any:
    if schema_name is None:
        return told
    schema = schemas_of("consumer protocol")[schema_name, None]
    try:
        version = _prefix(told, schema_name)
        return schema.decode_nearest(told, version, _PREFIX_BYTES)[0]
    except CorruptMessageError:
        return told


def _coordinators_record(
    topic: str, key: bytes | None, value: bytes | None
) -> InternalRecord:
    number, schemas = record_type(key), schemas_of(topic)
    key_schema = schemas.get(("coordinator-key", number))
    if key_schema is None:
        raise UnsupportedFormatError(f"record of unknown type {number}", position=0)
    named = _message(key_schema, key or b"", _KEY_VERSION, "key", number)
    version = message = None
    if value is not None:
        schema, version = schemas["coordinator-value", number], _prefix(value, "value")
        if not schema.lowest_version <= version <= schema.highest_version:
            said = f"Found an unknown record version {version} for {number} type"
            raise UnsupportedFormatError(said, position=0)
        message = _message(schema, value, version, "value", version)
    return InternalRecord(
        type=number,
        name=key_schema.name.removesuffix("Key"),
        key=named,
        version=version,
        value=message,
    )


def _message(
    schema: Schema, data: bytes, version: int, part: str, prefix: int
) -> Message:
    """Read the message behind a prefix of int16."""
    try:
        return schema.decode(data, version, _PREFIX_BYTES)[0]
    except CorruptMessageError as error:
        error.kafka_message = (
            f"Could not read record with version {prefix} from {part}'s buffer "
            f"due to: {error.kafka_message}."
        )
        raise


def _prefix(data: bytes, part: str) -> int:
    if len(data) < _PREFIX_BYTES:
        said = f"Could not read version from {part}'s buffer."
        raise CorruptMessageError(said, position=0)
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)


def _framed(reader: MessageReader, part: str) -> int:
    """Read a number of the frame, an int16 in a varint."""
    at = reader.position
    try:
        number = reader.varint()
    except CorruptMessageError as error:
        error.kafka_message = f"Error while reading {part}"
        raise
    if number > 2**15 - 1:
        said = f"Value for {part} was too large."
        raise CorruptMessageError(said, position=at)
    return (number + 2**15) % 2**16 - 2**15

"""Records of Kafka's internal topics: keys and values as messages.

A record holds messages (`kafkalog.messages.message`) in one of two frames. The topic
and the type determine the schema:

    coordinators    key: int16 type, message     value: int16 version, message
    metadata        key: null    value: varints 1, type and version, message

Coordinators are those of groups (``__consumer_offsets``), of transactions
(``__transaction_state``) and of share groups (``__share_group_state``). Metadata is
that of the cluster (``__cluster_metadata``) and of tiered segments
(``__remote_log_metadata``).

A coordinator's record whose value is null deletes the entry of its key. Trailing bytes
after a coordinator's message are ignored, as in Kafka; after a metadata message they
are an error.

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

TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's names of the states of a transaction, by number."""

_PREFIX_BYTES: Final = 2
_FRAME_VERSION: Final = 1
_KEY_VERSION: Final = 0
CONSUMER_PROTOCOL: Final = {
    "subscription": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
}
"""Fields of a member of a classic consumer group that hold messages: their schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRecord:
    r"""A decoded record of an internal topic.

    Attributes
    ----------
    type : int
        Kafka's number of the record type.
    name : str
        Kafka's name of the record type, such as ``OffsetCommit`` or
        ``FeatureLevelRecord``.
    key : dict or None
        The key under Kafka's field names; None for metadata records, which have none.
    version : int or None
        The version of the value's schema; None for a tombstone.
    value : dict or None
        The value under Kafka's field names; None for a tombstone.

    Examples
    --------
    >>> record = InternalRecord.decode("__consumer_offsets", b"\0\3\0\1g", None)
    >>> record.name, record.key, record.value
    ('ConsumerGroupMetadata', {'groupId': 'g'}, None)
    """

    type: int
    name: str
    key: Message | None
    version: int | None
    value: Message | None

    @staticmethod
    def decode(topic: str, key: bytes | None, value: bytes | None) -> InternalRecord:
        r"""Decode a data record of an internal topic.

        Control records are not decoded.

        Parameters
        ----------
        topic : str
            ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``,
            ``__cluster_metadata`` or ``__remote_log_metadata``.
        key, value : bytes or None
            The key and the value of the record.

        Returns
        -------
        InternalRecord
            The record's type, and its key and value as dictionaries.

        Raises
        ------
        CorruptMessageError
            If the key or the value does not match its schema. ``position`` is the byte
            of the key or of the value.
        UnsupportedFormatError
            If the type or the version is unknown in the Kafka release
            `kafkalog.messages.schema_tables.release`.
        ValueError
            If `topic` is not one of the five.

        Examples
        --------
        >>> import kafkalog
        >>> key, value = b"\0\3\0\1g", b"\0\0\0\0\0\7\0"
        >>> record = kafkalog.InternalRecord.decode("__consumer_offsets", key, value)
        >>> record.name, record.key, record.value
        ('ConsumerGroupMetadata', {'groupId': 'g'}, {'epoch': 7})
        """
        if topic in COORDINATORS:
            return _coordinators_record(topic, key, value)
        if topic not in METADATA:
            expected = ", ".join(INTERNAL_TOPICS)
            raise ValueError(f"topic {topic!r}, expected one of {expected}")
        schema, number, version, message = decode_metadata(topic, value)
        if version > schema.highest_version:
            highest = schema.highest_version
            reason = f"{schema.name} version {version}, expected at most {highest}"
            raise UnsupportedFormatError(reason, position=0)
        return InternalRecord(
            type=number, name=schema.name, key=None, version=version, value=message
        )


def record_type(key: bytes | None) -> int:
    """Return the type of a coordinator's record: the first int16 of its key."""
    return _prefix(key or b"", "key")


def decode_metadata(
    topic: str, value: bytes | None
) -> tuple[Schema, int, int, Message]:
    """Decode a metadata record; return its schema, type, version and message.

    A version above the highest known is decoded as the highest, as in Kafka.
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
        reason = f"Found {left} byte(s) of garbage after {number}"
        raise CorruptMessageError(reason, position=end)
    return schema, number, version, message


def metadata_type(value: bytes | None) -> int:
    """Return the type of a metadata record without decoding its message."""
    return _metadata_frame(MessageReader(value or b"", 0, 0, flexible=True))[0]


def _metadata_frame(reader: MessageReader) -> tuple[int, int]:
    """Read the frame at the start of a metadata record; return type and version."""
    frame = _frame_field(reader, "frame version")
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
    return _frame_field(reader, "type"), _frame_field(reader, "version")


def with_consumer_protocol(group: Message) -> Message:
    """Decode the subscriptions and assignments of a classic consumer group's members.

    Messages replace their bytes. A part that cannot be decoded stays bytes, as do all
    parts of a group with another protocol type.
    """
    if group["protocolType"] != "consumer":
        return group
    members = [
        {
            name: _member_field(CONSUMER_PROTOCOL.get(name), value)
            for name, value in member.items()
        }
        for member in group["members"]
    ]
    return {**group, "members": members}


def transaction_state_name(number: int) -> str:
    """Return Kafka's name of the state of a transaction; digits if it is unknown.

    >>> transaction_state_name(1), transaction_state_name(99)
    ('Ongoing', '99')
    """
    is_known = 0 <= number < len(TRANSACTION_STATES)
    return TRANSACTION_STATES[number] if is_known else str(number)


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Return the topics that a consumer joins a group for; None if it says none."""
    subscription = _member_field(CONSUMER_PROTOCOL["subscription"], metadata)
    return None if subscription is metadata else subscription["topics"]


def _member_field(schema_name: str | None, value: Any) -> Any:
    if schema_name is None:
        return value
    schema = schemas_of("consumer protocol")[schema_name, None]
    try:
        version = _prefix(value, schema_name)
        return schema.decode_nearest(value, version, _PREFIX_BYTES)[0]
    except CorruptMessageError:
        return value


def _coordinators_record(
    topic: str, key: bytes | None, value: bytes | None
) -> InternalRecord:
    number, schemas = record_type(key), schemas_of(topic)
    key_schema = schemas.get(("coordinator-key", number))
    if key_schema is None:
        raise UnsupportedFormatError(f"record of unknown type {number}", position=0)
    key_message = _message(key_schema, key or b"", _KEY_VERSION, "key", number)
    version = message = None
    if value is not None:
        schema, version = schemas["coordinator-value", number], _prefix(value, "value")
        if not schema.lowest_version <= version <= schema.highest_version:
            reason = f"Found an unknown record version {version} for {number} type"
            raise UnsupportedFormatError(reason, position=0)
        message = _message(schema, value, version, "value", version)
    return InternalRecord(
        type=number,
        name=key_schema.name.removesuffix("Key"),
        key=key_message,
        version=version,
        value=message,
    )


def _message(
    schema: Schema, data: bytes, version: int, part: str, prefix: int
) -> Message:
    """Decode the message that follows an int16 prefix."""
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
        reason = f"Could not read version from {part}'s buffer."
        raise CorruptMessageError(reason, position=0)
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)


def _frame_field(reader: MessageReader, part: str) -> int:
    """Read a field of the frame: an int16, encoded as a varint."""
    at = reader.position
    try:
        number = reader.varint()
    except CorruptMessageError as error:
        error.kafka_message = f"Error while reading {part}"
        raise
    if number > 2**15 - 1:
        reason = f"Value for {part} was too large."
        raise CorruptMessageError(reason, position=at)
    return (number + 2**15) % 2**16 - 2**15

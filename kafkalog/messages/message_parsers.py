"""Texts of keys and values of internal topics, as kafka-dump-log prints them.

Source: ``DumpLogSegments.java``.
"""

from __future__ import annotations

import re
from typing import Final

from kafkalog.errors import (
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedFormatError,
)
from kafkalog.messages.internal_records import (
    InternalRecord,
    decode_metadata,
    record_type,
    with_consumer_protocol,
)
from kafkalog.messages.message import Schema
from kafkalog.messages.message_json import message_to_json
from kafkalog.messages.remote_metadata import remote_metadata_text
from kafkalog.messages.schema_tables import schemas_of

TOPICS: Final = {
    "offsets": "__consumer_offsets",
    "transaction-log": "__transaction_state",
    "cluster-metadata": "__cluster_metadata",
    "remote-log-metadata": "__remote_log_metadata",
    "share-group-state": "__share_group_state",
}
KINDS: Final = tuple(TOPICS)
"""Kinds of internal topics, as in kafka-dump-log's options ``--<kind>-decoder``.

If several of the options are set, the tool uses the first of this tuple.
"""

GROUP_METADATA: Final = 2
"""Type of the group records whose members' subscriptions are decoded, too."""

_DELETED: Final = "<DELETE>"
_UNKNOWN: Final = "org.apache.kafka.common.errors.UnsupportedVersionException: "
_NO_VALUE: Final = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)
"""The tool's text for a tiered segment's record without a value."""


def describe_record(
    kind: str, key: bytes | None, value: bytes | None, offset: int
) -> tuple[str | None, str | None]:
    r"""Return what kafka-dump-log prints after ``key: `` and after ``payload: ``.

    None stands for a part that is not printed. Metadata records have no key. If a
    coordinator's record cannot be decoded, the key is the tool's error text, which
    contains `offset`, and there is no payload. Records of control batches are not
    decoded.

    Raises `InvalidRecordError` if a coordinator's record has no key: the tool throws an
    exception with this error's message.

    >>> describe_record("offsets", b"\0\3\0\1g", None, 41)
    ('{"type":"3","data":{"groupId":"g"}}', '<DELETE>')
    >>> describe_record("offsets", b"\0\x63", None, 42)
    ('Unknown record type 99 at offset 42, skipping.', None)
    """
    if kind == "cluster-metadata":
        return None, _cluster_metadata(value, offset)
    if kind == "remote-log-metadata":
        return None, _remote_metadata(value, offset)
    if key is None:
        raise InvalidRecordError(
            f"Failed to decode message at offset {offset} using the specified decoder "
            "(message had a missing key)"
        )
    try:
        number = record_type(key)
        if ("coordinator-key", number) not in schemas_of(TOPICS[kind]):
            return f"Unknown record type {number} at offset {offset}, skipping.", None
        record = InternalRecord.decode(TOPICS[kind], key, value)
    except CorruptMessageError as error:
        return f"Error at offset {offset}, skipping. {error.kafka_message}", None
    except UnsupportedFormatError as error:
        return f"Error at offset {offset}, skipping. {error.reason}", None
    return _key(record), _payload(record, is_offsets=kind == "offsets")


def _key(record: InternalRecord) -> str:
    return message_to_json({"type": str(record.type), "data": record.key})


def _payload(record: InternalRecord, *, is_offsets: bool) -> str:
    message = record.value
    if message is None:
        return _DELETED
    if is_offsets and record.type == GROUP_METADATA:
        message = with_consumer_protocol(message)
    return message_to_json({"version": str(record.version), "data": message})


def _cluster_metadata(value: bytes | None, offset: int) -> str:
    try:
        schema, _, version, message = decode_metadata("__cluster_metadata", value)
    except CorruptMessageError as error:
        return f"Error at {offset}, skipping. {error.kafka_message}"
    except UnsupportedFormatError as error:
        return f"Error at {offset}, skipping. {_UNKNOWN}{error.reason}"
    name = metadata_type(schema)
    return message_to_json({"type": name, "version": version, "data": message})


def metadata_type(schema: Schema) -> str:
    """Return Kafka's name of the type of a metadata record.

    >>> metadata_type(Schema("ClearElrRecord", ()))
    'CLEAR_ELR_RECORD'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", schema.name).upper()


def _remote_metadata(value: bytes | None, offset: int) -> str:
    if value is None:
        return f"Error at offset {offset}, skipping. {_NO_VALUE}"
    try:
        schema, _, _, message = decode_metadata("__remote_log_metadata", value)
        return remote_metadata_text(schema.name, message)
    except CorruptMessageError as error:
        return f"Error at offset {offset}, skipping. {error.kafka_message}"
    except UnsupportedFormatError as error:
        return f"Error at offset {offset}, skipping. {_UNKNOWN}{error.reason}"

"""Batches with arbitrary fields, and their validation on a leader and a follower."""

from __future__ import annotations

import struct
import zlib

import crc32c
import numpy as np

from kafkalog.codecs.compression import Codec, compress
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.encoding.message_sets import encode_messages
from kafkalog.encoding.record_columns import ByteColumn, RecordColumns
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import TimestampType
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.validation.append_analysis import analyze_appends, as_views
from kafkalog.validation.append_policy import AppendPolicy, AppendRules
from kafkalog.validation.appends import AppendMemory, AppendOrigin
from kafkalog.validation.leader_validation import validate_for_leader
from tests import reference
from tests.append_reference import FIELDS

T = 1_700_000_000_000
EPOCH = 7
FOREVER = 2**63 - 1
ANY_TIME = {"timestamp_after_max_ms": FOREVER}
STAMPED = {"timestamp_type": TimestampType.LOG_APPEND_TIME}
ROWS = [(b"a", b"1", T - 3), (b"b", b"2", T + 1), (None, None, T - 1)]
INVALID = ("InvalidRecordException", None, None)


def batch(*records, recrc=True, patch=None, **settings):
    """Build a batch or messages of (key, value, timestamp), and patch its fields."""
    builder = RecordBatchBuilder(**settings)
    for key, value, timestamp in records or [(b"k", b"v", T)]:
        builder.append(key, value, timestamp=timestamp)
    return patched(builder.build(), patch or {}, recrc=recrc)


def patched(data, fields, *, recrc=True):
    """Replace fields of a batch of magic 2, and with `recrc` its checksum."""
    data = bytearray(data)
    for name, value in fields.items():
        at, form = FIELDS[name]
        struct.pack_into(">" + form, data, at, value)
    if recrc and fields:
        struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
    return bytes(data)


def lead(
    *buffers, origin=AppendOrigin.CLIENT, now=T, epoch=EPOCH, next_offset=0, **topic
):
    """Validate appends on a leader in one call; assign offsets from `next_offset`."""
    policy = AppendPolicy.of(AppendRules(**topic), origin, epoch, now)
    appends = validate_for_leader(as_views(buffers), policy, AppendMemory())
    appends.assign_offsets(next_offset)
    return appends


def follow(*buffers, origin=AppendOrigin.REPLICATION, epoch=EPOCH, max_bytes=None):
    """Validate appends that keep their offsets."""
    policy = AppendPolicy.of(AppendRules(), origin, epoch, T, as_follower=True)
    required = policy.header_requirements
    if max_bytes is not None:
        required = required._replace(max_bytes=max_bytes)
    return analyze_appends(as_views(buffers), required, AppendMemory())


def written(appends, index=0):
    """Return the bytes of one append."""
    start, end = appends.byte_bounds[index : index + 2]
    return appends.data[start:end].tobytes()


def rejection(appends, index=0):
    """Return Kafka's exception, its cause and the invalid records, None if accepted."""
    error = appends.errors.get(index)
    if error is None:
        return None
    cause = getattr(error.__cause__, "kafka_name", None)
    records = getattr(error, "record_errors", None)
    return (error.kafka_name, cause, records and [i for i, _ in records])


def entry(appends, index=0):
    """Read the batch to be written, which must be one."""
    (header,) = reference.entries(written(appends, index))
    assert header["is_valid"]
    return header


def rejected(cause, *records):
    return ("RecordValidationException", cause, list(records))


def timestamps(batch):
    return [record["timestamp"] for record in batch["records"]]


def marker(**settings):
    key, value = end_transaction_marker(ControlRecordType.COMMIT, 3)
    settings = {"producer_id": 5, "producer_epoch": 0, **settings}
    return batch((key, value, T), is_control=True, is_transactional=True, **settings)


def wrapper_of(inner, magic=1, offset=0):
    """Wrap messages unchanged in a compressed message."""
    outer = RecordColumns(
        np.array([offset]),
        np.array([T]),
        ByteColumn.nulls(1),
        ByteColumn.of([compress(Codec.GZIP, inner)]),
    )
    data = bytearray(encode_messages(outer, magic=magic))
    data[17] |= Codec.GZIP
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    return bytes(data)

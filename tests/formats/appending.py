"""Appends for tests: batches with any field as one likes, and who judges them."""

from __future__ import annotations

import struct

import crc32c

from kafkalog.formats.analysis import analyze_appends
from kafkalog.formats.append_rules import AppendRules
from kafkalog.formats.appends import AppendMemory, AppendOrigin
from kafkalog.formats.builder import RecordBatchBuilder
from kafkalog.formats.validation import lead_appends
from tests.append_reference import FIELDS

T = 1_700_000_000_000
EPOCH = 7
FOREVER = 2**63 - 1
ANY_TIME = {"timestamp_after_max_ms": FOREVER}


def batch(*records, recrc=True, patch=None, **settings):
    """Build a batch, or messages, of (key, value, timestamp); then patch fields."""
    builder = RecordBatchBuilder(**settings)
    for key, value, timestamp in records or [(b"k", b"v", T)]:
        builder.append(key, value, timestamp=timestamp)
    return patched(builder.build(), patch or {}, recrc=recrc)


def patched(data, fields, *, recrc=True):
    """Write over fields of a batch of magic 2, and make its checksum right."""
    data = bytearray(data)
    for name, value in fields.items():
        at, form = FIELDS[name]
        struct.pack_into(">" + form, data, at, value)
    if recrc and fields:
        struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
    return bytes(data)


def lead(
    *pieces, origin=AppendOrigin.CLIENT, now=T, epoch=EPOCH, next_offset=0, **topic
):
    """Append as a leader, all in one call, with offsets from `next_offset` on."""
    appends = lead_appends(
        pieces,
        AppendRules(**topic),
        origin=origin,
        leader_epoch=epoch,
        now_ms=now,
        memory=AppendMemory(),
    )
    appends.place(next_offset)
    return appends


def follow(*pieces, origin=AppendOrigin.REPLICATION, epoch=EPOCH, max_bytes=None):
    """Append with the offsets that the batches have."""
    return analyze_appends(
        pieces,
        origin=origin,
        leader_epoch=epoch,
        max_message_bytes=max_bytes,
        monotonic=True,
        memory=AppendMemory(),
    )


def written(appends, index=0):
    """Return the bytes of one append."""
    start, end = appends.byte_bounds[index : index + 2]
    return appends.data[start:end].tobytes()


def told(appends, index=0):
    """Say in Kafka's words how an append was refused; None where it was not."""
    error = appends.errors.get(index)
    if error is None:
        return None
    cause = getattr(error.__cause__, "kafka_name", None)
    records = getattr(error, "record_errors", None)
    return (error.kafka_name, cause, records and [i for i, _ in records])

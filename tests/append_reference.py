"""A slow port of Kafka's validation of appends, for comparison with the package.

The rules work on dictionaries, in Kafka's order, and share no code with the package.
`tests/reference.py` reads the bytes. A rejected append raises `Rejected`.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import crc32c

from tests import reference

INT64_MAX = 2**63 - 1
FIELDS = {
    "base_offset": (0, "q"),
    "length": (8, "i"),
    "leader_epoch": (12, "i"),
    "crc": (17, "I"),
    "attributes": (21, "h"),
    "last_offset_delta": (23, "i"),
    "base_timestamp": (27, "q"),
    "max_timestamp": (35, "q"),
    "producer_id": (43, "q"),
    "producer_epoch": (51, "h"),
    "base_sequence": (53, "i"),
    "count": (57, "i"),
}
ABSENT = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


class Rejected(Exception):
    """Rejection of an append: Kafka's exception, its cause, and the invalid records."""

    def __init__(self, name: str, cause: str | None = None, records: Any = None):
        super().__init__(name, cause, records)
        self.error = (name, cause, records)


@dataclass
class Topic:
    """Settings of a topic, and arguments of the append."""

    origin: str = "client"
    leader_epoch: int = 7
    now: int = 1_700_000_000_000
    codec: str = "producer"
    stamps: bool = False
    before: int = INT64_MAX
    after: int = INT64_MAX
    compacted: bool = False
    max_bytes: int = 1 << 20
    assigns: bool = True
    kept: dict[str, Any] = field(default_factory=dict)


def wrap(value: int) -> int:
    """Return `value` as an int64 that wraps, as sums do in Java."""
    return (value + 2**63) % 2**64 - 2**63


def header(raw: bytes) -> dict[str, Any]:
    """Return the header fields of an entry; magic 0 and 1 have some of them."""
    found: dict[str, Any] = {"magic": raw[16], "size": len(raw)}
    if raw[16] == 2:
        if len(raw) < 61:
            return found | {"leader_epoch": -1, "base_offset": 0, "valid": False}
        for name, (at, form) in FIELDS.items():
            (found[name],) = struct.unpack_from(">" + form, raw, at)
        found["valid"] = found["crc"] == crc32c.crc32c(raw[21:])
        found["last_offset"] = wrap(found["base_offset"] + found["last_offset_delta"])
        return found
    least = 34 if raw[16] else 26
    if len(raw) < least:
        return found | {"leader_epoch": -1, "valid": False}
    (offset,), (crc,) = struct.unpack_from(">q", raw), struct.unpack_from(">I", raw, 12)
    (timestamp,) = struct.unpack_from(">q", raw, 18) if raw[16] else (-1,)
    found |= {"last_offset": offset, "max_timestamp": timestamp, "leader_epoch": -1}
    return found | {"attributes": raw[17], "valid": crc == zlib.crc32(raw[16:])}


def batches(data: bytes):
    """Yield the complete entries before a partial tail."""
    at = 0
    while len(data) - at >= 12:
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size < 14:
            raise Rejected("CorruptRecordException")
        if len(data) - at < 17:
            return
        if data[at + 16] > 2:
            raise Rejected("CorruptRecordException")
        if len(data) - at < 12 + size:
            return
        yield data[at : at + 12 + size]
        at += 12 + size


def analyze(data: bytes, topic: Topic) -> list[bytes]:
    """Return the batches to be written."""
    kept: list[bytes] = []
    last, rising, skipping, source = -1, True, False, 0
    for raw in batches(data):
        head = header(raw)
        if topic.origin == "raft_leader" and head["leader_epoch"] != topic.leader_epoch:
            raise Rejected("InvalidRecordException")
        if topic.origin == "client" and raw[16] == 2 and raw[:8] != bytes(8):
            raise Rejected("InvalidRecordException")
        newer = head["leader_epoch"] > topic.leader_epoch
        skipping = skipping or (topic.origin == "replication" and newer)
        if not skipping:
            if topic.assigns and len(raw) > topic.max_bytes:
                raise Rejected("RecordTooLargeException")
            if not head["valid"]:
                raise Rejected("CorruptRecordException")
            if head["attributes"] & 7 > 4:
                raise Rejected("IllegalArgumentException")
            rising = rising and last < head["last_offset"]
            last = head["last_offset"]
            source = head["attributes"] & 7 or source
            kept.append(raw)
        if not topic.assigns and not rising:
            read_all_records(data)
            raise Rejected("OffsetsOutOfOrderException")
    topic.kept = {"source": source, "valid_bytes": sum(map(len, kept))}
    return kept


def read_all_records(data: bytes) -> None:
    """Read all records, whose offsets are in the message of Kafka's error."""
    for raw in batches(data):
        if header(raw)["attributes"] & 7 > 4:
            raise Rejected("IllegalArgumentException")
        records_of(raw)


def records_of(raw: bytes) -> list[dict[str, Any]]:
    """Return the records of an entry, each with its own magic."""
    head = header(raw)
    codec = reference.CODECS[head["attributes"] & 7]
    if raw[16] == 2:
        if head["count"] == 0:
            return []
        try:
            reference.unpack(codec, raw[61:])
        except Exception:
            raise Rejected("KafkaException") from None
        try:
            found = reference.batch(raw)["records"]
        except Exception:
            raise Rejected("InvalidRecordException") from None
        if head["count"] < 0:
            raise Rejected("InvalidRecordException")
        return [
            {**record, "timestamp": wrap(record["timestamp"]), "magic": 2}
            for record in found
        ]
    if codec == "none":
        record = reference.message(raw)["records"][0]
        return [{**record, "magic": raw[16]}]
    if codec == "zstd":
        raise Rejected("InvalidRecordException")
    return wrapped(raw, codec)


def wrapped(raw: bytes, codec: str) -> list[dict[str, Any]]:
    """Return the messages in a wrapper, with their magic and whether they are valid."""
    outer = reference.one_message(raw)
    if outer["value"] is None:
        raise Rejected("InvalidRecordException")
    try:
        inner = list(reference.messages(reference.unpack(codec, outer["value"])))
    except Exception:
        raise Rejected("KafkaException") from None
    if not inner:
        raise Rejected("InvalidRecordException")
    base = 0
    if raw[16] == 1 and outer["offset"] != 0:
        base = outer["offset"] - inner[-1]["offset"]
        if base < 0:
            raise Rejected("InvalidRecordException")
    found = []
    for message in inner:
        record = reference.message_record(outer, base, message)
        if message["magic"] == 0:
            record["timestamp"] = -1
        kept = {"magic": message["magic"], "valid": message["is_valid"]}
        found.append({**record, **kept, "nested": message["codec"] != "none"})
    return found


def check_batch(first: dict[str, Any], head: dict[str, Any], topic: Topic) -> None:
    invalid = first["magic"] != head["magic"]
    if topic.origin == "client" and head["magic"] == 2:
        span = wrap(head["last_offset"] - head["base_offset"] + 1)
        invalid = invalid or span <= 0 or head["count"] <= 0 or span != head["count"]
        invalid = invalid or bool(head["attributes"] & 32)
        invalid = invalid or (head["producer_id"] > -1 and head["base_sequence"] < 0)
    if invalid:
        raise Rejected("InvalidRecordException")


def check_records(head: dict[str, Any], found: list[Any], topic: Topic) -> None:
    errors: dict[int, bool] = {}
    stamped = head["magic"] > 0 and head["attributes"] & 8
    for i, record in enumerate(found):
        if record.get("nested"):
            raise Rejected("InvalidRecordException")
        if (record["magic"] == 2) != (head["magic"] == 2) or (
            head["magic"] < 2 and record["magic"] != head["magic"]
        ):
            errors[i] = False
            continue
        if not record.get("valid", True):
            raise Rejected("CorruptRecordException")
        if topic.compacted and record["key"] is None:
            errors[i] = False
        elif not topic.stamps and record["timestamp"] != -1:
            age = wrap(topic.now - record["timestamp"])
            if age > topic.before or wrap(-age) > topic.after:
                errors[i] = True
        elif stamped:
            errors[i] = True
    if errors:
        late = any(errors.values())
        cause = "InvalidTimestampException" if late else "InvalidRecordException"
        raise Rejected("RecordValidationException", cause, list(errors))


def lead(data: bytes, topic: Topic, counter: int) -> dict[str, Any] | None:
    """Return the batch that a leader writes, None if there is none."""
    kept = analyze(data, topic)
    if not kept:
        return None
    source = topic.kept["source"]
    target = source
    if topic.codec != "producer":
        target = reference.CODECS.index(topic.codec.replace("uncompressed", "none"))
    heads = [header(raw) for raw in kept]
    if len(kept) > 1 and (kept[0][16] == 2 or source):
        raise Rejected("InvalidRecordException")
    in_place = kept[0][16] == 2 and source == target
    if kept[0][16] == 2 and not source and heads[0]["attributes"] & 32:
        in_place = True
    found: list[Any] = []
    for raw, head in zip(kept, heads, strict=True):
        check_batch(heads[0], head, topic)
        records = records_of(raw)
        check_records(head, records, topic)
        if not source and not target and not in_place:
            check_times(records)
        found += records
    if (source or target) and in_place:
        in_place = [record["offset"] for record in found] == list(range(len(found)))
        if source and not in_place:
            raise Rejected("UnsupportedOperationException")
    written = stamped(heads[0], found, topic, counter)
    if in_place:
        delta = heads[0]["last_offset_delta"]
        written["base_offset"] = written["last_offset"] - delta
        return {**heads[0], **written, "payload": kept[0][61:], "rebuilt": False}
    return rebuilt(heads[0], found, target, written, topic)


def stamped(head: Any, found: list[Any], topic: Topic, counter: int) -> dict[str, Any]:
    latest = max([-1, *(record["timestamp"] for record in found)])
    attributes = head["attributes"] & 0x77 | 8 * topic.stamps
    latest = topic.now if topic.stamps else latest
    received = (head.get("attributes", 0) & 8, head.get("max_timestamp"))
    return {
        "last_offset": counter + len(found) - 1,
        "leader_epoch": topic.leader_epoch,
        "max_timestamp": latest,
        # Unknown bits are removed only if the field is written at all.
        "attributes": head["attributes"]
        if received == (8 * topic.stamps, latest)
        else attributes,
        "records": found,
    }


def check_times(found: list[Any]) -> None:
    if any(record["timestamp"] < -1 for record in found):
        raise Rejected("IllegalArgumentException")


def rebuilt(
    head: Any, found: list[Any], target: int, written: dict[str, Any], topic: Topic
) -> dict[str, Any] | None:
    check_times(found)
    producer = {name: head.get(name, -1) for name in ABSENT}
    transactional = head["magic"] == 2 and bool(head["attributes"] & 16)
    if producer["producer_id"] == -1:
        impossible = transactional
    else:
        negative = producer["base_sequence"] < 0
        impossible = producer["producer_epoch"] == -1 or negative
    if impossible:
        raise Rejected("IllegalArgumentException")
    if not found:
        return None
    return {
        **written,
        **producer,
        "base_offset": written["last_offset"] - len(found) + 1,
        "base_timestamp": found[0]["timestamp"],
        "attributes": target | 8 * topic.stamps | 16 * transactional,
        "count": len(found),
        "payload": None,
        "rebuilt": True,
    }

"""Random messages of internal topics, encoded by a simple encoder of its own.

Of the package, only the schemas are used. The encoding of each type is implemented here
again, as simply as possible.
"""

from __future__ import annotations

import random
import struct

from kafkalog.messages.schema import FIXED_WIDTH, Array
from kafkalog.messages.schema_tables import schemas_of

KINDS = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction-log",
    "__share_group_state": "share-group-state",
    "__cluster_metadata": "cluster-metadata",
    "__remote_log_metadata": "remote-log-metadata",
}
TEXTS = (
    "",
    "g",
    "orders.zstd",
    'a "b"\\/',
    "\0\x1f\x7f\b\f\n\r\t",
    "é\u2028😀",
    "x" * 200,
)

NO_UTF8 = bytes.fromhex("eda080f09f98c328e2fff49041bfe0c080")
"""Truncated UTF-8 sequences and invalid bytes."""


def varint(value):
    """Return an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class RandomMessages:
    """A source of random messages; `encode` returns the bytes of one."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def encode(self, schema, version):
        return self.struct(schema.fields, version, version >= schema.flexible_since)

    def struct(self, fields, version, flexible):
        untagged, tagged = b"", {}
        for field in fields:
            if not field.since <= version <= field.until:
                continue
            nullable = field.nullable_since is not None
            nullable = nullable and version >= field.nullable_since
            if field.tag is None:
                untagged += self.value(field.type, version, flexible, nullable, b"\xff")
            elif self.random.random() < 0.5:
                value = self.value(field.type, version, True, nullable, b"\0")
                tagged[field.tag] = value
        if not flexible:
            return untagged
        if self.random.random() < 0.2:
            tagged[self.random.choice([40, 1000])] = self.random.randbytes(3)
        section = [varint(t) + varint(len(v)) + v for t, v in sorted(tagged.items())]
        return untagged + varint(len(section)) + b"".join(section)

    def value(self, kind, version, flexible, nullable, null_struct):
        null = nullable and self.random.random() < 0.3
        if isinstance(kind, tuple):
            if null:
                return null_struct
            return b"\1" * nullable + self.struct(kind, version, flexible)
        if isinstance(kind, Array):
            count = self.random.choice([0, 0, 1, 2, 5])
            values = [
                self.value(kind.of, version, flexible, False, b"")
                for _ in range(0 if null else count)
            ]
            return self.sized(b"".join(values), len(values), null, flexible, ">i")
        if kind == "string":
            text = self.random.choice(TEXTS).encode()
            if self.random.random() < 0.05:
                text = bytes(self.random.choices(NO_UTF8, k=8))
            return self.sized(text, len(text), null, flexible, ">h")
        if kind == "bytes":
            raw = self.random.randbytes(self.random.choice([0, 1, 5, 130]))
            return self.sized(raw, len(raw), null, flexible, ">i")
        return self.fixed(kind)

    def sized(self, data, size, null, flexible, classic):
        if null:
            return b"\0" if flexible else struct.pack(classic, -1)
        return (varint(size + 1) if flexible else struct.pack(classic, size)) + data

    def fixed(self, kind):
        if kind == "float64":
            return struct.pack(">d", self.random.choice([0.0, -1.5, 1024.0, 1e7, 1e-5]))
        if kind == "uuid":
            return self.random.choice([bytes(16), self.random.randbytes(16)])
        size = struct.calcsize(FIXED_WIDTH[kind])
        few = [bytes(size), b"\xff" * size, bytes(size - 1) + b"\1"]
        if kind == "bool":
            return self.random.choice(few)
        return self.random.choice([*few, self.random.randbytes(size)])


def records(seed, each):
    """Yield topic, key and value of `each` records per version of every schema."""
    source = RandomMessages(seed)
    for topic in KINDS:
        for (described, number), schema in schemas_of(topic).items():
            if described == "coordinator-key":
                continue
            versions = range(schema.lowest_version, schema.highest_version + 1)
            for version in versions:
                for _ in range(each):
                    yield topic, *_record(source, topic, described, number, version)


def _record(source, topic, described, number, version):
    schema = schemas_of(topic)[described, number]
    message = source.encode(schema, version)
    if described == "metadata":
        return None, b"\1" + varint(number) + varint(version) + message
    key = source.encode(schemas_of(topic)["coordinator-key", number], 0)
    return struct.pack(">h", number) + key, struct.pack(">h", version) + message


def groups(seed, count):
    """Yield records of classic consumer groups, with subscriptions and assignments.

    Some of these are of an unknown version, and some are truncated.
    """
    source = RandomMessages(seed)
    for _ in range(count):
        version = source.random.randrange(-1, 6)
        messages = []
        for name in ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"):
            schema = schemas_of("consumer protocol")[name, None]
            nearest = max(0, min(version, schema.highest_version))
            data = struct.pack(">h", version) + source.encode(schema, nearest)
            cut = source.random.choice([len(data), len(data), 1, len(data) - 1])
            messages.append(struct.pack(">i", cut) + data[:cut])
        member = b"\0\1m\xff\xff\0\1c\0\2/h" + bytes(8) + b"".join(messages)
        group = b"\0\x08consumer" + bytes(4) + b"\xff\xff\xff\xff" + bytes(8)
        yield b"\0\2\0\1g", b"\0\3" + group + struct.pack(">i", 1) + member


def damaged(seed, valid):
    """Yield each record truncated, with a changed byte or prefix, or trailing bytes."""
    rng = random.Random(seed)
    for topic, key, value in valid:
        parts = [key, value]
        at = rng.randrange(2) if key is not None else 1
        parts[at] = _spoil(rng, parts[at])
        yield topic, *parts


def _spoil(rng, data):
    how = rng.randrange(6)
    at = rng.randrange(len(data)) if data else 0
    if how == 0:
        return data[:at]
    if how == 1:
        return data + rng.randbytes(2)
    if how == 2:
        return rng.choice([0, 0x7F, 0x80, 0xFF]).to_bytes() + data[1:]
    if how == 3:
        return data[:at] + b"\xff\xff\xff\xff\x0f" + data[at + 1 :]
    if how == 4:
        return data[:at] + b"\xff\xff\xff\xff\xff" + data[at + 5 :]
    return data[:at] + rng.randbytes(1) + data[at + 1 :]

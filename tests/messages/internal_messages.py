"""Messages of internal topics at random, written by the obvious encoder here.

It knows of the package only what a schema is: its rows are walked once, and what each
type looks like is said again, in the plainest way.
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
"""Parts of characters, and what is none."""


def varint(value):
    """Write an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Chance:
    """Draws messages: `encode` gives the bytes of one, of a given version."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def encode(self, schema, version):
        return self.struct(schema.fields, version, version >= schema.flexible_since)

    def struct(self, fields, version, flexible):
        plain, tagged = b"", {}
        for field in fields:
            if not field.since <= version <= field.until:
                continue
            nullable = field.nullable_since is not None
            nullable = nullable and version >= field.nullable_since
            if field.tag is None:
                plain += self.value(field.type, version, flexible, nullable, b"\xff")
            elif self.random.random() < 0.5:
                value = self.value(field.type, version, True, nullable, b"\0")
                tagged[field.tag] = value
        if not flexible:
            return plain
        if self.random.random() < 0.2:
            tagged[self.random.choice([40, 1000])] = self.random.randbytes(3)
        section = [varint(t) + varint(len(v)) + v for t, v in sorted(tagged.items())]
        return plain + varint(len(section)) + b"".join(section)

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
    """Yield records of every schema and every version: topic, key, value, whether null.

    `each` of them for a version. In some groups' metadata members have told each other
    messages, and some are of a version that there is not.
    """
    chance = Chance(seed)
    for topic in KINDS:
        for (described, number), schema in schemas_of(topic).items():
            if described == "coordinator-key":
                continue
            versions = range(schema.lowest_version, schema.highest_version + 1)
            for version in versions:
                for _ in range(each):
                    yield topic, *_record(chance, topic, described, number, version)


def _record(chance, topic, described, number, version):
    schema = schemas_of(topic)[described, number]
    message = chance.encode(schema, version)
    if described == "metadata":
        return None, b"\1" + varint(number) + varint(version) + message
    key = chance.encode(schemas_of(topic)["coordinator-key", number], 0)
    return struct.pack(">h", number) + key, struct.pack(">h", version) + message


def groups(seed, count):
    """Yield records of classic groups of consumers, with what their members told."""
    chance = Chance(seed)
    for _ in range(count):
        version = chance.random.randrange(-1, 6)
        told = []
        for name in ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"):
            schema = schemas_of("consumer protocol")[name, None]
            nearest = max(0, min(version, schema.highest_version))
            data = struct.pack(">h", version) + chance.encode(schema, nearest)
            cut = chance.random.choice([len(data), len(data), 1, len(data) - 1])
            told.append(struct.pack(">i", cut) + data[:cut])
        member = b"\0\1m\xff\xff\0\1c\0\2/h" + bytes(8) + b"".join(told)
        group = b"\0\x08consumer" + bytes(4) + b"\xff\xff\xff\xff" + bytes(8)
        yield b"\0\2\0\1g", b"\0\3" + group + struct.pack(">i", 1) + member


def damaged(seed, sound):
    """Yield each record with a cut, a flipped byte, a new prefix or bytes behind."""
    chance = random.Random(seed)
    for topic, key, value in sound:
        parts = [key, value]
        at = chance.randrange(2) if key is not None else 1
        parts[at] = _spoil(chance, parts[at])
        yield topic, *parts


def _spoil(chance, data):
    how = chance.randrange(6)
    at = chance.randrange(len(data)) if data else 0
    if how == 0:
        return data[:at]
    if how == 1:
        return data + chance.randbytes(2)
    if how == 2:
        return chance.choice([0, 0x7F, 0x80, 0xFF]).to_bytes() + data[1:]
    if how == 3:
        return data[:at] + b"\xff\xff\xff\xff\x0f" + data[at + 1 :]
    if how == 4:
        return data[:at] + b"\xff\xff\xff\xff\xff" + data[at + 5 :]
    return data[:at] + chance.randbytes(1) + data[at + 1 :]

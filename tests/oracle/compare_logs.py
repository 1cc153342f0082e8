"""Compare the batches of two ``.log`` files, by bytes or by their records."""

import hashlib
import struct
import zlib

from tests.oracle.report import short

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_FIELDS = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
LEGACY_HEADER = struct.Struct(">qiIbb")
LEGACY_FIELDS = ("offset", "length", "crc", "magic", "attributes")
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def batches(data):
    """Yield (position, header fields, bytes) of each whole batch."""
    at = 0
    while len(data) - at >= 17:
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        if size < 26 or size > len(data) - at:
            return
        if data[at + 16] >= 2 and size >= 61:
            values = BATCH_HEADER.unpack_from(data, at)
            header = dict(zip(BATCH_FIELDS, values, strict=True))
        else:
            values = LEGACY_HEADER.unpack_from(data, at)
            header = dict(zip(LEGACY_FIELDS, values, strict=True))
        yield at, header, data[at : at + size]
        at += size


def canonical_log(data, options):
    out, end = [], 0
    for at, header, batch in batches(data):
        codec = header["attributes"] & 7 if "count" in header else 0
        if codec:
            out += [
                batch[:8],
                batch[12:17],
                batch[21:61],
                decompress(codec, batch[61:], options),
            ]
        else:
            out.append(batch)
        end = at + len(batch)
    return b"".join(out) + data[end:]


class NeedsDecompressor(Exception):
    pass


def same_content(left, right, options):
    """Return whether two logs, or a log and a digest, have the same records.

    None if their codec is not supported.
    """
    try:
        digest = (
            right if isinstance(right, str) else sha256(canonical_log(right, options))
        )
        return sha256(canonical_log(left, options)) == digest
    except NeedsDecompressor:
        return None


def decompress(codec, data, options):
    if options.decompress:
        return options.decompress(codec, data)
    if codec == 1:
        return zlib.decompress(data, wbits=31)
    raise NeedsDecompressor(CODECS.get(codec, codec))


def explain_log(name, left, right, options, report):
    if options.content:
        same = same_content(left, right, options)
        if same is None:
            report.add(
                f"  {name}: other bytes, and a codec that only --decompress can decode"
            )
        if same or same is None:
            return
    want, got = list(batches(left)), list(batches(right))
    pairs = zip(want, got, strict=False)
    for i, ((at, head, body), (at2, head2, body2)) in enumerate(pairs):
        if body == body2:
            continue
        fields = [
            f"{k} {head[k]} expected, got {head2.get(k)}"
            for k in head
            if head[k] != head2.get(k)
        ]
        codec = head["attributes"] & 7
        records = ""
        if "count" in head and body[61:] != body2[61:]:
            paired = zip(body[61:], body2[61:], strict=False)
            first = next(
                (p for p, (a, b) in enumerate(paired) if a != b),
                min(len(body), len(body2)) - 61,
            )
            records = (
                f"; records ({CODECS.get(codec, codec)}) from {at + 61 + first} on"
            )
            if codec == 0 and "count" in head2:
                records += record_difference(body[61:], body2[61:])
        report.add(
            f"  {name} batch {i} at {at}{'' if at == at2 else f' (there at {at2})'}: "
            f"{'; '.join(fields) or 'same header'}{records}"
        )
        return
    report.add(
        f"  {name}: {len(want)} batches in {len(left)} bytes expected, "
        f"got {len(got)} in {len(right)}"
    )


def record_difference(left, right):
    for i, (a, b) in enumerate(zip(v2_records(left), v2_records(right), strict=False)):
        if a != b:
            return f"; record {i}: expected {short(repr(a))}, got {short(repr(b))}"
    return ""


def v2_records(data):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return (value >> 1) ^ -(value & 1)

    def blob():
        nonlocal at
        size = varint()
        if size < 0:
            return None
        at += size
        return data[at - size : at]

    try:
        while at < len(data):
            size = varint()
            end = at + size
            at += 1
            record = {
                "timestamp_delta": varint(),
                "offset_delta": varint(),
                "key": blob(),
                "value": blob(),
            }
            record["headers"] = [(blob(), blob()) for _ in range(varint())]
            if at != end:
                return
            yield record
    except IndexError:
        return

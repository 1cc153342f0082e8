"""Small batches of every magic and codec, and their rows in a scan."""

from __future__ import annotations

from kafkalog import RecordBatchBuilder
from kafkalog.errors import LocatedError
from kafkalog.query.scan_columns import COLUMNS

from . import kafka_rows

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KINDS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS[: 4 + (magic == 2)]]
T = 1_700_000_000_000


def build(magic, codec, first, count=3, *, text=b"value", **settings):
    """Return a batch or, below magic 2, messages; with a codec, one wrapper."""
    if magic == 2:
        settings = {
            "base_offset": first,
            "producer_id": 7,
            "producer_epoch": 1,
            "base_sequence": first,
            "leader_epoch": 5,
            **settings,
        }
    builder = RecordBatchBuilder(magic=magic, codec=codec, **settings)
    for i in range(first, first + count):
        headers = [("h", b"x"), ("n", None)] if magic == 2 and i % 2 else []
        time = {} if magic == 0 else {"timestamp": T + i}
        key = None if i % 3 == 0 else b"k%d" % i
        builder.append(key, text + b" %d" % i, offset=i, headers=headers, **time)
    return builder.build()


def offsets_until(scan):
    """Return the offsets of a scan, and the error that ends it, or None."""
    found = []
    try:
        for chunk in scan.chunks():
            found += chunk.offset.tolist()
    except LocatedError as error:
        return found, (type(error), str(error), error.position)
    return found, None


def rows_of(scan):
    return kafka_rows.from_chunks(scan.chunks())


def without(rows, *columns):
    """Return rows without `columns`, and without segment and position."""
    dropped = {*columns, "segment", "position"}
    keep = [i for i, name in enumerate(COLUMNS) if name not in dropped]
    return [tuple(row[i] for i in keep) for row in rows]

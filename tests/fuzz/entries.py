"""Targets: batches of each magic, payloads of each codec, metadata snapshots."""

from __future__ import annotations

import contextlib
import re
import zlib
from typing import Any
from unittest.mock import patch

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs import gzip_members
from kafkalog.codecs.compression import bounded_decompressor, compress, decompress
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.errors import CorruptRecordError, LocatedError
from kafkalog.formats.layout import BATCH
from kafkalog.log.reading.metadata_snapshot import MetadataSnapshot
from kafkalog.query.scan_columns import COLUMNS
from tests import reference
from tests.fuzz.checksums import batch_around, correct_checksums, message_around
from tests.fuzz.rows import LIMIT, Row, check_place, read, typed

COMPARED = [
    COLUMNS.index(name) for name in ("offset", "timestamp", "key", "value", "sequence")
]
HEADERS = COLUMNS.index("headers")
POSITION = COLUMNS.index("position")


def check_entries(data: bytes) -> None:
    """Read batches in each way; all must agree, with the reference too."""
    for corrected in (data, correct_checksums(data)):
        rows, error, _ = read(corrected)
        views, other, _ = read(corrected, {"views": True})
        assert (views, str(other)) == (rows, str(error))
        kept, _, problems = read(corrected, on_corruption="skip")
        assert kept[: len(rows)] == rows
        assert bool(problems) == (error is not None), (error, problems)
        if error is None:
            assert kept == rows
            check_with_reference(corrected, rows)
        unchecked, _, _ = read(corrected, on_corruption="skip", check_crcs=False)
        assert error is not None or unchecked == rows
        check_one(corrected)


def check_with_reference(data: bytes, rows: list[Row]) -> None:
    """Check that the rows read without an error are those of the reference."""
    expected = [
        [
            *(one[name] for name in ("offset", "timestamp", "key", "value")),
            one["sequence"],
            one["headers"],
            entry["position"],
        ]
        for entry in reference.entries(data)
        for one in entry["records"]
    ]
    ours = [[*(row[i] for i in COMPARED), row[HEADERS], row[POSITION]] for row in rows]
    assert ours == expected


def check_one(data: bytes) -> None:
    """Read the first batch by itself."""
    try:
        batch = RecordBatch(data, 0, max_bytes=LIMIT)
        records = list(batch)
    except LocatedError as error:
        check_place(error, data)
        return
    assert bytes(batch) == data[: batch.size_in_bytes]
    assert batch.count is None or len(records) == batch.count


def check_records(data: bytes, codec: int = 0) -> None:
    """Read the bytes as the records of a batch, uncompressed or compressed."""
    count, flags, payload = data[:1], data[1:2], data[2:]
    attributes = (flags[0] & 0x78 if flags else 0) | codec
    batch = batch_around(
        compress(codec, payload), attributes, count[0] if count else 0, base_sequence=7
    )
    rows, error, _ = read(batch)
    if error is None:
        check_with_reference(batch, rows)
    else:
        assert rows == []


def check_messages(data: bytes, magic: int) -> None:
    """Read the bytes as the messages of a wrapper, compressed with each codec."""
    offset, inner = int.from_bytes(data[:1]), correct_checksums(data[1:])
    found = []
    for codec in (1, 2, 3):
        compressed = compress(codec, inner, magic=magic)
        wrapper = message_around(compressed, magic, codec, offset)
        rows, error, _ = read(wrapper)
        assert error is None or rows == []
        if error is None:
            check_with_reference(wrapper, rows)
        found.append([[row[i] for i in COMPARED] for row in rows])
    assert found[0] == found[1] == found[2]


def check_stream(data: bytes, codec: int) -> None:
    """Decompress the bytes, within a limit and with the same result each time."""
    limit, found = 1 << 16, []
    for magic in (0, 1, 2):
        try:
            found.append(b"".join(decompress(codec, data, limit=limit, magic=magic)))
        except LocatedError as error:
            check_place(error, data)
            found.append(None)
        assert found[-1] is None or len(found[-1]) <= limit
    if found[2] is not None:
        again = compress(codec, found[2])
        assert b"".join(decompress(codec, again, limit=limit)) == found[2]
        if codec == 1:
            check_gzip_with_zlib(data, found[2])
    check_kernel(data, codec, found[2], limit)
    read(batch_around(data, codec, 3))


def check_kernel(data: bytes, codec: int, found: bytes | None, limit: int) -> None:
    """Compare what the kernels decompress and bound with the codec's library."""
    rows = np.zeros(1, BATCH)
    rows["attributes"], rows["magic"] = codec, 2
    places = np.array([0]), np.array([len(data)])
    out, sizes = np.empty(limit, np.uint8), np.empty(1, np.int64)
    source = np.frombuffer(data, np.uint8)
    done, size = _speedups.decompress_streams(
        source, rows, *places, 0, limit, out, 0, sizes
    )
    assert not done or out[:size].tobytes() == found
    _speedups.bound_decompressed_sizes(source, rows, *places, limit, sizes)
    if sizes[0] > 0:
        decompressor, errors = bounded_decompressor(codec)
        with contextlib.suppress(*errors):
            assert decompressor(memoryview(data), int(sizes[0])) == found


def check_gzip_with_zlib(data: bytes, decompressed: bytes) -> None:
    """Compare the fast library for gzip with zlib.

    It accepts more: incomplete sets of codes, in streams with a valid checksum.
    """
    with patch.object(gzip_members, "_library", lambda: zlib):
        try:
            assert b"".join(gzip_members.decompress(data, 1 << 16)) == decompressed
        except CorruptRecordError as error:
            assert re.search(r"invalid [a-z/ ]+ set\b", str(error))


def check_metadata_snapshot(data: bytes) -> None:
    """Parse a metadata snapshot; what can be written must be parsed again alike."""
    for corrected in (data, correct_checksums(data)):
        parsed: Any = typed(MetadataSnapshot.parse, corrected)
        written: Any = None if parsed is None else typed(parsed.format)
        if written is not None:
            assert MetadataSnapshot.parse(written).format() == written

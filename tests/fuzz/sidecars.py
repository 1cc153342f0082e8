"""Targets: the three indexes, producer snapshots, and the small text files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kafkalog.errors import CorruptSnapshotError, KafkaLogError, LocatedError
from kafkalog.formats.checkpoint import (
    format_epochs,
    format_offsets,
    parse_epochs,
    parse_offsets,
)
from kafkalog.formats.partition_files import (
    PartitionMetadata,
    QuorumState,
    format_clean_shutdown,
    parse_clean_shutdown,
)
from kafkalog.formats.producer_snapshot import format_snapshot, parse_snapshot
from kafkalog.formats.properties import (
    MetaProperties,
    format_properties,
    parse_properties,
)
from kafkalog.indexes.index_table import IndexTable
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.messages.control_records import parse_control
from kafkalog.spark.offset_json import offsets_from_json, partitions_from_json
from tests.fuzz.checksums import correct_snapshot
from tests.fuzz.rows import check_place

WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)
OFFSETS = np.array([-1, 0, 1, 500, 2**31, 2**62])


def parsed(parse: Callable[[bytes], Any], data: bytes) -> Any:
    """Parse `data`; return None on an error that has a position in it."""
    try:
        return parse(data)
    except LocatedError as error:
        check_place(error, data)
        return None


def check_index(data: bytes, kind: type[IndexTable]) -> None:
    """Read an index; its valid entries ascend, and are written and read again."""
    base = data[0] << 24 if data else 0
    body = data[1:]

    def read(body: bytes) -> IndexTable:
        return kind.from_bytes(body, base)

    index = parsed(read, body)
    front = np.frombuffer(body, np.uint8)
    used = kind.count_valid(front[: len(front) // width(kind) * width(kind)], base)
    assert index is None or len(index) == used
    if index is None:
        index = read(body[: used * width(kind)])
    offsets = index.offsets
    assert (np.diff(offsets) >= 0).all()
    assert read(index.to_bytes()).to_bytes() == index.to_bytes()
    check_answers(index, offsets)


def width(kind: type[IndexTable]) -> int:
    """Return the bytes of an entry."""
    return kind.ENTRY.itemsize


def check_answers(index: Any, offsets: Any) -> None:
    """Compare the lookups of an index with a search by NumPy."""
    if isinstance(index, TransactionIndex):
        met = index.aborted(0, 2**62)
        assert len(met) <= len(index)
        assert index.covers(2**62) in (True, False)
    elif isinstance(index, OffsetIndex):
        slots = np.searchsorted(offsets, OFFSETS, "right") - 1
        positions = index.entries["position"].astype(np.int64)
        expected = np.where(slots < 0, 0, positions[slots] if len(index) else 0)
        np.testing.assert_array_equal(index.lookup(OFFSETS), expected)
    else:
        times = index.timestamps
        assert (np.diff(times) > 0).all()
        np.testing.assert_array_equal(
            index.slots(OFFSETS), np.searchsorted(times, OFFSETS, "right") - 1
        )


def check_producer_snapshot(data: bytes) -> None:
    """Parse a producer snapshot; it is written and parsed again."""
    for corrected in (data, correct_snapshot(data)):
        entries = parsed(parse_snapshot, corrected)
        if entries is not None:
            again = parse_snapshot(format_snapshot(entries))
            assert again.tobytes() == entries.tobytes()
            flipped = corrected[:-1] + bytes([corrected[-1] ^ 1])
            assert isinstance(caught(parse_snapshot, flipped), CorruptSnapshotError)


def caught(parse: Callable[[bytes], Any], data: bytes) -> Exception | None:
    """Return the typed error that parsing ends in."""
    try:
        parse(data)
    except KafkaLogError as error:
        return error
    return None


def check_offset_checkpoint(data: bytes) -> None:
    """Parse an offset checkpoint, and write it again."""
    offsets = parsed(parse_offsets, data)
    if offsets is not None:
        assert parse_offsets(format_offsets(offsets)) == offsets


def check_epoch_checkpoint(data: bytes) -> None:
    """Parse a leader epoch checkpoint, and write it again."""
    epochs = parsed(parse_epochs, data)
    if epochs is not None:
        assert parse_epochs(format_epochs(epochs)) == epochs


def check_partition_files(data: bytes) -> None:
    """Parse the bytes as each of the small files, and write it again."""
    for parse in (PartitionMetadata.parse, QuorumState.parse):
        found = parsed(parse, data)
        assert found is None or parse(found.format()) == found
    epoch = parse_clean_shutdown(data)
    assert parse_clean_shutdown(format_clean_shutdown(epoch)) == epoch


def check_properties(data: bytes) -> None:
    """Parse properties and ``meta.properties``, and write them again."""
    found = parsed(parse_properties, data)
    if found is not None:
        values = {key: one.value for key, one in found.items()}
        again = parse_properties(format_properties(values, WRITTEN))
        assert {key: one.value for key, one in again.items()} == values
    meta = parsed(MetaProperties.parse, data)
    if meta is not None:
        assert MetaProperties.parse(meta.format(WRITTEN)) == meta


def check_control(data: bytes) -> None:
    """Parse a control record: four bytes of key, the rest of value."""
    for key, value in ((data[:4], data[4:]), (data, None), (None, data)):
        try:
            record = parse_control(key, value)
        except LocatedError as error:
            assert error.position is None or 0 <= error.position <= len(data)
        else:
            assert (record.key, record.value) == (key, value)


def check_option_json(data: bytes) -> None:
    """Parse the text as Spark's options of offsets and of partitions."""
    text = data.decode("utf-8", "replace")
    for parse in (offsets_from_json, partitions_from_json):
        try:
            parse(text)
        except KafkaLogError as error:
            assert str(error)

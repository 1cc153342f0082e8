"""Transaction indexes and producer snapshots, as the tool prints them.

Source: ``DumpLogSegments.java``, ``TransactionIndex.java``,
``ProducerStateManager.java``.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from kafkalog.codecs.checksum import crc32c
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import KAFKA_EXCEPTION, NO_FILE, ToolEnded
from kafkalog.dump.streams import Streams
from kafkalog.formats import producer_snapshot
from kafkalog.storage.byte_source import read_regular

ABORTED: Final = np.dtype(
    [
        ("version", ">i1"),  # Kafka reads the first of its two bytes
        ("_", ">i1"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
_VERSION: Final = struct.Struct(">h")
_CRC_AND_COUNT: Final = struct.Struct(">Ii")
_CRC_FROM: Final = 6
_ENTRIES_FROM: Final = 10


def dump_transaction_index(file: DumpedFile, streams: Streams) -> None:
    """Print the aborted transactions of a ``.txnindex``; nothing if it is missing.

    Here and elsewhere anything but a regular file, such as a pipe, counts as missing.
    """
    file.base_offset()
    try:
        data = read_regular(file.path, links=True)
    except FileNotFoundError:
        return
    entries = np.frombuffer(data, ABORTED, len(data) // ABORTED.itemsize)
    for version in entries["version"][entries["version"] > 0][:1]:
        reason = (
            f"Unexpected aborted transaction version {version} in transaction index "
            f"{file.absolute}, current version is 0"
        )
        raise ToolEnded(KAFKA_EXCEPTION, reason)
    for version, _, producer_id, first, last, stable in entries.tolist():
        streams.print(
            f"version: {version} producerId: {producer_id} firstOffset: {first} "
            f"lastOffset: {last} lastStableOffset: {stable}",
            "abortedTransaction",
        )


def dump_snapshot(file: DumpedFile, streams: Streams) -> None:
    """Print a ``.snapshot``; the reason why it is corrupt goes to standard error."""
    try:
        data = read_regular(file.path, links=True)
    except FileNotFoundError:
        raise ToolEnded(NO_FILE, file.path) from None
    fault = snapshot_fault(data)
    if fault is not None:
        streams.write_error(f"{fault}\n")
        return
    _, count = _CRC_AND_COUNT.unpack_from(data, _VERSION.size)
    entries = np.frombuffer(data, producer_snapshot.ENTRY, count, _ENTRIES_FROM)
    sequences = producer_snapshot.first_sequence(entries).tolist()
    for entry, first_sequence in zip(entries, sequences, strict=True):
        streams.print(_snapshot_line(entry, first_sequence), "producer")


def snapshot_fault(data: bytes) -> str | None:
    """Return Kafka's message about a corrupt snapshot, None if it is valid.

    >>> snapshot_fault(bytes.fromhex("0002"))
    'Snapshot failed schema validation: Snapshot contained an unknown file version 2'
    """
    schema = "Snapshot failed schema validation: "
    if len(data) < _VERSION.size:
        return f"{schema}null"
    version = _VERSION.unpack_from(data)[0]
    if version != producer_snapshot.VERSION:
        return f"{schema}Snapshot contained an unknown file version {version}"
    if len(data) < _ENTRIES_FROM:
        return f"{schema}null"
    stored, count = _CRC_AND_COUNT.unpack_from(data, _VERSION.size)
    remaining = len(data) - _ENTRIES_FROM
    if count < 0:
        return f"{schema}non-nullable field producerEntries was serialized as null"
    if count > remaining:
        return (
            f"{schema}Tried to allocate a collection of size {count}, but there are "
            f"only {remaining} bytes remaining."
        )
    if count * producer_snapshot.ENTRY.itemsize > remaining:
        return f"{schema}null"
    computed = crc32c(data[_CRC_FROM:])
    if stored != computed:
        return (
            "Snapshot is corrupt (CRC is no longer valid). "
            f"Stored crc: {stored}. Computed crc: {computed}"
        )
    return None


def _snapshot_line(entry: Any, first_sequence: int) -> str:
    transaction = entry["current_txn_first_offset"]
    first = f"OptionalLong[{transaction}]" if transaction >= 0 else "OptionalLong.empty"
    line = (
        f"producerId: {entry['producer_id']} producerEpoch: {entry['producer_epoch']} "
        f"coordinatorEpoch: {entry['coordinator_epoch']} "
        f"currentTxnFirstOffset: {first} lastTimestamp: {entry['timestamp']}"
    )
    if entry["last_offset"] < 0:
        return line
    return (
        f"{line} firstSequence: {first_sequence} "
        f"lastSequence: {entry['last_sequence']} lastOffset: {entry['last_offset']} "
        f"offsetDelta: {entry['offset_delta']} timestamp: {entry['timestamp']}"
    )

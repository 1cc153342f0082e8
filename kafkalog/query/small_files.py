"""Descriptions of small files: indexes, snapshots, checkpoints, properties.

Each file is read whole by its parser. If the parser rejects it, `state` is the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from kafkalog.errors import LocatedError
from kafkalog.formats.checkpoint import parse_epochs, parse_offsets
from kafkalog.formats.partition_files import (
    PartitionMetadata,
    QuorumState,
    parse_clean_shutdown,
)
from kafkalog.formats.producer_snapshot import parse_snapshot
from kafkalog.formats.properties import MetaProperties
from kafkalog.indexes.index_table import read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    SegmentFile,
    parse_file_name,
)
from kafkalog.storage.location import Location, read_small

Facts = dict[str, Any]
AnyIndex = type[OffsetIndex] | type[TimeIndex] | type[TransactionIndex]

SOUND: Final = "sound"
PREALLOCATED: Final = "preallocated"
DAMAGED: Final = "damaged"

INDEX_TYPES: Final[Mapping[str, tuple[str, AnyIndex]]] = {
    "index": ("offset index", OffsetIndex),
    "timeindex": ("time index", TimeIndex),
    "txnindex": ("transaction index", TransactionIndex),
}


def _count_offsets(data: bytes) -> Facts:
    return {"entries": len(parse_offsets(data))}


def _list_epochs(data: bytes) -> Facts:
    entries = parse_epochs(data)
    return {
        "entries": len(entries),
        "leader_epochs": [list(entry) for entry in entries],
    }


def _broker_epoch(data: bytes) -> Facts:
    return {"broker_epoch": parse_clean_shutdown(data)}


PARSERS: Final[Mapping[str, tuple[str, Callable[[bytes], Facts]]]] = {
    LOG_STARTS: ("log start offsets", _count_offsets),
    RECOVERY_POINTS: ("recovery points", _count_offsets),
    HIGH_WATERMARKS: ("high watermarks", _count_offsets),
    CLEANED_TO: ("cleaner offsets", _count_offsets),
    LEADER_EPOCHS: ("leader epochs", _list_epochs),
    META_PROPERTIES: (
        "properties",
        lambda data: asdict(MetaProperties.parse(data)),
    ),
    PARTITION_METADATA: (
        "partition metadata",
        lambda data: asdict(PartitionMetadata.parse(data)),
    ),
    "quorum-state": ("quorum state", lambda data: asdict(QuorumState.parse(data))),
    CLEAN_SHUTDOWN: ("clean shutdown", _broker_epoch),
    LOCK: ("lock", lambda data: {}),
}
"""The kind and the parser of each file, by name."""


def describe_small_file(path: Location, *, links: bool = False) -> Facts | None:
    """Return the description of a small file of a log; None for any other file.

    The members are ``kind``, ``path``, ``size_in_bytes``, ``state``, then those of the
    kind. `state` is ``sound``, ``preallocated``, or ``damaged: `` with the error.

    Raises `FileNotFoundError` for anything but a file, and for a link unless `links`
    are followed.
    """
    name = parse_file_name(path.name)
    if name is not None and name.kind in INDEX_TYPES:
        kind = INDEX_TYPES[name.kind][0]
        return _facts(kind, path, lambda: _of_index(path, name, links=links))
    if name is not None and name.kind == "snapshot":
        base = {"offset": name.base_offset}
        return _facts(
            "producer snapshot",
            path,
            lambda: base | _of_snapshot(read_small(path, links=links)),
        )
    if path.name in PARSERS:
        kind, parse = PARSERS[path.name]
        return _facts(kind, path, lambda: parse(read_small(path, links=links)))
    return None


def _facts(kind: str, path: Location, read: Callable[[], Facts]) -> Facts:
    """Read a file, then its size: reading rejects what is not a regular file."""
    try:
        facts: Facts = {"state": SOUND, **read()}
    except LocatedError as error:
        facts = {"state": f"{DAMAGED}: {error}"}
    size = path.stat().st_size
    return {"kind": kind, "path": str(path), "size_in_bytes": size, **facts}


def _of_index(path: Location, name: SegmentFile, *, links: bool) -> Facts:
    """Return the number of entries of an index, and its first and last offset."""
    table = INDEX_TYPES[name.kind][1]
    data, size = read_slots(path, table.ENTRY.itemsize, links=links)
    used = table.count_valid(data, name.base_offset)
    damage = table.find_damage(data, used, size, name.base_offset)
    entries = data[: used * table.ENTRY.itemsize].data
    offsets = table.from_bytes(entries, name.base_offset).offsets
    facts: Facts = {
        "base_offset": name.base_offset,
        "entries": used,
        "first_offset": int(offsets[0]) if used else None,
        "last_offset": int(offsets[used - 1]) if used else None,
    }
    if damage is not None:
        facts["state"] = f"{DAMAGED}: {damage}"
    elif used * table.ENTRY.itemsize < size:
        facts["state"] = PREALLOCATED
    return facts


def _of_snapshot(data: bytes) -> Facts:
    entries = parse_snapshot(data)
    return {
        "producers": len(entries),
        "open_transactions": int((entries["current_txn_first_offset"] >= 0).sum()),
    }

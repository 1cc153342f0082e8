"""Reading of producer snapshots: the newest one up to an offset, and a log's start.

This is a separate module so that a scan imports nothing else about producers.

Source: ``ProducerStateManager.java``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kafkalog.errors import CorruptSnapshotError
from kafkalog.formats.producer_snapshot import ENTRY, parse_snapshot
from kafkalog.storage.file_names import file_name, parse_file_name
from kafkalog.storage.location import Location, read_small

Snapshot = tuple[npt.NDArray[np.void], int]
"""The entries of a snapshot, and its offset."""


def newest_snapshot(
    directory: Location, max_offset: int, first_offset: int
) -> Snapshot | None:
    """Return the newest valid snapshot up to an offset, or None.

    A snapshot below `first_offset`, the base offset of the first segment, is ignored,
    as when a broker loads the log: the batches after it are missing.
    """
    offsets = _offsets(directory)
    within = [offset for offset in offsets if first_offset <= offset <= max_offset]
    return next(_valid(directory, sorted(within, reverse=True)), None)


def snapshot_of_open(
    directory: Location, max_offset: int, first_offset: int
) -> Snapshot:
    """Return entries of the producers with an open transaction, and their offset.

    They are from the newest valid snapshot up to `max_offset`. Without one, they are
    those with a transaction open at `first_offset`. A broker deletes snapshots up to
    the log's start when it loads the log. A later snapshot then has the transactions
    that began before `first_offset` and are still open.
    """
    found = newest_snapshot(directory, max_offset, first_offset)
    if found is not None:
        entries, offset = found
        return entries[entries["current_txn_first_offset"] >= 0], offset
    later = sorted(offset for offset in _offsets(directory) if offset > first_offset)
    entries, _ = next(_valid(directory, later), (np.empty(0, ENTRY), first_offset))
    began = entries["current_txn_first_offset"]
    return entries[(began >= 0) & (began < first_offset)], first_offset


def _offsets(directory: Location) -> list[int]:
    """Return the offsets of the snapshots in a directory."""
    names = [parse_file_name(path.name) for path in directory.iterdir()]
    return [
        name.base_offset
        for name in names
        if name is not None and (name.kind, name.suffix) == ("snapshot", None)
    ]


def _valid(directory: Location, offsets: list[int]) -> Iterator[Snapshot]:
    """Yield the valid ones of the snapshots at `offsets`."""
    for offset in offsets:
        try:
            data = read_small(directory / file_name(offset, "snapshot"))
            yield parse_snapshot(data), offset
        except (CorruptSnapshotError, FileNotFoundError):
            continue

"""The newest producer snapshot at or below an offset, for readers.

A module of its own: each scan reads one, and needs nothing else about producers.

Knows: a partition's directory. Does not know: what producers do.
Source: ``ProducerStateManager.java``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkalog.errors import CorruptSnapshotError
from kafkalog.formats.producer_snapshot import ENTRY, parse_snapshot
from kafkalog.storage.file_names import file_name, parse_file_name
from kafkalog.storage.location import Location, read_small


def newest_snapshot(
    directory: Location, at_most: int
) -> tuple[npt.NDArray[np.void], int]:
    """Read the newest valid snapshot at or below an offset: its entries, its offset.

    Without one that is no entry, at offset 0.
    """
    names = [parse_file_name(path.name) for path in directory.iterdir()]
    offsets = [
        name.base_offset
        for name in names
        if name is not None and (name.kind, name.suffix) == ("snapshot", None)
    ]
    for offset in sorted(offsets, reverse=True):
        if offset > at_most:
            continue
        try:
            data = read_small(directory / file_name(offset, "snapshot"))
            return parse_snapshot(data), offset
        except (CorruptSnapshotError, FileNotFoundError):
            continue
    return np.empty(0, ENTRY), 0

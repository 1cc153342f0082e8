"""Reading of the newest producer snapshot at or below an offset.

This is a separate module so that a scan imports nothing else about producers.

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
    directory: Location, max_offset: int
) -> tuple[npt.NDArray[np.void], int]:
    """Return the entries and the offset of the newest valid snapshot.

    Snapshots above `max_offset` are ignored. Without one, there are no entries, and the
    offset is 0.
    """
    names = [parse_file_name(path.name) for path in directory.iterdir()]
    offsets = [
        name.base_offset
        for name in names
        if name is not None and (name.kind, name.suffix) == ("snapshot", None)
    ]
    for offset in sorted(offsets, reverse=True):
        if offset > max_offset:
            continue
        try:
            data = read_small(directory / file_name(offset, "snapshot"))
            return parse_snapshot(data), offset
        except (CorruptSnapshotError, FileNotFoundError):
            continue
    return np.empty(0, ENTRY), 0

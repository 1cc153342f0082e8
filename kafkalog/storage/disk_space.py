"""Free space of file systems, compared with what is to be written."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from kafkalog.errors import DiskSpaceError


def free_bytes(directory: Path) -> int:
    """Return the bytes that an unprivileged user can write to a file system."""
    return shutil.disk_usage(directory).free


def check_space(needs: Iterable[tuple[Path, int]]) -> None:
    """Raise `DiskSpaceError` unless directories have the bytes free that each needs.

    Those of one file system are added up.
    """
    by_device: dict[int, tuple[Path, int]] = {}
    for directory, needed in needs:
        device = directory.stat().st_dev
        first, others = by_device.get(device, (directory, 0))
        by_device[device] = first, others + needed
    for directory, needed in by_device.values():
        free = free_bytes(directory)
        if needed > free:
            raise DiskSpaceError(directory, needed, free)

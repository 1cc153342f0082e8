"""Producer snapshots in the directory of a partition.

The directory is listed once. After that the list has the changes of this log only: a
file that another process removes is still in it.

Source: ``ProducerStateManager.java``, ``SnapshotFile.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from kafkalog.errors import CorruptSnapshotError
from kafkalog.formats.producer_snapshot import format_snapshot, parse_snapshot
from kafkalog.log.producers.producer_entry import (
    NONE,
    ProducerStateEntry,
)
from kafkalog.log.producers.producer_state import entries_of, rows_of
from kafkalog.log.recovery.leftover_files import file_names
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import DELETED, file_name
from kafkalog.storage.leftover_names import offset_of

SNAPSHOT: Final = ".snapshot"


class SnapshotFiles:
    """The snapshots of `directory` by offset.

    A path is made only when it is requested: a log has a snapshot for each segment.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.directory = directory
        self.disk = disk

    @property
    def paths(self) -> dict[int, Path]:
        """Paths of the snapshots by offset."""
        return {offset: self.directory / name for offset, name in self._names.items()}

    @property
    def offsets(self) -> list[int]:
        """Offsets of the snapshots, ascending."""
        return list(self._offsets)

    def outside(self, start: int, end: int) -> list[int]:
        """Return the offsets of the snapshots at or below `start`, or above `end`."""
        kept = bisect_right(self._offsets, start)
        return (
            self._offsets[:kept]
            + self._offsets[max(kept, bisect_right(self._offsets, end)) :]
        )

    def reload(self) -> None:
        """List the directory again on the next access."""
        self.__dict__.pop("_names", None)
        self.__dict__.pop("_offsets", None)

    def set_listing(self, files: Mapping[str, Iterable[str]]) -> None:
        """Set the files of the directory, which are named by suffix.

        Raises `StrayFileError` for a snapshot without an offset in its name.
        """
        self.reload()
        self._names = _snapshots_of(files[SNAPSHOT])

    @cached_property
    def _offsets(self) -> list[int]:
        """Offsets of the snapshots, ascending."""
        return sorted(self._names)

    @cached_property
    def _names(self) -> dict[int, str]:
        """Names of the snapshots by offset; empty if the directory does not exist."""
        if not self.directory.is_dir():
            return {}
        return _snapshots_of(file_names(self.directory, SNAPSHOT))

    def latest(self) -> int | None:
        """Return the offset of the newest snapshot, None if there is none."""
        return self._offsets[-1] if self._offsets else None

    def read(self, offset: int) -> list[ProducerStateEntry]:
        """Return the producers of the snapshot at `offset`.

        Raises `CorruptSnapshotError`.
        """
        path = self.directory / self._names[offset]
        try:
            return parse_entries(read_regular(self.disk.content_path(path)))
        except CorruptSnapshotError as error:
            raise error.located(path) from None

    def write(
        self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool
    ) -> Path:
        """Write the snapshot at `offset`, over an existing one without truncating it.

        With `sync` its bytes are flushed to disk; the directory entry is not.
        """
        name = file_name(offset, "snapshot")
        path = self.directory / name
        self.disk.write_over(path, format_entries(entries), sync=sync)
        if offset not in self._names:
            insort(self._offsets, offset)
        self._names[offset] = name
        return path

    def remove(self, offset: int) -> None:
        """Remove the snapshot at `offset`, if there is one."""
        name = self._forget(offset)
        if name is not None:
            self.disk.remove_if_there(self.directory / name)

    def _forget(self, offset: int) -> str | None:
        """Drop the snapshot at `offset` from the listing; return its name, or None."""
        if offset not in self._names:
            return None
        del self._offsets[bisect_left(self._offsets, offset)]
        return self._names.pop(offset)

    def remove_strays(self, base_offsets: Collection[int]) -> None:
        """Remove snapshots of no segment, except for that of a clean shutdown.

        Of the snapshots at no base offset, the newest is kept, unless it is below the
        last base offset.
        """
        strays = sorted(self._names.keys() - set(base_offsets))
        newest = max(base_offsets, default=NONE)
        if strays and strays[-1] >= newest:
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def mark(self, offset: int) -> Path | None:
        """Rename the snapshot at `offset` to ``.deleted``, to be removed later.

        Returns the new path, None if there is no such snapshot.
        """
        name = self._forget(offset)
        if name is None:
            return None
        path, marked = self.directory / name, self.directory / (name + DELETED)
        try:
            self.disk.rename(path, marked)
        except FileNotFoundError:
            return None
        return marked


def _snapshots_of(names: Iterable[str]) -> dict[int, str]:
    return {offset_of(name): name for name in names}


def parse_entries(data: bytes) -> list[ProducerStateEntry]:
    """Return the producers in the bytes of a snapshot, each with its last batch."""
    return entries_of(parse_snapshot(data))


def format_entries(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the bytes of a snapshot of producers, each with its last batch.

    >>> parse_entries(format_entries([ProducerStateEntry(7, 3, 9, 1700000000000)]))[0]
    ProducerStateEntry(producer_id=7, producer_epoch=3, coordinator_epoch=9, \
last_timestamp=1700000000000, txn_first_offset=-1, batches=deque([], maxlen=5))
    """
    return format_snapshot(rows_of(entries))

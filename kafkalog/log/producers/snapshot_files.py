"""The producer snapshots in a partition's directory: which there are, what is in one.

The set is kept as the directory was when it was listed, and as this log has changed it
since: a file that vanishes behind its back is still in it, and is missed by nobody.

Knows: files of snapshots. Does not know: what producers may do, when one is due.
Source: ``ProducerStateManager.java``, ``SnapshotFile.java``.
"""

from __future__ import annotations

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
from kafkalog.log.recovery.leftover_files import file_names, offset_of
from kafkalog.storage.byte_source import read_plain
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import file_name

SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"


class SnapshotFiles:
    """The snapshots of `directory`, by offset; `paths` is what is there.

    Only those that are asked for become paths: a log has one for each segment.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.directory = directory
        self.disk = disk

    @property
    def paths(self) -> dict[int, Path]:
        """Offset -> where its snapshot is."""
        return {offset: self.directory / name for offset, name in self._names.items()}

    @property
    def offsets(self) -> list[int]:
        """The offsets there are snapshots of, rising."""
        return sorted(self._names)

    def reload(self) -> None:
        """List the directory again, when something is asked next."""
        self.__dict__.pop("_names", None)

    def note(self, files: Mapping[str, Iterable[str]]) -> None:
        """Take note of the files there are in the directory, by their endings.

        Raises `StrayFileError` for a snapshot whose name tells no offset.
        """
        self._names = _snapshots_of(files[SNAPSHOT])

    @cached_property
    def _names(self) -> dict[int, str]:
        """The snapshots there are: none in a directory that is not there."""
        if not self.directory.is_dir():
            return {}
        return _snapshots_of(file_names(self.directory, SNAPSHOT))

    def latest(self) -> int | None:
        """Offset of the newest snapshot, None without one."""
        return max(self._names, default=None)

    def read(self, offset: int) -> list[ProducerStateEntry]:
        """Read the snapshot at `offset`; raises `CorruptSnapshotError`."""
        path = self.directory / self._names[offset]
        try:
            return parse_entries(read_plain(path))
        except CorruptSnapshotError as error:
            raise error.located(path) from None

    def write(
        self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool
    ) -> Path:
        """Write the snapshot at `offset`, over one that may be there, without cutting.

        With `sync` its bytes are forced to disk; its name is not.
        """
        name = file_name(offset, "snapshot")
        path = self.directory / name
        self.disk.write_over(path, format_entries(entries), sync=sync)
        self._names[offset] = name
        return path

    def remove(self, offset: int) -> None:
        """Remove the snapshot at `offset` at once, if there is one."""
        name = self._names.pop(offset, None)
        if name is not None:
            self.disk.remove_if_there(self.directory / name)

    def remove_strays(self, base_offsets: Collection[int]) -> None:
        """Remove those that belong to no segment, but for one that a clean stop left.

        Of those at no base offset the newest is kept, unless it lies below the last.
        """
        strays = sorted(self._names.keys() - set(base_offsets))
        newest = max(base_offsets, default=NONE)
        if strays and strays[-1] >= newest:
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def mark(self, offset: int) -> Path | None:
        """Rename the snapshot at `offset` to ``.deleted``, for it to be removed later.

        Answers its path then; None if there was none.
        """
        name = self._names.pop(offset, None)
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
    """Read the producers of a snapshot, in its order, each with its last batch."""
    return entries_of(parse_snapshot(data))


def format_entries(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Write a snapshot of producers, in the order given; of each the last batch.

    >>> parse_entries(format_entries([ProducerStateEntry(7, 3, 9, 1700000000000)]))[0]
    ProducerStateEntry(producer_id=7, producer_epoch=3, coordinator_epoch=9, \
last_timestamp=1700000000000, txn_first_offset=-1, batches=deque([], maxlen=5))
    """
    return format_snapshot(rows_of(entries))

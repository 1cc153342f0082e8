"""The common part of the offset and the time index of an active segment.

    | entry | entry | ... | 0 0 0 ... or stale entries |
                          ^ next entry               ^ size_in_bytes

The file is created when the index is first used, at its full size, with a hole for the
unused slots. The number of entries is not stored: an existing file is taken to be full.
So closing truncates it after the last entry, and after a crash it must be rebuilt.

Entries are written immediately, and read from the file, which is mapped if it is large.
Opening an existing index reads its last entry only.

An open index has a descriptor and a mapping. A process keeps those of `MOST_OPEN`
indexes; the ones used longest ago are closed, and opened again when they are used.

Source: ``AbstractIndex.java``, ``LazyIndex.java``.
"""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock, RLock
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import numpy as np

from kafkalog import _speedups
from kafkalog.errors import (
    CorruptIndexError,
    IndexFullError,
    IndexOffsetOverflowError,
    LogArgumentError,
    LogClosedError,
)
from kafkalog.formats.layout import MAX_OFFSET_DELTA
from kafkalog.indexes.index_table import torn_error
from kafkalog.storage.durable_file import DISK, Disk, DurableFile, Write
from kafkalog.storage.forked_process import leave_after_fork

SMALL_BYTES: Final = 1 << 16
"""Smaller files are copied rather than mapped: a mapping keeps the file open."""

MOST_OPEN: Final = 128
"""Indexes of a process that are kept open, each with two descriptors at most."""

Table = TypeVar("Table")
Entry = TypeVar("Entry")


class _Closable(Protocol):
    def close_if_idle(self) -> None: ...


class _OpenIndexes:
    """The indexes with a descriptor, in the order in which they were opened."""

    def __init__(self) -> None:
        self._indexes: dict[_Closable, None] = {}
        self._lock = Lock()
        leave_after_fork(self)

    def add(self, index: _Closable) -> None:
        """Add an index; close the oldest above `MOST_OPEN`."""
        with self._lock:
            self._indexes.pop(index, None)
            self._indexes[index] = None
            above = max(0, len(self._indexes) - MOST_OPEN)
            oldest = list(islice(self._indexes, above))
        for each in oldest:
            each.close_if_idle()

    def remove(self, index: _Closable) -> None:
        """Remove an index that has no descriptor any more."""
        with self._lock:
            self._indexes.pop(index, None)

    def _leave_to_parent(self) -> None:
        """Forget the indexes of the parent process, which are not used here."""
        self._indexes = {}
        self._lock = Lock()


_open: Final = _OpenIndexes()


@contextmanager
def _held_if_free(*locks: Any) -> Iterator[bool]:
    """Acquire locks unless one of them is held; yield whether they were acquired."""
    with ExitStack() as held:
        # One expression: an interrupt between acquire and push would leave a lock held.
        yield all(lock.acquire(blocking=False) and held.push(lock) for lock in locks)


class GrowingIndex(ABC, Generic[Table, Entry]):
    """An index that is appended to, truncated, trimmed and renamed.

    Every method but `rename`, `move_to`, `remove` and `close` loads it first, which
    creates the file if it is missing. One writer and any number of readers may use an
    index at the same time, from several threads.
    """

    TABLE: ClassVar[Any]  # the read-only class, `Table`
    ENTRY_BYTES: ClassVar[int]
    OFFSET: ClassVar[tuple[int, int]]  # byte of the offset in an entry, and its width

    # Initial values; class attributes, as a log has thousands that are never loaded.
    _loaded = _closed = _forced = False
    _used = _size = 0  # bytes of the entries, and of the file
    _file: DurableFile | None = None
    _newest = b""  # the entries appended last, as on disk
    _view: bytes | mmap.mmap = b""
    _viewed = 0  # bytes of `_view` that are valid

    def __init__(
        self, path: Path, base_offset: int, max_bytes: int, disk: Disk = DISK
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes
        self._disk = disk
        self._lock = RLock()
        self.writing = Lock()  # held from `place` until the entries are written

    @property
    def is_loaded(self) -> bool:
        """Whether the file was opened or created."""
        return self._loaded

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        self.load()
        return self._count

    @property
    def _count(self) -> int:
        return self._used // self.ENTRY_BYTES

    @property
    def _last(self) -> bytes:
        return self._newest[-self.ENTRY_BYTES :]

    @property
    def max_entries(self) -> int:
        """Number of entries that fit in the file."""
        self.load()
        return self._size // self.ENTRY_BYTES

    @property
    def size_in_bytes(self) -> int:
        """Size of the file, of which `entry_count` * `ENTRY_BYTES` are used."""
        self.load()
        return self._size

    @property
    def entries_left(self) -> int:
        """Number of entries that still fit before the segment must roll."""
        self.load()
        return (self._size - self._used) // self.ENTRY_BYTES

    @property
    def end(self) -> tuple[int, bytes]:
        """The entries left, and those appended last, as the kernels take them."""
        return self.entries_left, self._newest

    @property
    def is_full(self) -> bool:
        """Whether the segment must roll before another entry is appended."""
        return self.entries_left <= 0

    @property
    def table(self) -> Table:
        """A read-only copy of the entries, for vectorized lookups."""
        with self._lock:
            self._ready()
            used = bytes(self._content()[: self._used])
        entries = np.frombuffer(used, self.TABLE.ENTRY)
        table: Table = self.TABLE(entries, self.base_offset)
        return table

    def entry(self, slot: int) -> Entry:
        """Return the entry of a slot; `LogArgumentError` if there is none."""
        with self._lock:
            self._require(slot)
            return self._at(slot)

    @abstractmethod
    def _at(self, slot: int) -> Entry:
        """Read the entry of a slot in use."""

    def holds_offset(self, offset: int) -> bool:
        """Return whether an offset can be stored relative to the base."""
        return 0 <= offset - self.base_offset <= MAX_OFFSET_DELTA

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of `offset` and above, as Kafka's search finds them.

        Their bytes stay in the file until it is trimmed or they are overwritten.
        """
        with self._lock:
            self._ready()
            slot = self._find(self.OFFSET, self.base_offset, offset)
            exact = slot >= 0 and self._offset_at(slot) == offset
            self._cut_to(slot if exact else slot + 1)

    @abstractmethod
    def check(self) -> None:
        """Raise `CorruptIndexError` for an invalid last entry or file size."""

    def extend(self, entries: bytes) -> None:
        """Append entries in their format on disk; they must ascend and fit."""
        self._disk.write_each([self.place(entries)])
        self.count_written(entries)

    def place(self, entries: bytes) -> Write:
        """Return the write that appends entries; the caller holds `writing` for it."""
        if self._file is None:
            self._ready()
        return self._file or self._handle(), entries, self._used

    def count_written(self, entries: bytes) -> None:
        """Count entries that were written as `place` returned.

        Readers take no lock, so entries are counted only after they were written.
        """
        self._newest = entries
        self._used += len(entries)
        self._forced = False

    def reset(self) -> None:
        """Remove all entries, and set the file to its full size."""
        with self._lock:
            self._ready()
            self._cut_to(0)
            self.resize(self.max_bytes)

    def resize(self, size: int) -> bool:
        """Set the file's size, rounded down to entries; return whether it changed.

        Raises `IndexFullError` if the entries do not fit, because the limit was lowered
        while the log was closed. The entries are then lost, as in Kafka.
        """
        with self._lock:
            self._ready()
            size = size // self.ENTRY_BYTES * self.ENTRY_BYTES
            if size == self._size:
                return False
            self._forget_view()
            self._handle().truncate(size)
            self._forced = False
            self._size = size
            if self._count > self.max_entries:
                reason = f"{self._count} entries, expected at most {self.max_entries}"
                raise IndexFullError(f"{reason}: {self.path}")
            return True

    def trim(self) -> None:
        """Truncate the file after its last entry, unless it is closed."""
        with self._lock:
            self.load()
            if not self._closed:
                self.resize(self._used)
                self._release()

    def flush(self) -> None:
        """Force the file to disk."""
        with self._lock:
            self._ready()
            if not self._forced:
                was_open = self._file is not None
                self._handle().sync()
                self._forced = True
                if not was_open:
                    self._release()

    def to_force(self) -> DurableFile | None:
        """Return a new handle of the file to sync; None if all is on disk."""
        with self._lock:
            self._ready()
            return None if self._forced else self._disk.open(self.path)

    def close(self) -> None:
        """Trim, sync and close the file, if it is loaded and not closed.

        The size is synced, as the number of entries follows from it.
        """
        with self._lock:
            if self._loaded and not self._closed:
                self.trim()
                self.flush()
                self.close_handle()

    def close_handle(self) -> None:
        """Close the file as it is, as a crash would."""
        with self._lock:
            self._closed = self._loaded
            self._forget_view()
            self._release()

    def remove(self) -> bool:
        """Remove the file; return whether there was one."""
        with self._lock:
            self.close_handle()
            return self._disk.remove_if_there(self.path)

    def rename(self, target: Path) -> None:
        """Rename the file; there may be none if the index was not loaded."""
        with self._lock:
            source, self.path = self.path, target
            try:
                self._disk.rename(source, target)
            except FileNotFoundError:
                if self._loaded or os.path.lexists(source):
                    raise
            if self._file is not None:
                self._file.path = target

    def move_to(self, directory: Path) -> None:
        """Update the path after the directory of the file was renamed."""
        with self._lock:
            self.path = directory / self.path.name
            if self._file is not None:
                self._file.path = self.path

    def load(self) -> None:
        """Open the file, or create it if it is missing, once."""
        if not self._loaded:
            with self._lock:
                if not self._loaded:
                    self._open()
                    self._loaded = True

    def _ready(self) -> None:
        """Load the index; raise `LogClosedError` if it is closed."""
        self.load()
        if self._closed:
            raise LogClosedError(f"the index is closed: {self.path}")

    def _open(self) -> None:
        """Open the file, all of which is taken as entries, or create an empty one."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            self._create()
            return
        with file:
            self._size = file.size()
            width = self.ENTRY_BYTES
            self._used = self._size // width * width
            if self._used:
                self._newest = file.read(self._used - width, width)

    def _create(self) -> None:
        slots = self.max_bytes // self.ENTRY_BYTES
        file = self._disk.open(self.path, exclusive=True)
        try:
            file.truncate(slots * self.ENTRY_BYTES)
        except OSError:
            file.close()
            raise
        if not slots:  # as in Kafka, the file is not removed
            file.close()
            raise IndexFullError(
                f"index of {self.max_bytes} bytes, expected at least "
                f"{self.ENTRY_BYTES}: {self.path}"
            )
        self._size = slots * self.ENTRY_BYTES
        self._keep(file)

    def _handle(self) -> DurableFile:
        return self._file or self._keep(self._disk.open(self.path))

    def _keep(self, file: DurableFile) -> DurableFile:
        self._file = file
        _open.add(self)
        return file

    def _release(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
        if not isinstance(self._view, mmap.mmap):
            _open.remove(self)

    def _cut_to(self, count: int) -> None:
        self._newest = bytes(self._entry(count - 1)) if count else b""
        if count < self._count:
            self._used = count * self.ENTRY_BYTES
            self._forget_view()

    def _content(self) -> bytes | mmap.mmap:
        """Return the bytes of the file, or only those of its entries."""
        used = self._used
        if self._viewed < used:
            # A file that is opened to read is closed again; a writer keeps it open.
            file = self._file or self._disk.open(self.path)
            if self._size > SMALL_BYTES:
                self._view, self._viewed = file.map(self._size), self._size
                _open.add(self)
            else:
                self._view, self._viewed = file.read(0, used), used
            if file is not self._file:
                file.close()
        return self._view

    def close_if_idle(self) -> None:
        """Close the file and its mapping, unless they are in use."""
        with _held_if_free(self.writing, self._lock) as is_idle:
            if is_idle:
                self._forget_view()
                self._release()

    def _forget_view(self) -> None:
        self._view, self._viewed = b"", 0
        if self._file is None:
            _open.remove(self)

    def _entry(self, slot: int) -> memoryview:
        at = slot * self.ENTRY_BYTES
        return memoryview(self._content())[at : at + self.ENTRY_BYTES]

    def _offset_at(self, slot: int) -> int:
        at, width = self.OFFSET
        relative = self._entry(slot)[at : at + width]
        return self.base_offset + int.from_bytes(relative, "big", signed=True)

    def _require(self, slot: int) -> None:
        self._ready()
        if not 0 <= slot < self._count:
            raise LogArgumentError(
                f"entry {slot}, expected 0 to {self._count - 1}: {self.path}"
            )

    def _too_far(self, offset: int) -> IndexOffsetOverflowError:
        most = self.base_offset + MAX_OFFSET_DELTA
        reason = f"offset {offset}, expected {self.base_offset} to {most}"
        return IndexOffsetOverflowError(f"{reason}: {self.path}")

    def _full(self) -> IndexFullError:
        return IndexFullError(f"index is full with {self._count} entries: {self.path}")

    def _find(
        self, field: tuple[int, int], base: int, target: int, *, above: bool = False
    ) -> int:
        """Search the field at ``(byte, width)`` as Kafka does; return a slot, or -1."""
        used = memoryview(self._content())[: self._used]
        return _speedups.find_slot(
            used, self.ENTRY_BYTES, (*field, base), target, above
        )

    def _torn(self) -> CorruptIndexError | None:
        torn = torn_error(self._size, self.ENTRY_BYTES)
        return None if torn is None else torn.located(self.path)

    def __repr__(self) -> str:
        count = f"{self._count} entries" if self._loaded else "not loaded"
        return f"{type(self).__name__}({count} from {self.base_offset})"

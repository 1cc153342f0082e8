"""What the offset and the time index share while a segment is written to.

    | entry | entry | ... | 0 0 0 ... or stale entries |
                          ^ next entry               ^ size_in_bytes

The file is made when the index is first needed, at its full size, which is a hole until
entries are written into it. How many there are is kept here alone: a file that is
opened is taken to be full of entries, so whoever was not sure of its end rebuilds it,
and one that is closed is first cut behind its last entry.

Entries are written at once and read where they are: in the file, mapped. What is not
asked for is not read: opening an existing index reads its last entry.

Knows: a file of slots, and its size. Does not know: what an entry means, the log.
Source: ``AbstractIndex.java``, ``LazyIndex.java``.
"""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from pathlib import Path
from threading import Lock, RLock
from typing import Any, ClassVar, Final, Generic, TypeVar

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
from kafkalog.indexes.open_indexes import forget_open, held_if_free, note_open
from kafkalog.storage.durable_file import DISK, Disk, DurableFile, Write

SMALL_BYTES: Final = 1 << 16
"""Up to here a copy is better than a mapping, which keeps the file open."""

Table = TypeVar("Table")
Entry = TypeVar("Entry")


class GrowingIndex(ABC, Generic[Table, Entry]):
    """An index that is appended to, cut back, trimmed, renamed; loaded when needed.

    `rename`, `move_to`, `remove` and `close` do not load it, all else does. Loading
    makes the file if it is missing. One writer and any number of readers may use it at
    once, from several threads.
    """

    TABLE: ClassVar[Any]  # the `Table` that its entries make
    ENTRY_BYTES: ClassVar[int]
    OFFSET: ClassVar[tuple[int, int]]  # where in an entry its offset is, and its width

    # What each begins with; set here, as a log has thousands that are never loaded.
    _loaded = _closed = _forced = False
    _used = _size = 0  # bytes that entries take, and of the file
    _file: DurableFile | None = None
    _newest = b""  # entries that were added last, as they are on disk
    _view: bytes | mmap.mmap = b""
    _viewed = 0  # bytes that `_view` is good for

    def __init__(
        self, path: Path, base_offset: int, max_bytes: int, disk: Disk = DISK
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes
        self._disk = disk
        self._lock = RLock()
        self.writing = Lock()  # held from `place` until what goes there is written

    @property
    def is_loaded(self) -> bool:
        """Whether the file has been looked at, and so is there."""
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
        """Number of entries that the file has room for as it is."""
        self.load()
        return self._size // self.ENTRY_BYTES

    @property
    def size_in_bytes(self) -> int:
        """Size of the file; `entry_count` * `ENTRY_BYTES` of it are used."""
        self.load()
        return self._size

    @property
    def entries_left(self) -> int:
        """Number of entries that still fit before the segment must roll."""
        self.load()
        return (self._size - self._used) // self.ENTRY_BYTES

    @property
    def is_full(self) -> bool:
        """Whether the segment must roll before another entry can be made."""
        return self.entries_left <= 0

    @property
    def table(self) -> Table:
        """The entries there are now, copied, to be asked many things at once."""
        with self._lock:
            self._ready()
            used = bytes(self._content()[: self._used])
        entries = np.frombuffer(used, self.TABLE.ENTRY)
        made: Table = self.TABLE(entries, self.base_offset)
        return made

    def entry(self, slot: int) -> Entry:
        """Return an entry; `LogArgumentError` if there are not so many."""
        with self._lock:
            self._require(slot)
            return self._at(slot)

    @abstractmethod
    def _at(self, slot: int) -> Entry:
        """Read an entry that is there."""

    def holds_offset(self, offset: int) -> bool:
        """Whether an offset can be stored relative to the base."""
        return 0 <= offset - self.base_offset <= MAX_OFFSET_DELTA

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and above, as Kafka's search for it finds them.

        Their bytes stay in the file until it is trimmed or written over.
        """
        with self._lock:
            self._ready()
            slot = self._find(self.OFFSET, self.base_offset, offset)
            exact = slot >= 0 and self._offset_at(slot) == offset
            self._cut_to(slot if exact else slot + 1)

    @abstractmethod
    def check(self) -> None:
        """Raise `CorruptIndexError` for what cannot be: the last entry, the size."""

    def extend(self, entries: bytes) -> None:
        """Add entries as on disk, which follow the last and have room: all or none."""
        self._disk.write_each([self.place(entries)])
        self.count_written(entries)

    def place(self, entries: bytes) -> Write:
        """Return where entries go; with a lock held until they are written there."""
        if self._file is None:
            self._ready()
        return self._file or self._handle(), entries, self._used

    def count_written(self, entries: bytes) -> None:
        """Take note of entries that were written where they go.

        Readers need not wait: what is counted is written.
        """
        self._newest = entries
        self._used += len(entries)
        self._forced = False

    def reset(self) -> None:
        """Drop all entries, and make the file as large as it may be."""
        with self._lock:
            self._ready()
            self._cut_to(0)
            self.resize(self.max_bytes)

    def resize(self, size: int) -> bool:
        """Give the file a size, rounded down to whole entries; whether it changed.

        Raises `IndexFullError` if there are more entries than that, which then are
        lost, as in Kafka: the limit was lowered while the log was closed.
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
                reason = f"{self._count} entries do not fit in {size} bytes"
                raise IndexFullError(f"{reason}: {self.path}")
            return True

    def trim(self) -> None:
        """Cut the file behind its last entry; nothing if it was closed."""
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
        """Open the file once more, to force it to disk; None if it is."""
        with self._lock:
            self._ready()
            return None if self._forced else self._disk.open(self.path)

    def close(self) -> None:
        """Trim, force and let go of the file; nothing if it is not loaded, or closed.

        The size is forced, as it tells how many entries there are.
        """
        with self._lock:
            if self._loaded and not self._closed:
                self.trim()
                self.flush()
                self.close_handle()

    def close_handle(self) -> None:
        """Let go of the file as it is, as a crash would."""
        with self._lock:
            self._closed = self._loaded
            self._forget_view()
            self._release()

    def remove(self) -> bool:
        """Remove the file; whether there was one."""
        with self._lock:
            self.close_handle()
            return self._disk.remove_if_there(self.path)

    def rename(self, target: Path) -> None:
        """Give the file another name; if it was not loaded, there may be none."""
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
        """Take note that the directory of the file was renamed."""
        with self._lock:
            self.path = directory / self.path.name
            if self._file is not None:
                self._file.path = self.path

    def load(self) -> None:
        """Look at the file, and make it if it is missing; once only."""
        if not self._loaded:
            with self._lock:
                if not self._loaded:
                    self._open()
                    self._loaded = True

    def _ready(self) -> None:
        """Load; a closed index is an error."""
        self.load()
        if self._closed:
            raise LogClosedError(f"the index is closed: {self.path}")

    def _open(self) -> None:
        """Open what is there, taken to be all entries, or make an empty file."""
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
        room = self.max_bytes // self.ENTRY_BYTES
        file = self._disk.open(self.path, exclusive=True)
        try:
            file.truncate(room * self.ENTRY_BYTES)
        except OSError:
            file.close()
            raise
        if not room:  # as in Kafka the file is there now, and stays
            file.close()
            raise IndexFullError(f"no slot in {self.max_bytes} bytes: {self.path}")
        self._size = room * self.ENTRY_BYTES
        self._keep(file)

    def _handle(self) -> DurableFile:
        return self._file or self._keep(self._disk.open(self.path))

    def _keep(self, file: DurableFile) -> DurableFile:
        self._file = file
        note_open(self)
        return file

    def _release(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
        if not isinstance(self._view, mmap.mmap):
            forget_open(self)

    def _cut_to(self, count: int) -> None:
        self._newest = bytes(self._entry(count - 1)) if count else b""
        if count < self._count:
            self._used = count * self.ENTRY_BYTES
            self._forget_view()

    def _content(self) -> bytes | mmap.mmap:
        """Return the bytes of the file, at least those of its entries."""
        used = self._used
        if self._viewed < used:
            # Not kept where it was not open: what is kept is the writer's.
            file = self._file or self._disk.open(self.path)
            if self._size > SMALL_BYTES:
                self._view, self._viewed = file.map(self._size), self._size
                note_open(self)
            else:
                self._view, self._viewed = file.read(0, used), used
            if file is not self._file:
                file.close()
        return self._view

    def close_if_idle(self) -> None:
        """Close the file and its mapping, unless they are in use."""
        with held_if_free(self.writing, self._lock) as is_idle:
            if is_idle:
                self._forget_view()
                self._release()

    def _forget_view(self) -> None:
        self._view, self._viewed = b"", 0
        if self._file is None:
            forget_open(self)

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
            raise LogArgumentError(f"no entry {slot} of {self._count}: {self.path}")

    def _relative(self, offset: int) -> int:
        if not self.holds_offset(offset):
            reason = f"offset {offset} is too far from the base {self.base_offset}"
            raise IndexOffsetOverflowError(f"{reason}: {self.path}")
        return offset - self.base_offset

    def _full(self) -> IndexFullError:
        return IndexFullError(f"full with {self._count} entries: {self.path}")

    def _find(
        self, field: tuple[int, int], base: int, target: int, *, above: bool = False
    ) -> int:
        """Search the field at ``(byte, width)`` as Kafka does: a slot, or -1."""
        used = memoryview(self._content())[: self._used]
        return _speedups.find_slot(used, self.ENTRY_BYTES, *field, base, target, above)

    def _torn(self) -> CorruptIndexError | None:
        torn = torn_error(self._size, self.ENTRY_BYTES)
        return None if torn is None else torn.located(self.path)

    def __repr__(self) -> str:
        count = f"{self._count} entries" if self._loaded else "not loaded"
        return f"{type(self).__name__}({count} from {self.base_offset})"

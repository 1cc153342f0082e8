"""The transaction index of an active segment; `txn_index` describes its layout.

There is no file until a transaction is aborted. Entries are appended at the physical
end of the file; after a partial entry they cannot be read until the index is rebuilt.

Source: ``TransactionIndex.java``, ``AbortedTxn.java``.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from threading import RLock
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import CorruptIndexError, LogArgumentError, UnsupportedIndexError
from kafkalog.indexes.index_table import Entries
from kafkalog.indexes.txn_index import ENTRY, AbortedTransaction, TransactionIndex
from kafkalog.storage.durable_file import DISK, Disk, DurableFile

_SLOT: Final = Struct(">hqqqq")
_WIDTH: Final = _SLOT.size


class GrowingTransactionIndex:
    """The transaction index of a segment that is appended to.

    The file is read when it is first needed, and not kept open, as aborts are rare.
    With `exists` False it is known that there is no file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     index = GrowingTransactionIndex(Path(directory, "1000.txnindex"), 1000)
    ...     index.append(AbortedTransaction(4242, 1000, 1005, 1006))
    ...     found, complete = index.collect_aborted(1003, 1006)
    ...     found[0].producer_id, complete, index.path.stat().st_size
    (4242, True, 34)
    """

    def __init__(
        self, path: Path, base_offset: int, disk: Disk = DISK, *, exists: bool = True
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._lock = RLock()
        # None until the file is read; 0 if there is none
        self._size: int | None = None if exists else 0
        self._forced = False
        self.is_named = True  # whether the name of the file is on disk
        self._last_offset: int | None = None
        self._table: TransactionIndex | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no complete entry."""
        return self._size_in_bytes() < _WIDTH

    @property
    def table(self) -> TransactionIndex:
        """The complete entries, for vectorized lookups."""
        with self._lock:
            if self._table is None:
                data = b""
                if size := self._size_in_bytes() // _WIDTH * _WIDTH:
                    with self._disk.open(self.path) as file:
                        data = file.read(0, size)
                entries = np.frombuffer(data, ENTRY)
                self._table = TransactionIndex(entries, self.base_offset)
            return self._table

    def append(self, transaction: AbortedTransaction) -> None:
        """Append an entry, and create the file; its name must then be synced.

        Raises `LogArgumentError` unless its marker is after that of the last entry
        appended here. Entries that were in the file at opening are not compared.
        """
        with self._lock:
            last = self._last_offset
            if last is not None and transaction.last_offset <= last:
                reason = f"last offset {transaction.last_offset}, expected above {last}"
                raise LogArgumentError(f"{reason}: {self.path}")
            size = self._size_in_bytes()
            with self._disk.open(self.path, create=True) as file:
                if not size:
                    self.is_named = False
                file.write(_SLOT.pack(0, *transaction), size)
            self._changed(size + _WIDTH, transaction.last_offset)

    def collect_aborted(
        self, start: int, end: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions in ``[start, end)``, and if these are all.

        If not, later segments may have more. Raises `UnsupportedIndexError` if an entry
        that is needed has a later version.
        """
        table = self.table
        deciding = self._first(
            table.entries, table.entries["last_stable_offset"] >= end
        )
        return _transactions(table.aborted(start, end)), deciding is not None

    def transactions(self) -> list[AbortedTransaction]:
        """Return all entries; raise `UnsupportedIndexError` for a later version."""
        entries = self.table.entries
        self._first(entries, np.zeros(len(entries), bool))
        return _transactions(entries)

    def check(self) -> None:
        """Raise `CorruptIndexError` for a last offset below the base offset.

        Raises `UnsupportedIndexError` for an entry of a later version before that.
        """
        if self.is_empty:
            return
        entries = self.table.entries
        slot = self._first(entries, entries["last_offset"] < self.base_offset)
        if slot is not None:
            last = int(entries["last_offset"][slot])
            reason = (
                f"last offset {last} of entry {slot}, expected at least "
                f"{self.base_offset}, the base offset"
            )
            error = CorruptIndexError(reason, position=slot * _WIDTH, cause="order")
            raise error.located(self.path)

    def truncate_to(self, offset: int) -> None:
        """Truncate the file before the first entry whose last offset is >= `offset`."""
        with self._lock:
            entries = self.table.entries
            slot = self._first(entries, entries["last_offset"] >= offset)
            if slot is not None:
                last = int(entries["last_offset"][slot - 1]) if slot else None
                self._cut(slot * _WIDTH, last)

    def reset(self) -> None:
        """Remove all entries; an existing file stays, empty."""
        with self._lock:
            if self._size_in_bytes():
                self._cut(0, None)
            self._last_offset = None

    def flush(self) -> None:
        """Force the file to disk, if there is one."""
        with self._lock:
            if not self._forced and os.path.lexists(self.path):
                self._disk.sync_path(self.path)
                self._forced = True

    def to_force(self) -> DurableFile | None:
        """Return a new handle of the file to sync; None if all is on disk."""
        with self._lock:
            if self._forced or not os.path.lexists(self.path):
                return None
            return self._disk.open(self.path)

    def close(self) -> None:
        """Discard what was read; the next call reads it again."""
        with self._lock:
            self._size = self._table = self._last_offset = None
            self._forced = False

    def remove(self) -> bool:
        """Remove the file; return whether there was one."""
        with self._lock:
            self.close()
            return self._disk.remove_if_there(self.path)

    def rename(self, target: Path) -> None:
        """Rename the file, if there is one."""
        with self._lock:
            source, self.path = self.path, target
            if os.path.lexists(source):
                self._disk.rename(source, target)

    def move_to(self, directory: Path) -> None:
        """Update the path after the directory of the file was renamed."""
        self.path = directory / self.path.name

    def _size_in_bytes(self) -> int:
        with self._lock:
            if self._size is None:
                try:
                    self._size = self.path.stat().st_size
                except FileNotFoundError:
                    self._size = 0
            return self._size

    def _cut(self, size: int, last_offset: int | None) -> None:
        with self._disk.open(self.path) as file:
            file.truncate(size)
        self._changed(size, last_offset)

    def _changed(self, size: int, last_offset: int | None) -> None:
        self._size, self._last_offset = size, last_offset
        self._forced, self._table = False, None

    def _first(self, entries: Entries, hits: npt.NDArray[np.bool_]) -> int | None:
        """Return the first slot of `hits`; raise for a later version up to there."""
        slots = np.flatnonzero(hits)
        first = int(slots[0]) if len(slots) else None
        passed = entries if first is None else entries[: first + 1]
        later = np.flatnonzero(passed["version"] >> 8 > 0)  # its first byte, signed
        if len(later):
            slot = int(later[0])
            version = int(passed["version"][slot]) >> 8
            reason = f"version {version} of entry {slot}, expected 0"
            error = UnsupportedIndexError(reason, position=slot * _WIDTH)
            raise error.located(self.path)
        return first


def _transactions(entries: Entries) -> list[AbortedTransaction]:
    return [AbortedTransaction(*entry[1:]) for entry in entries.tolist()]

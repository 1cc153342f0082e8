"""The files of an active segment: create, truncate, sync, rename, remove.

The ``.log`` is created at once, the indexes when they are first used. `growing_segment`
writes their content.

Source: ``LogSegment.java``, ``LazyIndex.java``, ``FileRecords.java``.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

from kafkalog.errors import OversizedSegmentError
from kafkalog.formats.layout import MAX_FILE_BYTES
from kafkalog.indexes.growing_offset_index import GrowingOffsetIndex
from kafkalog.indexes.growing_time_index import GrowingTimeIndex
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.durable_file import Disk, DurableFile
from kafkalog.storage.file_names import FileKind, file_name

Indexes: TypeAlias = tuple[
    GrowingOffsetIndex, GrowingTimeIndex, GrowingTransactionIndex
]


class SegmentSettings(NamedTuple):
    """The settings of a log that its segments use; sizes in bytes."""

    index_interval_bytes: int
    segment_index_bytes: int
    roll_jitter_ms: int = 0


def oversize(size: int) -> str | None:
    """Return why a broker does not open a ``.log`` of a size; None if it does.

    Source: ``FileRecords.java``.
    """
    if size <= MAX_FILE_BYTES:
        return None
    return f"{size} bytes, expected at most {MAX_FILE_BYTES}"


def checked_size(path: Path) -> int:
    """Return the size of a ``.log``, or raise `OversizedSegmentError`."""
    size = path.stat().st_size
    if (reason := oversize(size)) is not None:
        error = OversizedSegmentError(f"segment of {reason}", position=MAX_FILE_BYTES)
        raise error.located(path)
    return size


class SegmentFiles:
    """The files of one segment, open for writing.

    A log has thousands of segments, most of which are rarely used, so files are opened
    at their first use. The ``.log`` exists, or `create` creates it.
    """

    # Initial values; class attributes for the same reason. There is no
    # `cached_property`, which would make access to all attributes several times slower.
    _is_named = True  # whether the names of the files are on disk
    _is_forced = True  # whether all that was written is on disk
    _has_txn_index = True
    _was_released = False
    _size = -1  # until it is read
    _log_path: Path | None = None
    _file: DurableFile | None = None
    _indexes: Indexes | None = None

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        settings: SegmentSettings,
        disk: Disk,
        open_files: OpenFiles,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.settings = settings
        self._directory = directory
        self._suffix = suffix
        self._disk = disk
        self._open_files = open_files
        self._making = Lock()

    @property
    def size(self) -> int:
        """Bytes in use of the ``.log``: at opening all of them."""
        if self._size < 0:
            self._size = checked_size(self.path)
        return self._size

    @property
    def path(self) -> Path:
        """The current path of the ``.log``."""
        if self._log_path is None:
            self._log_path = self._path("log")
        return self._log_path

    @property
    def offset_index(self) -> GrowingOffsetIndex:
        """The ``.index``."""
        return self._all_indexes()[0]

    @property
    def time_index(self) -> GrowingTimeIndex:
        """The ``.timeindex``."""
        return self._all_indexes()[1]

    @property
    def txn_index(self) -> GrowingTransactionIndex:
        """The ``.txnindex``."""
        return self._all_indexes()[2]

    def _all_indexes(self) -> Indexes:
        """Return the indexes, the same objects in every thread."""
        if self._indexes is not None:
            return self._indexes
        base, disk, exists = self.base_offset, self._disk, self._has_txn_index
        most = self.settings.segment_index_bytes
        with self._making:
            if self._indexes is None:
                self._indexes = (
                    GrowingOffsetIndex(self._path("index"), base, most, disk),
                    GrowingTimeIndex(self._path("timeindex"), base, most, disk),
                    GrowingTransactionIndex(
                        self._path("txnindex"), base, disk, exists=exists
                    ),
                )
            return self._indexes

    def _path(self, kind: FileKind) -> Path:
        return self._directory / (file_name(self.base_offset, kind) + self._suffix)

    def content_path(self, kind: FileKind) -> Path:
        """Return the path at which the content of a file can be read."""
        return self._disk.content_path(self._path(kind))

    def create(self, file_bytes: int = 0) -> None:
        """Create the ``.log``, `file_bytes` long, none of them in use."""
        self._is_named = self._is_forced = False
        self._file = self._disk.open(self.path, create=True)
        self._open_files.use(self)
        if file_bytes:
            self._file.truncate(file_bytes)
        self._size = 0 if file_bytes else self._file.size()

    def has_no_txn_index(self) -> None:
        """Record that there is no ``.txnindex``, which saves a look-up of the file."""
        self._has_txn_index = False

    @property
    def file(self) -> DurableFile:
        """The ``.log``, opened."""
        if self._file is None:
            self._file = self._disk.open(self.path)
        self._open_files.use(self)
        return self._file

    def release(self) -> None:
        """Close the ``.log`` until it is used again.

        It is synced first: the error of a later sync would not be reported to a new
        handle.
        """
        if self._file is not None:
            if not self._is_forced:
                self._file.sync()
            self._file.close()
            self._file = None
            self._is_forced = self._was_released = True

    def close_forced(self) -> None:
        """Close the ``.log``, which is synced already, until it is used again."""
        if self._file is not None and self._file.is_open:
            self._is_forced = True
            self._open_files.forget(self)
            self.release()

    def share_open_files(self, open_files: OpenFiles) -> None:
        """Close the ``.log``, which is synced, and share the log's open files."""
        self.close_forced()
        self._open_files = open_files

    def finish_log(self) -> None:
        """Truncate the ``.log`` to its bytes in use, sync and close it, if open."""
        released = self._file is None and self._was_released
        if released:
            to_cut = self.path.stat().st_size > self.size
        else:
            to_cut = self._file is not None and self._file.is_open
        if to_cut:
            self.cut(self.size)
            self.file.sync()
        self._close_log()

    @property
    def modified_ms(self) -> int:
        """Modification time of the ``.log``, in ms since 1970."""
        return self.path.stat().st_mtime_ns // 1_000_000

    def set_modified(self, time_ms: int) -> None:
        """Set the modification time of ``.log``, ``.index`` and ``.timeindex``."""
        for path in (self.path, self.offset_index.path, self.time_index.path):
            self._disk.set_modified(path, time_ms)

    @property
    def has_indexes(self) -> bool:
        """Whether the files of both indexes were opened or created."""
        offsets, times, _ = self._all_indexes()
        return offsets.is_loaded and times.is_loaded

    def make_indexes(self) -> None:
        """Create the files of the indexes, if they are missing."""
        self.time_index.load()
        self.offset_index.load()

    def resize_indexes(self) -> None:
        """Set the indexes to the size of an active segment's."""
        self.offset_index.resize(self.settings.segment_index_bytes)
        self.time_index.resize(self.settings.segment_index_bytes)

    def cut(self, size: int) -> int:
        """Truncate the ``.log`` to `size` if it is longer; return the bytes removed."""
        lost = self.size - size
        if size < self.file.size():
            self.file.truncate(size)
            self._size = size
        return lost

    def cut_for_good(self, size: int) -> int:
        """Truncate as `cut` does, and sync.

        Otherwise the removed bytes could follow the next append after a power cut, and
        be taken for batches.
        """
        lost = self.cut(size)
        if lost:
            self.file.sync()
        return lost

    def flush(self) -> None:
        """Force the ``.log`` to disk, then the indexes."""
        self.file.sync()
        self._is_forced = True
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def to_force(self) -> list[DurableFile]:
        """Return new handles of the files that `flush` would sync, in its order.

        They stay valid whatever happens to the segment, so that it can be used
        meanwhile. Linux reports a lost write once to each open file description, which
        copies of a handle would share; so both these and the segment's report it.
        """
        indexes = self._all_indexes()
        with ExitStack() as opened:
            files = [opened.enter_context(self._disk.open(self.path))]
            files += [
                opened.enter_context(file)
                for index in indexes
                if (file := index.to_force()) is not None
            ]
            opened.pop_all()
        return files

    def is_marked(self, suffix: str) -> bool:
        """Return whether the files have a suffix."""
        return self.path.name.endswith(suffix)

    def rename(self, old_suffix: str, new_suffix: str) -> None:
        """Change the suffix of all files that exist."""

        def renamed(path: Path) -> Path:
            return path.with_name(path.name.removesuffix(old_suffix) + new_suffix)

        indexes = self._all_indexes()
        target = renamed(self.path)
        if self._file is None:
            self._disk.rename(self.path, target)
        else:
            self._file.rename(target)
        self._log_path = target
        for index in indexes:
            index.rename(renamed(index.path))

    def move_to(self, directory: Path) -> None:
        """Update the paths after the directory of the files was renamed."""
        self._directory = directory
        if self._log_path is not None:
            self._log_path = directory / self._log_path.name
        if self._file is not None:
            self._file.path = self.path
        for index in self._indexes or ():
            index.move_to(directory)

    def _force_names(self) -> None:
        """Sync the names of the files before the first write to them.

        Otherwise a power cut could leave a ``.log`` without its index. Such a segment
        is recovered by itself, and truncating it would leave a gap in the log. An index
        too small for one entry is an error only when it is used.
        """
        self.offset_index.load()
        if self.settings.segment_index_bytes >= GrowingTimeIndex.ENTRY_BYTES:
            self.time_index.load()
        self._disk.sync_directory(self.path.parent)
        self._is_named = True

    def close_handles(self) -> None:
        """Close the files as they are, without truncating or syncing."""
        if self._indexes is not None:
            offsets, times, aborted = self._indexes
            offsets.close_handle()
            times.close_handle()
            aborted.close()
        self._close_log()

    def _close_log(self) -> None:
        self._open_files.forget(self)
        if self._file is not None:
            self._file.close()

    def delete(self) -> None:
        """Remove all files that exist."""
        self._close_log()
        self._disk.remove_if_there(self.path)
        self.offset_index.remove()
        self.time_index.remove()
        self.txn_index.remove()

"""Ownership of a log directory for writing: its lock, marker and checkpoints.

A broker and kafkalog exclude each other by a POSIX record lock on ``.lock``, as Java
takes it. Such a lock belongs to the process, and is released when *any* descriptor of
the file is closed in it. So the file is opened once for all open logs of a directory.
A forked process does not inherit the lock: it owns no directory, and writes and removes
no file of its parent's.

The clean shutdown marker, ``.kafka_cleanshutdown``, is removed by `begin`, once the
checks for the first log are done. It is written again when the last log is closed, if
none of them failed, and if it existed before or the directory was created here. Before
`begin` nothing is changed, so a directory that is released before it is unchanged. In
the checkpoints only the lines of logs opened here are changed.

Source: ``FileLock.java``, ``CleanShutdownFileHandler.java``, ``LogManager.scala``.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from kafkalog.errors import LogClosedError, LogLockedError
from kafkalog.formats.partition_files import format_clean_shutdown
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    read_offsets,
    read_offsets_or_none,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK, Disk, DurableFile
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, LOCK
from kafkalog.storage.forked_process import FORK_LOCK, leave_after_fork

Name = tuple[str, int]
"""Topic and partition."""

ALL_LOGS: Final = None
"""Given in place of a log's name by a caller that opens every log of a directory."""

_owned: Final[dict[Path, OwnedDirectory]] = {}


class OwnedDirectory:
    """A log directory that this process has locked, and the logs open in it.

    `clean` is whether the last writer closed it in order, or it is new. `is_inherited`
    is whether the parent of this forked process owns it.
    """

    clean = False

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.is_inherited = False
        self._disk = disk
        self._open: set[Name | None] = set()
        self._in_order = True
        self._unclean: set[Name | None] = set()
        self._changed = Lock()
        self._truncations = 0
        self._has_begun = False
        self._lock_was_there = False
        self._lock: DurableFile | None = None
        self._marker: bytes | None = None
        leave_after_fork(self)

    def lock(self) -> None:
        """Lock the directory; create it if it is missing."""
        is_new = not self.path.exists()
        if is_new:
            self._disk.make_directory(self.path)
            self._disk.sync_directory(self.path.parent)
        self._lock_was_there = (self.path / LOCK).exists()
        self._lock = _lock(self.path / LOCK, self._disk)
        with suppress(FileNotFoundError):
            self._marker = read_regular(self.path / CLEAN_SHUTDOWN)
        if is_new:
            self._marker, self._has_begun = format_clean_shutdown(), True
        self.clean = self._marker is not None

    def begin(self) -> None:
        """Remove the clean shutdown marker, before anything else is changed."""
        with self._changed:
            had_begun, self._has_begun = self._has_begun, True
            if not had_begun and self._marker is not None:
                self._disk.remove(self.path / CLEAN_SHUTDOWN)
                self._disk.sync_directory(self.path)

    def _unlock(self) -> None:
        """Release the lock, and remove its file.

        The file is kept if it existed before and nothing was changed. A second call
        does nothing, as the file may be another owner's by then.
        """
        if self._lock is not None:
            try:
                if self._has_begun or not self._lock_was_there:
                    self._disk.remove_if_there(self.path / LOCK)
            finally:
                self._lock.close()
                self._lock = None

    def _leave_to_parent(self) -> None:
        """Give up the directory in a process that was forked from its owner.

        The descriptor is closed before this process can take the lock itself: closing
        it later would release that.
        """
        self.is_inherited = True
        self._changed = Lock()
        if self._lock is not None:
            self._lock.close()
        _owned.pop(self.path, None)

    def _check_not_inherited(self) -> None:
        if self.is_inherited:
            reason = "it is open in the process that this one was forked from"
            raise LogClosedError(f"{reason}: {self.path}")

    def is_clean(self, name: Name) -> bool:
        """Return whether a log was closed in order, each time it was open."""
        return self.clean and name not in self._unclean

    def recovery_point(self, name: Name) -> int:
        """Return the checkpointed recovery point of a log, 0 without one."""
        return read_offsets_or_none(self.path, RECOVERY_POINTS).get(name, 0)

    def log_start_offset(self, name: Name) -> int | None:
        """Return the checkpointed log start offset of a log, or None."""
        return read_offsets_or_none(self.path, LOG_STARTS).get(name)

    def high_watermark(self, name: Name) -> int | None:
        """Return the checkpointed high watermark of a log, or None."""
        return read_offsets_or_none(self.path, HIGH_WATERMARKS).get(name)

    def checkpoint(
        self,
        name: Name,
        *,
        recovery_point: int,
        high_watermark: int,
        log_start_offset: int | None,
    ) -> None:
        """Write the offsets of one log to the checkpoints; keep those of the others.

        `log_start_offset` is None if it is that of the first segment.
        """
        self._check_not_inherited()
        with self._changed:
            self._write_line(RECOVERY_POINTS, name, recovery_point)
            self._write_line(HIGH_WATERMARKS, name, high_watermark)
            self._write_line(LOG_STARTS, name, log_start_offset)

    def lower_recovery_point(self, name: Name, offset: int) -> None:
        """Lower the checkpointed recovery point of a log to `offset`.

        This is done before the log is truncated: records appended there later are not
        forced to disk yet.
        """
        self._check_not_inherited()
        with self._changed:
            self._truncations += 1
            if self.recovery_point(name) > offset:
                self._write_line(RECOVERY_POINTS, name, offset)

    def set_log_start(self, name: Name, offset: int) -> None:
        """Set the checkpointed log start offset of a log to `offset`.

        This is done before records are appended there: records below the log start
        offset cannot be read.
        """
        self._check_not_inherited()
        with self._changed:
            self._truncations += 1
            if self.log_start_offset(name) != offset:
                self._write_line(LOG_STARTS, name, offset)

    def forget(self, name: Name) -> None:
        """Remove a deleted log from all checkpoints.

        A new log of the same name does not begin at the old one's offsets.
        """
        self._check_not_inherited()
        self._unclean.discard(name)
        with self._changed:
            for checkpoint in (
                RECOVERY_POINTS,
                HIGH_WATERMARKS,
                LOG_STARTS,
                CLEANED_TO,
            ):
                if name in read_offsets_or_none(self.path, checkpoint):
                    self._write_line(checkpoint, name, None)

    def write(self, checkpoint: str, read_offsets: Callable[[], Offsets]) -> None:
        """Write a checkpoint with the offsets of all logs that `read_offsets` returns.

        They are read again if a log was truncated meanwhile.
        """
        self._check_not_inherited()
        while True:
            truncations = self._truncations
            offsets = read_offsets()
            with self._changed:
                if truncations == self._truncations:
                    write_offsets(self.path, checkpoint, offsets, self._disk)
                    return

    def update(self, checkpoint: str, change: Callable[[Offsets], None]) -> None:
        """Read a checkpoint, let `change` modify its offsets, and write it.

        Raises `CorruptCheckpointError`; the file is then not written.
        """
        self._check_not_inherited()
        with self._changed:
            offsets = read_offsets(self.path, checkpoint)
            change(offsets)
            write_offsets(self.path, checkpoint, offsets, self._disk)

    def _write_line(self, checkpoint: str, name: Name, offset: int | None) -> None:
        offsets = read_offsets_or_none(self.path, checkpoint)
        if offset is None:
            offsets.pop(name, None)
        else:
            offsets[name] = offset
        write_offsets(self.path, checkpoint, offsets, self._disk)

    def release(
        self, name: Name | None, *, in_order: bool, marker: bytes | None = None
    ) -> None:
        """Release one log, and with the last one the directory.

        A second call does nothing; after an interrupt it can be called again. In a
        forked process nothing is owned, and nothing is released.

        `in_order` is whether all of the log is on disk and its offsets checkpointed, or
        nothing of it was changed. `marker` is written if there was none before; the
        caller had all logs of the directory open.
        """
        if self.is_inherited:
            return
        with FORK_LOCK:
            # If a directory is owned as a whole, `_open` does not list its logs.
            if name not in self._open and ALL_LOGS not in self._open:
                return
            self._in_order &= in_order
            if not in_order:
                self._unclean.add(name)
            if self._marker is None:
                self._marker = marker
            if self._open == {name}:
                try:
                    if self._has_begun and self._in_order and self._marker is not None:
                        self._write_marker(self._marker)
                finally:
                    try:
                        self._unlock()
                    finally:
                        _owned.pop(self.path, None)
                        self._open.discard(name)
            self._open.discard(name)

    def _write_marker(self, content: bytes) -> None:
        with self._disk.open(self.path / CLEAN_SHUTDOWN, create=True) as file:
            file.write(content, 0)
            file.sync()
        self._disk.sync_directory(self.path)

    def _check_not_open(self, name: Name | None) -> None:
        if ALL_LOGS in self._open or (name is ALL_LOGS and self._open):
            raise LogLockedError(f"its logs are open for writing already: {self.path}")
        if name is not ALL_LOGS and name in self._open:
            raise LogLockedError(
                f"{name[0]}-{name[1]} is open for writing already: {self.path}"
            )


def is_owned(path: Path) -> bool:
    """Return whether this process has locked a log directory."""
    return path.resolve() in _owned


def own_directory(path: Path, name: Name | None, disk: Disk = DISK) -> OwnedDirectory:
    """Lock a log directory to write to one of its logs; return its owner.

    The owner is shared within the process, unless `name` is `ALL_LOGS`. A missing
    directory is created, but not its parent. Raises `LogLockedError` if another process
    has it locked, or this process has the log open.
    """
    path = path.resolve()
    with FORK_LOCK:
        owned = _owned.get(path)
        if owned is not None:
            owned._check_not_open(name)
            owned._open.add(name)
            return owned
        owned = OwnedDirectory(path, disk)
        try:
            owned.lock()
            owned._open.add(name)
            _owned[path] = owned
        except BaseException:
            owned._unlock()
            raise
        return owned


def _lock(path: Path, disk: Disk) -> DurableFile:
    """Lock a file, which is created if it is missing."""
    while True:
        file = None
        try:
            file = disk.open(path, create=True)
            fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, file):
                return file
            file.close()
        except BaseException as error:
            if file is not None:
                file.close()
            if isinstance(error, BlockingIOError):
                reason = "the log directory is locked by a broker or another process"
                raise LogLockedError(f"{reason}: {path}") from None
            raise


def _is_still(path: Path, file: DurableFile) -> bool:
    """Return whether the path still names the open file: its owner removes it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.descriptor))
    except FileNotFoundError:
        return False

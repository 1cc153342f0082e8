"""A log directory while it is written to: its lock, its marker, its checkpoints.

A broker and kafkalog exclude each other by a POSIX record lock on ``.lock``, which is
Java's. Such a lock belongs to the process, and goes when *any* descriptor of the file
is closed in it; so the file is opened once, for all logs that are open in a directory.
A process that is forked does not get it: there nothing is owned, what the parent has is
refused, and nothing is written or removed that is the parent's.

The marker of a clean stop, ``.kafka_cleanshutdown``, is removed by `begin`, once
nothing can refuse the first log any more, and put back with the last one closed, if
none of them failed and it had been there, or the directory was made here. Before
`begin` nothing is changed: a directory that is released then is as it was. Of the
checkpoints only the lines of logs opened here are changed.

Knows: a log directory. Does not know: what is in a log.
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
    read_offsets_or_none,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK, Disk, DurableFile
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, LOCK

Name = tuple[str, int]
"""Topic and partition."""

WHOLE: Final = None
"""In place of a name: all logs of a directory."""

_owned: Final[dict[Path, OwnedDirectory]] = {}
_registry_lock: Final = Lock()


class OwnedDirectory:
    """A log directory that this process has locked, and the logs open in it.

    `clean` says that whoever wrote to it last stopped in order, or that it is new:
    made with the lock. `is_inherited` says that this process was forked from the one
    that has it.
    """

    clean = False

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.is_inherited = False
        self._disk = disk
        self._open: set[Name | None] = set()
        self._in_order = True
        self._left_undone: set[Name | None] = set()
        self._changed = Lock()
        self._truncations = 0
        self._has_begun = False
        self._lock_was_there = False
        self._lock: DurableFile | None = None
        self._marker: bytes | None = None

    def lock(self) -> None:
        """Lock the directory, and make it if it is missing."""
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
        """Remove the marker of a clean stop, before anything else is changed."""
        with self._changed:
            had_begun, self._has_begun = self._has_begun, True
            if not had_begun and self._marker is not None:
                self._disk.remove(self.path / CLEAN_SHUTDOWN)
                self._disk.sync_directory(self.path)

    def _unlock(self) -> None:
        """Release the lock; its file goes, but where it was and nothing is changed.

        Twice is once: the file may be another's by then.
        """
        if self._lock is not None:
            try:
                if self._has_begun or not self._lock_was_there:
                    self._disk.remove_if_there(self.path / LOCK)
            finally:
                self._lock.close()
                self._lock = None

    def leave_to_parent(self) -> None:
        """Take note that this is a process forked from the one that has the lock.

        The descriptor is closed before this process has a lock of its own to lose.
        """
        self.is_inherited = True
        self._changed = Lock()
        if self._lock is not None:
            self._lock.close()

    def _refuse_in_child(self) -> None:
        if self.is_inherited:
            reason = "it is open in the process that this one was forked from"
            raise LogClosedError(f"{reason}: {self.path}")

    def is_clean(self, name: Name) -> bool:
        """Whether a log was closed in order: before, and each time since."""
        return self.clean and name not in self._left_undone

    def recovery_point(self, name: Name) -> int:
        """Offset below which a log was forced to disk, as checkpointed."""
        return read_offsets_or_none(self.path, RECOVERY_POINTS).get(name, 0)

    def log_start_offset(self, name: Name) -> int:
        """First offset of a log that may be read, as checkpointed."""
        return read_offsets_or_none(self.path, LOG_STARTS).get(name, 0)

    def high_watermark(self, name: Name) -> int:
        """First offset of a log not known to be replicated, as checkpointed."""
        return read_offsets_or_none(self.path, HIGH_WATERMARKS).get(name, 0)

    def checkpoint(
        self,
        name: Name,
        *,
        recovery_point: int,
        high_watermark: int,
        log_start_offset: int | None,
    ) -> None:
        """Write the lines of one log; those of the others stay.

        `log_start_offset` is None where the first segment tells it.
        """
        self._refuse_in_child()
        with self._changed:
            self._write_line(RECOVERY_POINTS, name, recovery_point)
            self._write_line(HIGH_WATERMARKS, name, high_watermark)
            self._write_line(LOG_STARTS, name, log_start_offset)

    def lower_recovery_point(self, name: Name, offset: int) -> None:
        """Write that from `offset` on nothing is forced to disk, if more was written.

        Before a log is cut there: what is written then is other than what was forced.
        """
        self._refuse_in_child()
        with self._changed:
            self._truncations += 1
            if self.recovery_point(name) > offset:
                self._write_line(RECOVERY_POINTS, name, offset)

    def set_log_start(self, name: Name, offset: int) -> None:
        """Write that a log begins at `offset`, if another start was written.

        Before it is appended to there: what begins before its start is not read.
        """
        self._refuse_in_child()
        with self._changed:
            self._truncations += 1
            if self.log_start_offset(name) != offset:
                self._write_line(LOG_STARTS, name, offset)

    def forget(self, name: Name) -> None:
        """Take a log that is not there any more out of all checkpoints.

        What is made in its place does not begin where that one did.
        """
        self._refuse_in_child()
        self._left_undone.discard(name)
        with self._changed:
            for checkpoint in (
                RECOVERY_POINTS,
                HIGH_WATERMARKS,
                LOG_STARTS,
                CLEANED_TO,
            ):
                if name in read_offsets_or_none(self.path, checkpoint):
                    self._write_line(checkpoint, name, None)

    def write(self, checkpoint: str, offsets_now: Callable[[], Offsets]) -> None:
        """Make what `offsets_now` tells of all logs the whole of a checkpoint.

        It is asked once more if a log was truncated meanwhile.
        """
        self._refuse_in_child()
        while True:
            truncations = self._truncations
            offsets = offsets_now()
            with self._changed:
                if truncations == self._truncations:
                    write_offsets(self.path, checkpoint, offsets, self._disk)
                    return

    def update(self, checkpoint: str, change: Callable[[Offsets], None]) -> None:
        """Read a checkpoint, let `change` modify its offsets, and write it."""
        self._refuse_in_child()
        with self._changed:
            offsets = read_offsets_or_none(self.path, checkpoint)
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
        """Let go of one log, and with the last one of the directory; twice is once.

        Where it is interrupted, it may be called again.

        `in_order` says that all of it is on disk, and its lines are written, or that
        nothing of it was changed. `marker` is put where there was none: by whoever had
        all logs of the directory. In a forked process nothing is let go of, as nothing
        is owned.
        """
        if self.is_inherited:
            return
        with _registry_lock:
            # Of a directory that is owned as a whole no log is in `_open` by its name.
            if name not in self._open and WHOLE not in self._open:
                return
            self._in_order &= in_order
            if not in_order:
                self._left_undone.add(name)
            if self._marker is None:
                self._marker = marker
            if self._open == {name}:
                try:
                    if self._has_begun and self._in_order and self._marker is not None:
                        self._put_marker_back(self._marker)
                finally:
                    try:
                        self._unlock()
                    finally:
                        _owned.pop(self.path, None)
                        self._open.discard(name)
            self._open.discard(name)

    def _put_marker_back(self, content: bytes) -> None:
        with self._disk.open(self.path / CLEAN_SHUTDOWN, create=True) as file:
            file.write(content, 0)
            file.sync()
        self._disk.sync_directory(self.path)

    def _refuse_twice(self, name: Name | None) -> None:
        if WHOLE in self._open or (name is WHOLE and self._open):
            raise LogLockedError(f"its logs are open for writing already: {self.path}")
        if name is not WHOLE and name in self._open:
            raise LogLockedError(
                f"{name[0]}-{name[1]} is open for writing already: {self.path}"
            )


def own_directory(path: Path, name: Name | None, disk: Disk = DISK) -> OwnedDirectory:
    """Lock a log directory to write to one of its logs; shared within the process.

    It is made where it is missing, but not the directory around it. With `WHOLE` for a
    name it is not shared. Raises `LogLockedError` where another process has it, or this
    one has the log.
    """
    path = path.resolve()
    with _registry_lock:
        owned = _owned.get(path)
        if owned is not None:
            owned._refuse_twice(name)
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
    """Lock a file, which is made if it is missing."""
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
                reason = "a broker, or another kafkalog, writes to the log directory"
                raise LogLockedError(f"{reason}: {path}") from None
            raise


def _is_still(path: Path, file: DurableFile) -> bool:
    """Whether the name is still that of the open file: its owner removes it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.descriptor))
    except FileNotFoundError:
        return False


def _own_nothing() -> None:
    """Begin a forked process: record locks are not inherited, so nothing is owned."""
    for owned in _owned.values():
        owned.leave_to_parent()
    _owned.clear()
    _registry_lock.release()


# Held across a fork, so that no directory is half locked or half let go of in a child.
os.register_at_fork(
    before=_registry_lock.acquire,
    after_in_parent=_registry_lock.release,
    after_in_child=_own_nothing,
)

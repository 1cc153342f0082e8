"""Moves of partitions from one log directory of a manager to another.

A move has a current log and a future log:

    orders-0                            in the directory that it leaves
    orders-0.<32 hex>-future            in the directory that it moves to

The future log is created empty, and batches are copied to it as to a follower. A future
log that was not filled by this process, or whose current log was truncated since, is
compared with the current log before more is copied: it may have batches that the
current log has lost. Once it has all batches, the two are swapped:

1. the future log is forced to disk, its offsets are checkpointed
2. the file ``orders-0.kafkalog-move`` is created next to the old ``orders-0``
3. ``orders-0.<32 hex>-future`` is renamed to ``orders-0``
4. the old ``orders-0`` is renamed to ``orders-0.<32 hex>-delete``
5. the checkpoints of both directories are written, the line of the log cleaner included
6. the file of step 2 is removed

A crash between 3 and 4 leaves two directories of the partition. A broker refuses to
start with these. Here the one next to the file of step 2 is marked as deleted when the
directories are opened, as the other one is complete. If there is no other one, the file
is removed. Brokers ignore the file. It is in the directory that is still in use if the
disk of the other one fails, so that it can be removed then.

Source: ``LogManager.replaceCurrentWithFutureLog``, ``ReplicaAlterLogDirsThread.scala``,
``ReplicaManager.alterReplicaLogDirs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkalog.errors import KafkaLogError, LogArgumentError, LogClosedError
from kafkalog.log.ownership import Name
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.managed_directory import ManagedDirectory
from kafkalog.manager.replication import FETCH_BYTES, replicate
from kafkalog.storage.file_names import MAX_NAME_LENGTH, PartitionDir

MOVER: Final = "ReplicaAlterLogDirsThread-0"
BACKOFF_MS: Final = 1000
"""``replica.fetch.backoff.ms``: the delay until a move that had nothing to do."""

NOBODY: Final = (0,)
"""As other followers of the current log: a future log does not raise its watermark."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a partition that has not finished.

    Attributes
    ----------
    source : Path
        The log directory that the partition leaves; it may be offline.
    target : Path
        The log directory that it moves to.
    lag : int
        Number of offsets that have not been copied.
    error : KafkaLogError or None
        The error that stopped the copying. `LogManager.move` starts it again.
    """

    source: Path | None
    target: Path
    lag: int
    error: KafkaLogError | None = None


@dataclass(slots=True)
class Copy:
    """The logs of a move, and the offset below which they are known to be equal."""

    current: WritableLog
    future: WritableLog
    cuts: int
    equal_to: int

    def is_of(self, current: WritableLog, future: WritableLog) -> bool:
        """Return whether it is that of these logs, the current one not truncated."""
        return (self.current, self.future, self.cuts) == (current, future, current.cuts)

    def advance(self, max_bytes: int) -> int:
        """Compare or copy about `max_bytes`; return how many bytes.

        The caller holds the lock of the current log, so it is not truncated meanwhile.
        """
        done = self._advance(max_bytes)
        while done < max_bytes and not self.is_complete:
            more = self._advance(max_bytes - done)
            if not more:
                break
            done += more
        return done

    def _advance(self, max_bytes: int) -> int:
        """Compare or copy up to `max_bytes` of one segment."""
        if self.equal_to < self.future.log_end_offset:
            return self._compare(max_bytes)
        fetched = replicate(
            self.current, self.future, max_bytes=max_bytes, in_sync=NOBODY
        )
        self.equal_to = self.future.log_end_offset
        return fetched.bytes_appended

    def _compare(self, max_bytes: int) -> int:
        """Compare batches from `equal_to` on; truncate the future log at a difference.

        Batches of a compacted log differ where records were removed: these are copied
        again.
        """
        current, future = self.current, self.future
        start = max(self.equal_to, current.log_start_offset, future.log_start_offset)
        if start >= min(current.log_end_offset, future.log_end_offset):
            future.truncate_to(current.log_end_offset)
            self.equal_to = future.log_end_offset
            return 0
        ours = future.read(start, max_bytes=max_bytes)
        theirs = current.read(start, max_bytes=max_bytes)
        compared = 0
        for batch in ours.batches():
            end = compared + batch.size_in_bytes
            if ours.data[compared:end] != theirs.data[compared:end]:
                break
            compared, self.equal_to = end, batch.last_offset + 1
        if not compared:
            future.truncate_to(start)
            self.equal_to = future.log_end_offset
        return compared

    @property
    def is_complete(self) -> bool:
        """Whether the future log is known to have all batches of the current one."""
        current, future = self.current, self.future
        return (
            self.equal_to == future.log_end_offset == current.log_end_offset
            and future.log_start_offset >= current.log_start_offset
        )


def check_future_name(name: Name) -> None:
    """Raise `LogArgumentError` if the directory of a future log has too long a name."""
    length = len(PartitionDir(*name, 32 * "0", "future").name)
    if length > MAX_NAME_LENGTH:
        raise LogArgumentError(
            f"directory name of {length} characters, expected at most "
            f"{MAX_NAME_LENGTH}: {name[0]}-{name[1]}.<uuid>-future"
        )


class Mover:
    """The moves of a manager; `directories` are its log directories.

    The caller holds the lock of the manager, except for `advance`.
    """

    def __init__(self, directories: Sequence[ManagedDirectory]) -> None:
        self._directories = directories
        self._copies: dict[Name, Copy] = {}
        self._errors: dict[Name, KafkaLogError] = {}

    def source_of(self, name: Name) -> ManagedDirectory | None:
        """Return the directory of the current log; None if there is none online."""
        return next((each for each in self._directories if name in each.logs), None)

    def target_of(self, name: Name) -> ManagedDirectory | None:
        """Return the directory of the future log; None if there is none online."""
        return next((each for each in self._directories if name in each.futures), None)

    @property
    def moves(self) -> dict[Name, Move]:
        """The moves that have not finished."""
        found = {}
        for target in self._directories:
            for name, future in sorted(target.futures.items()):
                source, end = self.source_of(name), future.log_end_offset
                if source is not None:
                    end = source.logs[name].log_end_offset
                found[name] = Move(
                    None if source is None else source.path,
                    target.path,
                    max(0, end - future.log_end_offset),
                    self._errors.get(name),
                )
        return found

    @property
    def to_advance(self) -> list[Name]:
        """The moves with a current log that no error has stopped."""
        return [
            name
            for name, move in self.moves.items()
            if move.error is None and move.source is not None
        ]

    def start(self, name: Name, target: ManagedDirectory) -> Path | None:
        """Create a future log in `target`, unless the partition has a log there.

        A move to another directory is aborted. Returns the marked directory of its
        future log, if there was one.
        """
        self._errors.pop(name, None)
        source, before = self.source_of(name), self.target_of(name)
        if source is None:
            raise KeyError(name)
        if before is target:
            return None
        check_future_name(name)
        marked = None if before is None else self.abort(name)
        if source is not target:
            log = source.logs[name]
            target.create(name, log.topic_id, log.config, is_future=True)
        return marked

    def abort(self, name: Name) -> Path | None:
        """Close a future log and mark its directory as deleted; return the new path."""
        target = self.target_of(name)
        self._copies.pop(name, None)
        self._errors.pop(name, None)
        return None if target is None else target.delete(name, is_future=True)

    def prepare(self, name: Name) -> Copy | None:
        """Return the logs of a move to advance; None if it has ended meanwhile."""
        source, target = self.source_of(name), self.target_of(name)
        if source is None or target is None:
            return None
        current, future = source.reopen_if_closed(name), target.futures[name]
        copy = self._copies.get(name)
        if copy is None or not copy.is_of(current, future):
            copy = Copy(current, future, current.cuts, future.log_start_offset)
            self._copies[name] = copy
        return copy

    def advance(
        self, name: Name, copy: Copy, max_bytes: int = FETCH_BYTES
    ) -> tuple[int, bool]:
        """Compare or copy the next part of a move, without the lock of the manager.

        Returns how many bytes, and whether the logs can be swapped now.
        """
        try:
            with copy.current.runtime.lock:
                done = copy.advance(max_bytes)
                complete = copy.is_complete
            if complete:
                copy.future.flush(include_active=True)  # so that the swap is quick
        except LogClosedError as error:
            if not copy.current.runtime.closed and copy.future.runtime.closed:
                self._errors[name] = error
        except KafkaLogError as error:
            self._errors[name] = error
        except OSError:  # `ManagedDirectory.check_logs` finds the failure
            pass
        else:
            return done, complete
        return 0, False

    def swap(self, name: Name, copy: Copy) -> tuple[ManagedDirectory, Path] | None:
        """Replace the current log by the future one, if that can have all batches now.

        Returns the directory that the partition has left, and the marked directory of
        its old log there; None if the logs were not swapped, or if the old log could
        not be marked: then its directory is offline.

        Raises `OSError`, which takes a directory offline.
        """
        source, target = self.source_of(name), self.target_of(name)
        if source is None or target is None or self.prepare(name) is not copy:
            return None
        with copy.current.runtime.lock, copy.future.runtime.lock:
            copy.advance(FETCH_BYTES)  # what was appended since
            if not copy.is_complete:
                return None
            copy.future.update_high_watermark(copy.current.high_watermark)
            cleaned_to = source.cleaned_to(name)
            target.flush_future(name)
            source.begin_departure(name)
            try:
                target.promote(name)
            except OSError:
                source.end_departure(name)
                raise
            self._copies.pop(name)
            try:
                marked = source.delete(name)
            except OSError:  # the future log is in place, and complete
                return None
        if cleaned_to is not None:
            target.set_cleaned_to(name, cleaned_to)
        target.checkpoint()
        source.end_departure(name)
        return source, marked


def find_superseded(directories: Sequence[ManagedDirectory]) -> None:
    """Find the logs that a swap was to delete, which a crash interrupted.

    They are removed from the logs that are to be loaded.
    """
    for source in directories:
        live = {
            log.key
            for other in directories
            if other is not source
            for log in other.found.logs
        }
        departed = {(*name, False) for name in source.found.departed} & live
        found = source.found
        found.superseded = [log for log in found.logs if log.key in departed]
        found.logs = [log for log in found.logs if log.key not in departed]

"""Moves of partitions from one log directory of a manager to another.

A move has a current log and a future log:

    orders-0                            in the source directory
    orders-0.<32 hex>-future            in the target directory

The future log is created empty, and batches are copied to it as to a follower. If the
manager was opened again, or the current log was truncated, the future log may have
batches that the current log has lost. It is then compared with the current log before
more batches are copied. Once it has all batches, the two logs are swapped:

1. the future log is forced to disk, and its offsets are checkpointed
2. the file ``orders-0.kafkalog-move`` is created next to the old ``orders-0``
3. ``orders-0.<32 hex>-future`` is renamed to ``orders-0``
4. the old ``orders-0`` is renamed to ``orders-0.<32 hex>-delete``
5. the checkpoints of both directories are written, the line of the log cleaner included
6. the file of step 2 is removed

A crash between steps 3 and 4 leaves two directories of the partition, with which a
broker does not start. The next `LogManager` marks the directory next to the file of
step 2 as deleted, as the other one is complete. If there is no other one, the file is
removed. Brokers ignore the file. It is in the source directory, so that it can be
removed if the disk of the target fails.

Source: ``LogManager.replaceCurrentWithFutureLog``, ``ReplicaAlterLogDirsThread.scala``,
``ReplicaManager.alterReplicaLogDirs``, ``LocalLeaderEndPoint.buildFetch``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
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
"""``replica.fetch.backoff.ms``: the delay after a pass that copied nothing."""

NOBODY: Final = (0,)
"""``in_sync`` of `replicate`: a future log does not raise the high watermark."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a partition that has not finished.

    Attributes
    ----------
    source : Path or None
        The log directory of the current log; None if there is none online.
    target : Path
        The log directory of the future log.
    lag : int
        Number of offsets that have not been copied.
    error : KafkaLogError or None
        The error that stopped the copying. `LogManager.move` resumes it.
    """

    source: Path | None
    target: Path
    lag: int
    error: KafkaLogError | None = None


@dataclass(slots=True)
class _Window:
    """The bytes copied in one window, and the times of its start and last bytes."""

    start: int
    last: int
    bytes: int = 0


class CopyQuota:
    """A limit of the bytes per second that all moves copy.

    The rate is measured over the last `windows` of `window_ms` each, or since the first
    copy. While it is above the limit, nothing is copied.

    Source: ``ReplicationQuotaManager.java``, ``SampledStat.java``,
    ``SimpleRate.java``.
    """

    def __init__(
        self,
        bytes_per_second: int,
        now_ms: Callable[[], int],
        *,
        windows: int = 11,
        window_ms: int = 1000,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now_ms = now_ms
        self._window_ms = window_ms
        self._kept_ms = windows * window_ms
        self._windows = deque([_Window(now_ms(), now_ms())], maxlen=windows + 1)

    def count(self, size: int) -> None:
        """Count bytes that were copied now."""
        now = self._now_ms()
        if now - self._windows[-1].start >= self._window_ms:
            self._windows.append(_Window(now, now))
        self._windows[-1].bytes += size
        self._windows[-1].last = now

    @property
    def is_exceeded(self) -> bool:
        """Whether the rate is above the limit."""
        now = self._now_ms()
        for window in self._windows:
            if now - window.last >= self._kept_ms:
                window.start, window.last, window.bytes = now, now, 0
        total = sum(window.bytes for window in self._windows)
        elapsed = now - min(window.start for window in self._windows)
        return total * 1000 / max(elapsed, self._window_ms) > self._bytes_per_second


@dataclass(slots=True)
class Copy:
    """The logs of a move, and the offset below which they are known to be equal."""

    current: WritableLog
    future: WritableLog
    truncations: int
    equal_to: int

    def is_of(self, current: WritableLog, future: WritableLog) -> bool:
        """Return whether the logs are the same, the current one since not truncated."""
        copied = self.current, self.future, self.truncations
        return copied == (current, future, current.truncations)

    def advance(self, max_bytes: int) -> int:
        """Compare or copy about `max_bytes`; return the number of bytes.

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

        If compaction of the current log removed records, the batches differ, and are
        copied again.
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
    """Raise `LogArgumentError` if the name of a future log's directory is too long."""
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
        moves = {}
        for target in self._directories:
            for name, future in sorted(target.futures.items()):
                source, end = self.source_of(name), future.log_end_offset
                if source is not None:
                    end = source.logs[name].log_end_offset
                moves[name] = Move(
                    None if source is None else source.path,
                    target.path,
                    max(0, end - future.log_end_offset),
                    self._errors.get(name),
                )
        return moves

    @property
    def to_advance(self) -> list[Name]:
        """The partitions of the moves that can be advanced: not offline, not failed."""
        return [
            name
            for name, move in self.moves.items()
            if move.error is None and move.source is not None
        ]

    def start(self, name: Name, target: ManagedDirectory) -> Path | None:
        """Create a future log in `target`, unless the partition has a log there.

        An earlier move to another directory is aborted. Returns the directory of its
        future log, marked as deleted, if there was one.
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
        """Return the logs of a move; None if the move has ended."""
        source, target = self.source_of(name), self.target_of(name)
        if source is None or target is None:
            return None
        current, future = source.reopen_if_closed(name), target.futures[name]
        copy = self._copies.get(name)
        if copy is None or not copy.is_of(current, future):
            copy = Copy(current, future, current.truncations, future.log_start_offset)
            self._copies[name] = copy
        return copy

    def advance(
        self, name: Name, copy: Copy, max_bytes: int = FETCH_BYTES
    ) -> tuple[int, bool]:
        """Compare or copy the next part of a move, without the lock of the manager.

        Returns the number of bytes, and whether the logs can be swapped.
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
        """Replace the current log by the future one, once that has all batches.

        Returns the source directory and the directory of the old log in it, which is
        marked as deleted. Returns None if the logs were not swapped, or if the old log
        could not be marked, which takes its directory offline.

        Raises `OSError`, which takes a directory offline.
        """
        source, target = self.source_of(name), self.target_of(name)
        if source is None or target is None or self.prepare(name) is not copy:
            return None
        with copy.current.runtime.lock, copy.future.runtime.lock:
            copy.advance(FETCH_BYTES)  # batches appended since the last copy
            if not copy.is_complete:
                return None
            copy.future.update_high_watermark(copy.current.high_watermark)
            return self.replace(name, source, target)

    def replace(
        self, name: Name, source: ManagedDirectory, target: ManagedDirectory
    ) -> tuple[ManagedDirectory, Path] | None:
        """Replace the current log in `source` by the future log in `target`.

        Returns and raises the same as `swap`.
        """
        cleaned_to = source.cleaned_to(name)
        target.flush_future(name)
        source.begin_departure(name)
        try:
            target.promote(name)
        except OSError:
            source.end_departure(name)
            raise
        self._copies.pop(name, None)
        try:
            marked = source.delete(name)
        except OSError:  # the future log is in place
            return None
        if cleaned_to is not None:
            target.set_cleaned_to(name, cleaned_to)
        target.checkpoint()
        source.end_departure(name)
        return source, marked


def find_superseded(directories: Sequence[ManagedDirectory]) -> None:
    """Find the logs that an interrupted swap has replaced and not deleted.

    They are moved from the logs to be loaded to `FoundLogs.superseded`.
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

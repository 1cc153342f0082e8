"""One log directory that is written to: all its logs, from locking it to letting go.

A directory of which a disk fails is let go of: its logs are closed as they are, nothing
more is written there, and the next to open it recovers it. Its neighbours go on.

Knows: the files of a log directory, and which logs lie in it. Does not know: other
directories, when something is due.
Source: ``LogManager.scala``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.errors import (
    LogClosedError,
)
from kafkalog.formats.partition_files import format_clean_shutdown
from kafkalog.log.clock import Clock, Scheduler
from kafkalog.log.ownership import WHOLE, Name, OwnedDirectory, own_directory
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.found_logs import DISK_FAILURES, FoundLog, FoundLogs, find_logs
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    known_offsets,
)
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import (
    DirState,
    PartitionDir,
    parse_partition_dir,
)

IsStray = Callable[[WritableLog], bool]
"""Says of a log just loaded whether it should not be here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all logs of a manager live on; `settings` are those of their topics."""

    broker: BrokerConfig
    settings: TopicSettings
    clock: Clock
    scheduler: Scheduler
    disk: Disk


class ManagedDirectory:
    """A log directory and its logs; `failure` is why it was let go of, if it was."""

    def __init__(self, path: Path, terms: Terms) -> None:
        self.path = path
        self.logs: dict[Name, WritableLog] = {}
        self.futures: dict[Name, WritableLog] = {}
        self.found = FoundLogs()
        self.failure: Exception | None = None
        self._terms = terms
        self._owned: OwnedDirectory | None = None
        self._touched = False

    def lock(self) -> None:
        """Lock the directory, which is made if it is missing.

        Raises `LogLockedError`.
        """
        try:
            self._make(self.path)
            self._owned = own_directory(self.path, WHOLE, self._terms.disk)
        except OSError as error:
            self.fail(error)

    def _make(self, path: Path) -> None:
        if not path.is_dir():
            self._make(path.parent)
            self._terms.disk.make_directory(path)
            self._terms.disk.sync_directory(path.parent)

    # Loading

    def check(self) -> None:
        """Find the logs a broker would load, and check them; nothing is changed.

        Raises what `find_logs` raises; but `DISK_FAILURES` are one of the directory.
        """
        try:
            with self._threads() as threads:
                self.found = find_logs(self.path, self._terms.settings, threads)
        except DISK_FAILURES as error:
            self.fail(error)

    def load(self, is_stray: IsStray | None) -> None:
        """Load the logs that `check` has found, side by side.

        Raises what a log that cannot be loaded raises; but `DISK_FAILURES` are one of
        the directory.
        """
        self._touched = True
        try:
            if self._owned is not None:
                self._owned.begin()
            clean = self._owned is not None and self._owned.clean
            starts = known_offsets(self.path, LOG_STARTS)
            points = known_offsets(self.path, RECOVERY_POINTS)
            highs = known_offsets(self.path, HIGH_WATERMARKS)

            def load(one: FoundLog) -> Exception | None:
                name = one.name.topic, one.name.partition
                start, point = starts.get(name, 0), points.get(name, 0)
                config = one.settings.config
                try:
                    log = self._open(one.path, config, start, point, clean=clean)
                except DISK_FAILURES as error:  # raised when all were tried
                    return error
                (self.futures if one.name.state else self.logs)[name] = log
                log.update_high_watermark(highs.get(name, 0))
                return None

            with self._threads() as threads:
                errors = list(threads.map(load, self.found.logs))
            self.found.logs.clear()
            if (failed := next(filter(None, errors), None)) is not None:
                raise failed
            for name, log in list(self.logs.items()):
                if is_stray is not None and is_stray(log):
                    self.found.strays.append(self._mark(name, "stray"))
        except DISK_FAILURES as error:
            self.fail(error)

    def create(
        self, name: Name, topic_id: str | None, config: LogConfig
    ) -> WritableLog:
        """Make a log that is in no directory yet.

        Raises `OSError`, and is failed then.
        """
        topic, partition = name
        path = self.path / PartitionDir(topic, partition).name
        try:
            if self._owned is not None:
                self._owned.forget(name)  # a crash may have kept one from it
            log = self._open(path, config, topic_id=topic_id)
        except OSError as error:
            self.fail(error)
            raise
        self.logs[name] = log
        return log

    def reopened(self, name: Name) -> WritableLog:
        """Return a log, loaded again if its user has closed it.

        Raises `OSError`, and is failed then.
        """
        log = self.logs[name]
        if not log.runtime.closed:
            return log
        path, start, point = path_of(log), log.log_start_offset, log.recovery_point
        clean = self._owned is not None and self._owned.is_clean(name)
        try:
            if not path.exists():  # its user has deleted it
                start = point = 0
            elif not clean:  # a cut that failed may have lowered the checkpoint alone
                points = known_offsets(self.path, RECOVERY_POINTS)
                point = min(point, points.get(name, 0))
            given = self._terms.settings.given(log.topic)
            config = log.config if given is None else given
            again = self._open(path, config, start, point, clean=clean)
            again.update_high_watermark(log.high_watermark)
        except OSError as error:
            self.fail(error)
            raise
        self.logs[name] = again
        return again

    def _open(
        self,
        path: Path,
        config: LogConfig,
        start: int = 0,
        recovery_point: int = 0,
        *,
        clean: bool = True,
        topic_id: str | None = None,
    ) -> WritableLog:
        terms, lower = self._terms, None
        if self._owned is not None and (name := parse_partition_dir(path.name)):
            place = name.topic, name.partition
            lower = partial(self._owned.lower_recovery_point, place)
        log = load_log(
            path,
            config,
            broker=terms.broker,
            log_start_offset=start,
            recovery_point=recovery_point,
            lower_recovery_point=lower,
            clean=clean,
            topic_id=topic_id,
            clock=terms.clock,
            scheduler=terms.scheduler,
            disk=terms.disk,
        )
        log.owner = self._owned
        return log

    # Running

    @property
    def is_inherited(self) -> bool:
        """Whether it is open in the process that this one was forked from."""
        return self._owned is not None and self._owned.is_inherited

    def all_logs(self) -> Iterator[WritableLog]:
        """Yield the logs there are now, future ones too."""
        yield from [*self.logs.values(), *self.futures.values()]

    def check_logs(self) -> None:
        """Let go of the directory if the disk has failed under one of its logs."""
        for log in self.all_logs():
            error = log.runtime.failure
            if self.failure is None and isinstance(error, OSError):
                self.fail(error)

    def do_for_each(self, work: Callable[[WritableLog], int]) -> int:
        """Do something with each log, and sum what it answers."""
        total = 0
        for log in self.all_logs():
            with suppress(LogClosedError, OSError):  # the log has it, for `check_logs`
                total += work(log)
        self.check_logs()
        return total

    def checkpoint(self, *names: str) -> None:
        """Write the checkpoints of these names, by default all three."""
        for name in names or (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
            if self.failure is None and self._owned is not None:
                try:
                    self._owned.write(name, partial(self._offsets, name))
                except OSError as error:
                    self.fail(error)

    def _offsets(self, checkpoint: str) -> Offsets:
        offsets = {}
        for name, log in [*self.logs.items(), *self.futures.items()]:
            with log.runtime.lock:
                if checkpoint == RECOVERY_POINTS:
                    offsets[name] = log.recovery_point
                elif checkpoint == HIGH_WATERMARKS:
                    offsets[name] = log.high_watermark
                elif (start := log.log_start_to_checkpoint) is not None:
                    offsets[name] = start
        return offsets

    def delete(self, name: Name) -> Path:
        """Close a log, and mark its directory to be deleted; answers what it is now.

        Raises `OSError`, and is failed then.
        """
        try:
            marked = self._mark(name, "delete")
        except OSError as error:
            self.fail(error)
            raise
        self.checkpoint()
        return marked

    def _mark(self, name: Name, state: DirState) -> Path:
        log = self.logs.pop(name)
        log.owner = None
        log.abandon()
        marked = self.path / PartitionDir(*name, uuid4().hex, state).name
        self._terms.disk.rename(path_of(log), marked)
        self._terms.disk.sync_directory(self.path)
        if self._owned is not None:
            self._owned.forget(name)
        return marked

    def remove(self, marked: Path) -> None:
        """Remove a directory that was marked, with all in it."""
        disk = self._terms.disk
        try:
            for path in sorted(marked.iterdir()):
                disk.remove(path)
            disk.remove_directory(marked)
            disk.sync_directory(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            self.fail(error)

    # The end

    def close(self) -> None:
        """Close all logs in order, write the checkpoints, and say that all is well.

        Where that fails there is no marker of a clean stop, and the error is raised.
        """
        if self.failure is not None or self._owned is None or self.is_inherited:
            return
        self.check_logs()
        with self._threads() as threads:
            outcomes = list(threads.map(self._close, self.all_logs()))
        for error in outcomes:
            if error is not None and self.failure is None:
                self.fail(error)
        self.checkpoint()
        if self.failure is not None:
            raise self.failure
        owned, self._owned = self._owned, None
        owned.release(WHOLE, in_order=True, marker=format_clean_shutdown())

    def _close(self, log: WritableLog) -> Exception | None:
        try:
            if not log.runtime.closed:
                log.flush(include_active=True)
                log.owner = None  # all logs' checkpoints are written together
                log.close()
        except Exception as error:  # told by `close`, when all were tried
            return error
        return None

    def fail(self, error: Exception) -> None:
        """Take note of a failure, and let go of the directory."""
        self.failure = error
        self.abandon()

    def abandon(self) -> None:
        """Let go of the directory as it is, without a marker of a clean stop.

        But with that which was there, if no log was loaded.
        """
        for log in self.all_logs():
            log.abandon()
        self.logs.clear()
        self.futures.clear()
        owned, self._owned = self._owned, None
        if owned is not None:
            with suppress(OSError):  # the first error is the one to tell
                owned.release(WHOLE, in_order=not self._touched)

    def _threads(self) -> ThreadPoolExecutor:
        count = self._terms.broker.num_recovery_threads_per_data_dir
        return ThreadPoolExecutor(count, thread_name_prefix="kafkalog-load")


def path_of(log: WritableLog) -> Path:
    """Return a log's directory, on this machine's disk."""
    return Path(str(log.path))

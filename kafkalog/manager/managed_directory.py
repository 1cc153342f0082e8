"""One log directory of a manager: its lock, its logs, its checkpoints.

If the disk of a directory fails, the directory goes offline. Its logs are closed
without a flush, nothing more is written to it, and its logs are recovered when it is
opened again. Other directories are not affected.

Source: ``LogManager.scala``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.errors import LogClosedError, LogStateError, UnsupportedFormatError
from kafkalog.formats.partition_files import format_clean_shutdown
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.clock import Clock, Scheduler
from kafkalog.log.ownership import ALL_LOGS, Name, OwnedDirectory, own_directory
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.log.runtime import DISK_FAILURES
from kafkalog.log.topic_settings import PartitionSettings, TopicSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.found_logs import (
    DEPARTURE,
    FoundLog,
    FoundLogs,
    find_logs,
)
from kafkalog.manager.identity import IsStray, complete_identity, read_identity
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    read_offsets,
    read_offsets_or_none,
)
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import (
    DirState,
    PartitionDir,
    parse_partition_dir,
)

LOADING_THREADS: Final = "kafkalog-load"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerContext:
    """The settings and services that all logs of a manager share."""

    broker: BrokerConfig
    settings: TopicSettings
    clock: Clock
    scheduler: Scheduler
    disk: Disk


class ManagedDirectory:
    """A log directory and its logs.

    `failure` is the error that took the directory offline, and `offline_logs` are the
    partitions that it had at that time.
    """

    def __init__(self, path: Path, context: ManagerContext) -> None:
        self.path = path
        self.logs: dict[Name, WritableLog] = {}
        self.futures: dict[Name, WritableLog] = {}
        self.found = FoundLogs()
        self.failure: Exception | None = None
        self.offline_logs: set[Name] = set()
        self.identity: MetaProperties | None = None
        self._context = context
        self._owned: OwnedDirectory | None = None
        self._loads = False  # whether loading has begun

    def lock(self) -> None:
        """Lock the directory; create it if it is missing.

        Raises `LogLockedError` if the directory is open for writing elsewhere.
        """
        try:
            self._context.disk.make_directories(self.path)
            self._owned = own_directory(self.path, ALL_LOGS, self._context.disk)
        except OSError as error:
            self.fail(error)

    # Loading

    def check(self) -> None:
        """List and check the logs that a broker would load, without changing any.

        Raises the errors of `find_logs`; `DISK_FAILURES` take the directory offline,
        and so does an invalid ``meta.properties``. A cleaner also has to read its
        checkpoint, else it would compact all logs from their start.
        """
        try:
            self.identity = read_identity(self.path)
            if self._context.broker.log_cleaner_enable:
                read_offsets(self.path, CLEANED_TO)
            with self._threads() as threads:
                self.found = find_logs(self.path, self._context.settings, threads)
        except (*DISK_FAILURES, UnsupportedFormatError) as error:
            self.fail(error)

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Write ``meta.properties`` if it, or its directory id, is missing."""
        try:
            self.identity = complete_identity(
                self.path,
                self.identity,
                cluster_id,
                node_id,
                now_ms=self._context.clock.now_ms(),
                disk=self._context.disk,
            )
        except OSError as error:
            self.fail(error)

    def load(self) -> None:
        """Load the logs that `check` listed, in several threads.

        Raises the error of a log that cannot be loaded; `DISK_FAILURES` take the
        directory offline.
        """
        self._loads = True
        try:
            if self._owned is not None:
                self._owned.begin()
            clean = self._owned is not None and self._owned.clean
            starts = read_offsets_or_none(self.path, LOG_STARTS)
            points = read_offsets_or_none(self.path, RECOVERY_POINTS)
            highs = read_offsets_or_none(self.path, HIGH_WATERMARKS)

            def load(found: FoundLog) -> Exception | None:
                name = found.name.topic, found.name.partition
                start, point = starts.get(name), points.get(name, 0)
                try:
                    log = self._open(
                        found.path, found.settings, start, point, clean=clean
                    )
                except DISK_FAILURES as error:  # raised after all logs were tried
                    return error
                (self.futures if found.name.state else self.logs)[name] = log
                is_alone = not self._context.settings.is_of_broker(log.topic_id)
                log.start_high_watermark(highs.get(name), is_alone=is_alone)
                return None

            with self._threads() as threads:
                errors = list(threads.map(load, self.found.logs))
            if (failed := next(filter(None, errors), None)) is not None:
                raise failed
            self.found.logs.clear()
        except DISK_FAILURES as error:
            self.fail(error)

    def mark_strays(self, is_stray: IsStray) -> None:
        """Close the logs that do not belong to this broker, and mark them as strays.

        An `OSError` takes the directory offline.
        """
        try:
            for logs in (self.logs, self.futures):
                for name, log in list(logs.items()):
                    if is_stray(log):
                        stray = self._close_and_mark(logs.pop(name), "stray")
                        self.found.strays.append(stray)
        except OSError as error:
            self.fail(error)

    def create(
        self,
        name: Name,
        topic_id: str | None,
        config: LogConfig,
        *,
        is_future: bool = False,
    ) -> WritableLog:
        """Create a log, or a future log, that does not exist yet.

        Raises `OSError`, which takes the directory offline.
        """
        path = self.path / PartitionDir(*name).name
        if is_future:
            path = self.path / PartitionDir(*name, uuid4().hex, "future").name
        try:
            if self._owned is not None:
                self._owned.forget(name)  # a crash may have left checkpoint entries
            is_tiered = self._context.settings.of(name[0], topic_id).is_tiered
            settings = PartitionSettings(config, is_tiered=is_tiered)
            log = self._open(path, settings, topic_id=topic_id)
            is_alone = not self._context.settings.is_of_broker(log.topic_id)
            log.start_high_watermark(None, is_alone=is_alone and not is_future)
        except OSError as error:
            self.fail(error)
            raise
        (self.futures if is_future else self.logs)[name] = log
        return log

    def reopen_if_closed(self, name: Name) -> WritableLog:
        """Return a log; load it again if it was closed.

        Raises `OSError`, which takes the directory offline.
        """
        log = self.logs[name]
        if not log.runtime.closed:
            return log
        path, start, point = path_of(log), log.log_start_offset, log.recovery_point
        clean = self._owned is not None and self._owned.is_clean(name)
        try:
            if not path.exists():  # the caller deleted the log
                start = point = 0
            elif not clean:  # a failed truncation may have lowered the checkpoint only
                points = read_offsets_or_none(self.path, RECOVERY_POINTS)
                point = min(point, points.get(name, 0))
            of_topic = self._context.settings.explicit(log.topic)
            config = log.config if of_topic is None else of_topic
            settings = PartitionSettings(config, is_tiered=log.keeps_log_start)
            reopened = self._open(path, settings, start, point, clean=clean)
            high = log.high_watermark
            reopened.start_high_watermark(high, is_alone=log.leads_alone)
        except OSError as error:
            self.fail(error)
            raise
        self.logs[name] = reopened
        return reopened

    def _open(
        self,
        path: Path,
        settings: PartitionSettings,
        start: int | None = None,
        recovery_point: int = 0,
        *,
        clean: bool = True,
        topic_id: str | None = None,
    ) -> WritableLog:
        context, lower = self._context, None
        if self._owned is not None and (name := parse_partition_dir(path.name)):
            key = name.topic, name.partition
            lower = partial(self._owned.lower_recovery_point, key)
        log = load_log(
            path,
            settings.config,
            broker=context.broker,
            log_start_offset=start,
            is_tiered=settings.is_tiered,
            recovery_point=recovery_point,
            lower_recovery_point=lower,
            clean=clean,
            topic_id=topic_id,
            clock=context.clock,
            scheduler=context.scheduler,
            disk=context.disk,
        )
        log.owned_directory = self._owned
        return log

    # Running

    def all_logs(self) -> Iterator[WritableLog]:
        """Yield the current logs, future logs included."""
        yield from [*self.logs.values(), *self.futures.values()]

    def check_logs(self) -> None:
        """Take the directory offline if the disk failed for one of its logs."""
        for log in self.all_logs():
            error = log.runtime.failure
            if self.failure is None and isinstance(error, DISK_FAILURES):
                self.fail(error)

    def sum_over_logs(self, work: Callable[[WritableLog], int]) -> int:
        """Call `work` with each log, and return the sum of its results."""
        total = 0
        for log in self.all_logs():
            with suppress(LogClosedError, OSError):  # `check_logs` finds the failure
                total += work(log)
        self.check_logs()
        return total

    def checkpoint(self, *names: str) -> None:
        """Write the checkpoints with these file names, by default all three."""
        for name in names or (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
            if self.failure is None and self._owned is not None:
                try:
                    self._owned.write(name, partial(self._offsets, name))
                except OSError as error:
                    self.fail(error)

    def _offsets(self, checkpoint: str) -> Offsets:
        offsets = self._kept_offsets(checkpoint)
        for name, log in [*self.logs.items(), *self.futures.items()]:
            with log.runtime.lock:
                if log.runtime.was_interrupted:
                    continue
                if checkpoint == RECOVERY_POINTS:
                    offsets[name] = min(log.recovery_point, log.end_after_closing)
                elif checkpoint == HIGH_WATERMARKS:
                    offsets[name] = min(log.high_watermark, log.end_after_closing)
                elif (start := log.log_start_to_checkpoint) is not None:
                    offsets[name] = start
        return offsets

    def _kept_offsets(self, checkpoint: str) -> Offsets:
        """Return the checkpointed offsets that stay as they are.

        These are those of links to partitions, and of logs closed by an interrupt.
        """
        names = {(name.topic, name.partition) for name in self.found.linked} | {
            (log.topic, log.partition)
            for log in self.all_logs()
            if log.runtime.was_interrupted
        }
        if not names:
            return {}
        offsets = read_offsets_or_none(self.path, checkpoint)
        return {name: offset for name, offset in offsets.items() if name in names}

    def check_no_link(self, name: Name) -> None:
        """Raise `LogStateError` if there is a symbolic link to a partition."""
        for linked in self.found.linked:
            if (linked.topic, linked.partition) == name and linked.state is None:
                path = self.path / linked.name
                raise LogStateError(f"symbolic link, expected a directory: {path}")

    def delete(self, name: Name, *, is_future: bool = False) -> Path:
        """Close a log and mark its directory as deleted; return the new path.

        Raises `OSError`, which takes the directory offline.
        """
        try:
            logs = self.futures if is_future else self.logs
            marked = self._close_and_mark(logs.pop(name), "delete")
        except OSError as error:
            self.fail(error)
            raise
        self.checkpoint()
        return marked

    def _close_and_mark(self, log: WritableLog, state: DirState) -> Path:
        log.owned_directory = None
        log.abandon()
        return self._mark(path_of(log), (log.topic, log.partition), state)

    def _mark(self, path: Path, name: Name, state: DirState) -> Path:
        marked = self.path / PartitionDir(*name, uuid4().hex, state).name
        self._context.disk.rename(path, marked)
        self._context.disk.sync_directory(self.path)
        if self._owned is not None:
            self._owned.forget(name)
        return marked

    # Moves

    def flush_future(self, name: Name) -> None:
        """Force a future log to disk, and checkpoint its offsets.

        Raises `OSError`, which takes the directory offline.
        """
        log = self.futures[name]
        try:
            log.flush(include_active=True)
            if self._owned is not None:
                self._owned.checkpoint(
                    name,
                    recovery_point=log.recovery_point,
                    high_watermark=log.high_watermark,
                    log_start_offset=log.log_start_to_checkpoint,
                )
        except OSError as error:
            self.fail(error)
            raise

    def promote(self, name: Name) -> None:
        """Make a future log the current one.

        Raises `OSError`, which takes the directory offline. The log is then renamed
        back, if possible, as the next opening rejects two current logs.
        """
        log = self.futures[name]
        future, current = path_of(log), self.path / PartitionDir(*name).name
        try:
            log.rename_directory(current)
        except OSError as error:
            self.fail(error)
            with suppress(OSError):
                self._context.disk.rename(current, future)
                self._context.disk.sync_directory(self.path)
            raise
        self.logs[name] = self.futures.pop(name)

    def begin_departure(self, name: Name) -> None:
        """Mark a log as about to be replaced by a log in another directory.

        Raises `OSError`, which takes the directory offline.
        """
        try:
            self._context.disk.create_if_missing(self._departure(name))
            self._context.disk.sync_directory(self.path)
        except OSError as error:
            self.fail(error)
            raise

    def end_departure(self, name: Name) -> None:
        """Remove the mark of `begin_departure`."""
        if self.failure is not None:
            return
        try:
            if self._context.disk.remove_if_there(self._departure(name)):
                self._context.disk.sync_directory(self.path)
        except OSError as error:
            self.fail(error)

    def _departure(self, name: Name) -> Path:
        return self.path / (PartitionDir(*name).name + DEPARTURE)

    def cleaned_to(self, name: Name) -> int | None:
        """Return the offset up to which a log is compacted, as checkpointed."""
        return read_offsets_or_none(self.path, CLEANED_TO).get(name)

    def set_cleaned_to(self, name: Name, offset: int) -> None:
        """Checkpoint the offset up to which a log is compacted."""
        try:
            if self._owned is not None:
                self._owned.update(
                    CLEANED_TO, lambda lines: lines.update({name: offset})
                )
        except DISK_FAILURES as error:
            self.fail(error)

    def delete_superseded(self, moved: Collection[Name]) -> None:
        """Mark superseded logs as deleted, and remove the marks of departures.

        A superseded log is unchanged if its partition is not in `moved`, the partitions
        with a loaded log.
        """
        try:
            kept = set()
            for log in self.found.superseded:
                name = log.name.topic, log.name.partition
                if name in moved:
                    marked = self._mark(log.path, name, "delete")
                    self.found.deleted.append(marked)
                else:
                    kept.add(name)
        except OSError as error:
            self.fail(error)
        for name in self.found.departed - kept:
            self.end_departure(name)

    def remove(self, marked: Path) -> None:
        """Remove a marked directory and its files."""
        disk = self._context.disk
        try:
            disk.remove_tree(marked)
            disk.sync_directory(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            self.fail(error)

    # Closing

    def close(self) -> None:
        """Flush and close all logs; write checkpoints and the clean shutdown marker.

        If this fails, the marker is not written and the error is raised. It is not
        written either if a log was closed by an interrupt; that log is to be recovered.
        """
        if self.failure is not None or self._owned is None:
            return
        self.check_logs()
        with self._threads() as threads:
            errors = list(threads.map(self._close, self.all_logs()))
        for error in errors:
            if error is not None and self.failure is None:
                self.fail(error)
        self.checkpoint()
        if self.failure is not None:
            raise self.failure
        marker = None if self.found.linked else format_clean_shutdown()
        in_order = not any(log.runtime.was_interrupted for log in self.all_logs())
        self._owned.release(ALL_LOGS, in_order=in_order, marker=marker)
        self._owned = None

    def _close(self, log: WritableLog) -> Exception | None:
        try:
            if log.runtime.was_interrupted:
                log.owned_directory = None
                log.abandon()
            elif not log.runtime.closed:
                log.flush(include_active=True)
                log.owned_directory = None  # all logs' checkpoints are written together
                log.close()
        except Exception as error:  # raised by `close` after all logs were tried
            return error
        return None

    def fail(self, error: Exception) -> None:
        """Take the directory offline because of an error."""
        self.failure = error
        found = (log.name for log in self.found.logs if log.name.state is None)
        self.offline_logs.update(
            self.logs, ((name.topic, name.partition) for name in found)
        )
        self.abandon()

    def abandon(self) -> None:
        """Close all files without a flush, and without a clean shutdown marker.

        An existing marker is kept if no log was loaded.
        """
        if self._owned is None:
            return
        for log in self.all_logs():
            log.abandon()
        with suppress(OSError):  # the first error is the one to report
            self._owned.release(ALL_LOGS, in_order=not self._loads)
        self.logs.clear()
        self.futures.clear()
        self._owned = None

    def _threads(self) -> ThreadPoolExecutor:
        count = self._context.broker.num_recovery_threads_per_data_dir
        return ThreadPoolExecutor(count, thread_name_prefix=LOADING_THREADS)


def path_of(log: WritableLog) -> Path:
    """Return a log's directory as a local path."""
    return Path(str(log.path))

"""`LogManager`: the logs of whole log directories, kept as a broker keeps them.

What is due is done by tasks of a scheduler: retention (of compacted logs as often as a
broker's cleaner does it), forcing logs to disk that ask for it, checkpoints, removing
what was deleted. Each can be called for, too.

Knows: directories, and when something is due. Does not know: what is in a log, who
leads it, compaction.
Source: ``LogManager.scala``, ``ReplicaManager.scala`` (its checkpoints).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Self

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.errors import InconsistentTopicIdError, LogClosedError
from kafkalog.log.clock import Clock, Scheduler, SystemClock, ThreadScheduler
from kafkalog.log.ownership import Name
from kafkalog.log.recovery.recovery_report import warn_of_lost_offsets
from kafkalog.log.topic_settings import (
    PartitionSettings,
    TopicSettings,
    warn_of_settings,
)
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.background import (
    CLEANER,
    RemovalQueue,
    start_tasks,
    unless_closed,
)
from kafkalog.manager.found_logs import (
    AnyDirectories,
    distinct_directories,
    refuse_twins,
)
from kafkalog.manager.managed_directory import (
    IsStray,
    ManagedDirectory,
    Terms,
    path_of,
)
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.durable_file import DISK, Disk


class LogManager(Mapping[Name, WritableLog]):
    """The logs of one or several log directories, by (topic, partition).

    The directories are locked as by a broker, and created if they are missing. All logs
    in them are loaded, and recovered where the last shutdown was not clean. `close`
    forces all logs to disk, and writes the checkpoints and the clean shutdown marker.

    A directory whose disk fails is closed and listed in `offline`; the others stay
    open. If a directory is refused here, nothing is changed in any of them.

    One background thread, named ``kafkalog-scheduler``, serves all logs. More start, up
    to ``background.threads``, only while tasks overlap. Loading and closing use up to
    ``num.recovery.threads.per.data.dir`` threads a directory, named ``kafkalog-load``,
    which end with the call. All threads have ended when `close` or `abandon` returns.

    Parameters
    ----------
    directories : path, or iterable of paths
        The log directories.
    config : LogConfig, optional
        The settings of all topics but those in `topics`. By default they follow from
        `broker`, and in a directory that a broker kept from ``__cluster_metadata-0`` in
        one of the directories, which goes before `broker`.
    topics : mapping of str to LogConfig, optional
        The settings of single topics.
    broker : BrokerConfig, optional
        The settings in the broker's ``server.properties``; by default Kafka's defaults.
    is_stray : callable, optional
        Called with each log once it is loaded: whether it does not belong here. Its
        directory is then renamed to ``-stray``.

    Raises
    ------
    LogLockedError
        If a broker, or kafkalog, has a log of a directory open for writing.
    ConfigError
        If there is no directory, or one is given twice.
    NotALogDirectoryError
        If a directory holds a directory that is not a partition's.
    LogArgumentError
        If a directory is a URL.
    LogStateError
        If a partition has two directories.
    OSError
        If the disks of all directories fail.

    Warns
    -----
    UnknownSettingsWarning
        If the settings of a topic are not known: nothing is deleted from its logs.
    NotCompactedWarning
        If a topic's settings ask for compaction, which is not implemented yet.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with LogManager(root) as logs:
    ...         _ = logs.open("orders", 0).append(batch.build())
    ...     with LogManager(root) as logs:
    ...         list(logs), logs["orders", 0].log_end_offset
    ([('orders', 0)], 1)
    """

    def __init__(
        self,
        directories: AnyDirectories,
        config: LogConfig | None = None,
        *,
        topics: Mapping[str, LogConfig] | None = None,
        broker: BrokerConfig | None = None,
        is_stray: IsStray | None = None,
    ) -> None:
        self._start(directories, config, topics, broker, is_stray)

    def _start(
        self,
        directories: AnyDirectories,
        config: LogConfig | None,
        topics: Mapping[str, LogConfig] | None,
        broker: BrokerConfig | None,
        is_stray: IsStray | None,
        *,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
        disk: Disk = DISK,
    ) -> None:
        """Load the logs, with another clock, scheduler or disk where they are given.

        Warnings name the caller of the caller, which is the user.
        """
        self.broker = BrokerConfig() if broker is None else broker
        self.config = self.broker.log_config() if config is None else config
        self._clock = SystemClock() if clock is None else clock
        self._owns_scheduler = scheduler is None
        threads = self.broker.background_threads
        self._scheduler = ThreadScheduler(threads) if scheduler is None else scheduler
        self._lock = RLock()
        self._closed = False
        paths = distinct_directories(directories)
        self._settings = TopicSettings(paths, config, topics, broker)
        terms = Terms(
            broker=self.broker,
            settings=self._settings,
            clock=self._clock,
            scheduler=self._scheduler,
            disk=disk,
        )
        self._directories = [ManagedDirectory(path, terms) for path in paths]
        self._deleted = RemovalQueue[tuple[ManagedDirectory, Path]](self._clock)
        try:
            found = self._find()
            warn_of_settings(found, stacklevel=4)
            self._load(is_stray)
            for log in [*self.values(), *self.futures.values()]:
                warn_of_lost_offsets(log.report, path_of(log), stacklevel=4)
            self._schedule()
        except BaseException:
            self.abandon()
            raise

    def _find(self) -> dict[str, PartitionSettings]:
        """Lock the directories, and check the logs in them; nothing is changed."""
        for directory in self._directories:
            directory.lock()
        for directory in self._online():
            directory.check()
        found = [log for one in self._online() for log in one.found.logs]
        refuse_twins(found)
        return {one.path.name: one.settings for one in found}

    def _load(self, is_stray: IsStray | None) -> None:
        for directory in self._online():
            directory.load(is_stray)
            for marked in directory.found.doomed:
                self._deleted.add((directory, marked))
        self._online()

    def _schedule(self) -> None:
        tasks: dict[str, Callable[[], object]] = {
            "kafka-log-retention": lambda: self._retain(compacted=False),
            CLEANER: lambda: self._retain(compacted=True),
            "kafka-log-flusher": self.flush_due,
            "kafka-recovery-point-checkpoint": lambda: self.checkpoint(RECOVERY_POINTS),
            "kafka-log-start-offset-checkpoint": lambda: self.checkpoint(LOG_STARTS),
            "highwatermark-checkpoint": lambda: self.checkpoint(HIGH_WATERMARKS),
        }
        start_tasks(tasks, self.broker, self._scheduler)
        self._schedule_removal(self.broker.log_initial_task_delay_ms)

    def _schedule_removal(self, delay_ms: int) -> None:
        def remove() -> None:
            self.remove_deleted()
            delay_ms = self.config.file_delete_delay_ms
            self._schedule_removal(self._deleted.due_in_ms(delay_ms))

        name = "kafka-delete-logs"
        self._scheduler.schedule(name, unless_closed(remove), delay_ms)

    # What there is

    def __getitem__(self, name: Name) -> WritableLog:
        """Return the log of a (topic, partition); `KeyError` where there is none."""
        for directory in self._directories:
            if (log := directory.logs.get(name)) is not None:
                return log
        raise KeyError(name)

    def __iter__(self) -> Iterator[Name]:
        """Yield the (topic, partition) of each log, in order."""
        return iter(
            sorted(name for one in self._directories for name in list(one.logs))
        )

    def __len__(self) -> int:
        return sum(len(one.logs) for one in self._directories)

    def __repr__(self) -> str:
        paths = ", ".join(str(one.path) for one in self._directories)
        return f"<LogManager of {len(self)} logs in {paths}>"

    @property
    def futures(self) -> dict[Name, WritableLog]:
        """Logs that are being moved here from another directory (``-future``)."""
        return {
            name: log for one in self._directories for name, log in one.futures.items()
        }

    @property
    def strays(self) -> list[Path]:
        """Directories that should not be here, and are left alone (``-stray``)."""
        return [path for one in self._directories for path in one.found.strays]

    @property
    def offline(self) -> dict[Path, Exception]:
        """Directories that were let go of, and what failed."""
        with self._lock:
            self._check()
            found = ((one.path, one.failure) for one in self._directories)
            return {path: failure for path, failure in found if failure is not None}

    def config_of(self, topic: str) -> LogConfig:
        """Return a topic's settings, as they follow from what is known of it."""
        return self._settings.of(topic).config

    def _online(self) -> list[ManagedDirectory]:
        """Directories that work. Raises if there is none."""
        online = [one for one in self._directories if one.failure is None]
        if not online and (failure := self._directories[-1].failure) is not None:
            raise failure
        return online

    def _check(self) -> None:
        for directory in self._directories:
            directory.check_logs()

    # Partitions

    def open(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: str | None = None,
        is_new: bool = False,
    ) -> WritableLog:
        """Return a partition's log, which is made if it is missing, or open once more.

        It is made in the directory with the fewest logs that takes new ones. While a
        directory is offline, that may be where it is: then only a log that `is_new` is
        made, and else `LogClosedError` raised.

        Raises `InconsistentTopicIdError`, and `OSError` where no directory is left.
        """
        with self._working():
            name = topic, partition
            if name not in self:
                settings = self._settings.of(topic)
                warn_of_settings({f"{topic}-{partition}": settings})
                return self._create(name, topic_id, settings.config, is_new=is_new)
            [directory] = [one for one in self._directories if name in one.logs]
            log = directory.reopened(name)
        if topic_id is not None and log.topic_id not in (None, topic_id):
            raise InconsistentTopicIdError(
                f"the topic id is {log.topic_id}, not {topic_id}: {log.path}"
            )
        return log

    def _create(
        self, name: Name, topic_id: str | None, config: LogConfig, *, is_new: bool
    ) -> WritableLog:
        if not is_new:
            self._refuse_if_offline(name)
        while True:
            try:
                return self._next_directory().create(name, topic_id, config)
            except OSError:  # that directory is offline now; another may do
                self._online()

    def _next_directory(self) -> ManagedDirectory:
        """Choose the directory with the fewest logs, cordoned ones only if need be."""
        online = self._online()
        cordoned = {
            Path(path).absolute() for path in self.broker.cordoned_log_directories
        }
        allowed = [one for one in online if one.path not in cordoned]
        return min(allowed or online[:1], key=lambda one: len(list(one.all_logs())))

    def _refuse_if_offline(self, name: Name) -> None:
        if offline := self.offline:
            where = ", ".join(map(str, offline))
            reason = f"{name[0]}-{name[1]} may be in a directory that is offline"
            raise LogClosedError(f"{reason}: {where}")

    def delete(self, topic: str, partition: int) -> None:
        """Delete a partition: at once for whoever looks, its files after a delay.

        Its log is closed. Raises `KeyError` where there is none, `LogClosedError` where
        it may be in a directory that is offline, and `OSError`.
        """
        name = topic, partition
        with self._working():
            for directory in self._online():
                if name in directory.logs:
                    marked = directory.delete(name)
                    self._deleted.add((directory, marked))
                    return
            self._refuse_if_offline(name)
        raise KeyError(name)

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Give a topic settings of its own, its logs here too."""
        with self._lock:
            self._settings.give(topic, config)
            for directory in self._online():
                for log in directory.all_logs():
                    if log.topic == topic:
                        log.update_config(config)

    # What is due

    def retain(self) -> int:
        """Delete the segments that settings no longer keep; answers how many.

        Of compacted logs, only with ``log.cleaner.enable``, as by a broker.
        """
        deleted = self._retain(compacted=False)
        if self.broker.log_cleaner_enable:
            deleted += self._retain(compacted=True)
        return deleted

    def _retain(self, *, compacted: bool) -> int:
        """Retain compacted logs, or others and with each the future one of its name."""

        def retain(log: WritableLog) -> int:
            live = self.get((log.topic, log.partition))
            if live is None or live.config.compact != compacted:
                return 0
            return 0 if compacted and log is not live else log.delete_old_segments()

        return self._do_for_each(retain)

    def flush_due(self) -> int:
        """Force to disk each log not forced for its ``flush.ms``; answers how many."""
        now = self._clock.now_ms()

        def flush(log: WritableLog) -> int:
            if now - log.last_flushed_ms < log.config.flush_ms:
                return 0
            log.flush()
            return 1

        return self._do_for_each(flush)

    def _do_for_each(self, work: Callable[[WritableLog], int]) -> int:
        with self._working():
            return sum(one.do_for_each(work) for one in self._online())

    def checkpoint(self, *names: str) -> None:
        """Write the checkpoints: recovery points, log starts, high watermarks.

        Or those of these file names alone.
        """
        with self._working():
            self._check()
            for directory in self._online():
                directory.checkpoint(*names)

    def truncate_to(self, offsets: Mapping[Name, int]) -> None:
        """Cut off each log at an offset, and checkpoint how far they are on disk."""
        with self._working():
            for directory in self._online():
                here = [name for name in offsets if name in directory.logs]
                cut = [directory.logs[name].truncate_to(offsets[name]) for name in here]
                if any(cut):
                    directory.checkpoint(RECOVERY_POINTS)

    def remove_deleted(self) -> int:
        """Remove what was deleted ``file.delete.delay.ms`` ago; answers how many.

        Directories that were marked when they were found count from then on.
        """
        removed = 0
        with self._working():
            delay_ms = self.config.file_delete_delay_ms
            for directory, marked in self._deleted.take_due(delay_ms):
                if directory.failure is None:
                    directory.remove(marked)
                    removed += 1
        return removed

    # The end

    def close(self) -> None:
        """Close all logs in order, with checkpoints and marker; twice is once.

        A directory in which that fails has no marker, and its error is raised when the
        others are closed. Those offline before stay as they are.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            errors: list[Exception] = []
            for directory in self._directories:
                try:
                    directory.close()
                except Exception as error:
                    errors.append(error)
        self._stop()
        if errors:
            raise errors[0]

    def abandon(self) -> None:
        """Let go of all files as they are, as when the process dies."""
        with self._lock:
            self._closed = True
            for directory in self._directories:
                directory.abandon()
        self._stop()

    def _stop(self) -> None:
        if self._owns_scheduler:
            self._scheduler.shutdown()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Work alone, and not after the end."""
        with self._lock:
            if self._closed or any(one.is_inherited for one in self._directories):
                raise LogClosedError("the log manager is closed")
            yield

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

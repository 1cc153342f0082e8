"""`LogManager`: all logs in log directories, managed as in a broker.

Tasks of a scheduler run retention, flush logs after their ``flush.ms``, write
checkpoints, and remove deleted partitions. Each task is a public method, too. A
`LogCleaner` compacts logs in separate tasks, and runs the retention of these logs.

Source: ``LogManager.scala``, ``ReplicaManager.scala`` (its checkpoints).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Final

from kafkalog.cleaner import LogCleaner
from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.errors import (
    InconsistentTopicIdError,
    KafkaLogError,
    LogArgumentError,
    LogClosedError,
    LogStateError,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.integer_limits import MAX_INT32
from kafkalog.log.appending import integer
from kafkalog.log.clock import Clock, Scheduler, SystemClock, Task, ThreadScheduler
from kafkalog.log.closing import ClosedAtEnd
from kafkalog.log.ownership import Name
from kafkalog.log.reading.remote_offsets import warn_of_missing_start
from kafkalog.log.recovery.recovery_report import warn_of_lost_offsets
from kafkalog.log.state import checked_topic_id
from kafkalog.log.topic_settings import (
    PartitionSettings,
    TopicSettings,
    warn_of_settings,
)
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.background import (
    RemovalQueue,
    start_tasks,
    unless_closed,
)
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.manager.found_logs import (
    AnyDirectories,
    check_unique,
    distinct_directories,
)
from kafkalog.manager.identity import IsStray, Owner
from kafkalog.manager.managed_directory import (
    LOADING_THREADS,
    ManagedDirectory,
    ManagerContext,
    path_of,
)
from kafkalog.manager.moving import (
    BACKOFF_MS,
    MOVER,
    Copy,
    CopyQuota,
    Move,
    Mover,
    find_superseded,
)
from kafkalog.manager.replication import FETCH_BYTES
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.forked_process import leave_after_fork
from kafkalog.storage.location import AnyPath, local_path

REFUSALS: Final = (KafkaLogError, OSError, LookupError, TypeError, ValueError)
"""Errors of a call after which the manager is open. Any other is an interrupt."""


class LogManager(ClosedAtEnd, Mapping[Name, WritableLog]):
    """The logs of one or several log directories, by (topic, partition).

    A manager is a mapping of the open logs. The directories are created if they are
    missing, and locked as by a broker. All logs in them are loaded, and recovered if
    the last shutdown was not clean. `close` flushes all logs, and writes the
    checkpoints and the clean shutdown marker.

    A directory whose disk fails is closed and listed in `offline`; the others stay
    open. If the constructor raises, no directory was changed.

    One background thread, named ``kafkalog-scheduler``, serves all logs. More start, up
    to ``background.threads``, only while tasks overlap. Loading and closing use up to
    ``num.recovery.threads.per.data.dir`` threads a directory, named ``kafkalog-load``,
    which end with the call. All threads have ended when `close` or `abandon` returns.

    Parameters
    ----------
    directories : path, or iterable of paths
        The log directories.
    config : LogConfig, optional
        The settings of all topics that are not in `topics`. By default they are those
        of `broker`. In directories of a broker, the settings in
        ``__cluster_metadata-0`` take precedence.
    topics : mapping of str to LogConfig, optional
        The settings of single topics.
    broker : BrokerConfig, optional
        The settings of ``server.properties``; by default Kafka's defaults.
    is_stray : callable, optional
        Called with each log after it is loaded. If it returns True, the log does not
        belong to this broker: its directory is renamed to ``-stray``.
    cluster : ClusterImage or path, optional
        The partitions of the cluster, or its ``__cluster_metadata-0``, or the log
        directory that has it. Logs that the cluster does not assign to this broker are
        strays, as in Kafka: also those without a topic id.
    cluster_id : str, optional
        The id of the cluster that the directories must have, if they have any.
    node_id : int, optional
        The id of the broker that the directories must have, if they have any. With
        `cluster_id` and `node_id` a new directory gets a ``meta.properties``.

    Raises
    ------
    LogLockedError
        If a broker or kafkalog has a log of a directory open for writing.
    ConfigError
        If there is no directory, or if one is listed twice.
    NotALogDirectoryError
        If a directory has a subdirectory that is not a partition's.
    LogArgumentError
        If a directory is a URL, or if settings are of another type.
    LogStateError
        If a partition has two directories, or if the ``meta.properties`` of the
        directories are of several clusters or brokers, or have the same directory id.
    OSError
        If the disks of all directories fail.

    Warns
    -----
    UnknownSettingsWarning
        If the settings of a topic are not known: nothing is deleted from its logs.
    TieredLogWarning
        If a log has offsets before its first segment, which are in remote storage, or
        lost.

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
        cluster: ClusterImage | AnyPath | None = None,
        cluster_id: str | None = None,
        node_id: int | None = None,
    ) -> None:
        owner = Owner(cluster, cluster_id, node_id)
        self._start(directories, config, topics, broker, is_stray, owner)

    def _start(
        self,
        directories: AnyDirectories,
        config: LogConfig | None,
        topics: Mapping[str, LogConfig] | None,
        broker: BrokerConfig | None,
        is_stray: IsStray | None,
        owner: Owner,
        *,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
        disk: Disk = DISK,
    ) -> None:
        """Load the logs; tests pass a clock, a scheduler and a disk of their own.

        Warnings name the line that called the caller of this method: the user's code.
        """
        paths = distinct_directories(directories)
        self._settings = TopicSettings(paths, config, topics, broker)
        self.broker = BrokerConfig() if broker is None else broker
        self.config = self.broker.log_config() if config is None else config
        self._clock = SystemClock() if clock is None else clock
        self._owns_scheduler = scheduler is None
        threads = self.broker.background_threads
        self._scheduler = ThreadScheduler(threads) if scheduler is None else scheduler
        self._lock = RLock()
        self._closed = False
        self._is_inherited = False
        leave_after_fork(self)
        context = ManagerContext(
            broker=self.broker,
            settings=self._settings,
            clock=self._clock,
            scheduler=self._scheduler,
            disk=disk,
        )
        self._directories = [ManagedDirectory(path, context) for path in paths]
        self._deleted = RemovalQueue[tuple[ManagedDirectory, Path]](self._clock)
        self._cleaner = LogCleaner.from_config(self, self.broker)
        self._uncompacted: set[Name] = set()  # paused while they move
        self._mover = Mover(self._directories)
        self._moving = RLock()  # held while batches are copied
        self._copies_next: Task | None = None
        try:
            found = self._find(owner)
            warn_of_settings(found, stacklevel=4)
            self._load(is_stray, owner)
            for log in [*self.values(), *self.futures.values()]:
                warn_of_lost_offsets(log.report, path_of(log), stacklevel=4)
                warn_of_missing_start(log.path, log.missing_start)
            self._schedule()
        except BaseException:
            self.abandon()
            raise

    @cached_property
    def _copy_quota(self) -> CopyQuota:
        broker = self._settings.broker
        return CopyQuota(
            broker.replica_alter_log_dirs_io_max_bytes_per_second,
            self._clock.now_ms,
            windows=broker.alter_log_dirs_replication_quota_window_num,
            window_ms=1000
            * broker.alter_log_dirs_replication_quota_window_size_seconds,
        )

    def _find(self, owner: Owner) -> dict[str, PartitionSettings]:
        """Lock the directories and check the logs in them, without changing any."""
        for directory in self._directories:
            directory.lock()
        self._in_parallel(ManagedDirectory.check)
        owner.check(self._identities)
        find_superseded(self._online())
        logs = [log for directory in self._online() for log in directory.found.logs]
        check_unique(logs)
        return {log.path.name: log.settings for log in logs}

    def _load(self, is_stray: IsStray | None, owner: Owner) -> None:
        self._in_parallel(ManagedDirectory.load)
        is_stray = owner.strays_or(is_stray)
        for directory in self._online():
            if is_stray is not None:
                directory.mark_strays(is_stray)
            if owner.cluster_id is not None and owner.node_id is not None:
                directory.identify(owner.cluster_id, owner.node_id)
        for directory in self._online():
            directory.delete_superseded(list(self))
            for marked in directory.found.deleted:
                self._deleted.add((directory, marked))
        self._recover_futures(owner)
        self._online()  # raises if all have failed

    def _in_parallel(self, work: Callable[[ManagedDirectory], None]) -> None:
        """Call `work` with each directory that is online; raise the first error."""
        online = self._online()
        with ThreadPoolExecutor(len(online), LOADING_THREADS) as threads:
            for call in [threads.submit(work, directory) for directory in online]:
                call.result()

    def _recover_futures(self, owner: Owner) -> None:
        """Make the future logs that the cluster has accepted current.

        The disk failed, or the broker stopped, before they replaced the current logs,
        which are marked as deleted. The current log may also be gone: its directory was
        replaced by an empty one.

        Source: ``LogManager.recoverAbandonedFutureLogs``.
        """
        for target in self._online():
            for name, log in list(target.futures.items()):
                if not owner.is_accepted_in(log, target.identity):
                    continue
                source = self._mover.source_of(name)
                with suppress(OSError):  # a directory is offline now
                    if source is None:
                        target.flush_future(name)
                        target.promote(name)
                    elif source.logs[name].topic_id == log.topic_id:
                        marked = self._mover.replace(name, source, target)
                        if marked is not None:
                            self._deleted.add(marked)

    @property
    def _identities(self) -> dict[Path, MetaProperties]:
        return {
            each.path: each.identity
            for each in self._online()
            if each.identity is not None
        }

    def _schedule(self) -> None:
        tasks: dict[str, Callable[[], object]] = {
            "kafka-log-retention": self._retain,
            "kafka-log-flusher": self.flush_due,
            "kafka-recovery-point-checkpoint": lambda: self.checkpoint(RECOVERY_POINTS),
            "kafka-log-start-offset-checkpoint": lambda: self.checkpoint(LOG_STARTS),
            "highwatermark-checkpoint": lambda: self.checkpoint(HIGH_WATERMARKS),
        }
        start_tasks(tasks, self.broker, self._scheduler)
        self._pause_moving()
        if self.broker.log_cleaner_enable:
            self._cleaner.start(self._scheduler, after_work=self._check_if_open)
        self._schedule_removal(self.broker.log_initial_task_delay_ms)
        self._schedule_copying()

    def _check_if_open(self) -> None:
        """Take directories with a failed disk offline, unless the manager is closed."""
        with suppress(LogClosedError), self._while_open():
            self._check()

    def _schedule_removal(self, delay_ms: int) -> None:
        def remove() -> None:
            self.remove_deleted()
            delay_ms = self.config.file_delete_delay_ms
            self._schedule_removal(self._deleted.due_in_ms(delay_ms))

        name = "kafka-delete-logs"
        self._scheduler.schedule(name, unless_closed(remove), delay_ms)

    def _pause_moving(self) -> None:
        """Pause compaction of the logs that are moving, and resume it for others.

        The swap also moves the checkpointed end of the clean part. Batches that were
        copied before a round would count as clean without being compacted.
        """
        moving = {
            name
            for name in self._mover.moves
            if (log := self.get(name)) is not None and log.config.compact
        }
        for name in sorted(moving - self._uncompacted):
            self._cleaner.states.abort_and_pause(name)
            self._uncompacted.add(name)
        self._cleaner.states.resume(sorted(self._uncompacted - moving))
        self._uncompacted &= moving

    def _schedule_copying(self, delay_ms: int = 0) -> None:
        """Advance the moves in the background, while there are any."""

        def advance() -> None:
            self._copies_next = None
            copied = self.advance_moves()
            self._schedule_copying(0 if copied else BACKOFF_MS)

        with self._lock:
            if self._copies_next is None and self._mover.to_advance:
                self._copies_next = self._scheduler.schedule(
                    MOVER, unless_closed(advance), delay_ms
                )

    # Logs and settings

    def __getitem__(self, name: Name) -> WritableLog:
        """Return the log of a (topic, partition); raise `KeyError` if there is none."""
        for directory in self._directories:
            if (log := directory.logs.get(name)) is not None:
                return log
        error = KeyError(name)
        for directory in self._directories:
            if name in directory.offline_logs:
                error.add_note(f"It is in an offline log directory: {directory.path}")
        raise error

    def __iter__(self) -> Iterator[Name]:
        """Yield the (topic, partition) of each log, in order."""
        return iter(sorted(name for each in self._directories for name in [*each.logs]))

    def __len__(self) -> int:
        return sum(len(each.logs) for each in self._directories)

    def __repr__(self) -> str:
        paths = ", ".join(str(each.path) for each in self._directories)
        return f"<LogManager of {len(self)} logs in {paths}>"

    @property
    def cleaner(self) -> LogCleaner:
        """The cleaner that compacts the logs with ``compact`` in ``cleanup.policy``.

        Its `~LogCleaner.clean` raises `LogStateError` while a background task compacts
        the same log. With ``log.cleaner.enable=false`` there are no such tasks.
        """
        return self._cleaner

    @property
    def futures(self) -> dict[Name, WritableLog]:
        """Logs that are moved here from another log directory (``-future``)."""
        return {
            name: log
            for each in self._directories
            for name, log in each.futures.items()
        }

    @property
    def strays(self) -> list[Path]:
        """Directories of partitions that do not belong to this broker (``-stray``)."""
        return [path for each in self._directories for path in each.found.strays]

    @property
    def offline(self) -> dict[Path, Exception]:
        """Log directories that were closed because of an error, and the errors."""
        with self._lock:
            self._check()
            return {
                each.path: each.failure
                for each in self._directories
                if each.failure is not None
            }

    @property
    def offline_logs(self) -> dict[Name, Path]:
        """The partitions known to be in an offline log directory."""
        with self._lock:
            self._check()
            return {
                name: each.path
                for each in self._directories
                for name in sorted(each.offline_logs)
                if name not in self
            }

    @property
    def directory_ids(self) -> dict[Path, str]:
        """The ids in the ``meta.properties`` of the log directories that have one."""
        return {
            path: identity.directory_id
            for path, identity in self._identities.items()
            if identity.directory_id is not None
        }

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of a topic.

        Parameters
        ----------
        topic : str
            The name of the topic.

        Returns
        -------
        LogConfig
            Its settings: those of `update_config` or of the constructor, else those in
            the cluster's metadata, else those of the broker.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         logs.config_of("orders").retention_ms
        604800000
        """
        return self._settings.of(topic).config

    def _online(self) -> list[ManagedDirectory]:
        """Return the directories that are not offline; raise if all are."""
        online = [each for each in self._directories if each.failure is None]
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
        directory: AnyPath | None = None,
    ) -> WritableLog:
        """Return a partition's log; create it if it is missing.

        A new log is created in the directory with the fewest logs, the first of several
        such directories. Those in ``cordoned.log.dirs`` are used only if there is no
        other, the first of them. A log that was closed is opened again.

        Parameters
        ----------
        topic : str
            The name of the topic.
        partition : int
            The number of the partition.
        topic_id : str, optional
            The id of the topic, which a new log records in ``partition.metadata``.
        is_new : bool
            Whether the partition is known to be new. An offline directory may have the
            log, so while one is offline a log is created only with `is_new`.
        directory : path, optional
            The log directory of a new log. An existing log is not moved.

        Returns
        -------
        WritableLog
            The log. The manager closes it.

        Raises
        ------
        InconsistentTopicIdError
            If the log has another topic id.
        LogClosedError
            If the manager is closed, if the log may be in an offline directory, or if
            `directory` is offline.
        LogArgumentError
            If `topic_id` is invalid, or if `directory` is not a log directory of the
            manager, or is cordoned.
        LogStateError
            If there is only a future log of the partition, or only a symbolic link to
            its directory.
        OSError
            If the disks of all directories fail, or that of `directory`.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         log = logs.open("orders", 0)
        ...         log.log_end_offset
        0
        """
        with self._while_open():
            name = topic, integer("partition", partition, MAX_INT32)
            topic_id = checked_topic_id(topic_id)
            if name not in self:
                settings = self._settings.of(topic)
                warn_of_settings({f"{topic}-{partition}": settings})
                candidates = None if directory is None else [self._managed(directory)]
                return self._create(
                    name, topic_id, settings.config, candidates, is_new=is_new
                )
            [holder] = [each for each in self._directories if name in each.logs]
            log = holder.reopen_if_closed(name)
        if topic_id is not None and log.topic_id not in (None, topic_id):
            raise InconsistentTopicIdError(
                f"topic id {log.topic_id}, expected {topic_id}: {log.path}"
            )
        return log

    def _create(
        self,
        name: Name,
        topic_id: str | None,
        config: LogConfig,
        candidates: list[ManagedDirectory] | None,
        *,
        is_new: bool,
    ) -> WritableLog:
        for each in self._directories:
            each.check_no_link(name)
        if not is_new:
            self._raise_if_offline(name)
        if (future := self.futures.get(name)) is not None:
            error = LogStateError(f"future log without a current log: {future.path}")
            error.add_note("abort_move deletes it.")
            raise error
        if candidates is not None:
            [directory] = candidates
            return directory.create(name, topic_id, config)
        while True:
            try:
                return self._next_directory().create(name, topic_id, config)
            except OSError:  # that directory is offline now: try the next
                self._online()

    def _next_directory(self) -> ManagedDirectory:
        """Return the directory with the fewest logs, cordoned only if all are."""
        online = self._online()
        allowed = [each for each in online if not self._is_cordoned(each)]
        return min(allowed or online[:1], key=lambda each: len(list(each.all_logs())))

    def _is_cordoned(self, directory: ManagedDirectory) -> bool:
        cordoned = self.broker.cordoned_log_directories
        return directory.path in [Path(path).absolute() for path in cordoned]

    def _managed(self, directory: AnyPath) -> ManagedDirectory:
        """Return a log directory by its path, for a partition that is to go there.

        Raises an error if it is unknown, offline or cordoned.
        """
        path = local_path(directory).absolute()
        for each in self._directories:
            if each.path == path or each.path.resolve() == path.resolve():
                if each.failure is not None:
                    raise LogClosedError(f"log directory is offline: {each.path}")
                if self._is_cordoned(each):
                    error = LogArgumentError(f"log directory is cordoned: {each.path}")
                    error.kafka_name = "InvalidReplicaAssignmentException"
                    raise error
                return each
        listed = ", ".join(str(each.path) for each in self._directories)
        raise LogArgumentError(f"log directory {path}, expected one of {listed}")

    def _raise_if_offline(self, name: Name) -> None:
        if not (offline := self.offline):
            return
        partition = f"{name[0]}-{name[1]}"
        if (path := self.offline_logs.get(name)) is not None:
            error = offline[path]
            reason = f"{partition} is in the offline log directory {path}: {error}"
            raise LogClosedError(reason) from error
        where = ", ".join(map(str, offline))
        raise LogClosedError(f"{partition} may be in an offline log directory: {where}")

    def delete(self, topic: str, partition: int) -> None:
        """Close a partition's log, and its future log if it is moving; delete both.

        Each directory is renamed to ``-delete`` now, and removed after
        ``file.delete.delay.ms``.

        Parameters
        ----------
        topic : str
            The name of the topic.
        partition : int
            The number of the partition.

        Raises
        ------
        KeyError
            If there is no such partition.
        LogClosedError
            If the manager is closed, or if the log may be in an offline directory.
        OSError
            If the disk fails.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.delete("orders", 0)
        ...         list(logs)
        []
        """
        name = topic, partition
        with self._while_open():
            is_moving = self._abort_move(name)
            for directory in self._online():
                if name in directory.logs:
                    with self._cleaner.states.paused([name]):
                        marked = directory.delete(name)
                    self._deleted.add((directory, marked))
                    return
            self._raise_if_offline(name)
        if not is_moving:
            raise KeyError(name)

    # Moves

    @property
    def moves(self) -> dict[Name, Move]:
        """The moves of partitions between log directories that have not finished."""
        with self._lock:
            return self._mover.moves

    def move(self, topic: str, partition: int, directory: AnyPath) -> None:
        """Start to move a partition to another log directory of this manager.

        A future log is created there, and batches are copied to it in the background,
        or by `advance_moves`. Until the future log has all batches, the current log is
        used as before. Then the current log is closed and deleted as by `delete`, and
        ``manager[topic, partition]`` is the new log. A move continues when the
        directories are opened again.

        A move of the partition to another directory is aborted. If the partition is in
        `directory` already, no move is started.

        Parameters
        ----------
        topic : str
            The name of the topic.
        partition : int
            The number of the partition.
        directory : path
            The log directory to move it to.

        Raises
        ------
        KeyError
            If there is no such partition.
        LogArgumentError
            If `directory` is not a log directory of the manager, or is cordoned, or if
            the name of the topic is too long for the name of a future log.
        LogClosedError
            If the manager is closed, if the partition may be in an offline directory,
            or if `directory` is offline.
        LogStateError
            If `directory` has a symbolic link of the partition's name.
        OSError
            If the disk fails.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     directories = [f"{root}/a", f"{root}/b"]
        ...     with kafkalog.LogManager(directories) as logs:
        ...         log = logs.open("orders", 0)
        ...         _ = log.append_records([{"value": "one"}])
        ...         logs.move("orders", 0, directories[1])
        ...         while logs.moves:
        ...             _ = logs.advance_moves()
        ...         moved = logs["orders", 0]
        ...         moved.path.parent.name, moved.log_end_offset
        ('b', 1)
        """
        name = topic, partition
        with self._while_open():
            target = self._managed(directory)
            target.check_no_link(name)
            if name not in self:
                self._raise_if_offline(name)
            before = self._mover.target_of(name)
            marked = self._mover.start(name, target)
            if marked is not None and before is not None:
                self._deleted.add((before, marked))
            self._pause_moving()
        self._schedule_copying()

    def abort_move(self, topic: str, partition: int) -> bool:
        """Delete the future log of a partition that is moving.

        Parameters
        ----------
        topic : str
            The name of the topic.
        partition : int
            The number of the partition.

        Returns
        -------
        bool
            Whether there was a future log.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disk fails.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager([f"{root}/a", f"{root}/b"]) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.abort_move("orders", 0)
        False
        """
        with self._while_open():
            return self._abort_move((topic, partition))

    def _abort_move(self, name: Name) -> bool:
        target = self._mover.target_of(name)
        marked = self._mover.abort(name)
        if target is not None and marked is not None:
            self._deleted.add((target, marked))
        self._pause_moving()
        return marked is not None

    def advance_moves(self, max_bytes: int = FETCH_BYTES) -> int:
        """Copy the next part of each moving partition; finish complete moves.

        A future log from before the last opening is first compared with the current
        log, as the current log may have been changed since.

        While the rate of copied bytes is above
        ``replica.alter.log.dirs.io.max.bytes.per.second``, nothing is copied.

        Parameters
        ----------
        max_bytes : int
            Maximum number of bytes to copy or compare for each partition. At least one
            batch is copied or compared.

        Returns
        -------
        int
            The number of bytes that were copied or compared.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disks of all directories fail.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager([f"{root}/a", f"{root}/b"]) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.advance_moves()
        0
        """
        copied = 0
        with self._moving:
            with self._while_open():
                names = self._mover.to_advance
            for name in names:
                if self._copy_quota.is_exceeded:
                    break
                with self._while_open():
                    logs = self._mover.prepare(name)
                if logs is None:
                    continue
                done, complete = self._mover.advance(name, logs, max_bytes)
                self._copy_quota.count(done)
                copied += done
                with self._while_open():
                    if complete:
                        self._swap(name, logs)
                    self._check()
                    self._online()
        return copied

    def _swap(self, name: Name, logs: Copy) -> None:
        with suppress(OSError):  # a directory is offline now
            marked = self._mover.swap(name, logs)
            if marked is not None:
                self._deleted.add(marked)
        self._pause_moving()

    def delete_topic(self, topic: str) -> int:
        """Close and delete all partitions of a topic, as `delete` does.

        Parameters
        ----------
        topic : str
            The name of the topic.

        Returns
        -------
        int
            The number of deleted partitions.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disk fails.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         for partition in range(3):
        ...             _ = logs.open("orders", partition)
        ...         logs.delete_topic("orders"), list(logs)
        (3, [])
        """
        with self._while_open():
            found = sorted(
                {name for name in (*self, *self.futures) if name[0] == topic}
            )
            for name in found:
                self.delete(*name)
            return len(found)

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Set the settings of a topic, for its open logs and for new ones.

        Parameters
        ----------
        topic : str
            The name of the topic.
        config : LogConfig
            Its settings.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         logs.update_config("orders", kafkalog.LogConfig(retention_ms=-1))
        ...         logs.config_of("orders").retention_ms
        -1
        """
        with self._lock:
            self._settings.set_topic(topic, config)
            for directory in self._online():
                for log in directory.all_logs():
                    if log.topic != topic:
                        continue
                    was_compacted = log.config.compact
                    log.update_config(config)
                    if was_compacted and not config.compact:
                        self._cleaner.abort(log)
            self._pause_moving()

    # Periodic tasks

    def retain(self) -> int:
        """Delete segments by retention time, retention size and log start offset.

        Segments of compacted logs are deleted only with ``log.cleaner.enable``, as by a
        broker.

        Returns
        -------
        int
            The number of deleted segments.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disks of all directories fail.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.retain()
        0
        """
        deleted = self._retain()
        if self.broker.log_cleaner_enable:
            deleted += self._cleaner.delete_old_segments()
            self._check_if_open()
        return deleted

    def _retain(self) -> int:
        """Apply retention to logs without compaction, and to their future logs."""
        with self._cleaner.states.uncompacted_paused() as names:

            def retain(log: WritableLog) -> int:
                is_chosen = (log.topic, log.partition) in names
                return log.delete_old_segments() if is_chosen else 0

            return self._sum_over_logs(retain)

    def flush_due(self) -> int:
        """Flush the logs whose last flush is ``flush.ms`` or more ago.

        Returns
        -------
        int
            The number of flushed logs.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disks of all directories fail.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.flush_due()
        0
        """
        now = self._clock.now_ms()

        def flush(log: WritableLog) -> int:
            if now - log.last_flushed_ms < log.config.flush_ms:
                return 0
            log.flush()
            return 1

        return self._sum_over_logs(flush)

    def _sum_over_logs(self, work: Callable[[WritableLog], int]) -> int:
        with self._while_open():
            return sum(each.sum_over_logs(work) for each in self._online())

    def checkpoint(self, *names: str) -> None:
        """Write the checkpoints of recovery points, log starts and high watermarks.

        Parameters
        ----------
        *names : str
            The file names of the checkpoints to write; by default all three.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disks of all directories fail.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.checkpoint("recovery-point-offset-checkpoint")
        """
        with self._while_open():
            self._check()
            for directory in self._online():
                directory.checkpoint(*names)

    def truncate_to(self, offsets: Mapping[Name, int]) -> None:
        """Truncate logs, and checkpoint their recovery points.

        Parameters
        ----------
        offsets : mapping of (str, int) to int
            The new log end offset by (topic, partition). Unknown partitions are
            ignored.

        Raises
        ------
        LogClosedError
            If the manager is closed.
        OSError
            If the disk fails.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v")
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         log = logs.open("orders", 0)
        ...         _ = log.append(batch.build())
        ...         logs.truncate_to({("orders", 0): 0})
        ...         log.log_end_offset
        0
        """
        with self._while_open():
            for directory in self._online():
                here = [name for name in offsets if name in directory.logs]
                cut = [
                    self._cleaner.truncate_to(directory.logs[name], offsets[name])
                    for name in here
                ]
                if any(cut):
                    directory.checkpoint(RECOVERY_POINTS)

    def remove_deleted(self) -> int:
        """Remove the partitions that were deleted ``file.delete.delay.ms`` ago.

        For a directory that was marked before the manager was opened, the delay starts
        with the opening.

        Returns
        -------
        int
            The number of removed directories.

        Raises
        ------
        LogClosedError
            If the manager is closed.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.LogManager(root) as logs:
        ...         _ = logs.open("orders", 0)
        ...         logs.delete("orders", 0)
        ...         logs.remove_deleted()
        0
        """
        removed = 0
        with self._while_open():
            delay_ms = self.config.file_delete_delay_ms
            for directory, marked in self._deleted.take_due(delay_ms):
                if directory.failure is None:
                    directory.remove(marked)
                    removed += 1
        return removed

    # Closing

    def close(self) -> None:
        """Flush and close all logs, and write checkpoints and clean shutdown markers.

        A directory in which that fails gets no marker, so its logs are recovered when
        it is opened again. So does one with a log that an interrupt had closed.
        Directories that are offline stay unchanged. A second call has no effect.

        If the call is interrupted, the directories that are not closed yet are closed
        as by `abandon`.

        Raises
        ------
        OSError
            If a disk fails; raised after the other directories are closed.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     logs = kafkalog.LogManager(root)
        ...     logs.close()
        """
        if self._is_inherited:
            return
        try:
            with self._lock:
                was_closed, self._closed = self._closed, True
                if not was_closed:
                    self._cleaner.close()
                    self._close_directories()
        except BaseException:
            self.abandon()
            raise
        finally:
            self._stop()

    def _close_directories(self) -> None:
        """Close the directories at the same time; raise the first error."""
        threads = ThreadPoolExecutor(len(self._directories), LOADING_THREADS)
        try:
            calls = [threads.submit(each.close) for each in self._directories]
            threads.shutdown()
        except BaseException:
            threads.shutdown()  # an interrupt: what is being closed is closed first
            raise
        for call in calls:
            call.result()

    def abandon(self) -> None:
        """Close all files without a flush, as if the process had crashed.

        The logs are recovered when their directories are opened again.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     logs = kafkalog.LogManager(root)
        ...     logs.abandon()
        """
        if self._is_inherited:
            return
        try:
            with self._lock:
                self._closed = True
                self._cleaner.close()
                for directory in self._directories:
                    directory.abandon()
        finally:
            self._stop()

    def _leave_to_parent(self) -> None:
        """Close the manager in a forked process, in which no other thread runs."""
        self._lock, self._moving = RLock(), RLock()
        self._is_inherited = self._closed = True

    def _stop(self) -> None:
        if self._owns_scheduler:
            self._scheduler.shutdown()

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Hold the lock; raise `LogClosedError` if the manager is closed."""
        with self._lock:
            if self._closed:
                raise LogClosedError("the log manager is closed")
            try:
                yield
            except REFUSALS:
                raise
            except BaseException:
                self.abandon()  # memory and directories may differ
                raise

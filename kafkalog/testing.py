"""Clocks, schedulers and disks for tests of code that uses kafkalog.

A log reads the time from a clock, schedules work with a scheduler and writes to a disk.
`open_log` and `open_manager` open logs as `kafkalog.open` and `kafkalog.LogManager` do,
with a clock and a scheduler that a test moves forward, and with a disk that records its
calls or fails at one of them.

>>> import tempfile, kafkalog
>>> from pathlib import Path
>>> clock = ManualClock(1_700_000_000_000)
>>> scheduler = ManualScheduler(clock)
>>> config = kafkalog.LogConfig(retention_ms=1000)
>>> batch = kafkalog.RecordBatchBuilder()
>>> batch.append(b"k", b"v", timestamp=clock.now_ms())
>>> with tempfile.TemporaryDirectory() as root:
...     path = Path(root, "orders-0")
...     with open_log(path, config, clock=clock, scheduler=scheduler) as log:
...         _ = log.append(batch.build())
...         _ = log.update_high_watermark(log.log_end_offset)
...         clock.time_ms += 1001
...         log.delete_old_segments(), log.log_start_offset
(1, 1)
"""

from __future__ import annotations

import errno
import heapq
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.formats.partition_files import format_clean_shutdown
from kafkalog.log.clock import ONCE, Clock, Scheduler, Task, Work
from kafkalog.log.opening import open_to_append
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.manager.found_logs import AnyDirectories
from kafkalog.manager.identity import Owner
from kafkalog.manager.log_manager import LogManager
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK, Data, Disk, DurableFile, Write
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.storage.location import AnyPath

__all__ = [
    "Disk",
    "FailingDisk",
    "ManualClock",
    "ManualScheduler",
    "SingleWriteDisk",
    "TracingDisk",
    "Write",
    "open_log",
    "open_manager",
    "write_checkpoints",
    "write_clean_shutdown",
]


# Time


@dataclass(slots=True)
class ManualClock:
    """A clock that shows `time_ms` until it is set.

    Parameters
    ----------
    time_ms : int
        The time, in ms since 1970.

    Examples
    --------
    >>> clock = ManualClock(1_700_000_000_000)
    >>> clock.time_ms += 5
    >>> clock.now_ms()
    1700000000005
    """

    time_ms: int = 0

    def now_ms(self) -> int:
        """Return the time, in ms since 1970."""
        return self.time_ms


class ManualScheduler:
    """A scheduler that keeps its tasks until `run_due` is called.

    Tasks run in the order in which they are due, then in that of scheduling. A periodic
    task that is late runs once. Any thread may schedule tasks at any time.

    Parameters
    ----------
    clock : ManualClock
        The clock by which tasks are due.

    Examples
    --------
    >>> clock = ManualClock()
    >>> scheduler = ManualScheduler(clock)
    >>> done = []
    >>> task = scheduler.schedule("delete-file", lambda: done.append(1), delay_ms=50)
    >>> scheduler.run_due(), done
    ([], [])
    >>> clock.time_ms = 50
    >>> scheduler.run_due(), done
    (['delete-file'], [1])
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: list[Task] = []
        self._numbers = count()
        self._changed = threading.Lock()  # held while the heap is changed

    def schedule(
        self, name: str, work: Work, delay_ms: int = 0, period_ms: int = ONCE
    ) -> Task:
        """Keep a task for `run_due`.

        Parameters
        ----------
        name : str
            Name of the task.
        work : callable
            The task's work, called without arguments.
        delay_ms : int
            Time until it is due.
        period_ms : int
            Time between two runs; -1 for a task that runs once.

        Returns
        -------
        Task
            The task, which can be cancelled.
        """
        due = self._clock.now_ms() + max(0, delay_ms)
        with self._changed:
            task = Task(due, next(self._numbers), name, work, period_ms)
            heapq.heappush(self._tasks, task)
        return task

    def run_due(self) -> list[str]:
        """Run all tasks that are due, and those that they schedule for now.

        Returns
        -------
        list of str
            The names of the tasks, in the order in which they ran.
        """
        done = []
        while (task := self._take_due()) is not None:
            done.append(task.name)
            task.work()
            if task.period_ms >= 0 and not task.cancelled:
                self._reschedule(task)
        return done

    def pending(self) -> list[Task]:
        """Return the tasks that have not run, in the order in which they will."""
        with self._changed:
            return sorted(task for task in self._tasks if not task.cancelled)

    def shutdown(self) -> None:
        """Drop all tasks."""
        with self._changed:
            self._tasks.clear()

    def _take_due(self) -> Task | None:
        now = self._clock.now_ms()
        with self._changed:
            while self._tasks and self._tasks[0].due_ms <= now:
                task = heapq.heappop(self._tasks)
                if not task.cancelled:
                    return task
        return None

    def _reschedule(self, task: Task) -> None:
        period = max(1, task.period_ms)
        late = max(0, self._clock.now_ms() - task.due_ms)
        task.due_ms += period * (late // period + 1)
        with self._changed:
            heapq.heappush(self._tasks, task)


# Disks


EFFECTS: Final = (
    "open",
    "truncate",
    "sync",
    "sync_directory",
    "rename",
    "remove",
    "make_hard_link",
    "make_symbolic_link",
    "make_directory",
    "remove_directory",
    "set_modified",
    "set_attributes",
)
"""The methods of `Disk` that change or open a file, except `write_each`."""

OF_TWO_NAMES: Final = ("rename", "make_hard_link", "make_symbolic_link")


class SingleWriteDisk(Disk):
    """A disk that makes several writes one by one, each a call of `write`."""

    def write_each(self, writes: list[Write]) -> None:
        """Call `write` for each of several writes."""
        for file, data, position in writes:
            self.write(file, data, position)

    def write(self, file: DurableFile, data: Data, position: int) -> None:
        """Write all of `data` at a position of a file."""
        super().write_each([(file, data, position)])


class TracingDisk(SingleWriteDisk):
    """A disk that records its calls.

    Attributes
    ----------
    calls : list of tuple
        A tuple (effect, file name, ...) for each call. That of a write is ("write",
        file name, position, size).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> disk = TracingDisk()
    >>> with tempfile.TemporaryDirectory() as root:
    ...     open_log(Path(root, "orders-0"), disk=disk).close()
    >>> disk.calls[0]
    ('open', '.lock')
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def write(self, file: DurableFile, data: Data, position: int) -> None:
        """Record a write, and make it; if it fails, half of the bytes are written."""
        whole = memoryview(data).cast("B")
        self.calls.append(("write", file.path.name, position, len(whole)))
        if self.fails():
            super().write(file, whole[: len(whole) // 2], position)
            raise _disk_full()
        super().write(file, data, position)

    def fails(self) -> bool:
        """Return whether the call recorded last fails."""
        return False

    def calls_of(self, effect: str) -> list[tuple[Any, ...]]:
        """Return the calls of one kind, as ``"sync"``.

        Parameters
        ----------
        effect : str
            Name of a method of the disk, or ``"write"``.

        Returns
        -------
        list of tuple
            Those of `calls` that have this name.
        """
        return [call for call in self.calls if call[0] == effect]


class FailingDisk(TracingDisk):
    """A disk on which one call fails as on a full disk; later calls succeed.

    A write that fails has written the first half of its bytes.

    Parameters
    ----------
    fail_at : int or None
        Number of the call that fails, counted from 0; None for none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as root:
    ...     open_log(Path(root, "orders-0"), disk=FailingDisk(fail_at=0))
    Traceback (most recent call last):
        ...
    OSError: [Errno 28] No space left on device
    """

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.fail_at = fail_at

    def fails(self) -> bool:
        """Return whether the call recorded last is number `fail_at`."""
        return self.fail_at == len(self.calls) - 1


def _disk_full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def _name_of(target: Any) -> str:
    return Path(target.path if isinstance(target, DurableFile) else target).name


def _traced(effect: str) -> Callable[..., Any]:
    real = getattr(Disk, effect)

    def traced(self: TracingDisk, target: Any, *rest: Any, **options: Any) -> Any:
        others = map(_name_of, rest) if effect in OF_TWO_NAMES else rest
        self.calls.append((effect, _name_of(target), *others))
        if self.fails():
            raise _disk_full()
        return real(self, target, *rest, **options)

    traced.__name__, traced.__doc__ = effect, real.__doc__
    return traced


for _effect in EFFECTS:
    setattr(TracingDisk, _effect, _traced(_effect))


# Logs


def open_log(
    path: Path | str,
    config: LogConfig | None = None,
    *,
    broker: BrokerConfig | None = None,
    topic_id: str | None = None,
    clean: bool | None = None,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    clock: Clock | None = None,
    scheduler: Scheduler | None = None,
    disk: Disk = DISK,
) -> WritableLog:
    """Open a log to append to it, with the clock, scheduler and disk of a test.

    Without `clean` this is `kafkalog.open` with mode ``"a"``. With it, the log
    directory of the partition is neither locked nor read nor written: the caller passes
    the contents of its checkpoints and marker, as Kafka's ``LogManager`` does to
    ``UnifiedLog.create``.

    Parameters
    ----------
    path : path
        The partition's directory, created if it is missing.
    config, broker, topic_id
        As for `kafkalog.open`.
    clean : bool, optional
        Whether the log was closed in order.
    log_start_offset, recovery_point : int
        The offsets of the checkpoints; used with `clean` only.
    clock : ManualClock, optional
        The clock; by default that of the operating system.
    scheduler : ManualScheduler, optional
        The scheduler; by default a thread of the log's own. A passed scheduler is not
        shut down when the log is closed.
    disk : Disk, optional
        The disk that is written to; by default the file system.

    Returns
    -------
    WritableLog
        The log, open.

    Raises
    ------
    KafkaLogError, OSError
        As `kafkalog.open`.

    Examples
    --------
    >>> import tempfile
    >>> clock = ManualClock(1_700_000_000_000)
    >>> with tempfile.TemporaryDirectory() as root:
    ...     log = open_log(
    ...         Path(root, "orders-0"),
    ...         clean=False,
    ...         clock=clock,
    ...         scheduler=ManualScheduler(clock),
    ...     )
    ...     log.report.clean, log.log_end_offset
    ...     log.close()
    (False, 0)
    """
    if clean is None:
        return open_to_append(
            path,
            config,
            broker=broker,
            topic_id=topic_id,
            clock=clock,
            scheduler=scheduler,
            disk=disk,
        )
    return load_log(
        path,
        config,
        broker=broker,
        topic_id=topic_id,
        clean=clean,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        clock=clock,
        scheduler=scheduler,
        disk=disk,
    )


def open_manager(
    directories: AnyDirectories,
    config: LogConfig | None = None,
    *,
    topics: Mapping[str, LogConfig] | None = None,
    broker: BrokerConfig | None = None,
    is_stray: Callable[[WritableLog], bool] | None = None,
    cluster: ClusterImage | AnyPath | None = None,
    cluster_id: str | None = None,
    node_id: int | None = None,
    clock: Clock | None = None,
    scheduler: Scheduler | None = None,
    disk: Disk = DISK,
) -> LogManager:
    """Open log directories, with the clock, scheduler and disk of a test.

    Parameters
    ----------
    directories, config, topics, broker, is_stray, cluster, cluster_id, node_id
        As for `kafkalog.LogManager`.
    clock, scheduler, disk
        As for `open_log`.

    Returns
    -------
    LogManager
        The manager, all its logs loaded.

    Raises
    ------
    KafkaLogError, OSError
        As `kafkalog.LogManager`.

    Examples
    --------
    >>> import tempfile
    >>> clock = ManualClock()
    >>> scheduler = ManualScheduler(clock)
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with open_manager(root, clock=clock, scheduler=scheduler) as manager:
    ...         clock.time_ms += 60_000
    ...         "kafka-log-retention" in scheduler.run_due()
    True
    """
    manager = LogManager.__new__(LogManager)
    manager._start(
        directories,
        config,
        topics,
        broker,
        is_stray,
        Owner(cluster, cluster_id, node_id),
        clock=clock,
        scheduler=scheduler,
        disk=disk,
    )
    return manager


def write_checkpoints(
    log_directory: Path | str, logs: Iterable[WritableLog], *, disk: Disk = DISK
) -> None:
    """Write the checkpoints of a log directory for logs opened with `clean`.

    Parameters
    ----------
    log_directory : path
        The directory of the checkpoints.
    logs : iterable of WritableLog
        All logs of the directory, open or closed.
    disk : Disk, optional
        The disk that is written to.
    """
    by_name = {(log.topic, log.partition): log for log in logs}
    points = {name: log.recovery_point for name, log in by_name.items()}
    marks = {name: log.high_watermark for name, log in by_name.items()}
    starts = {
        name: start
        for name, log in by_name.items()
        if (start := log.log_start_to_checkpoint) is not None
    }
    for checkpoint, offsets in (
        (RECOVERY_POINTS, points),
        (HIGH_WATERMARKS, marks),
        (LOG_STARTS, starts),
    ):
        write_offsets(Path(log_directory), checkpoint, offsets, disk)


def write_clean_shutdown(log_directory: Path | str, broker_epoch: int = -1) -> None:
    """Write the clean shutdown marker of a log directory.

    Parameters
    ----------
    log_directory : path
        The directory of the marker.
    broker_epoch : int
        The broker's epoch, which is written to the marker.
    """
    marker = Path(log_directory, CLEAN_SHUTDOWN)
    DISK.replace(marker, format_clean_shutdown(broker_epoch))

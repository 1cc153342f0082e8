"""The clock, scheduler, disk and lock of a log that is open for writing.

All work on a log follows one rule. A `KafkaLogError` rejects an operation and leaves
the log as it was. Any other exception closes the log: an error of the disk, but also a
`KeyboardInterrupt`, or an exception of another signal handler, which may come between
any two lines. It is raised to the caller unchanged. From then on the log accepts no
call but `close`, as its memory and its files may differ. Opening it again recovers it.
What comes before the work, such as a `TypeError` for parameters that a method does not
have, or an interrupt that comes before it has the lock, closes nothing.

In a forked process the logs of its parent are closed. Two processes would write to the
same files, or truncate them to the state that each has in memory.

Source: ``LogDirFailureChannel.java``, ``LocalLog.maybeHandleIOException``.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from threading import RLock
from types import TracebackType
from typing import Final

from kafkalog.errors import (
    CorruptCheckpointError,
    KafkaLogError,
    LogClosedError,
    LogStateError,
)
from kafkalog.log.clock import Clock, Scheduler, Task, ThreadScheduler, Work
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.forked_process import leave_after_fork

DISK_FAILURES: Final = (OSError, CorruptCheckpointError)
"""Errors that take one log directory offline, and leave the others open."""

CLOSED: Final = "the log is closed"
INHERITED: Final = "the log is open in the process that this one was forked from"


class Guard:
    """A context in which the log is open, and closes itself if the work in it fails.

    Entering it raises `LogClosedError` if the log is closed or has failed. It does not
    acquire the lock: a lock that is acquired in a method of a context may stay held
    after an interrupt, but not one in a ``with`` statement of its own.
    """

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __enter__(self) -> None:
        runtime = self._runtime
        if runtime.closed or runtime.failure is not None:
            runtime.check()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, KafkaLogError):
            self._runtime.fail(error)


class Runtime:
    """The clock, scheduler, disk and lock of one log, and its failure if it has failed.

    `failure` is the error for which the log closed itself. `is_reported` is whether a
    caller has seen that error. `is_inherited` is whether this is a forked process, and
    the log is open in its parent.
    """

    def __init__(
        self, clock: Clock, scheduler: Scheduler | None, disk: Disk = DISK
    ) -> None:
        self.clock = clock
        self.scheduler: Scheduler = (
            ThreadScheduler() if scheduler is None else scheduler
        )
        self._owns_scheduler = scheduler is None
        self.disk = disk
        self.lock = RLock()
        self.is_inherited = False
        self.open_files = OpenFiles()
        self.failure: Exception | None = None
        self.is_reported = True
        self.closed = False
        self._closed_because = CLOSED
        leave_after_fork(self)

    def now_ms(self) -> int:
        """Return the time, in ms since 1970."""
        return self.clock.now_ms()

    def check(self) -> None:
        """Raise `LogClosedError` to a caller if the log is closed or has failed."""
        if self.failure is not None:
            self.is_reported = True
        self.check_open()

    def check_open(self) -> None:
        """Raise as `check` does, in the background, where no caller sees the error."""
        if self.failure is not None:
            is_disk = isinstance(self.failure, DISK_FAILURES)
            kind = "the disk failed" if is_disk else "a call was interrupted"
            reason = f"the log closed itself when {kind}: {self.failure}"
            raise LogClosedError(reason) from self.failure
        if self.closed:
            raise LogClosedError(self._closed_because)

    def fail(self, error: BaseException) -> None:
        """Set `failure`; from then on every call but `close` and `abandon` raises it.

        Only `DISK_FAILURES` are kept themselves. The traceback of another error would
        keep objects alive that the interrupted calls had opened.
        """
        if not isinstance(error, DISK_FAILURES):
            text = f": {error}" if str(error) else ""
            error = LogStateError(f"{type(error).__name__}{text}")
        self.failure = error

    def guard(self) -> Guard:
        """Return a guard, to be entered for work on the log, mostly with its lock."""
        return Guard(self)

    @property
    def was_interrupted(self) -> bool:
        """Whether the log closed itself for another reason than a failed disk."""
        failure = self.failure
        return failure is not None and not isinstance(failure, DISK_FAILURES)

    def stop(self) -> None:
        """Stop the log's own scheduler. The lock must not be held."""
        if self._owns_scheduler:
            self.scheduler.shutdown()

    def _leave_to_parent(self) -> None:
        """Close the log in a forked process, in which no other thread runs."""
        self.lock = RLock()
        self.is_inherited = True
        self._owns_scheduler = False
        self.closed, self._closed_because = True, INHERITED

    def later(
        self, name: str, work: Work, delay_ms: int = 0, *, locked: bool = True
    ) -> Task:
        """Schedule work on the log in `delay_ms`; it is skipped once the log is closed.

        The work is run with the lock held, if `locked`.
        """

        def run_if_open() -> None:
            if self.closed or self.failure is not None:
                return
            try:
                with (
                    suppress(LogClosedError),  # closed since the check
                    self.lock if locked else nullcontext(),
                    self.guard(),
                ):
                    work()
            except BaseException:
                self.is_reported = self.failure is None
                raise

        return self.scheduler.schedule(name, run_if_open, delay_ms)

"""What a log that is written to lives on: clock, scheduler, disk, and one lock.

One rule holds for all work on a log: a `KafkaLogError` refuses something and leaves the
log as it was; whatever else is raised in it closes the log. That is an error of the
disk, but also a `KeyboardInterrupt` or what another signal handler raises, between any
two lines. It goes to the caller as it is, and from then on the log takes nothing more:
what is in memory may differ from the files, and only opening the log again brings them
together.

In a process that is forked, the logs of its parent are closed: they go on there, and
two would write to the same files, or cut them to what each has in memory.

Knows: how work is guarded. Does not know: what the work is.
Source: ``LogDirFailureChannel.java``, ``LocalLog.maybeHandleIOException``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import RLock
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from kafkalog.errors import KafkaLogError, LogClosedError, LogStateError
from kafkalog.log.clock import Clock, Scheduler, Task, ThreadScheduler, Work
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.durable_file import DISK, Disk

P = ParamSpec("P")
Result = TypeVar("Result")

CLOSED: Final = "the log is closed"
INHERITED: Final = "the log is open in the process that this one was forked from"


class Runtime:
    """Clock, scheduler, disk and lock of one log, and why it is closed to writers."""

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
        self.open_files = OpenFiles()
        self.failure: Exception | None = None  # what the log closed itself for
        self.told = True  # whether somebody knows of the failure
        self.closed = False
        self._closed_because = CLOSED
        _runtimes.add(self)

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.clock.now_ms()

    def check(self) -> None:
        """Raise `LogClosedError` if the log is closed, or has closed itself."""
        if self.failure is not None:
            self.told = True
        self.check_untold()

    def check_untold(self) -> None:
        """Raise what `check` does, in the background, where nobody is told by it."""
        if self.failure is not None:
            is_disk = isinstance(self.failure, OSError)
            kind = "the disk failed" if is_disk else "a call was cut off"
            reason = f"the log closed itself when {kind}: {self.failure}"
            raise LogClosedError(reason) from self.failure
        if self.closed:
            raise LogClosedError(self._closed_because)

    def fail(self, error: BaseException) -> None:
        """Close the log to all but closing, for what was raised in work on it.

        Only an error of the disk is kept itself: the traceback of another would keep
        alive what the calls that were cut off had opened.
        """
        if not isinstance(error, OSError):
            text = f": {error}" if str(error) else ""
            error = LogStateError(f"{type(error).__name__}{text}")
        self.failure = error

    def run(self, work: Callable[[], Result]) -> Result:
        """Do work on the log: alone, and not after the log has closed itself."""
        with self.lock:
            return self.run_beside(work)

    def run_beside(self, work: Callable[[], Result]) -> Result:
        """Do work that takes the lock itself, when it needs it."""
        self.check()
        try:
            return work()
        except KafkaLogError:
            raise
        except BaseException as error:
            self.fail(error)
            raise

    def stop(self) -> None:
        """Stop a scheduler of the log's own; not with the lock held."""
        if self._owns_scheduler:
            self.scheduler.shutdown()

    def leave_to_parent(self) -> None:
        """Close the log in a process that was forked, where no other thread is."""
        self.lock = RLock()
        self._owns_scheduler = False
        self.closed, self._closed_because = True, INHERITED

    def later(
        self, name: str, work: Work, delay_ms: int = 0, *, alone: bool = True
    ) -> Task:
        """Have work on the log done in `delay_ms`; not at all once it is closed.

        With the lock held, unless it need not be `alone`.
        """
        run = self.run if alone else self.run_beside

        def guarded() -> None:
            if self.closed or self.failure is not None:
                return
            try:
                with suppress(LogClosedError):  # meanwhile
                    run(work)
            except BaseException:
                self.told = self.failure is None
                raise

        return self.scheduler.schedule(name, guarded, delay_ms)


_runtimes: Final[WeakSet[Runtime]] = WeakSet()


def _leave_all_to_parent() -> None:
    for runtime in _runtimes:
        runtime.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


class Guarded(Protocol):
    """What has a runtime."""

    @property
    def runtime(self) -> Runtime:
        """That of its log."""


Self_ = TypeVar("Self_", bound=Guarded)


def guarded(
    method: Callable[Concatenate[Self_, P], Result],
) -> Callable[Concatenate[Self_, P], Result]:
    """Let a method of a log work alone, and not after the log has closed itself.

    What `Runtime.run` does, written out: an append does nothing else as often.
    """

    @wraps(method)
    def call(self: Self_, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        runtime = self.runtime
        with runtime.lock:
            if runtime.closed or runtime.failure is not None:
                runtime.check()
            try:
                return method(self, *args, **kwargs)
            except KafkaLogError:
                raise
            except BaseException as error:
                runtime.fail(error)
                raise

    return call

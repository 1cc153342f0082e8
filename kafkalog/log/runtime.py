"""What a log that is written to lives on: clock, scheduler, disk, and one lock.

When the disk fails, the error goes to the caller as it is, and from then on the log
takes nothing more: what is in memory may be ahead of the files, and only opening it
again tells.

Knows: how work is guarded. Does not know: what the work is.
Source: ``LogDirFailureChannel.java``, ``LocalLog.maybeHandleIOException``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from kafkalog.errors import LogClosedError
from kafkalog.files.durable_file import DISK, Disk
from kafkalog.log.clock import Clock, Scheduler, Task, ThreadScheduler, Work
from kafkalog.segment.open_files import OpenFiles

P = ParamSpec("P")
Result = TypeVar("Result")


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
        self.failure: OSError | None = None
        self.told = True  # whether somebody knows of the failure
        self.closed = False

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.clock.now_ms()

    def check(self) -> None:
        """Raise `LogClosedError` if the log is closed, or the disk has failed."""
        if self.failure is not None:
            self.told = True
        self.check_untold()

    def check_untold(self) -> None:
        """Raise what `check` does, in the background, where nobody is told by it."""
        if self.failure is not None:
            reason = f"the log closed itself when the disk failed: {self.failure}"
            raise LogClosedError(reason) from self.failure
        if self.closed:
            raise LogClosedError("the log is closed")

    def run(self, work: Callable[[], Result]) -> Result:
        """Do work on the log: alone, and not after the disk has failed."""
        with self.lock:
            return self.run_beside(work)

    def run_beside(self, work: Callable[[], Result]) -> Result:
        """Do work that takes the lock itself, when it needs it."""
        self.check()
        try:
            return work()
        except OSError as error:
            self.failure = error
            raise

    def stop(self) -> None:
        """Stop a scheduler of the log's own; not with the lock held."""
        if self._owns_scheduler:
            self.scheduler.shutdown()

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
            except OSError:
                self.told = False
                raise

        return self.scheduler.schedule(name, guarded, delay_ms)


class Guarded(Protocol):
    """What has a runtime."""

    @property
    def runtime(self) -> Runtime:
        """That of its log."""


Self_ = TypeVar("Self_", bound=Guarded)


def guarded(
    method: Callable[Concatenate[Self_, P], Result],
) -> Callable[Concatenate[Self_, P], Result]:
    """Let a method of a log work alone, and not after the disk has failed.

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
            except OSError as error:
                runtime.failure = error
                raise

    return call

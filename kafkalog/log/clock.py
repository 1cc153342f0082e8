"""The clock and the scheduler of a log.

A log reads the time from a `Clock`. A `Scheduler` runs the work that can wait: forcing
a rolled segment to disk, removing deleted files after a delay, expiring producers.
``kafkalog.testing`` has a clock and a scheduler that a test moves forward.

Source: ``Scheduler.java``, ``KafkaScheduler.java``, ``Time.java``.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

Work = Callable[[], None]
ONCE: Final = -1
THREAD_NAME: Final = "kafkalog-scheduler"


class Clock(Protocol):
    """A source of the current time."""

    def now_ms(self) -> int:
        """Return the time, in ms since 1970."""


class SystemClock:
    """The clock of the operating system.

    >>> SystemClock().now_ms() > 1_700_000_000_000
    True
    """

    def now_ms(self) -> int:
        """Return the time, in ms since 1970."""
        return time.time_ns() // 1_000_000


@dataclass(slots=True, order=True)
class Task:
    """Work that is due at `due_ms`, then every `period_ms`; only once if that is -1."""

    due_ms: int
    number: int
    name: str = field(compare=False)
    work: Work = field(compare=False)
    period_ms: int = field(default=ONCE, compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Cancel the task: it is not run again."""
        self.cancelled = True


class Scheduler(Protocol):
    """A queue of tasks that run later."""

    def schedule(
        self, name: str, work: Work, delay_ms: int = 0, period_ms: int = ONCE
    ) -> Task:
        """Run `work` in `delay_ms`, and then every `period_ms` if that is not -1."""

    def shutdown(self) -> None:
        """Drop all tasks that have not run."""


class IdleScheduler:
    """A scheduler that runs nothing, for a log that is removed or closed soon."""

    def schedule(
        self, name: str, work: Work, delay_ms: int = 0, period_ms: int = ONCE
    ) -> Task:
        """Return a task that is not run."""
        return Task(delay_ms, 0, name, work, period_ms)

    def shutdown(self) -> None:
        """Do nothing."""


class ThreadScheduler:
    """A scheduler that runs its tasks in threads named ``kafkalog-scheduler``.

    The first task starts one thread. Another is started, up to `threads`, if a task is
    due while all of them are busy. `shutdown` ends them.

    A periodic task never runs twice at the same time. A task that raises does not run
    again, and its error is added to `errors`. A log whose disk failed has closed itself
    and raises that error at the next call.

    >>> done = threading.Event()
    >>> with ThreadScheduler() as scheduler:
    ...     task = scheduler.schedule("flush-log", done.set)
    ...     done.wait(10)
    True
    """

    def __init__(self, threads: int = 1) -> None:
        self.errors: list[BaseException] = []
        self._limit = threads
        self._busy = 0
        self._tasks: list[Task] = []
        self._numbers = count()
        # An explicit lock: `Condition.__enter__` and `__exit__` are Python code, and a
        # signal handler that raises in them would leave the condition's lock held.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._closed = False

    def __enter__(self) -> ThreadScheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def schedule(
        self, name: str, work: Work, delay_ms: int = 0, period_ms: int = ONCE
    ) -> Task:
        """Run `work` in a thread when it is due, but not after `shutdown`."""
        due = _monotonic_ms() + max(0, delay_ms)
        with self._lock:
            task = Task(due, next(self._numbers), name, work, period_ms)
            if self._closed:
                task.cancel()
                return task
            heapq.heappush(self._tasks, task)
            self._start_thread(least=1 if delay_ms > 0 else self._busy + 1)
            self._changed.notify()
        return task

    def shutdown(self) -> None:
        """Drop all tasks that have not run, and wait for the running ones.

        It can be called again, also after an interrupt.
        """
        with self._lock:
            self._closed = True
            self._tasks.clear()
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _start_thread(self, least: int) -> None:
        """Start a thread if fewer than `least` are alive, up to the limit."""
        # A thread whose start was interrupted is not alive, and is replaced.
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < min(least, self._limit):
            thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (task := self._wait_for_due()) is not None:
            try:
                task.work()
            except Exception as error:
                self.errors.append(error)
                task.cancel()
            with self._lock:
                self._busy -= 1
                if task.period_ms >= 0 and not task.cancelled and not self._closed:
                    task.due_ms += max(1, task.period_ms)
                    heapq.heappush(self._tasks, task)
                    self._changed.notify()

    def _wait_for_due(self) -> Task | None:
        with self._lock:
            while not self._closed:
                now = _monotonic_ms()
                if not self._tasks:
                    self._changed.wait()
                elif self._tasks[0].due_ms > now:
                    self._changed.wait((self._tasks[0].due_ms - now) / 1000)
                elif not (task := heapq.heappop(self._tasks)).cancelled:
                    self._busy += 1
                    if self._tasks and self._tasks[0].due_ms <= now:
                        self._start_thread(least=self._busy + 1)
                    return task
        return None


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000

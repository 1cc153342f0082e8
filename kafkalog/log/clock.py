"""Time, and what is done later: both can be replaced, so that a test moves them.

A log asks a `Clock` what time it is and gives a `Scheduler` what need not be done at
once: forcing a rolled segment to disk, removing deleted files after a delay, forgetting
producers.

Knows: milliseconds and callables. Does not know: logs.
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


class Clock(Protocol):
    """Says what time it is."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""


class SystemClock:
    """The machine's own clock.

    >>> SystemClock().now_ms() > 1_700_000_000_000
    True
    """

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000


@dataclass(slots=True)
class ManualClock:
    """A clock that stands still until it is set.

    >>> clock = ManualClock(1_700_000_000_000)
    >>> clock.time_ms += 5
    >>> clock.now_ms()
    1700000000005
    """

    time_ms: int = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.time_ms


@dataclass(slots=True, order=True)
class Task:
    """Something to be done at `due_ms`, and every `period_ms` from then on if >= 0."""

    due_ms: int
    number: int
    name: str = field(compare=False)
    work: Work = field(compare=False)
    period_ms: int = field(default=ONCE, compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Do it no more."""
        self.cancelled = True


class Scheduler(Protocol):
    """Takes what is to be done later."""

    def schedule(
        self, name: str, work: Work, delay_ms: int = 0, period_ms: int = ONCE
    ) -> Task:
        """Do `work` in `delay_ms`, and then every `period_ms` if that is not -1."""

    def shutdown(self) -> None:
        """Drop what has not been done."""


class ManualScheduler:
    """Keeps tasks until told to do those that are due by its clock.

    They are done in the order they are due, then that of scheduling. A periodic task
    that is late is done once. Any thread may schedule, at any time.

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
        self._changed = threading.Lock()  # a heap is no heap while it is pushed to

    def schedule(
        self, name: str, work: Work, delay_ms: int = 0, period_ms: int = ONCE
    ) -> Task:
        """Keep `work` until it is due and `run_due` is called."""
        due = self._clock.now_ms() + max(0, delay_ms)
        with self._changed:
            task = Task(due, next(self._numbers), name, work, period_ms)
            heapq.heappush(self._tasks, task)
        return task

    def run_due(self) -> list[str]:
        """Do all that is due, and what that schedules for now; names the tasks."""
        done = []
        while (task := self._take_due()) is not None:
            done.append(task.name)
            task.work()
            if task.period_ms >= 0 and not task.cancelled:
                self._put_off(task)
        return done

    def pending(self) -> list[Task]:
        """Tasks not done yet, in the order in which they will be."""
        with self._changed:
            return sorted(task for task in self._tasks if not task.cancelled)

    def shutdown(self) -> None:
        """Drop what has not been done."""
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

    def _put_off(self, task: Task) -> None:
        period = max(1, task.period_ms)
        late = max(0, self._clock.now_ms() - task.due_ms)
        task.due_ms += period * (late // period + 1)
        with self._changed:
            heapq.heappush(self._tasks, task)


class ThreadScheduler:
    """Does tasks in threads of its own, each started with a task, up to `threads`.

    A periodic task is never done by two at once. One that raises is not done again, and
    its error is kept in `errors`: the log whose disk failed has closed itself to
    writers and says so at the next call.

    >>> done = threading.Event()
    >>> with ThreadScheduler() as scheduler:
    ...     task = scheduler.schedule("flush-log", done.set)
    ...     done.wait(10)
    True
    """

    def __init__(self, threads: int = 1) -> None:
        self.errors: list[BaseException] = []
        self._most = threads
        self._tasks: list[Task] = []
        self._numbers = count()
        # Held by `with` itself: a condition is entered and left by code in Python, and
        # a signal handler that raises in there would leave it held.
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
        """Do `work` in a thread once it is due; nothing after `shutdown`."""
        due = time.monotonic_ns() // 1_000_000 + max(0, delay_ms)
        with self._lock:
            task = Task(due, next(self._numbers), name, work, period_ms)
            if self._closed:
                task.cancel()
                return task
            heapq.heappush(self._tasks, task)
            # One whose start was interrupted is not alive, and another takes its place.
            self._threads = [one for one in self._threads if one.is_alive()]
            if len(self._threads) < self._most:
                thread = threading.Thread(
                    target=self._run, name="kafkalog-scheduler", daemon=True
                )
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return task

    def shutdown(self) -> None:
        """Drop what has not been done, and wait for what is being done; twice is once.

        Whoever is interrupted while it waits may call it again.
        """
        with self._lock:
            self._closed = True
            self._tasks.clear()
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while (task := self._wait_for_due()) is not None:
            try:
                task.work()
            except Exception as error:
                self.errors.append(error)
                continue
            if task.period_ms >= 0 and not task.cancelled:
                task.due_ms += max(1, task.period_ms)
                with self._lock:
                    if not self._closed:
                        heapq.heappush(self._tasks, task)
                        self._changed.notify()

    def _wait_for_due(self) -> Task | None:
        with self._lock:
            while not self._closed:
                now = time.monotonic_ns() // 1_000_000
                if not self._tasks:
                    self._changed.wait()
                elif self._tasks[0].due_ms > now:
                    self._changed.wait((self._tasks[0].due_ms - now) / 1000)
                elif not (task := heapq.heappop(self._tasks)).cancelled:
                    return task
        return None

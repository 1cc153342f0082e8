"""The periodic tasks of a log manager, and the queue of directories to remove.

The names and periods of the tasks are those of a broker.

Source: ``LogManager.startupWithConfigOverrides``, ``LogManager.deleteLogs``,
``ReplicaManager.startHighWatermarkCheckPointThread``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from kafkalog.config import BrokerConfig
from kafkalog.errors import LogClosedError
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.clock import ONCE, Clock, Scheduler, Work

Item = TypeVar("Item")


def period_of(task: str, broker: BrokerConfig) -> int:
    """Return the period of a broker's task, in ms."""
    period_ms = {
        "kafka-log-retention": broker.log_retention_check_interval_ms,
        "kafka-log-flusher": broker.log_flush_scheduler_interval_ms,
        "kafka-recovery-point-checkpoint": (
            broker.log_flush_offset_checkpoint_interval_ms
        ),
        "kafka-log-start-offset-checkpoint": (
            broker.log_flush_start_offset_checkpoint_interval_ms
        ),
        "highwatermark-checkpoint": (
            broker.replica_high_watermark_checkpoint_interval_ms
        ),
    }[task]
    return ONCE if period_ms == MAX_INT64 else period_ms


def start_tasks(
    tasks: dict[str, Callable[[], object]], broker: BrokerConfig, scheduler: Scheduler
) -> None:
    """Schedule tasks, which first run after the broker's initial delay."""
    delay_ms = broker.log_initial_task_delay_ms
    for name, work in tasks.items():
        scheduler.schedule(name, unless_closed(work), delay_ms, period_of(name, broker))


def unless_closed(work: Callable[[], object]) -> Work:
    """Return a task that ignores a `LogClosedError` of `work`."""

    def task() -> None:
        with suppress(LogClosedError):
            work()

    return task


class RemovalQueue(Generic[Item]):
    """A queue of items, each of which is removed a delay after it was added.

    >>> from kafkalog.testing import ManualClock
    >>> clock = ManualClock()
    >>> queue = RemovalQueue[str](clock)
    >>> queue.add("orders-0")
    >>> queue.due_in_ms(60_000), list(queue.take_due(60_000))
    (60000, [])
    >>> clock.time_ms = 60_000
    >>> list(queue.take_due(60_000))
    ['orders-0']
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[tuple[Item, int]] = deque()

    def add(self, item: Item) -> None:
        """Append an item, whose delay starts now."""
        self._waiting.append((item, self._clock.now_ms()))

    def due_in_ms(self, delay_ms: int) -> int:
        """Return the time until the first item is due; `delay_ms` if there is none."""
        if not self._waiting:
            return max(delay_ms, 1)
        return self._waiting[0][1] + delay_ms - self._clock.now_ms()

    def take_due(self, delay_ms: int) -> Iterator[Item]:
        """Remove and yield the items that are due."""
        while self._waiting and self.due_in_ms(delay_ms) <= 0:
            yield self._waiting.popleft()[0]

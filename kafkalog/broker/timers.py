"""Work that is due at a time, run by whoever moves the time on."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count


class Timers:
    """Work by key: one timer a key, of which the last that was set counts.

    >>> timers, done = Timers(), []
    >>> timers.set("a", 5, lambda: done.append("a"))
    >>> timers.set("a", 9, lambda: done.append("later"))
    >>> timers.run(7), done, timers.next_ms
    (None, [], 9)
    >>> timers.run(9), done
    (None, ['later'])
    """

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Hashable]] = []
        self._work: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._numbers = count()

    def set(self, key: Hashable, due_ms: int, work: Callable[[], None]) -> None:
        """Run `work` at a time, in place of what was to be run for the key."""
        number = next(self._numbers)
        self._work[key] = number, work
        heapq.heappush(self._queue, (due_ms, number, key))

    def cancel(self, key: Hashable) -> None:
        """Run nothing for a key."""
        self._work.pop(key, None)

    @property
    def next_ms(self) -> int | None:
        """The time of the next timer; None if there is none."""
        self._drop_replaced()
        return self._queue[0][0] if self._queue else None

    def run(self, now_ms: int) -> None:
        """Run what is due."""
        while (due := self.next_ms) is not None and due <= now_ms:
            _, _, key = heapq.heappop(self._queue)
            _, work = self._work.pop(key)
            work()

    def _drop_replaced(self) -> None:
        while self._queue:
            _, number, key = self._queue[0]
            if self._work.get(key, (None,))[0] == number:
                return
            heapq.heappop(self._queue)

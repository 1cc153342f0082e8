"""`Throttle`: a limit of bytes per second that all threads of a cleaner share.

Source: ``Throttler.java``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

WINDOW_NS: Final = 300_000_000
"""The time for which bytes are counted before their rate is compared."""


class Throttle:
    """A limit of `bytes_per_second`; `count` sleeps if the rate is higher.

    >>> naps, times = [], iter([0, 400_000_000, 400_000_000])
    >>> throttle = Throttle(1000, now_ns=lambda: next(times), sleep=naps.append)
    >>> throttle.count(500)
    >>> naps
    [0.1]
    """

    def __init__(
        self,
        bytes_per_second: float,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self._now_ns = now_ns
        self._sleep = sleep
        self._lock = Lock()
        self._counted = 0
        self._began_ns = now_ns()

    def count(self, size: int) -> None:
        """Count bytes read or written; sleep if their rate is above the limit."""
        with self._lock:
            self._counted += size
            elapsed_ns = self._now_ns() - self._began_ns
            if elapsed_ns <= WINDOW_NS or not self._counted:
                return
            if self._counted * 1e9 / elapsed_ns > self.bytes_per_second:
                due_ms = self._counted * 1000 / self.bytes_per_second
                nap_ms = round(due_ms - elapsed_ns // 1_000_000)
                if nap_ms > 0:
                    self._sleep(nap_ms / 1000)
            self._counted, self._began_ns = 0, self._now_ns()

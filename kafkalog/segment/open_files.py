"""The segments of a log that keep their ``.log`` open: the last `MOST` used.

A process may have a thousand open files, and hundreds of logs. Besides the active
segment these are segments that were read last, or rolled and not synced yet.
"""

from __future__ import annotations

from typing import Final, Protocol

MOST: Final = 8


class Releasable(Protocol):
    """An object with an open file that it can close until the next use."""

    def release(self) -> None:
        """Close the file."""


class OpenFiles:
    """The objects with open files; `last` is the one used last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._holders: dict[Releasable, None] = {}
        self.last: Releasable | None = None

    def use(self, holder: Releasable) -> None:
        """Register a use; release the file whose last use is longest ago."""
        if holder is self.last:
            return
        self.last = holder
        self._holders.pop(holder, None)
        self._holders[holder] = None
        if len(self._holders) > self._most:
            oldest = next(iter(self._holders))
            del self._holders[oldest]
            oldest.release()

    def forget(self, holder: Releasable) -> None:
        """Remove a file that is closed for good."""
        self._holders.pop(holder, None)
        if holder is self.last:
            self.last = None

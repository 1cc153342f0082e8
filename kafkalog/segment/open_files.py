"""Which segments of a log keep their ``.log`` open: those used last, up to `MOST`.

A process may hold open a thousand files, and have hundreds of logs. Beside the active
segment these are segments that were read last, or rolled and not forced to disk yet.

Knows: the order of use. Does not know: files, or what is done with them.
"""

from __future__ import annotations

from typing import Final, Protocol

MOST: Final = 8


class Releasable(Protocol):
    """What holds a file open, and may be asked to let go of it until it is used."""

    def release(self) -> None:
        """Let go of the file."""


class OpenFiles:
    """The holders of open files, `last` the one that was used last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._holders: dict[Releasable, None] = {}
        self.last: Releasable | None = None

    def use(self, holder: Releasable) -> None:
        """Take note that a file is used; those unused for longest are let go of."""
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
        """Take note that a file is closed for good."""
        self._holders.pop(holder, None)
        if holder is self.last:
            self.last = None

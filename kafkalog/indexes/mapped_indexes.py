"""Which indexes of a process are mapped: so many at once, then the oldest lets go.

Knows: that an index can let go. Does not know: what a mapping is of.
"""

from __future__ import annotations

from threading import Lock
from typing import Final, Protocol

MOST_MAPPED: Final = 128
"""So many indexes of a process stay mapped; of others the mapping is made again."""


class Mapped(Protocol):
    """What may be mapped."""

    def unmap_if_idle(self) -> None:
        """Let go of the mapping, unless it is being asked."""


_mapped: Final[dict[Mapped, None]] = {}
_lock: Final = Lock()


def note_mapped(index: Mapped) -> None:
    """Take note of a mapping; of too many the oldest goes."""
    with _lock:
        _mapped.pop(index, None)
        _mapped[index] = None
        oldest = next(iter(_mapped)) if len(_mapped) > MOST_MAPPED else None
        if oldest is not None:
            del _mapped[oldest]
    if oldest is not None:
        oldest.unmap_if_idle()


def forget_mapped(index: Mapped) -> None:
    """Take note that an index is no longer mapped."""
    with _lock:
        _mapped.pop(index, None)

"""Which indexes of a process hold descriptors: so many, then the oldest is closed.

An index that is written to keeps its file open, and one that is searched a mapping of
it. Each can be closed at any time, and opened again when it is used.

Knows: that an index can be closed. Does not know: what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from threading import Lock
from typing import Any, Final, Protocol

MOST_OPEN: Final = 128
"""So many indexes of a process hold descriptors, two each at the most."""


class Closable(Protocol):
    """What may hold descriptors."""

    def close_if_idle(self) -> None:
        """Close what is open, unless it is in use."""


_open: Final[dict[Closable, None]] = {}
_lock: Final = Lock()


def note_open(index: Closable) -> None:
    """Take note that an index holds a descriptor; of too many the oldest are closed."""
    with _lock:
        _open.pop(index, None)
        _open[index] = None
        oldest = list(islice(_open, max(0, len(_open) - MOST_OPEN)))
    for one in oldest:
        one.close_if_idle()


def forget_open(index: Closable) -> None:
    """Take note that an index holds no descriptor."""
    with _lock:
        _open.pop(index, None)


@contextmanager
def held_if_free(*locks: Any) -> Iterator[bool]:
    """Hold locks if nobody has one of them, and tell whether they are held."""
    with ExitStack() as held:
        # At once: an interrupt between the two would leave a lock held.
        yield all(lock.acquire(blocking=False) and held.push(lock) for lock in locks)

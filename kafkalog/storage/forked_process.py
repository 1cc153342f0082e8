"""What a forked process does with what its parent has open for writing: all is here.

A child has the memory of its parent, and none of the parent's other threads. A lock
that one of these held is never released in the child, and what it was changing may be
half changed. So in a child all that is open for writing counts as closed, and locks
that an operation of the child may need are made anew.

A fork waits until no log directory is being locked or released: see `FORK_LOCK`.

An import that another thread had begun cannot be ended in a child, which then waits
for it forever if it needs the module. Python has no means to prevent this.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Final, Protocol
from weakref import WeakValueDictionary

FORK_LOCK: Final = Lock()
"""Held while a log directory is locked or released, and across each fork."""


class Inherited(Protocol):
    """An object that belongs to the process that made it."""

    def _leave_to_parent(self) -> None:
        """Make the object usable in a child: closed, with no lock held."""


_inherited: Final[WeakValueDictionary[int, Inherited]] = WeakValueDictionary()


def leave_after_fork(owned: Inherited) -> None:
    """Call `_leave_to_parent` of an object in each child of this process."""
    _inherited[id(owned)] = owned


def _leave_all_to_parent() -> None:
    for owned in list(_inherited.values()):
        owned._leave_to_parent()
    FORK_LOCK.release()


os.register_at_fork(
    before=FORK_LOCK.acquire,
    after_in_parent=FORK_LOCK.release,
    after_in_child=_leave_all_to_parent,
)

"""Disks that stand in for the real one: they note what is done, or fail at it."""

from __future__ import annotations

import errno
import os
from typing import Any, Final

from kafkalog.storage.durable_file import Disk, DurableFile, Write

EFFECTS: Final = (
    "open",
    "truncate",
    "sync",
    "sync_directory",
    "rename",
    "remove",
    "make_directory",
    "remove_directory",
    "set_modified",
)
"""The methods of a disk that change something, or ask for a file; `write_each` not."""


class SingleWrites(Disk):
    """Does several writes one by one: each is a call of `write`, to be overridden."""

    def write_each(self, writes: list[Write]) -> None:
        for file, data, position in writes:
            self.write(file, data, position)

    def write(self, file: DurableFile, data: Any, position: int) -> None:
        """Write all of `data` at a position of a file."""
        super().write_each([(file, data, position)])


class NotingDisk(SingleWrites):
    """Does what it is asked, and notes it: `calls` holds (effect, name, *numbers).

    A name is that of the file alone; of written bytes the position and the size. Each
    of several writes is a call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def write(self, file: DurableFile, data: Any, position: int) -> None:
        whole = memoryview(data).cast("B")
        self.calls.append(("write", _name(file), position, len(whole)))
        if self.fails():
            super().write(file, whole[: len(whole) // 2], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(file, data, position)

    def fails(self) -> bool:
        """Whether the call that was noted last does not succeed."""
        return False

    def asked(self, effect: str) -> list[tuple[Any, ...]]:
        """Return the calls of one kind."""
        return [call for call in self.calls if call[0] == effect]


class FailingDisk(NotingDisk):
    """Fails at one call, counted from 0, as a full disk; later calls succeed.

    A write that fails has written the first half of its bytes.
    """

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.fail_at = fail_at

    def fails(self) -> bool:
        """Whether the call that was noted last is the one."""
        return self.fail_at == len(self.calls) - 1


def _name(what: Any) -> str:
    path = what.path if isinstance(what, DurableFile) else what
    return os.path.basename(path)  # noqa: PTH119


def _described(effect: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    first, *rest = arguments
    if effect == "rename":
        return (effect, _name(first), _name(rest[0]))
    return (effect, _name(first), *rest)


def _watched(effect: str) -> Any:
    real = getattr(Disk, effect)

    def watched(self: NotingDisk, *arguments: Any, **options: Any) -> Any:
        self.calls.append(_described(effect, arguments))
        if self.fails():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *arguments, **options)

    return watched


for _effect in EFFECTS:
    setattr(NotingDisk, _effect, _watched(_effect))

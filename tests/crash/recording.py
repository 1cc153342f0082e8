"""A disk that records all changes as events, from which crash states are made.

A file has a number, so that it can be followed when it is renamed, or removed while it
is open. Paths are relative to the root.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from kafkalog.storage.durable_file import DurableFile
from kafkalog.testing import SingleWriteDisk

Tree = dict[str, bytes | None]
"""Content of files by path; None for a directory."""


class Event(NamedTuple):
    """One change of the disk: its `effect`, its files and its data."""

    effect: str
    file: int = -1
    path: str = ""
    target: str = ""
    number: int = 0
    data: bytes = b""


def one_by_one(effect: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that holds the lock of the disk."""

    @wraps(effect)
    def locked(self: RecordingDisk, *args: Any, **options: Any) -> Any:
        with self.lock:
            return effect(self, *args, **options)

    return locked


class RecordingDisk(SingleWriteDisk):
    """Disk that records changes and syncs as `events`.

    `before` has the files under `root` at the start. A lock keeps the events of several
    threads in the order of the calls.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = read_tree(root)
        self.events: list[Event] = []
        self.numbers: dict[int, int] = {}
        self.count = 0
        self.lock = RLock()
        for path, content in self.before.items():
            if content is not None:
                self._number_new(os.stat(root / path).st_ino)  # noqa: PTH116

    @one_by_one
    def open(self, path: Any, *, create: bool = False, exclusive: bool = False) -> Any:
        existed = os.path.lexists(path)
        file = super().open(path, create=create, exclusive=exclusive)
        if not existed:
            number = self._number_new(os.fstat(file.descriptor).st_ino)
            self.events.append(Event("create", number, self._name(path)))
        return file

    @one_by_one
    def write(self, file: DurableFile, data: Any, position: int) -> None:
        super().write(file, data, position)
        content = memoryview(data).tobytes()
        number = self._number_of(file)
        self.events.append(Event("write", number, number=position, data=content))

    @one_by_one
    def truncate(self, file: DurableFile, size: int) -> None:
        super().truncate(file, size)
        self.events.append(Event("truncate", self._number_of(file), number=size))

    @one_by_one
    def sync(self, file: DurableFile) -> None:
        super().sync(file)
        self.events.append(Event("sync", self._number_of(file)))

    @one_by_one
    def sync_directory(self, path: Any) -> None:
        super().sync_directory(path)
        self.events.append(Event("sync_directory", path=self._name(path)))

    @one_by_one
    def rename(self, source: Any, target: Any) -> None:
        super().rename(source, target)
        names = self._name(source), self._name(target)
        self.events.append(Event("rename", path=names[0], target=names[1]))

    @one_by_one
    def remove(self, path: Any) -> None:
        super().remove(path)
        self.events.append(Event("remove", path=self._name(path)))

    @one_by_one
    def remove_directory(self, path: Any) -> None:
        super().remove_directory(path)
        self.events.append(Event("remove", path=self._name(path)))

    @one_by_one
    def make_directory(self, path: Any) -> None:
        super().make_directory(path)
        self.events.append(Event("make_directory", path=self._name(path)))

    def _number_new(self, inode: int) -> int:
        self.numbers[inode] = self.count
        self.count += 1
        return self.count - 1

    def _number_of(self, file: DurableFile) -> int:
        return self.numbers[os.fstat(file.descriptor).st_ino]

    def _name(self, path: Any) -> str:
        name = os.path.relpath(path, self.root)
        return "" if name == "." else name


def read_tree(root: Path) -> Tree:
    """Read all files under `root`."""
    tree: Tree = {}
    for folder, directories, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        prefix = "" if inside == "." else inside + "/"
        for name in sorted(directories):
            tree[prefix + name] = None
        for name in sorted(files):
            tree[prefix + name] = Path(folder, name).read_bytes()
    return tree


def write_tree(root: Path, tree: Tree) -> None:
    """Replace all files under `root` by `tree`."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    for name in sorted(tree):
        content = tree[name]
        if content is None:
            (root / name).mkdir()
    for name, content in tree.items():
        if content is not None:
            (root / name).write_bytes(content)

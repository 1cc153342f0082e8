"""Model of a POSIX disk: the states that a power cut may leave.

Synced changes are kept: the bytes and the size of a file, the names in a directory. Of
the changes since then, any subset may be kept:

| change | unit |
|---|---|
| data | each sector of each write; the size of a file with or without its data |
| names | each creation, rename and removal; a rename is done or not |

Files and directories are independent of each other. Therefore a name may be kept
without its data (`replace` without a sync), data without its name, and a later write
without an earlier one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.crash.recording import Event, Tree

ROOT = -1
"""Number of the root directory; other directories have lower numbers."""
SECTORS = (512, 4096)


@dataclass
class File:
    """Content of a file when it was last synced, and the changes since then."""

    forced: bytes = b""
    pending: list[Event] = field(default_factory=list)
    now: bytearray = field(default_factory=bytearray)


class DiskModel:
    """A disk that events are applied to; `states` are possible after a power cut."""

    def __init__(self, before: Tree) -> None:
        self.files: dict[int, File] = {}
        self.directories = {"": ROOT}
        self.forced_names: dict[int, dict[str, int]] = defaultdict(dict)
        self.pending_names: dict[int, list[Event]] = defaultdict(list)
        self.count = -ROOT
        for path, content in sorted(before.items()):
            if content is None:
                self._number_directory(path)
        number = 0
        for path, content in before.items():
            parent, _, name = path.rpartition("/")
            names = self.forced_names[self.directories[parent]]
            names[name] = self.directories[path] if content is None else number
            if content is not None:
                self.files[number] = File(content, now=bytearray(content))
                number += 1

    def _number_directory(self, path: str) -> int:
        self.count += 1
        self.directories[path] = -self.count
        return -self.count

    def take(self, event: Event) -> None:
        """Apply an event."""
        match event.effect:
            case "write" | "truncate":
                file = self.files[event.file]
                file.pending.append(event)
                do(event, file.now)
            case "sync":
                file = self.files[event.file]
                file.forced, file.pending = bytes(file.now), []
            case "sync_directory":
                number = self.directories[event.path]
                names = self.forced_names[number]
                for pending in self.pending_names.pop(number, []):
                    rename(pending, names)
            case "create":
                self.files[event.file] = File()
                self._note_name(event)
            case "make_directory":
                number = self._number_directory(event.path)
                self._note_name(event._replace(file=number))
            case _:
                self._note_name(event)
                if (number := self.directories.pop(event.path, 0)) and event.target:
                    self.directories[event.target] = number

    def _note_name(self, event: Event) -> None:
        parent = event.path.rpartition("/")[0]
        self.pending_names[self.directories[parent]].append(event)

    @property
    def is_settled(self) -> bool:
        """Whether all is synced, so that only one state is possible."""
        files = any(file.pending for file in self.files.values())
        return not files and not any(self.pending_names.values())

    def states(self, random: Random, count: int) -> Iterator[tuple[str, Tree]]:
        """Yield kinds and states: the basic ones, then `count` mixed ones."""
        yield "all kept", self._state(random, "kept", "kept")
        if self.is_settled:
            return
        yield "all lost", self._state(random, "lost", "lost")
        yield "names before data", self._state(random, "lost", "kept")
        yield "data before names", self._state(random, "kept", "lost")
        yield "sizes before data", self._state(random, "sized", "kept")
        for _ in range(count):
            data = random.choice(("first", "torn 512", "torn 4096", "mixed"))
            names = random.choice(("kept", "lost", "first", "mixed"))
            yield f"data {data}, names {names}", self._state(random, data, names)

    def _state(self, random: Random, data: str, names: str) -> Tree:
        """Choose the content of each file and directory independently."""
        tree: Tree = {}
        directories = [("", ROOT)]
        for directory, directory_number in directories:
            for name, number in self._names(random, directory_number, names).items():
                path = f"{directory}/{name}" if directory else name
                if number < 0:
                    tree[path] = None
                    directories.append((path, number))
                else:
                    tree[path] = content(self.files[number], random, data)
        return tree

    def _names(self, random: Random, directory: int, how: str) -> dict[str, int]:
        left = dict(self.forced_names[directory])
        pending = self.pending_names.get(directory, [])
        if how == "lost":
            return left
        first = random.randint(0, len(pending)) if how == "first" else len(pending)
        share = random.choice((0.1, 0.5, 0.9)) if how == "mixed" else 0.0
        for event in pending[:first]:
            if random.random() >= share:
                rename(event, left)
        return left


def content(file: File, random: Random, how: str) -> bytes:
    """Choose the content of a file after a power cut."""
    if not file.pending or how == "kept":
        return bytes(file.now) if file.pending else file.forced
    if how == "lost":
        return file.forced
    if how == "sized":
        size = len(file.now)
        return file.forced[:size].ljust(size, b"\0")
    left = bytearray(file.forced)
    if how == "mixed":
        _keep_some(file.pending, left, random)
        return bytes(left)
    first = random.randint(0, len(file.pending))
    for event in file.pending[:first]:
        do(event, left)
    if how != "first" and first < len(file.pending):
        _tear(file.pending[first], left, random, int(how.removeprefix("torn ")))
    return bytes(left)


def _keep_some(pending: list[Event], left: bytearray, random: Random) -> None:
    """Keep or lose each sector of each write, and each new size."""
    share, sector = random.choice((0.1, 0.5, 0.9)), random.choice(SECTORS)
    for event in pending:
        if event.effect == "truncate":
            if random.random() >= share:
                do(event, left)
            continue
        for part in sectors_of(event, sector):
            if random.random() >= share:
                do(part, left)
    if random.random() < 0.5:  # the size is kept without the data
        ends = [event.number + len(event.data) for event in pending]
        del left[max(ends) :]
        left.extend(bytes(max(ends) - len(left)))


def _tear(event: Event, left: bytearray, random: Random, sector: int) -> None:
    """Keep the first sectors of a write; a new size is atomic."""
    if event.effect == "write":
        parts = list(sectors_of(event, sector))
        for part in parts[: random.randint(0, len(parts))]:
            do(part, left)


def sectors_of(event: Event, sector: int) -> Iterator[Event]:
    """Split a write at the sectors of the disk."""
    begin, end = event.number, event.number + len(event.data)
    while begin < end:
        stop = min(end, (begin // sector + 1) * sector)
        data = event.data[begin - event.number : stop - event.number]
        yield event._replace(number=begin, data=data)
        begin = stop


def do(event: Event, content: bytearray) -> None:
    """Apply a write or a truncation."""
    position = event.number
    if event.effect == "truncate":
        del content[position:]
        content.extend(bytes(position - len(content)))
        return
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(event.data)] = event.data


def rename(event: Event, names: dict[str, int]) -> None:
    """Apply a change of names to a directory; a missing name is not renamed."""
    name = event.path.rpartition("/")[2]
    match event.effect:
        case "create" | "make_directory":
            names[name] = event.file
        case "remove":
            names.pop(name, None)
        case "rename":
            number = names.pop(name, None)
            if number is not None:
                names[event.target.rpartition("/")[2]] = number

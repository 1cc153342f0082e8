"""What a power cut may leave of a POSIX disk, by what was done to it until then.

What was forced is there: of a file its bytes and size, of a directory its names. Of
what was done since, anything may be there and anything not:

    data     each sector of each write by itself; a file's size with or without its data
    names    each creation, rename and removal by itself; a rename is done or not

and one file's or directory's share says nothing of another's. So data may be lost whose
name is there (`replace` without a sync), a name whose data was forced, and later writes
may be there without earlier ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.crash.recording import Event, Tree

ROOT = -1
"""The number of the directory that all lies in; others follow downwards."""
SECTORS = (512, 4096)


@dataclass
class File:
    """A file's content as it was last forced, and what was done to it since."""

    forced: bytes = b""
    pending: list[Event] = field(default_factory=list)
    now: bytearray = field(default_factory=bytearray)


class Disk:
    """A disk as one event after another is taken; `states` is what a cut may leave."""

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
        """Do what was done."""
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
        """Whether all is forced, and so only one state is possible."""
        files = any(file.pending for file in self.files.values())
        return not files and not any(self.pending_names.values())

    def states(self, random: Random, count: int) -> Iterator[tuple[str, Tree]]:
        """Yield states with their kinds: four plain ones, then `count` mixed ones."""
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
        """Choose, for each file and directory by itself, what is left of it."""
        tree: Tree = {}
        directories = [("", ROOT)]
        for directory, its_number in directories:
            for name, number in self._names(random, its_number, names).items():
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
    """Choose what is left of a file."""
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
    """Keep each sector of each write, and each new size, or lose it."""
    share, sector = random.choice((0.1, 0.5, 0.9)), random.choice(SECTORS)
    for event in pending:
        if event.effect == "truncate":
            if random.random() >= share:
                do(event, left)
            continue
        for piece in pieces(event, sector):
            if random.random() >= share:
                do(piece, left)
    if random.random() < 0.5:  # the size went ahead of what is lost
        ends = [event.number + len(event.data) for event in pending]
        del left[max(ends) :]
        left.extend(bytes(max(ends) - len(left)))


def _tear(event: Event, left: bytearray, random: Random, sector: int) -> None:
    """Keep the first sectors of a write; a new size cannot be torn."""
    if event.effect == "write":
        parts = list(pieces(event, sector))
        for piece in parts[: random.randint(0, len(parts))]:
            do(piece, left)


def pieces(event: Event, sector: int) -> Iterator[Event]:
    """Part a write where sectors of the disk end."""
    begin, end = event.number, event.number + len(event.data)
    while begin < end:
        stop = min(end, (begin // sector + 1) * sector)
        data = event.data[begin - event.number : stop - event.number]
        yield event._replace(number=begin, data=data)
        begin = stop


def do(event: Event, content: bytearray) -> None:
    """Write or cut."""
    position = event.number
    if event.effect == "truncate":
        del content[position:]
        content.extend(bytes(position - len(content)))
        return
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(event.data)] = event.data


def rename(event: Event, names: dict[str, int]) -> None:
    """Change the names of a directory; what is not there cannot be renamed."""
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

"""A manager of two log directories that moves a partition, on a disk that is recorded.

After each step a `MoveMark` states which records the partition had, and which of them
were forced to disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from kafkalog import LogManager
from kafkalog.storage.durable_file import DISK
from kafkalog.testing import ManualClock, ManualScheduler, open_manager
from tests.crash.disk_model import DiskModel
from tests.crash.recorded_log import CONFIG, NOW_MS, build
from tests.crash.recording import RecordingDisk, Tree, write_tree
from tests.crash.state_checks import InvalidStateError, require

NAME = "orders", 0
DIRECTORIES = "a", "b"
LATER = b"later"
Records = list[tuple[int, bytes]]


def manage(root: Path, disk: Any = DISK) -> LogManager:
    """Open both log directories under `root`."""
    clock = ManualClock(NOW_MS)
    directories = [root / name for name in DIRECTORIES]
    scheduler = ManualScheduler(clock)
    return open_manager(
        directories, CONFIG, clock=clock, scheduler=scheduler, disk=disk
    )


def records_of(log: Any) -> Records:
    """Return offset and value of each record of a log."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset)
        found += [
            (record.offset, bytes(record.value))
            for batch in read.batches()
            for record in batch
        ]
        if read.next_offset == offset:
            break
        offset = read.next_offset
    return found


@dataclass(frozen=True)
class MoveMark:
    """The number of events so far, and the records after them."""

    event: int
    records: Records
    forced_to: int


class RecordedMove:
    """The partition while it is appended to and moved."""

    def __init__(
        self, root: Path, make_disk: Callable[[Path], RecordingDisk] = RecordingDisk
    ) -> None:
        self.root = root
        write_tree(root, {})
        self.disk = make_disk(root)
        self.marks = [MoveMark(0, [], 0)]
        self.count = 0
        self.manager = manage(root, self.disk)
        self.manager.open(*NAME, directory=root / "a")
        self.mark()

    def mark(self) -> None:
        """Record the state of the partition."""
        log = self.manager[NAME]
        event = len(self.disk.events)
        self.marks.append(MoveMark(event, records_of(log), log.recovery_point))

    def append(self, *, flush: bool = True) -> None:
        """Append a record, in a batch of a third of a segment."""
        self.count += 1
        value = b"%d " % self.count + b"v" * 900
        self.manager[NAME].append(build([value], [NOW_MS + self.count]))
        if flush:
            self.manager[NAME].flush()
        self.mark()

    def move(self, directory: str) -> None:
        """Start a move."""
        self.manager.move(*NAME, self.root / directory)
        self.mark()

    def advance(self, max_bytes: int = 1) -> None:
        """Do one step of the move."""
        self.manager.advance_moves(max_bytes)
        self.mark()


def there_and_back(move: RecordedMove) -> None:
    """Move to the other directory with appends in between, abort, and move back."""
    for _ in range(4):
        move.append()
    move.move("b")
    for number in range(3):
        move.advance()
        move.append(flush=number != 1)
    while move.manager.moves:
        move.advance()
    move.append(flush=False)
    move.append()
    move.move("a")
    move.advance()
    move.manager.abort_move(*NAME)
    move.mark()
    move.move("a")
    move.advance(1 << 20)
    move.append()
    move.manager.checkpoint()
    move.mark()


def states(
    move: RecordedMove, kinds: set[str] | None, share: float
) -> Iterator[tuple[int, str, Tree]]:
    """Yield the states that a cut at each event may leave, each content once."""
    model, seen = DiskModel(move.disk.before), set()
    for event in range(len(move.disk.events) + 1):
        if event:
            model.take(move.disk.events[event - 1])
        random = Random(event)
        for kind, tree in model.states(random, 1):
            key = hash(frozenset(tree.items()))
            if key in seen or (kinds and kind not in kinds) or random.random() >= share:
                continue
            seen.add(key)
            yield event, kind, tree


def check(move: RecordedMove, root: Path, event: int, tree: Tree) -> None:
    """Open a state, finish the move, and open it again; raise `InvalidStateError`."""
    events = [mark.event for mark in move.marks]
    after = bisect_right(events, event)
    before = move.marks[after - 1]
    nexts = move.marks[after] if after < len(events) else before
    known = (
        nexts.records if len(nexts.records) > len(before.records) else before.records
    )
    forced = [record for record in before.records if record[0] < before.forced_to]
    write_tree(root, tree)
    try:
        with manage(root) as manager:
            require(not manager.offline, f"offline: {manager.offline}")
            log = manager.get(NAME)
            found = [] if log is None else records_of(log)
            _require(found, forced, known)
            _finish(manager)
            if log is not None:
                again = [one for one in records_of(manager[NAME]) if one[1] != LATER]
                require(again == found, f"other records are moved: {again}")
                manager[NAME].append(build([LATER], [NOW_MS]))
        with manage(root) as manager:
            log = manager.get(NAME)
            read = [] if log is None else records_of(log)
            again = [one for one in read if one[1] != LATER]
            require(again == found, "opened again, other records are read")
        live = list(root.glob("?/orders-0"))
        require(len(live) <= 1, f"several directories: {live}")
        require(not list(root.glob("?/*-move")), "the mark of a departure is left")
    except InvalidStateError:
        raise
    except Exception as error:
        raise InvalidStateError(f"not opened, or not read: {error!r}") from error


def _require(found: Records, forced: Records, known: Records) -> None:
    require(set(found) <= set(known), f"not appended: {set(found) - set(known)}")
    require(set(forced) <= set(found), f"lost: {sorted(set(forced) - set(found))}")
    require(found == sorted(set(found)), f"records twice, or out of order: {found}")


def _finish(manager: LogManager) -> None:
    """Finish the move; a log that ends with a gap is moved once it is appended to."""
    for _ in range(100):
        if not any(move.source is not None for move in manager.moves.values()):
            return
        if not manager.advance_moves() and manager.moves:
            manager[NAME].append(build([LATER], [NOW_MS]))
    raise InvalidStateError(f"the move does not end: {manager.moves}")

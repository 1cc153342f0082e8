"""A log manager on a recorded disk, and the check of states after power cuts.

Each log has marks, as a single one has in `recorded_log`. A deleted log has no content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kafkalog import LogManager
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.testing import ManualClock, ManualScheduler, open_manager
from tests.crash.disk_model import DiskModel
from tests.crash.recorded_log import (
    CONFIG,
    NOW_MS,
    UNVERIFIED,
    Batch,
    Mark,
    build,
    check_forced,
    mark_of,
    read_batches,
    value_of,
)
from tests.crash.recording import RecordingDisk, Tree, read_tree, write_tree
from tests.crash.state_checks import (
    InvalidStateError,
    changeable_files,
    check_batches,
    check_metadata,
    expected_at,
    require,
)

Name = tuple[str, int]
MakeDisk = Callable[[Path], RecordingDisk]
Contents = dict[Name, tuple[Batch, ...]]
NAMES: tuple[Name, ...] = ("orders", 0), ("orders", 1), ("clicks", 0)


def manage(
    root: Path, disk: Any, clock: ManualClock, scheduler: ManualScheduler
) -> LogManager:
    """Open the log directory under `root`."""
    return open_manager(
        root, CONFIG, broker=UNVERIFIED, clock=clock, scheduler=scheduler, disk=disk
    )


def manage_later(root: Path) -> LogManager:
    """Open the state after a power cut, a minute later."""
    clock = ManualClock(NOW_MS + 60_000)
    return manage(root, DISK, clock, ManualScheduler(clock))


class RecordedManager:
    """A log manager on a recorded disk."""

    def __init__(self, root: Path, disk: Any, name: str) -> None:
        self.root = root
        self.disk = disk
        self.name = name
        self.clock = ManualClock(NOW_MS)
        self.scheduler = ManualScheduler(self.clock)
        self.marks = {name: [Mark(0)] for name in NAMES}
        self.count = 0
        self.runs_due = True
        self.manager: Any = None

    def step(self, work: Callable[[], Any], *, may_leave_holes: bool = False) -> None:
        """Do one step, run due tasks, and add a mark to each log.

        If `runs_due` is False, the tasks wait for `run_some`.
        """
        work()
        if self.runs_due:
            self.scheduler.run_due()
        self.mark(may_leave_holes=may_leave_holes)

    def run_some(self, random: Random) -> None:
        """Run some waiting tasks in random order, due or not."""
        waiting = self.scheduler.pending()
        for task in random.sample(waiting, random.randint(0, len(waiting))):
            if task.period_ms < 0:
                task.cancel()
            task.work()
            self.mark(may_leave_holes=True)

    def mark(self, *, may_leave_holes: bool = False) -> None:
        """Add a mark of the current content to each log."""
        event = len(self.disk.events)
        for name, marks in self.marks.items():
            log = self.manager.get(name)
            if log is None:
                marks.append(Mark(event))
            elif log.runtime.closed:  # it is unchanged
                marks.append(replace(marks[-1], event=event))
            else:
                marks.append(mark_of(log, event, may_leave_holes))

    def flush(self, log: Any) -> None:
        """Flush a log, and check its recovery point."""
        self.step(log.flush)
        check_forced(log, log.log_end_offset)

    def open(self) -> None:
        """Open the directory."""

        def work() -> None:
            self.manager = manage(self.root, self.disk, self.clock, self.scheduler)

        self.step(work)

    def close(self) -> None:
        """Close all logs, which flushes them."""
        left = {name: marks[-1] for name, marks in self.marks.items()}
        self.manager.close()
        event = len(self.disk.events)
        for name, mark in left.items():
            kept = (batch for batch in mark.content if batch.last_offset >= mark.start)
            self.marks[name].append(
                Mark(event, mark.content, frozenset(kept), mark.start)
            )

    def append(self, name: Name, size: int) -> None:
        """Append a batch of the producer of a log."""
        log = self.manager.open(*name)
        known = log.producers.get(7)
        self.count += 1
        self.clock.time_ms += 1
        data = build(
            [value_of(self.count, self.name, size)],
            [self.clock.time_ms],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0 if known is None else known.last_sequence + 1,
        )
        log.append(data)


def manage_logs(recorded: RecordedManager, random: Random) -> None:
    """Do all operations of a manager in random order."""
    recorded.open()
    for _ in range(26):
        name = random.choice(NAMES)
        here = recorded.manager.get(name)
        match random.randrange(12):
            case 0 if here is not None:
                recorded.flush(here)
            case 1:
                recorded.step(recorded.manager.checkpoint)
            case 2 if here is not None:
                recorded.step(partial(recorded.manager.delete, *name))
            case 3 if here is not None:
                cut = {name: _offset(here, random)}
                recorded.step(
                    partial(recorded.manager.truncate_to, cut), may_leave_holes=True
                )
            case 4 if here is not None:
                here.update_high_watermark(here.log_end_offset)
                work = partial(here.delete_records, _offset(here, random))
                recorded.step(work, may_leave_holes=True)
                recorded.step(recorded.manager.retain, may_leave_holes=True)
            case 5:
                recorded.clock.time_ms += 2000
                recorded.step(recorded.manager.remove_deleted, may_leave_holes=True)
            case 6 if random.random() < 0.5:
                recorded.close()
                recorded.open()
            case _:
                recorded.step(partial(recorded.append, name, random.randint(1, 1400)))


def deleting(recorded: RecordedManager, random: Random) -> None:
    """Delete a log with a late start and a high recovery point, and create it again."""
    recorded.open()
    _fill(recorded)
    log = recorded.manager[NAMES[0]]
    recorded.flush(log)
    log.update_high_watermark(log.log_end_offset)
    recorded.step(partial(log.delete_records, 5), may_leave_holes=True)
    recorded.step(recorded.manager.checkpoint)
    recorded.step(partial(recorded.manager.delete, *NAMES[0]))
    recorded.step(partial(recorded.append, NAMES[0], random.randint(100, 200)))
    recorded.flush(recorded.manager[NAMES[0]])


def cutting(recorded: RecordedManager, random: Random) -> None:
    """Truncate a flushed log, and append to it."""
    recorded.open()
    _fill(recorded)
    recorded.flush(recorded.manager[NAMES[0]])
    recorded.step(recorded.manager.checkpoint)
    cut = {NAMES[0]: random.randint(1, 2)}
    recorded.step(partial(recorded.manager.truncate_to, cut), may_leave_holes=True)
    for _ in range(6):  # due tasks are not run, so nothing is flushed
        recorded.append(NAMES[0], 1400)
        recorded.mark()


def waiting(recorded: RecordedManager, random: Random) -> None:
    """Run due tasks only after a truncation, a deletion, or a close."""
    recorded.runs_due = False
    recorded.open()
    name = NAMES[0]
    for turn in range(6):
        _fill(recorded)
        log = recorded.manager[name]
        if turn % 3 == 0:
            log.update_high_watermark(log.log_end_offset)
            start = log.log_end_offset - 1
            recorded.step(partial(log.delete_records, start), may_leave_holes=True)
            recorded.step(recorded.manager.checkpoint)
        match turn % 3:
            case 0:
                cut = {name: random.randint(log.log_end_offset - 6, start)}
                recorded.step(partial(recorded.manager.truncate_to, cut))
            case 1:
                recorded.step(partial(recorded.manager.delete, *name))
            case _:
                log.close()
        recorded.run_some(random)
        for _ in range(3):
            recorded.step(partial(recorded.append, name, random.choice((300, 1400))))
        recorded.run_some(random)
        recorded.flush(recorded.manager[name])
        recorded.step(partial(recorded.append, name, 300))


def _fill(recorded: RecordedManager) -> None:
    for _ in range(7):
        recorded.step(partial(recorded.append, NAMES[0], 1400))


def _offset(log: Any, random: Random) -> int:
    return random.randint(log.log_start_offset, log.log_end_offset)


def record_workload(
    root: Path,
    seed: int,
    make_disk: MakeDisk = RecordingDisk,
    workload: Workload = manage_logs,
) -> RecordedManager:
    """Run a workload on a recorded disk."""
    write_tree(root, {})
    recorded = RecordedManager(root, make_disk(root), f"managed {seed}")
    workload(recorded, Random(seed))
    recorded.manager.abandon()
    return recorded


Workload = Callable[[RecordedManager, Random], None]


class Cut(NamedTuple):
    """A state after a power cut, with the batches and the start of each log."""

    event: int
    kind: str
    tree: Tree
    contents: Contents
    starts: dict[Name, int]


def truncated_segments(root: Path) -> Cut:
    """Return a state in which the first segment of each log is truncated."""
    write_tree(root, {})
    recorded = RecordedManager(root, RecordingDisk(root), "torn")
    recorded.open()
    for log in NAMES * 4:
        recorded.append(log, 1400)
    recorded.manager.abandon()
    tree = read_tree(root)
    for name, content in tree.items():
        if name.endswith(f"{0:020d}.log") and content is not None:
            tree[name] = content[:-5]
    write_tree(root, tree)
    return Cut(0, "torn", tree, _contents(root), dict.fromkeys(NAMES, 0))


def record_recovery(
    root: Path, cut: Cut, name: str, make_disk: MakeDisk = RecordingDisk
) -> RecordedManager:
    """Recover, append to and flush all logs after a power cut, recorded again.

    The batches read after the power cut count as flushed.
    """
    write_tree(root, cut.tree)
    recorded = RecordedManager(root, make_disk(root), name)
    recorded.clock.time_ms = NOW_MS + 120_000
    for log, content in cut.contents.items():
        start = cut.starts[log]
        forced = frozenset(batch for batch in content if batch.last_offset >= start)
        recorded.marks[log] = [Mark(0, content, forced, start)]
    recorded.open()
    for log in NAMES:
        recorded.step(partial(recorded.append, log, 900))
        recorded.flush(recorded.manager[log])
    recorded.step(recorded.manager.checkpoint)
    recorded.manager.abandon()
    return recorded


def check_cuts(
    recorded: RecordedManager, root: Path, seed: int, share: float = 1.0
) -> Iterator[Cut]:
    """Check a share of the different states after power cuts, and yield them."""
    model, seen = DiskModel(recorded.disk.before), set()
    for event in range(len(recorded.disk.events) + 1):
        if event:
            model.take(recorded.disk.events[event - 1])
        random = Random(seed * 1_000_003 + event)
        for kind, tree in model.states(random, 1):
            key = hash(frozenset(tree.items()))
            if key in seen or random.random() >= share:
                continue
            seen.add(key)
            try:
                contents, starts = check_state(recorded, root, tree, event)
            except InvalidStateError as error:
                raise InvalidStateError(
                    f"{recorded.name}, event {event}, {kind}: {error}"
                ) from error
            yield Cut(event, kind, tree, contents, starts)


def check_state(
    recorded: RecordedManager, root: Path, tree: Tree, event: int
) -> tuple[Contents, dict[Name, int]]:
    """Open a state twice, and return the batches and the least start of each log.

    Raises `InvalidStateError` if it is invalid.
    """
    write_tree(root, tree)
    try:
        before, changeable = _check(recorded, root, tree, event)
        if CLEAN_SHUTDOWN in tree:  # then no index was rebuilt; now it is
            _contents(root)
        first = read_tree(root)
        after = _contents(root)
        changed = {name for name, _ in first.items() ^ read_tree(root).items()}
    except InvalidStateError:
        raise
    except Exception as error:
        raise InvalidStateError(f"failed to open or read: {error!r}") from error
    require(before == after, "other batches after opening again")
    changed = {name for name in changed if not name.endswith(changeable)}
    require(not changed, f"files changed by opening again: {changed}")
    starts = {log: expected_at(recorded.marks[log], event).start for log in before}
    return before, starts


def _check(
    recorded: RecordedManager, root: Path, tree: Tree, event: int
) -> tuple[Contents, tuple[str, ...]]:
    """Check each log; return all, and suffixes of files that may change once more."""
    manager = manage_later(root)
    contents, changeable = {}, set()
    for name, marks in recorded.marks.items():
        expected = expected_at(marks, event)
        log = manager.get(name)
        if log is None:
            require(not expected.forced, f"flushed log {name} is lost")
            continue
        contents[name] = batches = read_batches(log)
        bases = {segment.base_offset for segment in log.growing_segments}
        check_batches(batches, expected, bases)
        check_metadata(log, batches, expected.start)
        require(
            log.recovery_point <= log.log_end_offset,
            "recovery point above the log end offset",
        )
        changeable.update(changeable_files(log, batches, expected, tree))
    require(not manager.offline, f"offline: {manager.offline}")
    manager.abandon()
    return contents, tuple(changeable)


def _contents(root: Path) -> Contents:
    manager = manage_later(root)
    contents = {name: read_batches(log) for name, log in manager.items()}
    manager.abandon()
    return contents

"""The life of a log manager whose disk is recorded, and what power cuts leave of it.

Of each log is known at each moment what it held and what of it was forced, as in the
life of a single one; a log that was deleted holds nothing, and one that is made in its
place is another.
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
from tests.crash.judging import (
    Lost,
    check_batches,
    check_knowledge,
    expected_at,
    passing_files,
    require,
)
from tests.crash.lives import (
    CONFIG,
    NOW_MS,
    UNVERIFIED,
    Batch,
    Mark,
    build,
    check_forced,
    marked,
    read_batches,
    value_of,
)
from tests.crash.power_cut import Disk
from tests.crash.recording import RecordingDisk, Tree, read_tree, write_tree

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
    """Open what a power cut has left, a minute later."""
    clock = ManualClock(NOW_MS + 60_000)
    return manage(root, DISK, clock, ManualScheduler(clock))


class ManagedLife:
    """Logs on a disk that is recorded, from the first opening on."""

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
        """Do something, and what is due, and mark what each log holds behind it.

        Unless `runs_due` is false: then what is due waits for `run_some`.
        """
        work()
        if self.runs_due:
            self.scheduler.run_due()
        self.mark(may_leave_holes=may_leave_holes)

    def run_some(self, random: Random) -> None:
        """Do some of what waits, in any order, whether it is due or not."""
        waiting = self.scheduler.pending()
        for task in random.sample(waiting, random.randint(0, len(waiting))):
            if task.period_ms < 0:
                task.cancel()
            task.work()
            self.mark(may_leave_holes=True)

    def mark(self, *, may_leave_holes: bool = False) -> None:
        """Take note of what each log holds, and what of it is forced."""
        event = len(self.disk.events)
        for name, marks in self.marks.items():
            log = self.manager.get(name)
            if log is None:
                marks.append(Mark(event))
            elif log.runtime.closed:  # it is as it was
                marks.append(replace(marks[-1], event=event))
            else:
                marks.append(marked(log, event, may_leave_holes))

    def flush(self, log: Any) -> None:
        """Force all that a log has to disk."""
        self.step(log.flush)
        check_forced(log, log.log_end_offset)

    def open(self) -> None:
        """Open the directory, as for the first time."""

        def work() -> None:
            self.manager = manage(self.root, self.disk, self.clock, self.scheduler)

        self.step(work)

    def close(self) -> None:
        """Close all in order: all is forced then."""
        left = {name: marks[-1] for name, marks in self.marks.items()}
        self.manager.close()
        event = len(self.disk.events)
        for name, mark in left.items():
            kept = (one for one in mark.content if one.last_offset >= mark.start)
            self.marks[name].append(
                Mark(event, mark.content, frozenset(kept), mark.start)
            )

    def append(self, name: Name, size: int) -> None:
        """Append a batch, with a producer of the log's own."""
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


def live(life: ManagedLife, random: Random) -> None:
    """Do all that a manager does."""
    life.open()
    for _ in range(26):
        name = random.choice(NAMES)
        here = life.manager.get(name)
        match random.randrange(12):
            case 0 if here is not None:
                life.flush(here)
            case 1:
                life.step(life.manager.checkpoint)
            case 2 if here is not None:
                life.step(partial(life.manager.delete, *name))
            case 3 if here is not None:
                cut = {name: _offset(here, random)}
                life.step(partial(life.manager.truncate_to, cut), may_leave_holes=True)
            case 4 if here is not None:
                here.update_high_watermark(here.log_end_offset)
                work = partial(here.delete_records, _offset(here, random))
                life.step(work, may_leave_holes=True)
                life.step(life.manager.retain, may_leave_holes=True)
            case 5:
                life.clock.time_ms += 2000
                life.step(life.manager.remove_deleted, may_leave_holes=True)
            case 6 if random.random() < 0.5:
                life.close()
                life.open()
            case _:
                life.step(partial(life.append, name, random.randint(1, 1400)))


def deleting(life: ManagedLife, random: Random) -> None:
    """Make a log anew, whose like began late and was forced far."""
    life.open()
    _fill(life)
    log = life.manager[NAMES[0]]
    life.flush(log)
    log.update_high_watermark(log.log_end_offset)
    life.step(partial(log.delete_records, 5), may_leave_holes=True)
    life.step(life.manager.checkpoint)
    life.step(partial(life.manager.delete, *NAMES[0]))
    life.step(partial(life.append, NAMES[0], random.randint(100, 200)))
    life.flush(life.manager[NAMES[0]])


def cutting(life: ManagedLife, random: Random) -> None:
    """Cut a log that was forced to its end, and append in the place of what is cut."""
    life.open()
    _fill(life)
    life.flush(life.manager[NAMES[0]])
    life.step(life.manager.checkpoint)
    cut = {NAMES[0]: random.randint(1, 2)}
    life.step(partial(life.manager.truncate_to, cut), may_leave_holes=True)
    for _ in range(6):  # what is due is not done: nothing is forced
        life.append(NAMES[0], 1400)
        life.mark()


def waiting(life: ManagedLife, random: Random) -> None:
    """What is due is done behind a cut, a deletion, or a close; checkpoints, too."""
    life.runs_due = False
    life.open()
    name = NAMES[0]
    for turn in range(6):
        _fill(life)
        log = life.manager[name]
        if turn % 3 == 0:
            log.update_high_watermark(log.log_end_offset)
            start = log.log_end_offset - 1
            life.step(partial(log.delete_records, start), may_leave_holes=True)
            life.step(life.manager.checkpoint)
        match turn % 3:
            case 0:
                cut = {name: random.randint(log.log_end_offset - 6, start)}
                life.step(partial(life.manager.truncate_to, cut))
            case 1:
                life.step(partial(life.manager.delete, *name))
            case _:
                log.close()
        life.run_some(random)
        for _ in range(3):
            life.step(partial(life.append, name, random.choice((300, 1400))))
        life.run_some(random)
        life.flush(life.manager[name])
        life.step(partial(life.append, name, 300))


def _fill(life: ManagedLife) -> None:
    for _ in range(7):
        life.step(partial(life.append, NAMES[0], 1400))


def _offset(log: Any, random: Random) -> int:
    return random.randint(log.log_start_offset, log.log_end_offset)


def told(
    root: Path, seed: int, make_disk: MakeDisk = RecordingDisk, story: Story = live
) -> ManagedLife:
    """Live on a disk that records."""
    write_tree(root, {})
    life = ManagedLife(root, make_disk(root), f"managed {seed}")
    story(life, Random(seed))
    life.manager.abandon()
    return life


Story = Callable[[ManagedLife, Random], None]


class Cut(NamedTuple):
    """A state that a power cut left: at which event, of which kind, what it was.

    `contents` is what was read in each log then, and `starts` where each began.
    """

    event: int
    kind: str
    tree: Tree
    contents: Contents
    starts: dict[Name, int]


def torn(root: Path) -> Cut:
    """Tear the first segment of each log, none of whose segments was forced."""
    write_tree(root, {})
    life = ManagedLife(root, RecordingDisk(root), "torn")
    life.open()
    for log in NAMES * 4:
        life.append(log, 1400)
    life.manager.abandon()
    tree = read_tree(root)
    for name, content in tree.items():
        if name.endswith(f"{0:020d}.log") and content is not None:
            tree[name] = content[:-5]
    write_tree(root, tree)
    return Cut(0, "torn", tree, _contents(root), dict.fromkeys(NAMES, 0))


def another_life(
    root: Path, cut: Cut, name: str, make_disk: MakeDisk = RecordingDisk
) -> ManagedLife:
    """Go on where a power cut was: all is recovered, then appended to and flushed.

    What was read after the cut is on disk, and forced as it were.
    """
    write_tree(root, cut.tree)
    life = ManagedLife(root, make_disk(root), name)
    life.clock.time_ms = NOW_MS + 120_000
    for log, content in cut.contents.items():
        start = cut.starts[log]
        forced = frozenset(one for one in content if one.last_offset >= start)
        life.marks[log] = [Mark(0, content, forced, start)]
    life.open()
    for log in NAMES:
        life.step(partial(life.append, log, 900))
        life.flush(life.manager[log])
    life.step(life.manager.checkpoint)
    life.manager.abandon()
    return life


def tried(
    life: ManagedLife, root: Path, seed: int, share: float = 1.0
) -> Iterator[Cut]:
    """Judge a share of the states that cuts leave, one of each content."""
    model, seen = Disk(life.disk.before), set()
    for event in range(len(life.disk.events) + 1):
        if event:
            model.take(life.disk.events[event - 1])
        random = Random(seed * 1_000_003 + event)
        for kind, tree in model.states(random, 1):
            key = hash(frozenset(tree.items()))
            if key in seen or random.random() >= share:
                continue
            seen.add(key)
            try:
                contents, starts = judge(life, root, tree, event)
            except Lost as error:
                raise Lost(f"{life.name}, event {event}, {kind}: {error}") from error
            yield Cut(event, kind, tree, contents, starts)


def judge(
    life: ManagedLife, root: Path, tree: Tree, event: int
) -> tuple[Contents, dict[Name, int]]:
    """Open a state, and what that leaves; raises `Lost`.

    Answers what is read in each log, and where each begins at least.
    """
    write_tree(root, tree)
    try:
        passing = list(_check(life, root, tree, event))
        if CLEAN_SHUTDOWN in tree:  # then no index was made anew: now it is
            _contents(root)
        once, before = read_tree(root), _contents(root)
        again = _contents(root)
        changed = {name for name, _ in once.items() ^ read_tree(root).items()}
    except Lost:
        raise
    except Exception as error:
        raise Lost(f"not opened, or not read: {error!r}") from error
    require(before == again, "opened again, other batches are read")
    changed = {name for name in changed if not name.endswith(tuple(passing))}
    require(not changed, f"opened again, other files are there: {changed}")
    starts = {log: expected_at(life.marks[log], event).start for log in before}
    return before, starts


def _check(life: ManagedLife, root: Path, tree: Tree, event: int) -> Iterator[str]:
    """Check each log; yields how files end that a second opening may change."""
    manager = manage_later(root)
    for name, marks in life.marks.items():
        expected = expected_at(marks, event)
        log = manager.get(name)
        if log is None:
            require(not expected.forced, f"{name} was forced to disk, and is not there")
            continue
        batches = read_batches(log)
        bases = {segment.base_offset for segment in log.growing_segments}
        check_batches(batches, expected, bases)
        check_knowledge(log, batches, expected.start)
        require(log.recovery_point <= log.log_end_offset, "forced beyond its end")
        yield from passing_files(log, batches, expected, tree)
    require(not manager.offline, f"offline: {manager.offline}")
    manager.abandon()


def _contents(root: Path) -> Contents:
    manager = manage_later(root)
    contents = {name: read_batches(log) for name, log in manager.items()}
    manager.abandon()
    return contents

"""Power cuts in stories: at each event of a tape, in each way, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from tests.crash.judging import Expected, Lost, expected_at, judge
from tests.crash.lives import NOW_MS, Life, Mark
from tests.crash.power_cut import Disk
from tests.crash.recording import RecordingDisk, Tree, write_tree
from tests.crash.stories import STORIES

MakeDisk = Callable[[Path], RecordingDisk]


class Cut(NamedTuple):
    """A state that a power cut leaves: where it was, of which kind, what is left."""

    where: str
    kind: str
    tree: Tree
    expected: Expected


def told(
    root: Path, name: str, seed: int, make_disk: MakeDisk = RecordingDisk
) -> tuple[Life, RecordingDisk]:
    """Play a story on a disk that records; a broker stopped there in order before."""
    write_tree(root, {CLEAN_SHUTDOWN: json.dumps({"version": 0}).encode()})
    disk = make_disk(root)
    life = Life(root, disk, f"{name} {seed}")
    STORIES[name](life, Random(seed))
    life.log.abandon()
    return life, disk


def cuts(life: Life, disk: RecordingDisk, seed: int, mixed: int) -> Iterator[Cut]:
    """Yield the states that cuts leave, one of each content."""
    model, seen = Disk(disk.before), set()
    for event in range(len(disk.events) + 1):
        if event:
            model.take(disk.events[event - 1])
        expected = replace(expected_at(life.marks, event), config=life.config)
        random = Random(seed * 1_000_003 + event)
        for kind, tree in model.states(random, mixed):
            key = hash((frozenset(tree.items()), expected.forced, expected.lives))
            if key not in seen:
                seen.add(key)
                yield Cut(f"{life.name}, event {event}", kind, tree, expected)


def tried(found: Iterator[Cut], root: Path, figures: Counter[str]) -> Iterator[Any]:
    """Judge states, and count them by kind; yields each with the batches read."""
    for cut in found:
        try:
            batches = judge(root, cut.tree, cut.expected)
        except Lost as error:
            raise Lost(f"{cut.where}, {cut.kind}: {error}") from error
        figures[cut.kind] += 1
        yield cut, batches


def another_life(root: Path, cut: Cut, batches: tuple[Any, ...], name: str) -> Any:
    """Go on where a power cut was: recovered, appended to and flushed, recorded.

    What was read after the cut is on disk, and forced as it were.
    """
    write_tree(root, cut.tree)
    disk = RecordingDisk(root)
    life = Life(root, disk, name, cut.expected.config)
    life.clock.time_ms = NOW_MS + 120_000
    start = cut.expected.start
    forced = frozenset(one for one in batches if one.last_offset >= start)
    life.least_start = start
    life.marks = [Mark(0, batches, forced, start)]
    life.open()
    life.append(2, 300)
    life.append_from(7_000, size=379)
    life.flush()
    life.append_many(100, 800, 700)
    life.log.abandon()
    return life, disk

"""Power cuts at each event of a recorded workload."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from tests.crash.disk_model import DiskModel
from tests.crash.recorded_log import NOW_MS, Mark, RecordedLog
from tests.crash.recording import RecordingDisk, Tree, write_tree
from tests.crash.state_checks import (
    Expected,
    InvalidStateError,
    check_state,
    expected_at,
)
from tests.crash.workloads import WORKLOADS

MakeDisk = Callable[[Path], RecordingDisk]


class Cut(NamedTuple):
    """A state after a power cut: its place, its kind, its files."""

    where: str
    kind: str
    tree: Tree
    expected: Expected


def record_workload(
    root: Path, name: str, seed: int, make_disk: MakeDisk = RecordingDisk
) -> tuple[RecordedLog, RecordingDisk]:
    """Run a workload on a recorded disk, after a clean shutdown of a broker."""
    write_tree(root, {CLEAN_SHUTDOWN: json.dumps({"version": 0}).encode()})
    disk = make_disk(root)
    recorded = RecordedLog(root, disk, f"{name} {seed}")
    WORKLOADS[name](recorded, Random(seed))
    recorded.log.abandon()
    return recorded, disk


def cuts(
    recorded: RecordedLog, disk: RecordingDisk, seed: int, mixed: int
) -> Iterator[Cut]:
    """Yield the different states after power cuts."""
    model, seen = DiskModel(disk.before), set()
    for event in range(len(disk.events) + 1):
        if event:
            model.take(disk.events[event - 1])
        expected = replace(expected_at(recorded.marks, event), config=recorded.config)
        random = Random(seed * 1_000_003 + event)
        for kind, tree in model.states(random, mixed):
            key = hash((frozenset(tree.items()), expected.forced, expected.histories))
            if key not in seen:
                seen.add(key)
                yield Cut(f"{recorded.name}, event {event}", kind, tree, expected)


def check_cuts(
    states: Iterator[Cut], root: Path, figures: Counter[str]
) -> Iterator[Any]:
    """Check states, count them by kind, and yield each with its batches."""
    for cut in states:
        try:
            batches = check_state(root, cut.tree, cut.expected)
        except InvalidStateError as error:
            raise InvalidStateError(f"{cut.where}, {cut.kind}: {error}") from error
        figures[cut.kind] += 1
        yield cut, batches


def record_recovery(root: Path, cut: Cut, batches: tuple[Any, ...], name: str) -> Any:
    """Recover, append to and flush the log after a power cut, recorded again.

    The batches read after the power cut count as flushed.
    """
    write_tree(root, cut.tree)
    disk = RecordingDisk(root)
    recorded = RecordedLog(root, disk, name, cut.expected.config)
    recorded.clock.time_ms = NOW_MS + 120_000
    start = cut.expected.start
    forced = frozenset(batch for batch in batches if batch.last_offset >= start)
    recorded.min_start = start
    recorded.marks = [Mark(0, batches, forced, start)]
    recorded.open()
    recorded.append(2, 300)
    recorded.append_from(7_000, size=379)
    recorded.flush()
    recorded.append_many(100, 800, 700)
    recorded.log.abandon()
    return recorded, disk

"""Whether what a power cut left is what it may leave: opened, read, compared.

What is expected follows from the batches that are read, by short rules of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kafkalog.config import LogConfig
from kafkalog.formats.batch_headers import BatchHeaders, scan_headers
from kafkalog.formats.layout import CONTROL_FLAG, TRANSACTIONAL_FLAG
from kafkalog.log.markers import read_markers
from kafkalog.log.recovery.leftover_files import offset_of
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.testing import ManualClock, ManualScheduler
from tests.crash.lives import CONFIG, NOW_MS, Batch, Mark, open_log, read_batches
from tests.crash.recording import Tree, read_tree, write_tree

NO_BATCH = -1, -1
"""Last sequence and offset of a producer whose epoch is new."""


class Lost(AssertionError):
    """A power cut has left what it may not leave."""


@dataclass(frozen=True)
class Expected:
    """What a state may hold, and must.

    Batches that end at `start` or behind are the first of one of `lives`; with
    `may_leave_holes`, of those some may be missing. All are in `known`, and `forced`
    is among them. Of `were_forced`, some may be cut, but only with all that follows.
    While it `is_removed`, its files go one by one. The log is opened with `config`.
    """

    lives: tuple[tuple[Batch, ...], ...]
    known: frozenset[Batch]
    forced: frozenset[Batch]
    were_forced: frozenset[Batch]
    start: int
    may_leave_holes: bool
    is_removed: bool
    config: LogConfig = CONFIG


def expected_at(marks: list[Mark], event: int) -> Expected:
    """Say what is expected once `event` events are on the tape."""
    done = sum(mark.event <= event for mark in marks)
    inside = done < len(marks) and marks[done - 1].event < event
    return expected_in(marks, done, inside=inside)


def expected_in(marks: list[Mark], done: int, *, inside: bool) -> Expected:
    """Say what is expected behind the first `done` marks, or inside the next step."""
    passed, before = marks[:done], marks[done - 1]
    after = marks[done] if inside else before
    known = {batch for mark in [*passed, after] for batch in mark.content}
    kept = {one for one in after.content if one.last_offset >= after.start}
    return Expected(
        (before.content, after.content),
        frozenset(known),
        before.forced & kept if inside else before.forced,
        before.forced,
        max(mark.start for mark in [*_since_jump(passed), after]),
        inside and after.may_leave_holes,
        inside and after.is_removed,
    )


def _since_jump(marks: list[Mark]) -> list[Mark]:
    """Marks since the log's start was last set back."""
    since = marks
    for place in range(1, len(marks)):
        if marks[place].start < marks[place - 1].start:
            since = marks[place:]
    return since


class Opened:
    """A log that was opened on a state, and is let go of as if the process died."""

    def __init__(
        self, root: Path, config: LogConfig = CONFIG, disk: Any = DISK
    ) -> None:
        clock = ManualClock(NOW_MS + 60_000)
        scheduler = ManualScheduler(clock)
        self.log = open_log(root, disk, clock, scheduler, config)
        scheduler.run_due()

    def __enter__(self) -> Any:
        return self.log

    def __exit__(self, *_: object) -> None:
        self.log.abandon()


def judge(root: Path, tree: Tree, expected: Expected, disk: Any = DISK) -> Any:
    """Open a state, and what that leaves; raises `Lost`. Answers the batches read."""
    write_tree(root, tree)
    try:
        with Opened(root, expected.config, disk) as log:
            batches = read_batches(log)
            bases = {segment.base_offset for segment in log.growing_segments}
            check_batches(batches, expected, bases)
            if expected.is_removed:
                return batches
            check_knowledge(log, batches, expected.start)
            passing = passing_files(log, batches, expected, tree)
        if CLEAN_SHUTDOWN in tree:  # then no index was made anew: now it is
            Opened(root, expected.config).log.abandon()
        once = _lasting(root, expected.config)
        with Opened(root, expected.config) as log:
            again = read_batches(log)
        changed = {
            name for name, _ in once.items() ^ _lasting(root, expected.config).items()
        }
        changed = {name for name in changed if not name.endswith(passing)}
        require(again == batches, "opened again, other batches are read")
        require(not changed, f"opened again, other files are there: {changed}")
    except Lost:
        raise
    except Exception as error:
        raise Lost(f"not opened, or not read: {error!r}") from error
    return batches


def _lasting(root: Path, config: LogConfig) -> Tree:
    """Read what a second opening leaves as it is.

    The room that a new segment was given behind its end is cut then.
    """
    tree = read_tree(root)
    if not config.preallocate:
        return tree
    return {
        name: content.rstrip(b"\0") if content and name.endswith(".log") else content
        for name, content in tree.items()
    }


def passing_files(
    log: Any, batches: tuple[Batch, ...], expected: Expected, tree: Tree
) -> tuple[str, ...]:
    """Say, by how they end, which files a second opening may change, as in Kafka.

    Removal goes on where it was interrupted. Snapshots up to the log's start are
    removed, and with them producers are forgotten of whom no batch is left. And if all
    behind a log start that was not checkpointed is lost, so are the epochs that began
    with it, until those of what lies before it are found. And where a segment is there,
    but not its index, that alone is made anew at first, and snapshots behind it go.
    """
    passing = [".deleted"]
    left = batches[0].base_offset if batches else log.log_end_offset
    snapshots = [name for name in tree if name.endswith(".snapshot")]
    if any(offset_of(Path(name).name) <= left for name in snapshots):
        passing.append(".snapshot")
    if log.log_end_offset <= expected.start:
        passing.append(LEADER_EPOCHS)
    if any(one.why == "index missing" for one in log.report.recovered):
        passing += [".index", ".timeindex", ".snapshot"]
    return tuple(passing)


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Lost(what)


def check_batches(
    batches: tuple[Batch, ...], expected: Expected, bases: set[int]
) -> None:
    unknown = [one[:2] for one in batches if one not in expected.known]
    require(not unknown, f"never appended: {unknown}")
    lost = [one[:2] for one in expected.forced.difference(batches)]
    require(not lost, f"forced to disk, and lost: {sorted(lost)}")
    behind = [one for one in batches if one.last_offset >= expected.start]
    offsets = [one.base_offset for one in behind]
    places = {bisect_left(offsets, base) for base in bases}
    firsts = {behind[place] for place in places if place < len(behind)}
    if expected.may_leave_holes and set(behind) <= set().union(*expected.lives):
        return
    for life in expected.lives:
        could = [one for one in life if one.last_offset >= expected.start]
        if _follows(behind, could, firsts, expected.were_forced):
            return
    raise Lost(f"not the first of what was appended: {[one[:2] for one in behind]}")


def _follows(
    behind: list[Batch],
    could: list[Batch],
    firsts: set[Batch],
    were_forced: frozenset[Batch],
) -> bool:
    """Whether batches are the first of what could be there, segment by segment.

    Of one that was rolled, and not forced to disk yet, the end may be lost, though what
    was appended behind is not: as in Kafka that leaves a gap, before the first batch of
    a segment.
    """
    place = 0
    for batch in behind:
        while place < len(could) and could[place] != batch:
            if batch not in firsts or could[place] in were_forced:
                return False
            place += 1
        if place == len(could):
            return False
        place += 1
    return True


def check_knowledge(log: Any, batches: tuple[Batch, ...], start: int) -> None:
    """Check what else is known from `start` on; before it, not all need be known."""
    data = b"".join(one.data for one in batches if one.base_offset >= start)
    rows, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    _check_epochs(log, rows)
    _check_producers(log, rows, data)
    _check_timestamps(log, rows)


def _check_epochs(log: Any, rows: BatchHeaders) -> None:
    entries = log.leader_epochs
    starts = [entry.start_offset for entry in entries]
    for row in rows:
        place = int(np.searchsorted(starts, row["base_offset"], "right")) - 1
        known = entries[place].epoch if place >= 0 else -1
        require(
            known == row["leader_epoch"],
            f"offset {row['base_offset']} of epoch {row['leader_epoch']} is in {known}",
        )
    require(
        all(start <= log.log_end_offset for start in starts),
        f"epochs begin at {starts}, the log ends at {log.log_end_offset}",
    )


def _check_producers(log: Any, rows: BatchHeaders, data: bytes) -> None:
    """Compare what is known of producers with what the batches say."""
    markers = read_markers(np.frombuffer(data, np.uint8), rows)
    last: dict[int, tuple[int, int]] = {}
    since: dict[int, int] = {}
    epochs: dict[int, int] = {}
    aborted = []
    for number, row in enumerate(rows):
        producer = int(row["producer_id"])
        if producer < 0:
            continue
        if row["attributes"] & CONTROL_FLAG:
            marker = markers[number]
            if marker is not None and marker.is_abort and producer in since:
                aborted.append((producer, since[producer], int(row["last_offset"])))
            since.pop(producer, None)
            if row["producer_epoch"] > epochs.get(producer, 0):
                last[producer] = NO_BATCH
            epochs[producer] = int(row["producer_epoch"])
            continue
        epochs[producer] = int(row["producer_epoch"])
        count = int(row["last_offset"] - row["base_offset"])
        last[producer] = (int(row["base_sequence"]) + count, int(row["last_offset"]))
        if row["attributes"] & TRANSACTIONAL_FLAG:
            since.setdefault(producer, int(row["base_offset"]))
    known = log.producers
    for producer, (sequence, offset) in last.items():
        entry = known.get(producer)
        found = None if entry is None else (entry.last_sequence, entry.last_offset)
        require(
            found == (sequence, offset),
            f"producer {producer} is at {found}, not {(sequence, offset)}",
        )
    for producer, entry in known.items():
        require(
            entry.last_offset < log.log_end_offset,
            f"producer {producer} is at {entry.last_offset}, behind the log's end",
        )
        if producer in last and entry.txn_first_offset >= log.log_start_offset:
            require(
                entry.txn_first_offset == since.get(producer, -1),
                f"producer {producer} is in a transaction from "
                f"{entry.txn_first_offset}, not {since.get(producer, -1)}",
            )
    listed = {
        (one.producer_id, one.first_offset, one.last_offset)
        for one in log.find_aborted(log.log_start_offset, log.log_end_offset)
    }
    require(listed >= set(aborted), f"aborted: {listed}, not {aborted}")


def _check_timestamps(log: Any, rows: BatchHeaders) -> None:
    """See that time indexes end where their segments do, and lead to what is asked."""
    segments = log.growing_segments
    for place, segment in enumerate(segments):
        ends = segments[place + 1 : place + 2]
        end = ends[0].base_offset if ends else log.log_end_offset
        offsets = rows["base_offset"]
        inside = rows[(offsets >= segment.base_offset) & (offsets < end)]
        if len(inside) and segment.base_offset == inside["base_offset"][0]:
            greatest = int(inside["max_timestamp"].max())
            require(
                segment.greatest_timestamp[0] == greatest,
                f"segment {segment.base_offset} ends at "
                f"{segment.greatest_timestamp[0]}, not {greatest}",
            )
    if any(segment.greatest_timestamp[0] < 0 for segment in segments[:-1]):
        return  # as in Kafka it is chosen then by when it was modified
    for row in rows[:: max(1, len(rows) // 2)]:
        time, offset = int(row["max_timestamp"]), int(row["last_offset"])
        found = log.find_offset(time)
        require(
            found is not None and found.offset == offset,
            f"time {time} is found at {found}, not {offset}",
        )

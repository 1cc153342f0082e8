"""Check of the state after a power cut: it is opened, read and compared.

The expected metadata is computed from the batches that are read, by independent rules.
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
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.storage.leftover_names import offset_of
from kafkalog.testing import ManualClock, ManualScheduler
from tests.crash.recorded_log import CONFIG, NOW_MS, Batch, Mark, open_log, read_batches
from tests.crash.recording import Tree, read_tree, write_tree

NO_BATCH = -1, -1
"""Last sequence and offset of a producer with a new epoch."""


class InvalidStateError(AssertionError):
    """A state that no power cut may leave."""


@dataclass(frozen=True)
class Expected:
    """Expected content of a state.

    Batches that end at or after `start` must be the first batches of one of
    `histories`; with `may_leave_holes` some of those may be missing. All batches are in
    `known`, and those of `forced` must exist. Batches of `forced_before` may only be
    missing together with all after them. With `is_removed` the files are being removed
    one by one. The log is opened with `config`.
    """

    histories: tuple[tuple[Batch, ...], ...]
    known: frozenset[Batch]
    forced: frozenset[Batch]
    forced_before: frozenset[Batch]
    start: int
    may_leave_holes: bool
    is_removed: bool
    config: LogConfig = CONFIG


def expected_at(marks: list[Mark], event: int) -> Expected:
    """Return the expected content after `event` events."""
    done = sum(mark.event <= event for mark in marks)
    inside = done < len(marks) and marks[done - 1].event < event
    return expected_in(marks, done, inside=inside)


def expected_in(marks: list[Mark], done: int, *, inside: bool) -> Expected:
    """Return the expected content after `done` marks, or inside the next step."""
    earlier, before = marks[:done], marks[done - 1]
    after = marks[done] if inside else before
    known = {batch for mark in [*earlier, after] for batch in mark.content}
    kept = {batch for batch in after.content if batch.last_offset >= after.start}
    return Expected(
        (before.content, after.content),
        frozenset(known),
        before.forced & kept if inside else before.forced,
        before.forced,
        max(mark.start for mark in [*_since_jump(earlier), after]),
        inside and after.may_leave_holes,
        inside and after.is_removed,
    )


def _since_jump(marks: list[Mark]) -> list[Mark]:
    """Return the marks since the log start offset was last lowered."""
    since = marks
    for place in range(1, len(marks)):
        if marks[place].start < marks[place - 1].start:
            since = marks[place:]
    return since


class Opened:
    """A log opened on a state; on exit it is abandoned as by a killed process."""

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


def check_state(root: Path, tree: Tree, expected: Expected, disk: Any = DISK) -> Any:
    """Open a state twice, and return its batches.

    Raises `InvalidStateError` for a state that no power cut may leave.
    """
    write_tree(root, tree)
    try:
        with Opened(root, expected.config, disk) as log:
            batches = read_batches(log)
            bases = {segment.base_offset for segment in log.growing_segments}
            check_batches(batches, expected, bases)
            if expected.is_removed:
                return batches
            check_metadata(log, batches, expected.start)
            changeable = changeable_files(log, batches, expected, tree)
        if CLEAN_SHUTDOWN in tree:  # then no index was rebuilt; now it is
            Opened(root, expected.config).log.abandon()
        first = _stable_files(root, expected.config)
        with Opened(root, expected.config) as log:
            batches_again = read_batches(log)
        changed = {
            name
            for name, _ in first.items() ^ _stable_files(root, expected.config).items()
        }
        changed = {name for name in changed if not name.endswith(changeable)}
        require(batches_again == batches, "other batches after opening again")
        require(not changed, f"files changed by opening again: {changed}")
    except InvalidStateError:
        raise
    except Exception as error:
        raise InvalidStateError(f"failed to open or read: {error!r}") from error
    return batches


def _stable_files(root: Path, config: LogConfig) -> Tree:
    """Read the files, without preallocated zeros, which a second opening truncates."""
    tree = read_tree(root)
    if not config.preallocate:
        return tree
    return {
        name: content.rstrip(b"\0") if content and name.endswith(".log") else content
        for name, content in tree.items()
    }


def changeable_files(
    log: Any, batches: tuple[Batch, ...], expected: Expected, tree: Tree
) -> tuple[str, ...]:
    """Return suffixes of the files that a second opening may change, as in Kafka.

    An interrupted removal continues. Snapshots up to the log start offset are removed,
    with producers that have no batch left. If all batches after a log start offset that
    was not checkpointed are lost, so are the epochs that began there, until those of
    earlier batches are found. If only the index of a segment is missing, it is rebuilt,
    and later snapshots are removed.
    """
    changeable = [".deleted"]
    left = batches[0].base_offset if batches else log.log_end_offset
    snapshots = [name for name in tree if name.endswith(".snapshot")]
    if any(offset_of(Path(name).name) <= left for name in snapshots):
        changeable.append(".snapshot")
    if log.log_end_offset <= expected.start:
        changeable.append(LEADER_EPOCHS)
    if any(segment.why == "index missing" for segment in log.report.recovered):
        changeable += [".index", ".timeindex", ".snapshot"]
    return tuple(changeable)


def require(condition: bool, what: str) -> None:
    if not condition:
        raise InvalidStateError(what)


def check_batches(
    batches: tuple[Batch, ...], expected: Expected, bases: set[int]
) -> None:
    unknown = [batch[:2] for batch in batches if batch not in expected.known]
    require(not unknown, f"never appended: {unknown}")
    lost = [batch[:2] for batch in expected.forced.difference(batches)]
    require(not lost, f"flushed batches are lost: {sorted(lost)}")
    kept = [batch for batch in batches if batch.last_offset >= expected.start]
    offsets = [batch.base_offset for batch in kept]
    indexes = {bisect_left(offsets, base) for base in bases}
    firsts = {kept[i] for i in indexes if i < len(kept)}
    if expected.may_leave_holes and set(kept) <= set().union(*expected.histories):
        return
    for history in expected.histories:
        appended = [batch for batch in history if batch.last_offset >= expected.start]
        if _follows(kept, appended, firsts, expected.forced_before):
            return
    raise InvalidStateError(
        f"not the first batches appended: {[batch[:2] for batch in kept]}"
    )


def _follows(
    kept: list[Batch],
    appended: list[Batch],
    firsts: set[Batch],
    forced_before: frozenset[Batch],
) -> bool:
    """Return whether the batches kept are the first ones appended, by segment.

    The end of a segment that was rolled, and not flushed yet, may be lost though later
    batches are not. As in Kafka this leaves a gap before the first batch of a segment.
    """
    i = 0
    for batch in kept:
        while i < len(appended) and appended[i] != batch:
            if batch not in firsts or appended[i] in forced_before:
                return False
            i += 1
        if i == len(appended):
            return False
        i += 1
    return True


def check_metadata(log: Any, batches: tuple[Batch, ...], start: int) -> None:
    """Check epochs, producers and timestamps from `start` on."""
    data = b"".join(batch.data for batch in batches if batch.base_offset >= start)
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
    """Compare the producer state with that of the batches."""
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
            f"producer {producer} is at {found}, expected {(sequence, offset)}",
        )
    for producer, entry in known.items():
        require(
            entry.last_offset < log.log_end_offset,
            f"producer {producer} is at {entry.last_offset}, after the log end offset",
        )
        if producer in last and entry.txn_first_offset >= log.log_start_offset:
            require(
                entry.txn_first_offset == since.get(producer, -1),
                f"producer {producer} is in a transaction from "
                f"{entry.txn_first_offset}, expected {since.get(producer, -1)}",
            )
    listed = {
        (txn.producer_id, txn.first_offset, txn.last_offset)
        for txn in log.find_aborted(log.log_start_offset, log.log_end_offset)
    }
    require(listed >= set(aborted), f"aborted: {listed}, expected {aborted}")


def _check_timestamps(log: Any, rows: BatchHeaders) -> None:
    """Check the greatest timestamp of each segment, and lookups of timestamps."""
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
                f"{segment.greatest_timestamp[0]}, expected {greatest}",
            )
    # A compacted batch may have lost the record with the greatest timestamp.
    rows = rows[rows["count"] == rows["last_offset"] - rows["base_offset"] + 1]
    if any(segment.greatest_timestamp[0] < 0 for segment in segments[:-1]):
        return  # as in Kafka, the modification time is used then
    for row in rows[:: max(1, len(rows) // 2)]:
        time, offset = int(row["max_timestamp"]), int(row["last_offset"])
        found = log.find_offset(time)
        require(
            found is not None and found.offset == offset,
            f"time {time} is found at {found}, expected {offset}",
        )

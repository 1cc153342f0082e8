"""A log on a recorded disk, with marks of its content and of what was flushed.

After each step a `RecordedLog` adds a mark: the batches in the log (`content`), and
those that must not be lost (`forced`), which are below the recovery point. A power cut
between two marks must leave the state before the step, with some effects of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import kafkalog
from kafkalog import testing
from kafkalog.cleaner import LogCleaner
from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.log.writable_log import WritableLog
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.testing import ManualClock, ManualScheduler

PARTITION = "orders-0"
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(
    internal_segment_bytes=3000,
    index_interval_bytes=300,
    segment_index_bytes=1200,
    file_delete_delay_ms=1000,
)
UNVERIFIED = BrokerConfig(transaction_partition_verification_enable=False)


class Batch(NamedTuple):
    """A batch in the log."""

    base_offset: int
    last_offset: int
    data: bytes


@dataclass(frozen=True)
class Mark:
    """Content of the log after `event` events, and the part that was flushed."""

    event: int
    content: tuple[Batch, ...] = ()
    forced: frozenset[Batch] = frozenset()
    start: int = 0
    may_leave_holes: bool = False
    is_removed: bool = False


class RecordedLog:
    """A log on a recorded disk."""

    def __init__(
        self, root: Path, disk: Any, name: str = "one", config: LogConfig = CONFIG
    ) -> None:
        self.root = root
        self.name = name
        self.disk = disk
        self.config = config
        self.clock = ManualClock(NOW_MS)
        self.scheduler = ManualScheduler(self.clock)
        self.marks = [Mark(0)]
        self.count = 0
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.log: Any = None
        self.min_start = 0  # all before it was deleted before recording
        self.runs_due = True
        self.key_count = 1

    # Steps

    def step(self, work: Callable[[], Any], *, may_leave_holes: bool = False) -> Any:
        """Do one step, run due tasks, and add a mark.

        If `runs_due` is False, the tasks wait for `run_some`.
        """
        result = work()
        if self.runs_due:
            self.scheduler.run_due()
        self.mark(may_leave_holes=may_leave_holes)
        return result

    def run_some(self, random: Random) -> None:
        """Run some waiting tasks in random order, due or not."""
        waiting = self.scheduler.pending()
        for task in random.sample(waiting, random.randint(0, len(waiting))):
            task.cancel()
            task.work()
            if self.log.runtime.closed:
                event = len(self.disk.events)
                assert event == self.marks[-1].event, (
                    f"{task.name} changes a closed log"
                )
            else:
                self.mark()

    def delete(self) -> None:
        """Remove the log."""
        self.log.delete()
        event = len(self.disk.events)
        self.marks.append(Mark(event, may_leave_holes=True, is_removed=True))

    def mark(self, *, may_leave_holes: bool = False) -> None:
        """Add a mark of the current content."""
        event = len(self.disk.events)
        self.marks.append(mark_of(self.log, event, may_leave_holes, self.min_start))

    def flush(self) -> None:
        """Flush the log, and check that the recovery point is its end."""
        self.step(lambda: self.log.flush())
        check_forced(self.log, self.log.log_end_offset)

    def roll(self) -> None:
        """Roll the log, and check that all before the new segment is flushed."""
        check_forced(self.log, self.step(lambda: self.log.roll()))

    def open(self, *, may_leave_holes: bool = False, **options: Any) -> None:
        """Open the log."""
        self.log = open_log(
            self.root, self.disk, self.clock, self.scheduler, self.config, **options
        )
        if self.runs_due:
            self.scheduler.run_due()
        self.mark(may_leave_holes=may_leave_holes)

    def crash(self) -> None:
        """Abandon the log as a killed process does."""
        self.log.abandon()
        self.scheduler = ManualScheduler(self.clock)

    def close(self) -> None:
        """Close the log, which flushes all of it."""
        content, start = read_batches(self.log), self.log.log_start_offset
        self.log.close()
        forced = frozenset(batch for batch in content if batch.last_offset >= start)
        self.marks.append(Mark(len(self.disk.events), content, forced, start))

    def append(self, records: int = 1, size: int = 50, **settings: Any) -> Any:
        """Append a batch as a leader does."""
        batch = self.batch(records, size, **settings)
        epoch = self.epoch()
        return self.step(lambda: self.log.append(batch, leader_epoch=epoch))

    def append_many(self, *sizes: int) -> None:
        """Append batches in one call."""
        batches, epoch = [self.batch(1, size) for size in sizes], self.epoch()
        self.step(lambda: self.log.append_many(batches, leader_epoch=epoch))

    def append_from(self, producer_id: int, records: int = 1, **settings: Any) -> None:
        """Append a batch with a producer's next sequence."""
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + records
        epoch = self.epochs.get(producer_id, 0)
        settings |= {"producer_id": producer_id, "producer_epoch": epoch}
        self.append(records, base_sequence=sequence, **settings)

    def end(self, producer_id: int, *, commit: bool, version: int = 0) -> None:
        """Append a transaction marker; with `version` 2 it has a new epoch."""
        if version == 2:
            self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
            self.sequences.pop(producer_id, None)
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        builder = kafkalog.RecordBatchBuilder(
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, 0),
            is_transactional=True,
            is_control=True,
        )
        builder.append(*end_transaction_marker(kind, 1), timestamp=self.now())
        batch, epoch = builder.build(), self.epoch()
        self.step(
            lambda: self.log.append(
                batch,
                leader_epoch=epoch,
                origin="coordinator",
                transaction_version=version,
            )
        )

    def replicate(self) -> None:
        """Set the high watermark to the log end offset."""
        self.step(lambda: self.log.update_high_watermark(self.log.log_end_offset))

    def compact(self, slots: int) -> None:
        """Compact the log, with an offset map of so many slots."""
        log, name = self.log, ("orders", 0)
        cleaner = LogCleaner({name: log}, dedupe_buffer_size=24 * slots)
        self.step(lambda: cleaner.clean(*name), may_leave_holes=True)

    def checkpoint(self) -> None:
        """Write the checkpoints, as a broker does each minute."""
        log = self.log

        def write() -> None:
            with log.runtime.lock, log.runtime.guard():
                write_checkpoints(log)

        self.step(write)

    # Batches

    def batch(self, records: int, size: int, **settings: Any) -> bytes:
        """Build a batch of records with unique values."""
        values: list[bytes | None] = []
        times, keys = [], []
        for _ in range(records):
            self.count += 1
            values.append(value_of(self.count, self.name, size))
            times.append(self.now())
            keys.append(b"key%d" % (self.count * 7 % self.key_count))
            if self.key_count > 1 and self.count % 5 == 0:
                values[-1] = None  # a tombstone
        return build(values, times, keys, **settings)

    def now(self) -> int:
        """Advance the clock by a millisecond, and return it."""
        self.clock.time_ms += 1
        return self.clock.time_ms

    def epoch(self) -> int:
        """Return the latest leader epoch."""
        epochs = self.log.leader_epochs
        return epochs[-1].epoch if epochs else 0


def check_forced(log: Any, offset: int) -> None:
    """Check that the recovery point is at least `offset`."""
    point = log.recovery_point
    assert point >= offset, f"recovery point {point}, expected at least {offset}"


def value_of(count: int, name: str, size: int) -> bytes:
    """Return a unique value."""
    return f"{count} of {name} ".encode().ljust(size, b".")


def build(
    values: list[bytes | None],
    times: list[int],
    keys: list[bytes] | None = None,
    **settings: Any,
) -> bytes:
    """Build a batch of values with timestamps, and with keys of their own or one."""
    builder = kafkalog.RecordBatchBuilder(**settings)
    for number, (value, time_ms) in enumerate(zip(values, times, strict=True)):
        key = b"key" if keys is None else keys[number]
        builder.append(key, value, timestamp=time_ms)
    return builder.build()


def mark_of(log: Any, event: int, may_leave_holes: bool, min_start: int = 0) -> Mark:
    """Return a mark of the current content of a log."""
    content = read_batches(log)
    start = max(min_start, log.log_start_offset)
    forced = frozenset(
        batch for batch in content if start <= batch.last_offset < log.recovery_point
    )
    return Mark(event, content, forced, start, may_leave_holes)


def open_log(
    root: Path,
    disk: Any,
    clock: ManualClock,
    scheduler: ManualScheduler,
    config: LogConfig = CONFIG,
    **options: Any,
) -> WritableLog:
    """Open the log under `root` for appends."""
    return testing.open_log(
        root / PARTITION,
        config,
        broker=UNVERIFIED,
        clock=clock,
        scheduler=scheduler,
        disk=disk,
        **options,
    )


def write_checkpoints(log: Any) -> None:
    """Write the checkpoints of a log."""
    start = log.log_start_offset
    log.owned_directory.checkpoint(
        (log.topic, log.partition),
        recovery_point=log.recovery_point,
        high_watermark=log.high_watermark,
        log_start_offset=start if start > log.growing_segments[0].base_offset else None,
    )


def read_batches(log: Any) -> tuple[Batch, ...]:
    """Read all batches through the indexes, segment by segment."""
    batches: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1 << 30).data
        rows, _, _ = scan_headers(np.frombuffer(data, np.uint8))
        if not len(rows):
            break
        fields = rows[["position", "size_in_bytes", "base_offset", "last_offset"]]
        for position, size, base, last in fields.tolist():
            if last >= offset:
                batches.append(Batch(base, last, data[position : position + size]))
        offset = batches[-1].last_offset + 1
    return tuple(batches)

"""Workloads for logs on a recorded disk, each for another part of the code."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import numpy as np

from kafkalog.formats.batch_headers import scan_headers
from tests.crash.recorded_log import CONFIG, PARTITION, Batch, Mark, RecordedLog


def appending(recorded: RecordedLog, random: Random) -> None:
    """Append single and many batches, with some flushes and rolls."""
    recorded.open()
    for _ in range(14):
        match random.randrange(6):
            case 0:
                recorded.append_many(*(random.randint(1, 900) for _ in range(5)))
            case 1:
                recorded.flush()
            case 2:
                recorded.roll()
            case _:
                recorded.append(random.randint(1, 4), random.randint(1, 400))
    recorded.checkpoint()
    recorded.append(2, 300)


def producing(recorded: RecordedLog, random: Random, version: int = 0) -> None:
    """Append of idempotent and transactional producers, with commits and aborts."""
    recorded.open()
    open_since: dict[int, int] = {}
    for turn in range(22):
        match random.randrange(5):
            case 0:
                recorded.append_from(
                    7, random.randint(1, 3), size=random.randint(1, 300)
                )
            case 1 | 2:
                producer = random.choice((20, 21))
                open_since.setdefault(producer, turn)
                size = random.randint(1, 500)
                recorded.append_from(producer, size=size, is_transactional=True)
            case 3 if open_since:
                producer = random.choice(sorted(open_since))
                del open_since[producer]
                recorded.end(producer, commit=random.random() < 0.4, version=version)
            case _:
                recorded.replicate()
                _flush_sometimes(recorded, random)


def keeping(recorded: RecordedLog, random: Random) -> None:
    """Delete by retention and by request, with delayed removal of files."""
    recorded.open()
    for _ in range(5):
        for _ in range(4):
            recorded.append_from(7, size=random.randint(200, 1200))
        recorded.replicate()
        match random.randrange(4):
            case 0:
                ends = recorded.log.log_start_offset, recorded.log.log_end_offset
                _deleting(
                    recorded,
                    partial(recorded.log.delete_records, random.randint(*ends)),
                )
            case 1:
                recorded.flush()
            case 2:
                recorded.checkpoint()
        _deleting(recorded, recorded.log.delete_old_segments)
        if random.random() < 0.5:
            recorded.clock.time_ms += 2000
            recorded.step(lambda: None)
    recorded.close()
    recorded.open()
    recorded.append()


def cutting(recorded: RecordedLog, random: Random) -> None:
    """Truncate at an offset and fully, in several epochs, and append again."""
    recorded.open()
    for epoch in range(4):
        recorded.step(lambda epoch=epoch: recorded.log.assign_epoch(epoch))
        for _ in range(random.randint(2, 7)):
            recorded.append_from(7, size=random.choice((379, 891, 120)))
        if random.random() < 0.7:
            recorded.flush()
        if random.random() < 0.5:
            recorded.checkpoint()
        start, end = recorded.log.log_start_offset, recorded.log.log_end_offset
        if epoch == 2 and random.random() < 0.4:
            recorded.step(lambda end=end: recorded.log.truncate_fully(end + 5))
        else:
            cut = random.randint((start + end) // 2, end)
            recorded.step(lambda cut=cut: recorded.log.truncate_to(cut))
        _reset_sequences(recorded)
        for _ in range(random.randint(0, 3)):
            recorded.append_from(7, size=random.choice((379, 891, 120)))
        if random.random() < 0.5:
            recorded.flush()


def truncating(recorded: RecordedLog, random: Random) -> None:
    """Truncate several segments, and below a checkpointed log start offset."""
    recorded.open()
    for _ in range(3):
        for _ in range(random.randint(6, 9)):
            recorded.append_from(7, size=random.choice((891, 1200, 1400)))
        recorded.flush()
        if random.random() < 0.6:
            _delete_records(recorded, random)
        first = recorded.log.growing_segments[0].base_offset
        cut = random.randint(first, max(first, recorded.log.log_end_offset - 3))
        recorded.step(lambda cut=cut: recorded.log.truncate_to(cut))
        _reset_sequences(recorded)
        for _ in range(random.randint(1, 3)):
            recorded.append_from(7, size=random.choice((120, 891)))
        if random.random() < 0.6:
            recorded.flush()


def beginning_anew(recorded: RecordedLog, random: Random) -> None:
    """Truncate fully: to inside the last segment, before it, and after the end."""
    recorded.open()
    for _ in range(4):
        for _ in range(random.randint(3, 7)):
            recorded.append_from(7, size=random.choice((400, 891, 1400)))
        recorded.flush()
        if random.random() < 0.5:
            _delete_records(recorded, random)
        bases = [segment.base_offset for segment in recorded.log.growing_segments]
        end = recorded.log.log_end_offset
        first, last = bases[0], bases[-1]
        inside = random.randint(last, end)
        cut = random.choice((inside, inside, last, first, max(0, first - 2), end + 5))
        recorded.step(lambda cut=cut: recorded.log.truncate_fully(cut))
        recorded.sequences.clear()
        for _ in range(random.randint(1, 2)):
            recorded.append_from(7, size=120)
        if random.random() < 0.6:
            recorded.flush()


def waiting(recorded: RecordedLog, random: Random) -> None:
    """Run delayed tasks after a truncation, a deletion, or a close."""
    recorded.runs_due = False
    recorded.open()
    for turn in range(5):
        known = recorded.log.leader_epochs
        epoch = known[-1].epoch + 1 if known else 0
        for part in range(2):
            recorded.step(lambda epoch=epoch + part: recorded.log.assign_epoch(epoch))
            for _ in range(random.randint(2, 4)):
                recorded.append(random.randint(1, 3), random.choice((120, 400, 891)))
            if random.random() < 0.7:
                recorded.step(lambda: recorded.log.roll())
        if random.random() < 0.3:
            recorded.run_some(random)
        start, end = recorded.log.log_start_offset, recorded.log.log_end_offset
        cut = random.randint((start + end) // 2, end)
        match turn if turn < 2 else random.randrange(5):
            case 0 | 1:
                recorded.step(lambda cut=cut: recorded.log.truncate_to(cut))
            case 2:
                recorded.step(lambda cut=cut: recorded.log.truncate_fully(cut))
            case 3:
                recorded.close()
                recorded.run_some(random)
                recorded.open()
            case _:
                recorded.delete()
                recorded.run_some(random)
                recorded.open()
        for _ in range(random.randint(1, 4)):
            recorded.append(random.randint(1, 3), random.choice((120, 891)))
        recorded.run_some(random)
        if random.random() < 0.5:
            recorded.checkpoint()
        recorded.append(2, 120)
        recorded.flush()


def _delete_records(recorded: RecordedLog, random: Random) -> None:
    """Raise the log start offset, with or without a checkpoint."""
    recorded.replicate()
    start = random.randint(recorded.log.log_start_offset, recorded.log.log_end_offset)
    _deleting(recorded, lambda: recorded.log.delete_records(start))
    if random.random() < 0.7:
        recorded.checkpoint()
    if random.random() < 0.5:
        _deleting(recorded, recorded.log.delete_old_segments)


def _reset_sequences(recorded: RecordedLog) -> None:
    """Set the next sequence of the producer after a truncation."""
    recorded.sequences.clear()
    known = recorded.log.producers.get(7)
    if known is not None:
        recorded.sequences[7] = known.last_sequence + 1


def stopping(recorded: RecordedLog, random: Random) -> None:
    """Close the log and open it again, with the files of a broker."""
    for _ in range(4):
        recorded.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        for _ in range(random.randint(1, 4)):
            recorded.append_from(7, size=random.randint(1, 1400))
        if random.random() < 0.5:
            recorded.replicate()
        if random.random() < 0.3:
            recorded.roll()
        recorded.close()


def following(recorded: RecordedLog, random: Random) -> None:
    """Append as a follower, with the offsets and epochs of a leader."""
    recorded.open()
    offset, epoch = 70_000_000_000, 0
    recorded.step(lambda: recorded.log.truncate_fully(offset))
    for _ in range(16):
        if random.random() < 0.2:
            epoch += 1
        offset = recorded.log.log_end_offset
        size = random.choice((375, 370, 60, 440, random.randint(1, 900)))
        batch = recorded.batch(1, size, base_offset=offset, leader_epoch=epoch)
        recorded.step(
            lambda batch=batch, epoch=epoch: recorded.log.append_as_follower(
                batch, leader_epoch=epoch
            )
        )
        _flush_sometimes(recorded, random)


def aborting(recorded: RecordedLog, random: Random) -> None:
    """Abort the first transaction of a segment after a flush, then roll."""
    recorded.open()
    for _ in range(3):
        for producer in random.sample((20, 21, 22), random.randint(1, 2)):
            size = random.randint(1, 300)
            recorded.append_from(producer, size=size, is_transactional=True)
            recorded.flush()
            recorded.end(producer, commit=False)
        recorded.flush()
        recorded.roll()
        recorded.checkpoint()
        recorded.append()


def deciding(recorded: RecordedLog, random: Random) -> None:
    """Commit and abort with version 2, where each end has a new producer epoch."""
    producing(recorded, random, version=2)


def preallocating(recorded: RecordedLog, random: Random) -> None:
    """Append to preallocated segments, which are truncated when they roll."""
    recorded.config = CONFIG.with_changes({"preallocate": "true"})
    for _ in range(3):
        recorded.open()
        for _ in range(random.randint(2, 5)):
            recorded.append_from(7, size=random.randint(1, 1400))
            _flush_sometimes(recorded, random)
        match random.randrange(3):
            case 0:
                recorded.roll()
            case 1:
                cut = recorded.log.log_end_offset - 1
                recorded.step(lambda cut=cut: recorded.log.truncate_to(cut))
                recorded.sequences[7] = recorded.log.producers[7].last_sequence + 1
        if random.random() < 0.7:
            recorded.close()
        else:
            recorded.crash()


def compressing(recorded: RecordedLog, random: Random) -> None:
    """Append with recompression, under changing settings."""
    codecs = ("gzip", "snappy", "lz4", "zstd")
    recorded.open()
    for turn in range(14):
        if turn % 5 == 0:
            recorded.config = CONFIG.with_changes(
                {"compression.type": random.choice(codecs)}
            )
            recorded.log.update_config(recorded.config)
        match random.randrange(5):
            case 0:
                recorded.append_many(*(random.randint(1, 1900) for _ in range(4)))
            case 1:
                recorded.append_from(7, random.randint(1, 40), size=300)
            case 2:
                recorded.append(1, 200, magic=1)
            case _:
                recorded.append(random.randint(1, 40), 300, codec=random.choice(codecs))
        _flush_sometimes(recorded, random)


def swapping(recorded: RecordedLog, random: Random) -> None:
    """Replace two segments by one, as a cleaner that is interrupted."""
    for _ in range(2):
        recorded.open(may_leave_holes=True)
        for _ in range(random.randint(8, 11)):
            if random.random() < 0.2:
                recorded.append_from(7, size=random.randint(200, 700))
            else:
                recorded.append(1, random.randint(200, 1200))
        while len(recorded.log.growing_segments) < 3:
            recorded.append(1, 1200)
        recorded.flush()
        recorded.append()
        bases = [segment.base_offset for segment in recorded.log.growing_segments]
        recorded.crash()
        first = random.randrange(len(bases) - 2)
        _clean(recorded, random, *bases[first : first + 3])
    recorded.open(may_leave_holes=True)
    recorded.append()


def _clean(
    recorded: RecordedLog, random: Random, first: int, second: int, end: int
) -> None:
    """Remove some batches of two segments, up to a random step of a cleaner."""
    content = recorded.marks[-1].content
    found = [batch for batch in content if first <= batch.base_offset < end]
    rows, _, _ = scan_headers(
        np.frombuffer(b"".join(batch.data for batch in found), np.uint8)
    )
    kept = [
        batch.data
        for batch, producer in zip(found, rows["producer_id"], strict=True)
        if producer >= 0 or batch is found[-1] or random.random() < 0.6
    ]
    disk, directory = recorded.disk, recorded.root / PARTITION
    target = directory / f"{first:020d}.log"
    cleaned, swap = (
        target.with_name(target.name + suffix) for suffix in (".cleaned", ".swap")
    )
    with disk.open(cleaned, create=True) as file:
        file.write(b"".join(kept), 0)
        file.sync()
    disk.sync_directory(directory)
    disk.rename(cleaned, swap)
    disk.sync_directory(directory)
    steps = random.randrange(3)
    if steps:
        for path in sorted(directory.glob("*[gx]")):
            if path.name.startswith((f"{first:020d}", f"{second:020d}")):
                disk.rename(path, path.with_name(path.name + ".deleted"))
        disk.sync_directory(directory)
    if steps == 2:
        disk.rename(swap, target)
        disk.sync_directory(directory)


def splitting(recorded: RecordedLog, random: Random) -> None:
    """Split a segment with offsets too far apart, as old brokers wrote."""
    recorded.open()
    path = recorded.log.growing_segments[0].path
    recorded.crash()
    content: list[Batch] = []
    for part in range(random.randint(2, 4)):
        first = part * 2**31 + random.randint(0, 9)
        for base in range(first, first + random.randint(1, 6)):
            data = recorded.batch(1, random.randint(50, 600), base_offset=base)
            content.append(Batch(base, base, data))
    temporary = path.with_name("whole")
    with recorded.disk.open(temporary, create=True) as file:
        file.write(b"".join(batch.data for batch in content), 0)
        file.sync()
    recorded.disk.rename(temporary, path)
    recorded.disk.sync_directory(path.parent)
    event = len(recorded.disk.events)
    recorded.marks.append(Mark(event, tuple(content), frozenset(content)))
    recorded.open()
    recorded.append(1, 300)
    recorded.flush()
    recorded.close()


def _flush_sometimes(recorded: RecordedLog, random: Random) -> None:
    match random.randrange(6):
        case 0:
            recorded.flush()
        case 1:
            recorded.checkpoint()


def _deleting(recorded: RecordedLog, work: Any) -> None:
    """Do a step that removes segments; until it is done there may be holes."""
    recorded.step(work, may_leave_holes=True)


WORKLOADS = {
    workload.__name__: workload
    for workload in (
        *(appending, producing, keeping, cutting, truncating, beginning_anew, waiting),
        *(stopping, following),
        *(aborting, deciding, preallocating, compressing, swapping, splitting),
    )
}

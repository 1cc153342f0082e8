"""What is done to logs whose disk is recorded: each story goes through other rooms."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import numpy as np

from kafkalog.formats.batch_headers import scan_headers
from tests.crash.lives import CONFIG, PARTITION, Batch, Life, Mark


def plain(life: Life, random: Random) -> None:
    """Appends, one and many at a time, flushed and rolled now and then."""
    life.open()
    for _ in range(14):
        match random.randrange(6):
            case 0:
                life.append_many(*(random.randint(1, 900) for _ in range(5)))
            case 1:
                life.flush()
            case 2:
                life.roll()
            case _:
                life.append(random.randint(1, 4), random.randint(1, 400))
    life.checkpoint()
    life.append(2, 300)


def producing(life: Life, random: Random, version: int = 0) -> None:
    """Idempotent and transactional producers, ended either way, across segments."""
    life.open()
    open_since: dict[int, int] = {}
    for turn in range(22):
        match random.randrange(5):
            case 0:
                life.append_from(7, random.randint(1, 3), size=random.randint(1, 300))
            case 1 | 2:
                producer = random.choice((20, 21))
                open_since.setdefault(producer, turn)
                size = random.randint(1, 500)
                life.append_from(producer, size=size, is_transactional=True)
            case 3 if open_since:
                producer = random.choice(sorted(open_since))
                del open_since[producer]
                life.end(producer, commit=random.random() < 0.4, version=version)
            case _:
                life.replicate()
                _now_and_then(life, random)


def keeping(life: Life, random: Random) -> None:
    """Retention by size and time, deleted records, delayed removal of files."""
    life.open()
    for _ in range(5):
        for _ in range(4):
            life.append_from(7, size=random.randint(200, 1200))
        life.replicate()
        match random.randrange(4):
            case 0:
                ends = life.log.log_start_offset, life.log.log_end_offset
                _deleting(life, partial(life.log.delete_records, random.randint(*ends)))
            case 1:
                life.flush()
            case 2:
                life.checkpoint()
        _deleting(life, life.log.delete_old_segments)
        if random.random() < 0.5:
            life.clock.time_ms += 2000
            life.step(lambda: None)
    life.close()
    life.open()
    life.append()


def cutting(life: Life, random: Random) -> None:
    """Cut at an offset and wholly, in other leaders' epochs, and appended to again."""
    life.open()
    for epoch in range(4):
        life.step(lambda epoch=epoch: life.log.assign_epoch(epoch))
        for _ in range(random.randint(2, 7)):
            life.append_from(7, size=random.choice((379, 891, 120)))
        if random.random() < 0.7:
            life.flush()
        if random.random() < 0.5:
            life.checkpoint()
        start, end = life.log.log_start_offset, life.log.log_end_offset
        if epoch == 2 and random.random() < 0.4:
            life.step(lambda end=end: life.log.truncate_fully(end + 5))
        else:
            cut = random.randint((start + end) // 2, end)
            life.step(lambda cut=cut: life.log.truncate_to(cut))
        _go_on_with_sequences(life)
        for _ in range(random.randint(0, 3)):
            life.append_from(7, size=random.choice((379, 891, 120)))
        if random.random() < 0.5:
            life.flush()


def truncating(life: Life, random: Random) -> None:
    """Cut over several segments, and below a start that was checkpointed."""
    life.open()
    for _ in range(3):
        for _ in range(random.randint(6, 9)):
            life.append_from(7, size=random.choice((891, 1200, 1400)))
        life.flush()
        if random.random() < 0.6:
            _delete_records(life, random)
        first = life.log.growing_segments[0].base_offset
        cut = random.randint(first, max(first, life.log.log_end_offset - 3))
        life.step(lambda cut=cut: life.log.truncate_to(cut))
        _go_on_with_sequences(life)
        for _ in range(random.randint(1, 3)):
            life.append_from(7, size=random.choice((120, 891)))
        if random.random() < 0.6:
            life.flush()


def beginning_anew(life: Life, random: Random) -> None:
    """Cut wholly: to go on inside the last segment, before it, and behind the end."""
    life.open()
    for _ in range(4):
        for _ in range(random.randint(3, 7)):
            life.append_from(7, size=random.choice((400, 891, 1400)))
        life.flush()
        if random.random() < 0.5:
            _delete_records(life, random)
        bases = [segment.base_offset for segment in life.log.growing_segments]
        end = life.log.log_end_offset
        first, last = bases[0], bases[-1]
        inside = random.randint(last, end)
        cut = random.choice((inside, inside, last, first, max(0, first - 2), end + 5))
        life.step(lambda cut=cut: life.log.truncate_fully(cut))
        life.sequences.clear()
        for _ in range(random.randint(1, 2)):
            life.append_from(7, size=120)
        if random.random() < 0.6:
            life.flush()


def waiting(life: Life, random: Random) -> None:
    """What is left to be done later is done behind a cut, a deletion, or a close."""
    life.runs_due = False
    life.open()
    for turn in range(5):
        known = life.log.leader_epochs
        epoch = known[-1].epoch + 1 if known else 0
        for part in range(2):
            life.step(lambda epoch=epoch + part: life.log.assign_epoch(epoch))
            for _ in range(random.randint(2, 4)):
                life.append(random.randint(1, 3), random.choice((120, 400, 891)))
            if random.random() < 0.7:
                life.step(lambda: life.log.roll())
        if random.random() < 0.3:
            life.run_some(random)
        start, end = life.log.log_start_offset, life.log.log_end_offset
        cut = random.randint((start + end) // 2, end)
        match turn if turn < 2 else random.randrange(5):
            case 0 | 1:
                life.step(lambda cut=cut: life.log.truncate_to(cut))
            case 2:
                life.step(lambda cut=cut: life.log.truncate_fully(cut))
            case 3:
                life.close()
                life.run_some(random)
                life.open()
            case _:
                life.delete()
                life.run_some(random)
                life.open()
        for _ in range(random.randint(1, 4)):
            life.append(random.randint(1, 3), random.choice((120, 891)))
        life.run_some(random)
        if random.random() < 0.5:
            life.checkpoint()
        life.append(2, 120)
        life.flush()


def _delete_records(life: Life, random: Random) -> None:
    """Let the log begin later, as the checkpoint tells, or its files."""
    life.replicate()
    start = random.randint(life.log.log_start_offset, life.log.log_end_offset)
    _deleting(life, lambda: life.log.delete_records(start))
    if random.random() < 0.7:
        life.checkpoint()
    if random.random() < 0.5:
        _deleting(life, life.log.delete_old_segments)


def _go_on_with_sequences(life: Life) -> None:
    """Take note of the sequence that a cut has left the producer with."""
    life.sequences.clear()
    known = life.log.producers.get(7)
    if known is not None:
        life.sequences[7] = known.last_sequence + 1


def stopping(life: Life, random: Random) -> None:
    """Closed in order and opened again, with the files of a broker around it."""
    for _ in range(4):
        life.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        for _ in range(random.randint(1, 4)):
            life.append_from(7, size=random.randint(1, 1400))
        if random.random() < 0.5:
            life.replicate()
        if random.random() < 0.3:
            life.roll()
        life.close()


def following(life: Life, random: Random) -> None:
    """A follower's appends, with the leader's offsets and epochs."""
    life.open()
    offset, epoch = 70_000_000_000, 0
    life.step(lambda: life.log.truncate_fully(offset))
    for _ in range(16):
        if random.random() < 0.2:
            epoch += 1
        offset = life.log.log_end_offset
        size = random.choice((375, 370, 60, 440, random.randint(1, 900)))
        batch = life.batch(1, size, base_offset=offset, leader_epoch=epoch)
        life.step(
            lambda batch=batch, epoch=epoch: life.log.append_as_follower(
                batch, leader_epoch=epoch
            )
        )
        _now_and_then(life, random)


def aborting(life: Life, random: Random) -> None:
    """A segment's first abort when all else of it is forced, and then it is left."""
    life.open()
    for _ in range(3):
        for producer in random.sample((20, 21, 22), random.randint(1, 2)):
            size = random.randint(1, 300)
            life.append_from(producer, size=size, is_transactional=True)
            life.flush()
            life.end(producer, commit=False)
        life.flush()
        life.roll()
        life.checkpoint()
        life.append()


def deciding(life: Life, random: Random) -> None:
    """Transactions of version 2: each end gives their producer another epoch."""
    producing(life, random, version=2)


def preallocating(life: Life, random: Random) -> None:
    """Segments of their whole size from the beginning, cut when they are left."""
    life.config = CONFIG.with_changes({"preallocate": "true"})
    for _ in range(3):
        life.open()
        for _ in range(random.randint(2, 5)):
            life.append_from(7, size=random.randint(1, 1400))
            _now_and_then(life, random)
        match random.randrange(3):
            case 0:
                life.roll()
            case 1:
                cut = life.log.log_end_offset - 1
                life.step(lambda cut=cut: life.log.truncate_to(cut))
                life.sequences[7] = life.log.producers[7].last_sequence + 1
        if random.random() < 0.7:
            life.close()
        else:
            life.crash()


def compressing(life: Life, random: Random) -> None:
    """A log that makes batches anew, and sees its settings changed."""
    codecs = ("gzip", "snappy", "lz4", "zstd")
    life.open()
    for turn in range(14):
        if turn % 5 == 0:
            life.config = CONFIG.with_changes(
                {"compression.type": random.choice(codecs)}
            )
            life.log.update_config(life.config)
        match random.randrange(5):
            case 0:
                life.append_many(*(random.randint(1, 1900) for _ in range(4)))
            case 1:
                life.append_from(7, random.randint(1, 40), size=300)
            case 2:
                life.append(1, 200, magic=1)
            case _:
                life.append(random.randint(1, 40), 300, codec=random.choice(codecs))
        _now_and_then(life, random)


def swapping(life: Life, random: Random) -> None:
    """A cleaner puts a segment in the place of two, and is interrupted."""
    for _ in range(2):
        life.open(may_leave_holes=True)
        for _ in range(random.randint(8, 11)):
            if random.random() < 0.2:
                life.append_from(7, size=random.randint(200, 700))
            else:
                life.append(1, random.randint(200, 1200))
        while len(life.log.growing_segments) < 3:
            life.append(1, 1200)
        life.flush()
        life.append()
        bases = [segment.base_offset for segment in life.log.growing_segments]
        life.crash()
        first = random.randrange(len(bases) - 2)
        _clean(life, random, *bases[first : first + 3])
    life.open(may_leave_holes=True)
    life.append()


def _clean(life: Life, random: Random, first: int, second: int, end: int) -> None:
    """Leave out some batches of two segments, as a cleaner does, as far as it comes."""
    found = [one for one in life.marks[-1].content if first <= one.base_offset < end]
    rows, _, _ = scan_headers(
        np.frombuffer(b"".join(one.data for one in found), np.uint8)
    )
    kept = [
        one.data
        for one, producer in zip(found, rows["producer_id"], strict=True)
        if producer >= 0 or one is found[-1] or random.random() < 0.6
    ]
    disk, directory = life.disk, life.root / PARTITION
    target = directory / f"{first:020d}.log"
    cleaned, swap = (
        target.with_name(target.name + one) for one in (".cleaned", ".swap")
    )
    with disk.open(cleaned, create=True) as file:
        file.write(b"".join(kept), 0)
        file.sync()
    disk.sync_directory(directory)
    disk.rename(cleaned, swap)
    disk.sync_directory(directory)
    come = random.randrange(3)
    if come:
        for path in sorted(directory.glob("*[gx]")):
            if path.name.startswith((f"{first:020d}", f"{second:020d}")):
                disk.rename(path, path.with_name(path.name + ".deleted"))
        disk.sync_directory(directory)
    if come == 2:
        disk.rename(swap, target)
        disk.sync_directory(directory)


def splitting(life: Life, random: Random) -> None:
    """A segment whose offsets are too far apart, as old brokers left some, is split."""
    life.open()
    path = life.log.growing_segments[0].path
    life.crash()
    content: list[Batch] = []
    for part in range(random.randint(2, 4)):
        first = part * 2**31 + random.randint(0, 9)
        for base in range(first, first + random.randint(1, 6)):
            data = life.batch(1, random.randint(50, 600), base_offset=base)
            content.append(Batch(base, base, data))
    whole = path.with_name("whole")
    with life.disk.open(whole, create=True) as file:
        file.write(b"".join(one.data for one in content), 0)
        file.sync()
    life.disk.rename(whole, path)
    life.disk.sync_directory(path.parent)
    event = len(life.disk.events)
    life.marks.append(Mark(event, tuple(content), frozenset(content)))
    life.open()
    life.append(1, 300)
    life.flush()
    life.close()


def _now_and_then(life: Life, random: Random) -> None:
    match random.randrange(6):
        case 0:
            life.flush()
        case 1:
            life.checkpoint()


def _deleting(life: Life, work: Any) -> None:
    """Do what removes segments: while it is done there may be holes."""
    life.step(work, may_leave_holes=True)


STORIES = {
    story.__name__: story
    for story in (
        *(plain, producing, keeping, cutting, truncating, beginning_anew, waiting),
        *(stopping, following),
        *(aborting, deciding, preallocating, compressing, swapping, splitting),
    )
}

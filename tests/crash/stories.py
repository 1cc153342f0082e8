"""What is done to logs whose disk is recorded: each story goes through other rooms."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from tests.crash.lives import Life


def plain(life: Life, random: Random) -> None:
    """Appends, one and many at a time, flushed and rolled now and then."""
    life.open()
    for _ in range(14):
        match random.randrange(6):
            case 0:
                life.append_many(*(random.randint(1, 900) for _ in range(5)))
            case 1:
                life.step(lambda: life.log.flush())
            case 2:
                life.step(lambda: life.log.roll())
            case _:
                life.append(random.randint(1, 4), random.randint(1, 400))
    life.checkpoint()
    life.append(2, 300)


def producing(life: Life, random: Random) -> None:
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
                life.end(producer, commit=random.random() < 0.4)
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
                life.step(lambda: life.log.flush())
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
            life.step(lambda: life.log.flush())
        if random.random() < 0.5:
            life.checkpoint()
        start, end = life.log.log_start_offset, life.log.log_end_offset
        if epoch == 2 and random.random() < 0.4:
            _deleting(life, lambda end=end: life.log.truncate_fully(end + 5))
        else:
            cut = random.randint((start + end) // 2, end)
            _deleting(life, lambda cut=cut: life.log.truncate_to(cut))
        life.sequences.clear()
        known = life.log.producers.get(7)
        if known is not None:
            life.sequences[7] = known.last_sequence + 1
        for _ in range(random.randint(0, 3)):
            life.append_from(7, size=random.choice((379, 891, 120)))
        if random.random() < 0.5:
            life.step(lambda: life.log.flush())


def stopping(life: Life, random: Random) -> None:
    """Closed in order and opened again, with the files of a broker around it."""
    for _ in range(4):
        life.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        for _ in range(random.randint(1, 4)):
            life.append_from(7, size=random.randint(1, 1400))
        if random.random() < 0.5:
            life.replicate()
        if random.random() < 0.3:
            life.step(lambda: life.log.roll())
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


def _now_and_then(life: Life, random: Random) -> None:
    match random.randrange(6):
        case 0:
            life.step(lambda: life.log.flush())
        case 1:
            life.checkpoint()


def _deleting(life: Life, work: Any) -> None:
    """Do what removes segments: while it is done there may be holes."""
    life.step(work, may_leave_holes=True)


STORIES = {
    story.__name__: story
    for story in (plain, producing, keeping, cutting, stopping, following)
}

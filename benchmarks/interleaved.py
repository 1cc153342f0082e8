"""Two ways to do the same, timed in turn: other load slows both."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

ROUNDS = 7


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    peer: str,
    of: int,
    clock: Callable[[], float] = process_time,
) -> dict[str, Any]:
    """Time both `ROUNDS` times; return seconds for one of `of`, and theirs over ours.

    Processor seconds of this process, which other load changes least.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for way, times in zip((ours, theirs), seconds, strict=True):
            start = clock()
            way()
            times.append(clock() - start)
    mine, other = (median(times) / of for times in seconds)
    return outcome(peer, mine, other)


def outcome(
    peer: str, mine: float, other: float, *, unit: str = "s", **more: float
) -> dict[str, Any]:
    """Return the figures of ours and the peer's, less being better, and the ratio.

    `more` are ``ours_processor`` and ``theirs_processor``, where the time is wall time.
    """
    return {
        "peer": peer,
        "ratio": other / mine,
        "ours": mine,
        "theirs": other,
        "unit": unit,
        **more,
    }

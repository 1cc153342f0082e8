"""Two ways to do the same, timed in turn: what slows one slows the other."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

ROUNDS = 7


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], *, peer: str, of: int
) -> dict[str, Any]:
    """Time both `ROUNDS` times; seconds for one of `of`, and theirs over ours."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for way, times in zip((ours, theirs), seconds, strict=True):
            start = perf_counter()
            way()
            times.append(perf_counter() - start)
    mine, other = (median(times) / of for times in seconds)
    return outcome(peer, mine, other)


def outcome(peer: str, mine: float, other: float) -> dict[str, Any]:
    """Tell of seconds that ours and the peer took; a ratio above 1 is better for us."""
    return {
        "peer": peer,
        "ratio": other / mine,
        "ours": mine,
        "theirs": other,
        "unit": "s",
    }

"""The tool's report on standard error, after the last file.

Source: ``DumpLogSegments.java``, its ``main`` and ``TimeIndexDumpErrors``.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.log.producers.hash_order import computed_order

Pairs = Int64s
"""Findings in one file, of shape (n, 2)."""

MOST_PAIRS: Final = 1 << 20
"""Maximum findings of a kind that are kept and listed; more are only counted."""

LISTED: Final = 1 << 12

INDEX_LINE: Final = "  Index offset: {}, log offset: {}"
TIMESTAMP_LINE: Final = "  Index timestamp: {}, log timestamp: {}"
ORDER_LINE: Final = "  Index timestamp: {}, Previously indexed timestamp: {}"
MISSING_LINE: Final = "Indexed offset: {}, found log offset: {}"
GAP_LINE: Final = "  {} is followed by {}"
MORE_LINE: Final = "  and {} more"


class PairFindings:
    """Findings of one kind, by the absolute path of the file: two numbers each.

    >>> gaps = PairFindings()
    >>> gaps.add("/logs/t-0/7.log", 9, 12)
    >>> gaps.pairs("/logs/t-0/7.log").tolist()
    [[9, 12]]
    """

    def __init__(self) -> None:
        self._found: dict[str, array[int]] = {}
        self._capacity = MOST_PAIRS
        self.more: Counter[str] = Counter()

    def add(self, path: str, first: int, second: int) -> None:
        """Add one finding in a file."""
        self.add_all(path, np.array([(first, second)], np.int64))

    def add_all(self, path: str, pairs: Pairs) -> None:
        """Add findings in a file; beyond `MOST_PAIRS` they are only counted."""
        kept = pairs[: self._capacity]
        self._found.setdefault(path, array("q")).frombytes(kept.tobytes())
        self._capacity -= len(kept)
        self.more[path] += len(pairs) - len(kept)

    def pairs(self, path: str) -> Pairs:
        """Return the findings kept of a file, in the order in which they were added."""
        return np.frombuffer(self._found[path], np.int64).reshape(-1, 2)

    def _count(self, path: str) -> int:
        return len(self._found[path]) // 2 + self.more[path]

    def paths(self) -> list[str]:
        """Return the files that have findings, in the order of Java's hash map."""
        paths = list(self._found)
        again = bool(paths) and self._count(paths[-1]) > 1
        hashes = {path: _string_hash(path) for path in paths}
        keys = list(dict.fromkeys(hashes.values()))
        place = {key: i for i, key in enumerate(computed_order(keys, again=again))}
        return sorted(paths, key=lambda path: place[hashes[path]])


@dataclass(slots=True)
class DumpReport:
    """The findings in indexes and logs, in the order in which they were found."""

    index_mismatches: PairFindings = field(default_factory=PairFindings)
    timestamp_mismatches: PairFindings = field(default_factory=PairFindings)
    out_of_order: PairFindings = field(default_factory=PairFindings)
    not_found: PairFindings = field(default_factory=PairFindings)
    gaps: PairFindings = field(default_factory=PairFindings)

    def lines(self) -> Iterator[str]:
        r"""Yield the report's lines.

        Of pairs with the same first number, only the last is reported.

        >>> report = DumpReport()
        >>> report.gaps.add("/logs/t-0/7.log", 9, 12)
        >>> report.gaps.add("/logs/t-0/7.log", -1, 7)
        >>> print(*report.lines(), sep="\n")
        Non-consecutive offsets in /logs/t-0/7.log
          -1 is followed by 7
          9 is followed by 12
        """
        return chain(
            _section("Mismatches in :", INDEX_LINE, self.index_mismatches, _falling),
            _section(
                "Found timestamp mismatch in :",
                TIMESTAMP_LINE,
                self.timestamp_mismatches,
            ),
            _section(
                "Found out of order timestamp in :", ORDER_LINE, self.out_of_order
            ),
            _section(
                "The following indexed offsets are not found in :",
                MISSING_LINE,
                self.not_found,
            ),
            _section("Non-consecutive offsets in ", GAP_LINE, self.gaps, _rising),
        )


def _rising(pairs: Pairs) -> Pairs:
    _, last = np.unique(pairs[::-1, 0], return_index=True)
    return pairs[::-1][last]


def _falling(pairs: Pairs) -> Pairs:
    return _rising(pairs)[::-1]


def _as_found(pairs: Pairs) -> Pairs:
    return pairs


def _section(
    title: str,
    line: str,
    findings: PairFindings,
    order: Callable[[Pairs], Pairs] = _as_found,
) -> Iterator[str]:
    for path in findings.paths():
        yield f"{title}{path}"
        pairs = order(findings.pairs(path))
        for start in range(0, len(pairs), LISTED):
            for pair in pairs[start : start + LISTED].tolist():
                yield line.format(*pair)
        if more := findings.more[path]:
            yield MORE_LINE.format(more)


def _string_hash(text: str) -> int:
    """Return Java's hash of a string, unsigned."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    return hashed

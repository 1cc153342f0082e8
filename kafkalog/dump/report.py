"""What the tool reports on standard error once all files are done.

Knows: findings and their lines. Does not know: files' contents.
Source: ``DumpLogSegments.java``, its ``main`` and ``TimeIndexDumpErrors``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from kafkalog.log.hash_order import computed_order

Pairs = dict[str, list[tuple[int, int]]]
"""Findings by the absolute path of the file, two numbers each."""

INDEX_LINE: Final = "  Index offset: {}, log offset: {}"
TIMESTAMP_LINE: Final = "  Index timestamp: {}, log timestamp: {}"
ORDER_LINE: Final = "  Index timestamp: {}, Previously indexed timestamp: {}"
MISSING_LINE: Final = "Indexed offset: {}, found log offset: {}"
GAP_LINE: Final = "  {} is followed by {}"


@dataclass(slots=True)
class Report:
    """Findings in indexes and logs, in the order in which they were made."""

    index_mismatches: Pairs = field(default_factory=dict)
    timestamp_mismatches: Pairs = field(default_factory=dict)
    out_of_order: Pairs = field(default_factory=dict)
    not_found: Pairs = field(default_factory=dict)
    gaps: Pairs = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        r"""Give the lines; of pairs with the same first number, the last counts.

        >>> report = Report()
        >>> report.gaps["/logs/t-0/7.log"] = [(9, 12), (-1, 7)]
        >>> print(*report.lines(), sep="\n")
        Non-consecutive offsets in /logs/t-0/7.log
          -1 is followed by 7
          9 is followed by 12
        """
        return chain(
            _told("Mismatches in :", INDEX_LINE, self.index_mismatches, _falling),
            _told(
                "Found timestamp mismatch in :",
                TIMESTAMP_LINE,
                self.timestamp_mismatches,
            ),
            _told("Found out of order timestamp in :", ORDER_LINE, self.out_of_order),
            _told(
                "The following indexed offsets are not found in :",
                MISSING_LINE,
                self.not_found,
            ),
            _told("Non-consecutive offsets in ", GAP_LINE, self.gaps, _rising),
        )


def _rising(pairs: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    return sorted(dict(pairs).items())


def _falling(pairs: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    return sorted(dict(pairs).items(), reverse=True)


def _told(
    title: str,
    line: str,
    findings: Pairs,
    order: Callable[[list[tuple[int, int]]], Iterable[tuple[int, int]]] = iter,
) -> Iterator[str]:
    for path in _map_order(findings):
        yield f"{title}{path}"
        for pair in order(findings[path]):
            yield line.format(*pair)


def _map_order(findings: Pairs) -> list[str]:
    """Order the paths as Java's map of strings gives them."""
    hashes = {path: _string_hash(path) for path in findings}
    keys = list(dict.fromkeys(hashes.values()))
    again = bool(findings) and len(findings[next(reversed(findings))]) > 1
    place = {key: i for i, key in enumerate(computed_order(keys, again=again))}
    return sorted(findings, key=lambda path: place[hashes[path]])


def _string_hash(text: str) -> int:
    """Hash a string as Java does, without sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    return hashed

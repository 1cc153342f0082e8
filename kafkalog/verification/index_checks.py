"""Checks of the offset and the time index against the log they belong to.

Versions of Kafka differ in what they write into an index; what all of them promise, and
readers rely on, is (``indexes/offset_index.py``, ``indexes/time_index.py``):

    offset index (o, p)   an entry of the log begins at p; o, if it is there, and all
                          offsets above lie at p or behind
    time index (t, o)     t is the greatest timestamp up to and with the batch that
                          holds o, and first reached in it: so what has t lies in that
                          batch or behind, and what is later behind o

What breaks a promise is an error. An offset that no version would have written there,
but that keeps the promise, is a warning: readers only start earlier than they need. Of
a compressed batch, all versions wrote the last offset into a time index.

The log comes step by step, in order, as far as it is sound; indexes are compared that
far and no further.

Knows: promises of indexes. Does not know: how logs are read, transactions.
Source: ``OffsetIndex.java``, ``TimeIndex.java``, ``LogSegment.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog.errors import CorruptIndexError
from kafkalog.formats.entry_headers import Rows
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.indexes.index_table import IndexTable, read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.verification.report import Cause, Findings

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Table = TypeVar("Table", bound=IndexTable)

EMPTY: Final = (
    "it is empty, though the segment has timestamps: a reader by time starts at the "
    "segment's beginning, and a broker leaves it so while there is an .index"
)


def read_index(
    kind: type[Table],
    path: Path,
    base_offset: int,
    findings: Findings,
    *,
    active: bool = False,
) -> tuple[Table, int]:
    """Read an index as far as its slots rise, noting where they do not; and its size.

    Of an `active` segment's index that is still preallocated (zeros at its end),
    nothing is worse than a warning: a broker has it open, or has left it so in a
    crash, and will rebuild it; entries of a log that was cut back may stand in it.
    """
    width = kind.ENTRY.itemsize
    try:
        data, size = read_slots(path, width)
    except CorruptIndexError as error:
        findings.add_error(error)
        return kind(np.empty(0, kind.ENTRY), base_offset), 0
    used = kind.count_sound(data, base_offset)
    preallocated = size >= width and (len(data) < size or not data[-width:].any())
    findings.lenient |= active and preallocated
    damage = kind.find_damage(data, used, size, base_offset)
    if damage is not None:
        findings.add_error(damage)
    return kind(data[: used * width].view(kind.ENTRY), base_offset), size


def runs(which: Bools) -> Iterator[tuple[int, int]]:
    """Yield the first and last slot of each run of true ones.

    >>> list(runs(np.array([False, True, True, False, True])))
    [(1, 2), (4, 4)]
    """
    if not which.any():
        return
    edges = np.flatnonzero(np.diff(np.concatenate(([False], which, [False]))))
    for first, end in edges.reshape(-1, 2).tolist():
        yield first, end - 1


def note(
    findings: Findings,
    which: Bools,
    message: str,
    *,
    cause: Cause,
    width: int,
    offsets: Int64s,
    harmless: bool = False,
) -> None:
    """Note one problem for each run of slots that are wrong in the same way."""
    for first, last in runs(which):
        entries = f"entry {first}" if first == last else f"entries {first} to {last}"
        add = findings.warn if harmless else findings.add
        add(
            cause,
            f"{entries}: {message}",
            position=first * width,
            offset=int(offsets[first]),
        )


@dataclass(slots=True)
class OffsetIndexCheck:
    """Holds an offset index to its log, which comes by `feed`, in order."""

    index: OffsetIndex
    findings: Findings
    positions: Int64s = field(init=False)
    _stray: Bools = field(init=False)
    _unsafe: Bools = field(init=False)
    _known: Bools = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.index)
        self.positions = self.index.entries["position"].astype(np.int64)
        self._stray = np.zeros(count, np.bool_)
        self._unsafe = np.zeros(count, np.bool_)
        self._known = np.zeros(count, np.bool_)

    def feed(self, rows: Rows, last_before: int) -> None:
        """Take entries of the log, behind those that `last_before` ends.

        Their base offsets are known, also those of wrappers.
        """
        places, offsets = rows["position"], self.index.offsets
        end = places[-1] + rows["size_in_bytes"][-1]
        low, high = np.searchsorted(self.positions, [places[0], end])
        here = slice(int(low), int(high))
        asked, claimed = self.positions[here], offsets[here]
        at = np.searchsorted(places, asked, side="right") - 1
        before = np.concatenate(([last_before], rows["last_offset"][:-1]))[at]
        base = rows["base_offset"][at]
        self._stray[here] = places[at] != asked
        self._unsafe[here] = before >= claimed
        self._know_last_offsets(rows["last_offset"], last_before)
        self._known[here] |= claimed == base
        self._known[here] &= claimed >= base

    def _know_last_offsets(self, last: Int64s, last_before: int) -> None:
        offsets = self.index.offsets
        low, high = np.searchsorted(offsets, [last_before, last[-1]], side="right")
        here = slice(int(low), int(high))
        at = np.searchsorted(last, offsets[here])
        self._known[here] |= last[at] == offsets[here]

    def finish(self, sound_to: int, last_offset: int, *, whole: bool) -> None:
        """Note what was wrong, up to byte `sound_to`; `whole` if the log ends there."""
        offsets, width = self.index.offsets, self.index.ENTRY.itemsize
        judged = self.positions < sound_to
        beyond = whole & (~judged | (offsets > last_offset))
        odd = ~self._known & judged & (offsets <= last_offset)
        for which, message, harmless in (
            (self._stray & judged, "no batch begins at that position", False),
            (
                self._unsafe & ~self._stray,
                "that offset, or higher ones, lie before it",
                False,
            ),
            (beyond & ~self._stray & ~self._unsafe, "points behind the log", False),
            (odd & ~self._stray & ~self._unsafe, "no batch has that offset", True),
        ):
            note(
                self.findings,
                which,
                message,
                cause=Cause.OFFSET_INDEX,
                width=width,
                offsets=offsets,
                harmless=harmless,
            )


@dataclass(frozen=True, slots=True)
class SnapshotCheck:
    """Holds the log to producer snapshots, whose checksums are right.

    `offsets` (rising) are last offsets of `producers`' batches: where such an offset
    lies in a batch, that is the producer's, and ends with it, compacted or not.
    """

    offsets: Int64s
    producers: Int64s
    findings: Findings

    def feed(self, rows: Rows, last_before: int) -> None:
        """Take entries of the log, behind those that `last_before` ends."""
        last = rows["last_offset"]
        low, high = np.searchsorted(self.offsets, [last_before, last[-1]], "right")
        asked, producers = self.offsets[low:high], self.producers[low:high]
        at = np.searchsorted(last, asked)
        holds = rows["base_offset"][at] <= asked
        other = (last[at] != asked) | (rows["producer_id"][at] != producers)
        for place in np.unique(at[holds & other]).tolist():
            self.findings.add(
                Cause.PRODUCER_STATE,
                "a producer snapshot has another batch at its offsets",
                position=int(rows["position"][place]),
                offset=int(rows["base_offset"][place]),
            )

    def finish(self, sound_to: int, last_offset: int, *, whole: bool) -> None:
        """Have nothing to add: what compaction took is not missed."""


@dataclass(slots=True)
class TimeIndexCheck:
    """Holds a time index to its log, which comes by `feed`, in order."""

    index: TimeIndex
    findings: Findings
    may_be_empty: bool = False
    """Whether the last entry is still to come, as in a segment that is written to."""
    _latest: int = -1
    _low: Bools = field(init=False)
    _high: Bools = field(init=False)
    _odd: Bools = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.index)
        self._low = np.zeros(count, np.bool_)
        self._high = np.zeros(count, np.bool_)
        self._odd = np.zeros(count, np.bool_)

    def feed(self, rows: Rows, last_before: int) -> None:
        """Take entries of the log, behind those that `last_before` ends."""
        last, offsets = rows["last_offset"], self.index.offsets
        low, high = np.searchsorted(offsets, [last_before, last[-1]], side="right")
        here = slice(int(low), int(high))
        times = np.concatenate(([self._latest], rows["max_timestamp"]))
        latest = np.maximum.accumulate(times)
        self._latest = int(latest[-1])
        at = np.searchsorted(last, offsets[here])
        held = offsets[here] >= rows["base_offset"][at]
        claimed = self.index.timestamps[here]
        whole = rows["attributes"][at] & CODEC_MASK > 0
        self._odd[here] = ~held | (whole & (offsets[here] != last[at]))
        greatest = latest[at + held]
        self._low[here] = (claimed < greatest) | (held & (claimed <= latest[at]))
        self._high[here] = claimed > greatest

    def finish(self, sound_to: int, last_offset: int, *, whole: bool) -> None:
        """Note what was wrong, up to `last_offset`; `whole` if the log ends there."""
        del sound_to
        offsets, width = self.index.offsets, self.index.ENTRY.itemsize
        judged = offsets <= last_offset
        beyond = whole & ~judged
        odd = self._odd & judged & ~self._low & ~self._high
        if not len(offsets) and self._latest >= 0 and not self.may_be_empty:
            self.findings.warn(Cause.TIME_INDEX, EMPTY, offset=self.index.base_offset)
        for which, message, harmless in (
            (self._low & judged, "that timestamp, or later ones, lie before it", False),
            (self._high & judged, "no record up to there has that timestamp", False),
            (beyond, "points behind the log", False),
            (odd, "no batch has that offset for its timestamp", True),
        ):
            note(
                self.findings,
                which,
                message,
                cause=Cause.TIME_INDEX,
                width=width,
                offsets=offsets,
                harmless=harmless,
            )

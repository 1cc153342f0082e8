"""Checks of the offset and the time index against the log they belong to.

Versions of Kafka differ in what they write into an index. All of them guarantee, and
readers rely on this (``indexes/offset_index.py``, ``indexes/time_index.py``):

    offset index (o, p)   an entry of the log begins at p. If the log has offset o, it
                          is at p or after it, and so are all higher offsets
    time index (t, o)     t is the greatest timestamp up to the end of the batch that
                          holds o, and that batch is the first to reach it. So records
                          with timestamp t are in that batch or after it, and later
                          ones are after o

An entry that breaks a guarantee is an error. An entry that no version would have
written, but that keeps the guarantee, is a warning: readers only start earlier than
necessary. For a compressed batch, all versions wrote its last offset into a time index.

Batches are fed in order, up to the first damage in the log. Indexes are compared up to
there.

Source: ``OffsetIndex.java``, ``TimeIndex.java``, ``LogSegment.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np

from kafkalog.array_types import Bools, Int64s
from kafkalog.errors import CorruptIndexError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.indexes.index_table import IndexTable, read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.verification.verification_report import (
    Cause,
    Findings,
    Recovery,
    Severity,
)

Table = TypeVar("Table", bound=IndexTable)

EMPTY: Final = (
    "the index is empty, though the segment has timestamps: lookups by time begin at "
    "the segment's start, and a broker keeps it empty while there is an .index"
)


def read_index(
    kind: type[Table],
    path: Path,
    base_offset: int,
    findings: Findings,
    *,
    active: bool = False,
) -> tuple[Table, int]:
    """Return an index up to the first slot that does not rise, and the file's size.

    Problems of an `active` segment's preallocated index (zeros at its end) are
    warnings: a broker has it open, or has crashed and will rebuild it. It may hold
    entries of a log that was truncated since.
    """
    width = kind.ENTRY.itemsize
    try:
        data, size = read_slots(path, width)
    except CorruptIndexError as error:
        findings.add_error(error)
        return kind(np.empty(0, kind.ENTRY), base_offset), 0
    used = kind.count_valid(data, base_offset)
    preallocated = size >= width and (len(data) < size or not data[-width:].any())
    findings.lenient |= active and preallocated
    damage = kind.find_damage(data, used, size, base_offset)
    if damage is not None:
        findings.add_error(damage)
    return kind(data[: used * width].view(kind.ENTRY), base_offset), size


def runs(which: Bools) -> Iterator[tuple[int, int]]:
    """Yield the first and last slot of each run of true values.

    >>> list(runs(np.array([False, True, True, False, True])))
    [(1, 2), (4, 4)]
    """
    if not which.any():
        return
    edges = np.flatnonzero(np.diff(np.concatenate(([False], which, [False]))))
    for first, end in edges.reshape(-1, 2).tolist():
        yield first, end - 1


class SlotFault(NamedTuple):
    """Slots of an index that are wrong in one way; a harmless one is a warning."""

    which: Bools
    message: str
    is_harmless: bool = False


def add_slot_faults(
    findings: Findings, cause: Cause, offsets: Int64s, width: int, *faults: SlotFault
) -> None:
    """Add one problem for each run of slots that are wrong in the same way.

    `offsets` and `width` are the offset and the bytes of each slot.
    """
    for which, message, is_harmless in faults:
        add = findings.warn if is_harmless else findings.add
        for first, last in runs(which):
            slots = f"entry {first}" if first == last else f"entries {first} to {last}"
            add(
                cause,
                f"{slots}: {message}",
                position=first * width,
                offset=int(offsets[first]),
            )


@dataclass(slots=True)
class OffsetIndexCheck:
    """A check of an offset index against its log, which is fed in order."""

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

    def feed(self, rows: BatchHeaders, last_before: int) -> None:
        """Compare with the next entries of the log, which follow `last_before`.

        Their base offsets are known, those of wrapper messages included.
        """
        places, offsets = rows["position"], self.index.offsets
        end = places[-1] + rows["size_in_bytes"][-1]
        low, high = np.searchsorted(self.positions, [places[0], end])
        here = slice(int(low), int(high))
        positions, claimed = self.positions[here], offsets[here]
        at = np.searchsorted(places, positions, side="right") - 1
        before = np.concatenate(([last_before], rows["last_offset"][:-1]))[at]
        base = rows["base_offset"][at]
        self._stray[here] = places[at] != positions
        self._unsafe[here] = before >= claimed
        self._match_last_offsets(rows["last_offset"], last_before)
        self._known[here] |= claimed == base
        self._known[here] &= claimed >= base

    def _match_last_offsets(self, last: Int64s, last_before: int) -> None:
        offsets = self.index.offsets
        low, high = np.searchsorted(offsets, [last_before, last[-1]], side="right")
        here = slice(int(low), int(high))
        at = np.searchsorted(last, offsets[here])
        self._known[here] |= last[at] == offsets[here]

    def finish(self, valid_to: int, last_offset: int, *, whole: bool) -> None:
        """Add the problems up to byte `valid_to`; `whole` if the log ends there."""
        offsets, width = self.index.offsets, self.index.ENTRY.itemsize
        compared = self.positions < valid_to
        beyond = whole & (~compared | (offsets > last_offset))
        odd = ~self._known & compared & (offsets <= last_offset)
        others = ~self._stray & ~self._unsafe
        add_slot_faults(
            self.findings,
            Cause.OFFSET_INDEX,
            offsets,
            width,
            SlotFault(self._stray & compared, "no batch begins at that position"),
            SlotFault(
                self._unsafe & ~self._stray,
                "batches before that position hold that offset, or higher ones",
            ),
            SlotFault(beyond & others, "points past the end of the log"),
            SlotFault(odd & others, "no batch has that offset", is_harmless=True),
        )


@dataclass(frozen=True, slots=True)
class SnapshotCheck:
    """A check of the log against producer snapshots with valid checksums.

    `offsets` (rising) are last offsets of batches of `producers`. A batch that holds
    such an offset must be the producer's and end with it, compacted or not.
    """

    offsets: Int64s
    producers: Int64s
    findings: Findings

    def feed(self, rows: BatchHeaders, last_before: int) -> None:
        """Compare with the next entries of the log, which follow `last_before`."""
        last = rows["last_offset"]
        low, high = np.searchsorted(self.offsets, [last_before, last[-1]], "right")
        known, producers = self.offsets[low:high], self.producers[low:high]
        at = np.searchsorted(last, known)
        holds = rows["base_offset"][at] <= known
        other = (last[at] != known) | (rows["producer_id"][at] != producers)
        for place in np.unique(at[holds & other]).tolist():
            self.findings.add(
                Cause.PRODUCER_STATE,
                "a producer snapshot has another batch at these offsets",
                position=int(rows["position"][place]),
                offset=int(rows["base_offset"][place]),
            )

    def finish(self, valid_to: int, last_offset: int, *, whole: bool) -> None:
        """Add nothing: compaction may have removed the batch."""


@dataclass(slots=True)
class TimeIndexCheck:
    """A check of a time index against its log, which is fed in order."""

    index: TimeIndex
    findings: Findings
    loaded: int | None = None
    """The greatest timestamp of the segment for a broker that does not read the log.

    -1 if the index is empty; None if the last entry may be missing, as in a segment
    that is appended to.
    """
    _latest: int = -1
    _low: Bools = field(init=False)
    _high: Bools = field(init=False)
    _odd: Bools = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.index)
        self._low = np.zeros(count, np.bool_)
        self._high = np.zeros(count, np.bool_)
        self._odd = np.zeros(count, np.bool_)

    def feed(self, rows: BatchHeaders, last_before: int) -> None:
        """Compare with the next entries of the log, which follow `last_before`."""
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

    def finish(self, valid_to: int, last_offset: int, *, whole: bool) -> None:
        """Add the problems up to `last_offset`; `whole` if the log ends there."""
        del valid_to
        offsets, width = self.index.offsets, self.index.ENTRY.itemsize
        compared = offsets <= last_offset
        beyond = whole & ~compared
        odd = self._odd & compared & ~self._low & ~self._high
        if whole and self.loaded is not None and self.loaded < self._latest:
            self._add_loaded(self.loaded, last_offset)
        add_slot_faults(
            self.findings,
            Cause.TIME_INDEX,
            offsets,
            width,
            SlotFault(
                self._low & compared,
                "batches before that offset have that timestamp, or later ones",
            ),
            SlotFault(
                self._high & compared, "no record up to that offset has that timestamp"
            ),
            SlotFault(beyond, "points past the end of the log"),
            SlotFault(
                odd, "no batch has that timestamp at that offset", is_harmless=True
            ),
        )

    def _add_loaded(self, loaded: int, last_offset: int) -> None:
        """Add the problem that a broker loads a timestamp below the greatest one."""
        base = self.index.base_offset
        if loaded < 0:
            self.findings.warn(Cause.TIME_INDEX, EMPTY, offset=base)
            return
        self.findings.add(
            Cause.TIME_INDEX,
            f"last entry: timestamp {loaded}, expected {self._latest}, the greatest of "
            f"the segment: retention.ms and lookups by time take offsets {base} to "
            f"{last_offset} for older than they are",
            offset=base,
            last_offset=last_offset,
            severity=Severity.WARNING,
            recovery=Recovery.EXPIRE,
        )

"""The valid batches of one replica, and which of them are of another's history.

A replica's history is the leader epoch of each of its offsets. The records of an offset
in a leader epoch are the same in all replicas that have them: the leader of that epoch
wrote them, and followers copy. So a batch of one replica is of the history of another
if that has the same epoch at its offset; and all batches before one that both have are
of the same history, too.

Source: ``LeaderEpochFileCache.java``, KIP-101.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools
from kafkalog.copies.known_offsets import KnownOffsets
from kafkalog.copies.offset_coverage import OffsetInterval
from kafkalog.copies.valid_batches import ValidBatches
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import BATCH, NO_LEADER_EPOCH
from kafkalog.log.leader_epochs import epoch_for_offset
from kafkalog.log.ownership import Name
from kafkalog.segment.log_segment import LogSegment


@dataclass(slots=True)
class ReplicaBatches:
    """One replica of a partition: the headers of its valid batches, and what it lacks.

    `rows` have the first offset of each batch as `base_offset`, that of wrapper
    messages included, and `numbers` the index of its segment in `segments`. `restored`
    are those whose header was damaged, and is correct in `rows`. `bases` are the
    base offsets of all known segments.
    """

    directory: Path
    known: KnownOffsets
    rows: BatchHeaders
    numbers: npt.NDArray[np.int32]
    restored: Bools
    segments: list[LogSegment]
    bases: list[int]
    missing: list[OffsetInterval]
    bytes_unreadable: int
    start: int
    end: int
    epochs: list[EpochEntry] = field(default_factory=list)

    @classmethod
    def read(cls, directory: Path, name: Name) -> ReplicaBatches:
        """Return the replica in a partition's directory, all of which is read."""
        batches = ValidBatches.of(directory, name)
        known = batches.known
        assert known is not None
        parts: list[BatchHeaders] = [np.empty(0, BATCH)]
        numbers: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        restored: list[Bools] = [np.empty(0, np.bool_)]
        segments: list[LogSegment] = []
        for each in batches.of_directory(directory):
            if isinstance(each, LogSegment):
                segments.append(each)
                continue
            rows = each.rows.copy()
            rows["base_offset"] = batches.first_offsets
            parts.append(rows)
            flags = np.zeros(len(rows), np.bool_)
            flags[batches.restored] = True
            restored.append(flags)
            numbers.append(np.full(len(rows), len(segments) - 1, np.int32))
        batches.coverage.reach_end(known.end)
        rows = np.concatenate(parts)
        starts = [known.log_start_offset, *batches.bases[:1]]
        replica = cls(
            directory,
            known,
            rows,
            np.concatenate(numbers),
            np.concatenate(restored),
            segments,
            batches.bases,
            batches.coverage.missing,
            batches.bytes_unreadable,
            next((start for start in starts if start is not None), 0),
            batches.coverage.reached or 0,
        )
        replica.epochs = replica._confirmed_epochs()
        replica.missing = replica._with_gaps()
        return replica

    @property
    def is_damaged(self) -> bool:
        """Whether batches are missing or unreadable, or headers were corrected."""
        return bool(self.missing or self.bytes_unreadable or self.restored.any())

    @property
    def last_epoch(self) -> int:
        """The greatest leader epoch, by the batches and by the epoch checkpoint."""
        of_batches = self.rows["leader_epoch"].max(initial=NO_LEADER_EPOCH)
        return max(int(of_batches), *(entry.epoch for entry in self.epochs[-1:]), -1)

    def _confirmed_epochs(self) -> list[EpochEntry]:
        """Return the epoch checkpoint, if no batch contradicts it; else no entries."""
        entries = self.known.epochs
        ascend = all(
            a.epoch < b.epoch and a.start_offset < b.start_offset
            for a, b in pairwise(entries)
        )
        if not entries or not ascend:
            return []
        rows = self.rows[self.rows["base_offset"] >= entries[0].start_offset]
        epochs = np.array([entry.epoch for entry in entries])
        starts = np.array([entry.start_offset for entry in entries])
        places = np.searchsorted(starts, rows["base_offset"], side="right") - 1
        return entries if (epochs[places] == rows["leader_epoch"]).all() else []

    def _with_gaps(self) -> list[OffsetInterval]:
        """Return the missing offsets, with all gaps that compaction cannot explain.

        Those after the compacted part of the log are not compaction's, even without a
        damaged byte: the file may have been cut between two batches.
        """
        cleaned_to = self.known.cleaned_to
        found = [
            OffsetInterval(first, min(last, cleaned_to - 1))
            for first, last in self.missing
            if first < cleaned_to
        ]
        begins = np.append(self.rows["base_offset"], self.end)
        after = np.append(self.start, self.rows["last_offset"] + 1)
        after = np.maximum(after, max(self.start, cleaned_to))
        gaps = np.flatnonzero(begins > after)
        return found + [
            OffsetInterval(first, last)
            for first, last in zip(
                after[gaps].tolist(), (begins[gaps] - 1).tolist(), strict=True
            )
        ]

    def epoch_at(self, offset: int) -> int | None:
        """Return the leader epoch of an offset; None if it is unknown."""
        if self.epochs and offset >= self.epochs[0].start_offset:
            return epoch_for_offset(self.epochs, offset)
        rows = self.rows
        after = int(np.searchsorted(rows["last_offset"], offset))
        if after == len(rows):
            return None
        epoch = int(rows["leader_epoch"][after])
        if rows["base_offset"][after] <= offset:
            return epoch
        return epoch if after and epoch == rows["leader_epoch"][after - 1] else None

    def shares(self, other: ReplicaBatches) -> Bools:
        """Return which batches of `other` are of the history of this replica."""
        common = np.intersect1d(_places(self.rows), _places(other.rows))
        anchor = int(common["last_offset"].max(initial=-1)) if len(common) else -1
        shared: Bools = other.rows["last_offset"] <= anchor
        for i in np.flatnonzero(~shared).tolist():
            row = other.rows[i]
            epoch = self.epoch_at(int(row["base_offset"]))
            shared[i] = (
                epoch is not None
                and epoch == int(row["leader_epoch"])
                and epoch == self.epoch_at(int(row["last_offset"]))
            )
        return shared

    def covered_to(self, offset: int, shared: Bools, most: int) -> int:
        """Return the last offset up to which this replica covers all from `offset` on.

        `shared` are the batches that may be used; `most` is the last offset wanted.
        Returns `offset` - 1 if it does not cover `offset`.
        """
        if not self.start <= offset < self.end:
            return offset - 1
        last = min(most, self.end - 1)
        for lost in self.missing:
            if lost.last >= offset:
                last = min(last, lost.first - 1)
                break
        first = int(np.searchsorted(self.rows["last_offset"], offset))
        for i in range(first, len(self.rows)):
            base = int(self.rows["base_offset"][i])
            if base > last:
                break
            if not shared[i] or base < offset or self.rows["last_offset"][i] > last:
                return min(last, max(base, offset) - 1)
        return last

    def between(self, first: int, last: int) -> slice:
        """Return the rows of the batches from offset `first` to `last`."""
        ends = self.rows["last_offset"]
        return slice(
            int(np.searchsorted(ends, first)),
            int(np.searchsorted(ends, last, side="right")),
        )


def _places(rows: BatchHeaders) -> npt.NDArray[np.void]:
    """Return the last offset and the leader epoch of batches."""
    places = np.empty(
        len(rows), [("last_offset", np.int64), ("leader_epoch", np.int32)]
    )
    places["last_offset"] = rows["last_offset"]
    places["leader_epoch"] = rows["leader_epoch"]
    return places

"""The records that are lost when a broker finishes a swap with a damaged file.

Compaction and splitting write ``.swap`` files, which replace segments. A broker does
not verify a ``.log.swap`` that it finds when it starts. It deletes the segments that
begin in the range of its offsets, and renames it, over the ``.log`` of that name.

Where the ``.swap`` is corrupt, or ends too early, the records of the replaced segments
are lost. Offsets that are missing between its valid batches were removed by compaction.

Source: ``LogLoader.load``, ``LocalLog.replaceSegments``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkalog.decoding.read_policy import SKIPPING
from kafkalog.decoding.record_counts import count_records
from kafkalog.reports import counted
from kafkalog.segment.file_records import FileRecords, Skipped
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.file_names import (
    MAX_OFFSET,
    file_name,
)


class BatchOffsets(NamedTuple):
    """The offsets from `first` to `last`."""

    first: int
    last: int

    def overlaps(self, others: Iterable[BatchOffsets]) -> bool:
        """Return whether any of other ranges has one of the offsets."""
        return any(
            each.first <= self.last and self.first <= each.last for each in others
        )


@dataclass(slots=True)
class SwapContent:
    """The valid batches of a ``.log.swap``, and the offsets that it should have.

    `missing` are the offsets of corrupt batches, and those after its end if it ends too
    early. The first of them is after byte `position`.
    """

    path: Path
    base_offset: int
    batches: list[BatchOffsets] = field(default_factory=list)
    missing: list[BatchOffsets] = field(default_factory=list)
    position: int = 0
    reason: str = ""

    def lacks(self, first: int, last: int, position: int, reason: str) -> None:
        """Add missing offsets."""
        if not self.missing:
            self.position, self.reason = position, reason
        self.missing.append(BatchOffsets(first, last))


@dataclass(slots=True)
class SwapLoss:
    """The records of replaced segments that a ``.log.swap`` does not have.

    `is_covered` is whether the replaced segments have all offsets of the swap: without
    the swap nothing is lost.
    """

    content: SwapContent
    first_offset: int = MAX_OFFSET
    last_offset: int = -1
    records: int = 0
    size: int = 0
    is_covered: bool = True

    @property
    def message(self) -> str:
        """The reason, and the loss."""
        base = file_name(self.content.base_offset, "log")
        return (
            f"{self.content.reason}; a broker replaces {base} by this file: offsets "
            f"{self.first_offset} to {self.last_offset}, "
            f"{counted(self.records, 'readable record')}, are lost"
        )


def read_swap(
    path: Path, base_offset: int, *, until: int, compacts: bool
) -> SwapContent:
    """Read a ``.log.swap``, which should have the offsets up to `until`.

    If the topic `compacts`, the last offsets may have been removed, but none that an
    index of the swap has.
    """
    content = SwapContent(path, base_offset)
    segment = LogSegment(path, base_offset)
    following, damage, position = base_offset, "", 0
    with FileSource(path) as source:
        records = FileRecords(source=source, limits=segment.limits, policy=SKIPPING)
        for step in records:
            if isinstance(step, Skipped):
                damage, position = str(step.error.reason), step.error.position or 0
                continue
            rows = step.rows
            first = max(following, int(rows["base_offset"][0]))
            if damage:
                content.lacks(following, first - 1, position, damage)
                damage = ""
            content.batches += _ranges(following, rows)
            following = int(rows["last_offset"][-1]) + 1
        size, end = source.size, records.end
        has_tail = records.has_tail
    if not damage and has_tail:
        damage, position = "the file ends in part of an entry", end
    if not damage and size == 0:
        damage = "the file is empty"
    last_indexed = max(segment.last_indexed_offsets(), default=-1)
    if not damage and not (compacts and following > last_indexed):
        damage, position = f"the file ends at offset {following}", end
    if damage:
        content.lacks(following, until, position, damage)
    return content


def _ranges(
    following: int, rows: np.ndarray[tuple[int], np.dtype[np.void]]
) -> Iterator[BatchOffsets]:
    """Yield the offsets of batches; wrapper messages begin after the one before."""
    for first, last in zip(
        rows["base_offset"].tolist(), rows["last_offset"].tolist(), strict=True
    ):
        yield BatchOffsets(first if first >= 0 else following, last)
        following = last + 1


def find_losses(
    replaced: Sequence[tuple[Path, int]], swaps: Sequence[SwapContent]
) -> list[SwapLoss]:
    """Return what each of some swaps loses of the `replaced` files; by base offset."""
    swaps = sorted(swaps, key=lambda each: each.base_offset)
    losses = [SwapLoss(content) for content in swaps]
    found: list[BatchOffsets] = []
    for path, base_offset in replaced:
        with FileSource(path) as source:
            limits = LogSegment(path, base_offset).limits
            for step in FileRecords(source=source, limits=limits, policy=SKIPPING):
                if isinstance(step, Skipped):
                    continue
                counts = count_records(step.rows, step.data, step.origin).tolist()
                sizes = step.rows["size_in_bytes"].tolist()
                ranges = list(_ranges(base_offset, step.rows))
                for batch, count, size in zip(ranges, counts, sizes, strict=True):
                    _add_lost(losses, batch, count, size)
                found.append(BatchOffsets(ranges[0].first, ranges[-1].last))
    for loss in losses:
        loss.is_covered = all(each.overlaps(found) for each in loss.content.batches)
    return [loss for loss in losses if loss.records]


def _add_lost(
    losses: Iterable[SwapLoss], batch: BatchOffsets, records: int, size: int
) -> None:
    """Add a batch to the swap that should have it, if that does not."""
    for loss in losses:
        if batch.overlaps(loss.content.missing):
            loss.first_offset = min(loss.first_offset, batch.first)
            loss.last_offset = max(loss.last_offset, batch.last)
            loss.records += records
            loss.size += size
            return


def read_swaps(
    directory: Path, bases: Sequence[int], *, compacts: bool
) -> list[SwapContent]:
    """Read the ``.log.swap`` files of a directory with some base offsets."""
    ends = [*(base - 1 for base in bases[1:]), MAX_OFFSET]
    return [
        read_swap(
            directory / file_name(base, "log", "swap"),
            base,
            until=until,
            compacts=compacts,
        )
        for base, until in zip(bases, ends, strict=False)
    ]

"""The records that are lost when a broker finishes a swap with a damaged file.

Compaction and splitting write ``.swap`` files, which replace segments. A broker does
not verify a ``.log.swap`` that it finds when it starts. It deletes the segments that
begin in the range of its offsets, and renames it, over the ``.log`` of that name.

Where the ``.swap`` is corrupt, or ends too early, the records of the replaced segments
are lost. Offsets that are missing between its valid batches were removed by compaction.

Source: ``LogLoader.load``, ``LocalLog.replaceSegments``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkalog.decoding.read_policy import SKIPPING
from kafkalog.decoding.record_counts import count_records
from kafkalog.errors import CorruptIndexError, LocatedError
from kafkalog.indexes.index_table import read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.reports import counted
from kafkalog.segment.file_batches import find_end
from kafkalog.segment.file_records import FileRecords, Skipped
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.durable_file import DISK, DurableFile
from kafkalog.storage.file_names import (
    MAX_OFFSET,
    SegmentFile,
    file_name,
    parse_file_name,
)
from kafkalog.storage.leftover_names import offset_of, sort_leftovers

SWAP: Final = "swap"


class FramedEnd(NamedTuple):
    """The end of a log that a broker finds after a clean shutdown.

    `offset` follows the last entry, which ends at byte `position`. If the last entry of
    the offset index, at byte `beyond_log` of the index, points past the end of the log,
    the segment counts as empty. If `is_refused`, the entry at `position` has an invalid
    size, and the log is not opened.
    """

    offset: int
    position: int
    beyond_log: int | None = None
    is_refused: bool = False


READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags to open a ``.log``, without blocking on a file that is a pipe."""


def framed_end(path: Path, base_offset: int) -> FramedEnd:
    """Return the end of a last segment that a broker does not recover.

    Only the sizes of entries are read; their checksums are not verified.
    """
    offset, position, slot = _last_indexed(path, base_offset)
    with DurableFile(DISK, path, READ_ONLY) as file:
        try:
            end = find_end(file, offset, position, file.size())
        except LocatedError as error:
            return FramedEnd(base_offset, error.position or 0, is_refused=True)
    if end is None:
        return FramedEnd(base_offset, 0, slot)
    return FramedEnd(end.offset, end.position)


def _last_indexed(path: Path, base_offset: int) -> tuple[int, int, int | None]:
    """Return the offset and position in the last slot of an index, and its byte."""
    entry = OffsetIndex.ENTRY
    name = parse_file_name(path.name)
    suffix = None if name is None else name.suffix
    try:
        data, size = read_slots(
            path.with_name(file_name(base_offset, "index", suffix)), entry.itemsize
        )
    except (FileNotFoundError, CorruptIndexError):
        return base_offset, 0, None
    slot = size // entry.itemsize * entry.itemsize - entry.itemsize
    if slot < 0 or len(data) < slot + entry.itemsize:  # empty, or preallocated
        return base_offset, 0, None
    last = data[slot : slot + entry.itemsize].view(entry)[0]
    return base_offset + int(last["relative_offset"]), int(last["position"]), slot


class OffsetRange(NamedTuple):
    """The offsets from `first` to `last`."""

    first: int
    last: int

    def overlaps(self, others: Iterable[OffsetRange]) -> bool:
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
    batches: list[OffsetRange] = field(default_factory=list)
    missing: list[OffsetRange] = field(default_factory=list)
    position: int = 0
    reason: str = ""

    def lacks(self, first: int, last: int, position: int, reason: str) -> None:
        """Add missing offsets."""
        if not self.missing:
            self.position, self.reason = position, reason
        self.missing.append(OffsetRange(first, last))


@dataclass(slots=True)
class SwapLoss:
    """The records of replaced segments that a ``.log.swap`` does not have.

    `is_covered` is whether the replaced segments have all offsets of the swap: without
    the swap nothing is lost. `is_refused` is whether a broker does not start with a
    swap, as the size of one of its entries is invalid.
    """

    content: SwapContent
    first_offset: int = MAX_OFFSET
    last_offset: int = -1
    records: int = 0
    size: int = 0
    is_covered: bool = True
    is_refused: bool = False

    @property
    def message(self) -> str:
        """The reason, and the loss."""
        if self.is_refused:
            return f"{self.content.reason}; a broker does not start with this file"
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
) -> Iterator[OffsetRange]:
    """Yield the offsets of batches; wrapper messages begin after the one before."""
    for first, last in zip(
        rows["base_offset"].tolist(), rows["last_offset"].tolist(), strict=True
    ):
        yield OffsetRange(first if first >= 0 else following, last)
        following = last + 1


def find_losses(
    replaced: Sequence[tuple[Path, int]], swaps: Sequence[SwapContent]
) -> list[SwapLoss]:
    """Return what each of some swaps loses of the `replaced` files; by base offset."""
    swaps = sorted(swaps, key=lambda each: each.base_offset)
    losses = [SwapLoss(content) for content in swaps]
    found: list[OffsetRange] = []
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
                found.append(OffsetRange(ranges[0].first, ranges[-1].last))
    for loss in losses:
        loss.is_covered = all(each.overlaps(found) for each in loss.content.batches)
    return [loss for loss in losses if loss.records]


def _add_lost(
    losses: Iterable[SwapLoss], batch: OffsetRange, records: int, size: int
) -> None:
    """Add a batch to the swap that should have it, if that does not."""
    for loss in losses:
        if batch.overlaps(loss.content.missing):
            loss.first_offset = min(loss.first_offset, batch.first)
            loss.last_offset = max(loss.last_offset, batch.last)
            loss.records += records
            loss.size += size
            return


def swap_names(names: Iterable[SegmentFile]) -> list[int]:
    """Return the base offsets of the ``.log.swap`` files that a broker renames.

    Those at or above the offset of a ``.cleaned`` file are incomplete, and removed.
    """
    swaps = sort_leftovers(each.name for each in names).swapped_logs
    return sorted(map(offset_of, swaps))


def lost_by_swaps(
    directory: Path, names: Iterable[SegmentFile], *, compacts: bool
) -> list[SwapLoss]:
    """Return what the swaps of a directory, with files of some names, would lose."""
    listed = list(names)
    bases = swap_names(listed)
    if not bases:
        return []
    ends = [
        framed_end(directory / file_name(base, "log", SWAP), base) for base in bases
    ]
    until = max(end.offset for end in ends)
    replaced = sorted(
        each.base_offset
        for each in listed
        if (each.kind, each.suffix) == ("log", None)
        and (bases[0] <= each.base_offset < until or each.base_offset in bases)
    )
    files = [(directory / file_name(base, "log"), base) for base in replaced]
    losses = find_losses(files, read_swaps(directory, bases, compacts=compacts))
    is_refused = any(end.is_refused for end in ends)
    return [replace(loss, is_refused=is_refused) for loss in losses]


def read_swaps(
    directory: Path, bases: Sequence[int], *, compacts: bool
) -> list[SwapContent]:
    """Read the ``.log.swap`` files of a directory with some base offsets."""
    ends = [*(base - 1 for base in bases[1:]), MAX_OFFSET]
    return [
        read_swap(
            directory / file_name(base, "log", SWAP),
            base,
            until=until,
            compacts=compacts,
        )
        for base, until in zip(bases, ends, strict=False)
    ]

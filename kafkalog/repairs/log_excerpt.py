"""The valid entries of a damaged ``.log``, and the bytes between them.

An excerpt has the entries that are accepted by a reader that skips damage: the checksum
matches, and the offsets ascend. A batch of which only the header is damaged is kept
with a corrected one, see `header_correction`. Entries for which `verify` reports an
error are not kept, such as records that cannot be decompressed. The bytes between the
entries of an excerpt are lost: their offsets become a gap, as after compaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkalog.decoding.decompression import first_offsets
from kafkalog.decoding.read_policy import SKIPPING
from kafkalog.decoding.record_counts import count_records
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import delta_field, offset_field, scan_headers
from kafkalog.formats.layout import MAX_BATCH_BYTES, RECORD_BATCH_OVERHEAD
from kafkalog.integer_limits import MAX_INT64
from kafkalog.repairs.header_correction import (
    MAX_BYTES,
    HeaderCorrection,
    apply_corrections,
    correct_header,
)
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource, only_zeros
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import MAX_OFFSET, file_name
from kafkalog.storage.location import local_path

COPY_BYTES: Final = 1 << 20


class LostBytes(NamedTuple):
    """Bytes that are taken out of a log, and the offsets that are lost with them.

    `last_offset` is None if it is unknown. `is_tail` states that no entry follows in
    the file, `is_zeros` that the bytes are zeros, `is_covered` that an earlier segment
    has their offsets. That one may be damaged, so that the bytes `may_be_needed`.
    `known_records` is their number by the headers of entries that have all the bytes;
    None if there are other bytes.
    """

    position: int
    end: int
    first_offset: int
    last_offset: int | None
    is_tail: bool = False
    is_zeros: bool = False
    is_covered: bool = False
    may_be_needed: bool = False
    known_records: int | None = None

    @property
    def loses_data(self) -> bool:
        """Whether the bytes are all that is left of their offsets."""
        if self.is_covered:
            return self.may_be_needed
        return not (self.is_zeros and self.is_tail)

    @property
    def records(self) -> int:
        """The number of records in the bytes; 0 if it is unknown.

        Where entries cannot be distinguished from other bytes, it is that of the
        offsets, which is the most that there can be.
        """
        if self.is_covered:
            return 0
        if self.last_offset is None:
            return self.known_records or 0
        offsets = self.last_offset - self.first_offset + 1
        return (
            offsets if self.known_records is None else min(offsets, self.known_records)
        )


class _EntryRun(NamedTuple):
    """Adjacent entries that are kept: the range of their bytes, and of offsets."""

    start: int
    end: int
    first_offset: int
    last_offset: int


class _BadEntry(NamedTuple):
    """An entry that is not kept."""

    last_offset: int


@dataclass(slots=True)
class LogExcerpt:
    """The parts of a ``.log`` that are kept, as ranges of bytes, and those lost."""

    path: Path
    base_offset: int
    size: int
    kept: list[tuple[int, int]] = field(default_factory=list)
    lost: list[LostBytes] = field(default_factory=list)
    end_offset: int = 0
    """The offset after the last entry that is kept."""
    is_dropped: bool = False
    """Whether the file is removed."""
    corrections: list[HeaderCorrection] = field(default_factory=list)
    """Fields of headers of kept entries that are written again."""
    new_base_offset: int | None = None
    """The base offset in the new name of the file, if it gets one."""

    @property
    def new_name(self) -> str | None:
        """The name of the file with what is kept; None if it is removed."""
        if self.is_dropped:
            return None
        if self.new_base_offset is None:
            return self.path.name
        return file_name(self.new_base_offset, "log")

    @property
    def changes_entries(self) -> bool:
        """Whether indexes may change: more than leader epochs is corrected."""
        epochs = any(
            "leader epoch" not in each.description for each in self.corrections
        )
        return bool(self.lost) or epochs

    @property
    def loses_data(self) -> bool:
        """Whether anything but zeros at the end is lost."""
        return any(each.loses_data for each in self.lost)

    def write(self, target: Path, disk: Disk) -> None:
        """Write the parts that are kept to a new file."""
        with FileSource(self.path) as source, disk.open(target, create=True) as file:
            file.truncate(0)
            position = 0
            for start, end in self.kept:
                while start < end:
                    data = source.read(start, min(COPY_BYTES, end - start))
                    if not len(data):
                        raise OSError(5, "The file was truncated", str(self.path))
                    apply_corrections(data, start, self.corrections)
                    file.write(data.tobytes(), position)
                    start, position = start + len(data), position + len(data)

    def add(self, run: _EntryRun) -> None:
        """Keep entries; the bytes before them that are not kept are lost."""
        position = self.kept_end
        if run.start > position:
            lost = LostBytes(position, run.start, self.end_offset, run.first_offset - 1)
            self.lost.append(lost)
        if self.kept and run.start == position:
            start, _ = self.kept.pop()
            self.kept.append((start, run.end))
        else:
            self.kept.append((run.start, run.end))
        self.end_offset = run.last_offset + 1

    @property
    def kept_end(self) -> int:
        """The position after the last entry that is kept."""
        return self.kept[-1][1] if self.kept else 0

    def up_to_first_loss(self, later: Sequence[tuple[int, int]]) -> LogExcerpt:
        """Return the excerpt that ends where this one first loses bytes.

        `later` are the base and end offsets of the segments after this one.
        """
        first = self.lost[0]
        ends = [offset for _, offset in later] or [self.end_offset]
        last = max([*ends, self.end_offset]) - 1
        last_offset = last if last >= first.first_offset else first.last_offset
        cut = first._replace(
            end=self.size,
            last_offset=last_offset,
            is_tail=True,
            is_zeros=first.is_zeros and first.is_tail and not later,
            known_records=self.records_from(first.position),
        )
        kept = [(start, end) for start, end in self.kept if end <= first.position]
        return LogExcerpt(
            self.path,
            self.base_offset,
            self.size,
            kept,
            [cut],
            first.first_offset,
            corrections=[
                each for each in self.corrections if each.position < first.position
            ],
        )

    def records_from(self, position: int) -> int:
        """Return the number of records at or after a position, kept and lost."""
        records = sum(each.records for each in self.lost if each.position >= position)
        with FileSource(self.path) as source:
            for start, end in self.kept:
                records += _count_valid(source, max(start, position), end)
        return records

    def correct_headers(
        self, source: FileSource, after: int | None, *, is_last: bool
    ) -> None:
        """Keep batches of which only the header is damaged, and known.

        `after` is the base offset of the next segment, or, of the last one, the least
        offset at which the log may end, None if it is unknown.
        """
        lost, self.lost = self.lost, []
        for each in lost:
            following = after if each.is_tail else self._next_offset(each)
            found: list[HeaderCorrection] = []
            if not each.is_zeros and each.end - each.position <= MAX_BYTES:
                data = source.read(each.position, each.end - each.position)
                before = each.first_offset - 1
                found = correct_header(
                    data,
                    each.position,
                    before,
                    following,
                    is_last=each.is_tail and is_last,
                )
            if not found:
                self.lost.append(each)
                continue
            self.corrections += found
            self.kept.append((each.position, each.end))
            if each.is_tail:
                data = source.read(each.position, RECORD_BATCH_OVERHEAD)
                apply_corrections(data, each.position, self.corrections)
                self.end_offset = offset_field(data) + delta_field(data) + 1
        self.kept.sort()

    def _next_offset(self, lost: LostBytes) -> int | None:
        return None if lost.last_offset is None else lost.last_offset + 1


def without_covered(
    segment: LogSegment, covered_to: int, *, may_be_needed: bool
) -> LogExcerpt | None:
    """Return what an old segment has from `covered_to` on, which others do not have.

    An earlier segment has all offsets below, or, if the old one `may_be_needed`, had
    them before it was damaged. The file gets the name of the first offset
    that is kept, and is removed if there is none. Returns None if a batch has offsets
    on both sides, or if the file is damaged.
    """
    path = local_path(segment.path)
    base = segment.base_offset
    with FileSource(path) as source:
        records = replace(segment, most=MAX_OFFSET, covered_to=None).records(source)
        excerpt = LogExcerpt(path, base, source.size, end_offset=covered_to)
        last, kept_from = base - 1, source.size
        try:
            for step in records:
                assert isinstance(step, Step)  # damage is raised
                firsts = first_offsets(
                    step.data, step.origin, step.rows, MAX_BATCH_BYTES
                )
                last = int(step.rows["last_offset"][-1])
                kept = np.flatnonzero(step.rows["last_offset"] >= covered_to)
                if not len(kept) or excerpt.new_base_offset is not None:
                    continue
                excerpt.new_base_offset = int(firsts[kept[0]])
                kept_from = int(step.rows["position"][kept[0]])
        except LocatedError:
            return None
    if excerpt.new_base_offset is None:
        excerpt.is_dropped = True
    elif excerpt.new_base_offset < covered_to:
        return None
    else:
        excerpt.kept.append((kept_from, excerpt.size))
        excerpt.end_offset = last + 1
    lost_to = min(last, covered_to - 1)
    is_tail = excerpt.is_dropped
    excerpt.lost.append(
        LostBytes(
            0,
            kept_from,
            base,
            lost_to,
            is_tail=is_tail,
            is_covered=True,
            may_be_needed=may_be_needed,
        )
    )
    return excerpt


def excerpt_of(
    path: Path,
    base: int,
    most: int,
    bad_positions: Collection[int],
    end: int | None = None,
) -> LogExcerpt:
    """Return the valid entries of a segment, without those at `bad_positions`.

    A position may be anywhere in an entry. `most` is the offset before the next
    segment. `end` is the least offset at which the log may end, if it is known.
    """
    bad = np.array(sorted(bad_positions), np.int64)
    segment = LogSegment(path, base, most)
    with FileSource(path) as source:
        excerpt = LogExcerpt(path, base, source.size, end_offset=base)
        bad_end: int | None = None  # the last offset of the bad entries at the end
        for each in _entries(source, segment, bad):
            if isinstance(each, _EntryRun):
                excerpt.add(each)
                bad_end = None
            else:
                last = each.last_offset
                bad_end = last if bad_end is None else max(bad_end, last)
        if excerpt.kept_end < source.size:
            most_lost = bad_end if most == MAX_INT64 else most
            excerpt.lost.append(_lost_tail(source, excerpt, most_lost))
        is_last = most == MAX_INT64
        excerpt.correct_headers(source, end if is_last else most + 1, is_last=is_last)
        excerpt.lost = [
            each._replace(known_records=_count_framed(source, each.position, each.end))
            for each in excerpt.lost
        ]
    return excerpt


def _count_framed(source: FileSource, start: int, end: int) -> int | None:
    """Return the number of records by the headers in a range of bytes.

    Returns None unless entries have all of the bytes. One may be corrupt.
    """
    records = 0
    while start < end:
        data = source.read(start, min(MAX_BATCH_BYTES, end - start))
        rows, _, parsed = scan_headers(data, 0, start)
        if not parsed or (rows["count"] < 0).any():
            return None
        records += int(rows["count"].sum(dtype=np.int64))
        start += parsed
    return records


def _count_valid(source: FileSource, start: int, end: int) -> int:
    """Return the number of records of the valid entries in a range of bytes."""
    records = 0
    while start < end:
        data = source.read(start, min(MAX_BATCH_BYTES, end - start))
        rows, _, parsed = scan_headers(data, 0, start)
        records += int(count_records(rows, data, start).sum())
        start += max(parsed, 1)
    return records


def _lost_tail(source: FileSource, excerpt: LogExcerpt, last: int | None) -> LostBytes:
    """Return the bytes after the last entry that is kept, to the end of the file.

    `last` is the last offset that they may have, None if it is unknown.
    """
    is_zeros = only_zeros(source, excerpt.kept_end)
    if is_zeros or (last is not None and last < excerpt.end_offset):
        last = None
    return LostBytes(
        excerpt.kept_end,
        source.size,
        excerpt.end_offset,
        last,
        is_tail=True,
        is_zeros=is_zeros,
    )


def _entries(
    source: FileSource, segment: LogSegment, bad: np.ndarray
) -> Iterator[_EntryRun | _BadEntry]:
    """Yield the entries of a segment, in order; a bad one if its offset is known."""
    for step in segment.records(source, policy=SKIPPING):
        if isinstance(step, Step):
            yield from _runs(step, bad)
        elif step.last_offset is not None:
            yield _BadEntry(step.last_offset)


def _runs(step: Step, bad: np.ndarray) -> Iterator[_EntryRun | _BadEntry]:
    """Yield the adjacent entries of a step as one, up to each that is not kept."""
    rows = step.rows
    starts = rows["position"].astype(np.int64)
    ends = starts + rows["size_in_bytes"]
    is_bad = np.searchsorted(bad, starts) < np.searchsorted(bad, ends)
    breaks = np.ones(len(rows), np.bool_)
    breaks[1:] = (starts[1:] != ends[:-1]) | is_bad[1:] | is_bad[:-1]
    firsts = np.flatnonzero(breaks)
    lasts = np.append(firsts[1:], len(rows)) - 1
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        last_offset = int(rows["last_offset"][last])
        if is_bad[first]:
            yield _BadEntry(last_offset)
            continue
        base = int(rows["base_offset"][first])  # -1 of a wrapper
        first_offset = last_offset if base < 0 else base
        start, end = int(starts[first]), int(ends[last])
        yield _EntryRun(start, end, first_offset, last_offset)

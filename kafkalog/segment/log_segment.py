"""A segment that is read: a ``.log``, and lookups of positions in its indexes.

An index has no checksum, and may be missing, stale, or another segment's. So an entry
is used only if the log confirms it. Otherwise the segment is read from its start, which
is slower and returns the same records.

* An offset entry is confirmed by a valid batch at its position that begins at or below
  the requested offset: offsets ascend, so no requested record is before it.
* A time entry (t, o) is confirmed by the batch with offset o, if that batch's greatest
  timestamp is t: then all records later than t are after it.

Source: ``LogSegment.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import SKIPPING, STRICT, ReadPolicy
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import MAX_OFFSET_DELTA
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.entry_search import read_valid_entry
from kafkalog.segment.file_records import (
    FIRST_STEP_BYTES,
    FileRecords,
    Select,
    Step,
    select_all,
)
from kafkalog.storage.byte_source import ByteSource
from kafkalog.storage.file_names import DELETED, MAX_OFFSET, parse_file_name
from kafkalog.storage.location import (
    AnyPath,
    Location,
    OpenedSource,
    locate,
    open_source,
)

MAX_DISTANCE: Final = 2**48
"""Greatest distance of an offset from the base offset; one further is damaged."""

CANDIDATES: Final = 2
"""Entries that are tried before the segment is read from its start."""

Index = TypeVar("Index", OffsetIndex, TimeIndex)


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A segment's ``.log``; `base_offset` is -1 if its name is not a segment's.

    `most` is the greatest offset it may have: that before the next segment. A segment
    that continues past the base offset of others may have more. `covered_to` is the
    offset up to which an earlier segment has all offsets: those below it are not read
    from this one. `following` is the base offset of the next segment in the directory,
    whether it is read or not.
    """

    path: Location
    base_offset: int = -1
    most: int = MAX_OFFSET
    covered_to: int | None = None
    following: int | None = None

    @classmethod
    def of(cls, path: AnyPath) -> LogSegment:
        """Return the segment of a single file, with the base offset in its name."""
        path = locate(path)
        name = parse_file_name(path.name)
        return cls(path, -1 if name is None else name.base_offset)

    @property
    def name(self) -> str:
        """The file's name, which the ``segment`` column shows."""
        return self.path.name

    @property
    def size_in_bytes(self) -> int:
        """Current size of the ``.log``."""
        return self.path.stat().st_size

    @property
    def limits(self) -> Limits:
        """The range of the offsets of its entries."""
        if self.base_offset < 0:
            return Limits()
        return Limits(
            least=self.base_offset,
            most=min(self.most, self.base_offset + MAX_DISTANCE),
            most_of_tail=self.base_offset + MAX_OFFSET_DELTA,
        )

    @property
    def start_offset(self) -> int:
        """The first offset that is read from it."""
        return self.base_offset if self.covered_to is None else self.covered_to

    @property
    def covers_others(self) -> bool:
        """Whether it continues past the base offset of the next segment."""
        return self.following is not None and self.most >= self.following

    def open(self) -> OpenedSource:
        """Open the ``.log``, or the file marked as deleted if it is gone.

        Raises `FileNotFoundError` if there is neither.
        """
        try:
            return open_source(self.path)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                return open_source(self.path.with_name(self.path.name + DELETED))
            raise

    def records(
        self,
        source: ByteSource,
        start: int = 0,
        select: Select = select_all,
        first_bytes: int = FIRST_STEP_BYTES,
        policy: ReadPolicy = STRICT,
    ) -> FileRecords:
        """Return an iterator over its entries from a position on."""
        return FileRecords(
            source=source,
            start=start,
            select=select,
            limits=self.limits,
            first_bytes=first_bytes,
            policy=policy,
        )

    def position_for(self, source: ByteSource, offset: int) -> int:
        """Return a position from which on all records at or above `offset` are."""
        index = self.read_index(OffsetIndex, "index")
        if index is None or not len(index):
            return 0
        slot = int(index.slots([offset])[0])
        for candidate in range(slot, max(-1, slot - CANDIDATES), -1):
            position = int(index.entries["position"][candidate])
            row = read_valid_entry(source, position)
            if row is not None and _begins_by(row, offset):
                return position
        return 0

    def next_offset(self, source: ByteSource, *, past_damage: bool = False) -> int:
        """Return the offset after the last valid entry, or the base offset.

        Entries after damage count only with `past_damage`.
        """
        return self.last_end(source, past_damage=past_damage)[0]

    def last_end(
        self, source: ByteSource, *, past_damage: bool = False
    ) -> tuple[int, int]:
        """Return the offset and the position after the last valid entry.

        Without an entry, these are the base offset and 0. Entries after damage count
        only with `past_damage`.
        """
        # All of a small file is one step, for which no index is needed.
        if source.size <= FIRST_STEP_BYTES:
            end = self._last_end_from(source, 0, past_damage=past_damage)
            if past_damage or end[1] == source.size:
                return end
        start = self.position_for(source, MAX_OFFSET)
        return self._last_end_from(source, start, past_damage=past_damage)

    def _last_end_from(
        self, source: ByteSource, start: int, *, past_damage: bool
    ) -> tuple[int, int]:
        ends = (
            (
                int(last["last_offset"]) + 1,
                int(last["position"] + last["size_in_bytes"]),
            )
            for step in self.last_steps(source, start, past_damage=past_damage)
            for last in step.rows[-1:]
        )
        offset, position = max(ends, default=(self.base_offset, 0))
        return max(offset, self.start_offset), position

    def whole_end(self) -> int | None:
        """Return the offset after the last entry; None unless all bytes are valid.

        It is None as well for an empty file, and for one that is removed meanwhile.
        """
        end = None
        try:
            with self.open() as source:
                records = self.records(source)
                for step in records:
                    assert isinstance(step, Step)  # damage is raised
                    end = int(step.rows["last_offset"][-1]) + 1
        except (LocatedError, FileNotFoundError):
            return None
        return None if records.has_tail else end

    def last_steps(
        self, source: ByteSource, start: int, *, past_damage: bool = False
    ) -> Iterator[Step]:
        """Yield valid entries from `start`, a confirmed position, to damage or the end.

        If the file was truncated before `start` since, all its entries are yielded.
        """
        for position in dict.fromkeys((start, 0)):
            has_steps = False
            with suppress(LocatedError):
                policy = SKIPPING if past_damage else STRICT
                for step in self.records(source, position, policy=policy):
                    if isinstance(step, Step):
                        has_steps = True
                        yield step
            if has_steps:
                return

    def position_for_time(self, source: ByteSource, timestamp: int) -> int:
        """Return a position from which on all records at or after `timestamp` are."""
        index = self.read_index(TimeIndex, "timeindex") if timestamp > 0 else None
        if index is None or not len(index):
            return 0
        slot = int(index.slots([timestamp - 1])[0]) if timestamp > 0 else -1
        if slot < 0:
            return 0
        latest, offset = int(index.timestamps[slot]), int(index.offsets[slot])
        row = self.entry_holding(source, offset)
        if row is None or int(row["max_timestamp"][0]) != latest:
            return 0
        return int(row["position"][0])

    def positions_near(self, source: ByteSource, requested: Sequence[int]) -> list[int]:
        """Return positions of entries at or after each of those `requested`.

        Only positions in the offset index that `source` confirms are returned, so there
        may be fewer, or none.
        """
        index = self.read_index(OffsetIndex, "index")
        if index is None or not len(index):
            return []
        known = index.entries["position"].astype(np.int64)
        slots = np.unique(np.searchsorted(known, requested))
        near = known[slots[slots < len(known)]].tolist()
        return [at for at in near if read_valid_entry(source, at) is not None]

    def entry_holding(self, source: ByteSource, offset: int) -> BatchHeaders | None:
        """Return the header of the valid entry with `offset`, or of its wrapper."""

        def reaching(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
            reaches = rows["last_offset"] >= offset
            return reaches, bool(reaches.any())

        start = self.position_for(source, offset)
        for step in self.records(source, start, reaching, policy=SKIPPING):
            if isinstance(step, Step):
                return step.rows[:1] if _begins_by(step.rows, offset) else None
        return None

    def read_index(self, kind: type[Index], extension: str) -> Index | None:
        """Return the valid entries of an index; None if there is no file."""
        if self.base_offset < 0:
            return None
        with suppress(FileNotFoundError):
            return kind.read_live(self.index_path(extension), self.base_offset)
        return None

    def last_indexed_offsets(self) -> list[int]:
        """Return the last offset of each of the two indexes that has an entry."""
        indexes = (
            self.read_index(OffsetIndex, "index"),
            self.read_index(TimeIndex, "timeindex"),
        )
        return [int(index.offsets[-1]) for index in indexes if index]

    def index_path(self, extension: str) -> Location:
        """Return the path of an index, which has the suffix of the ``.log``."""
        stem, _, suffix = self.path.name.partition(".log")
        return self.path.with_name(f"{stem}.{extension}{suffix}")


def _begins_by(rows: BatchHeaders, offset: int) -> bool:
    """Return whether the first of `rows` certainly begins at or below `offset`."""
    base = int(rows["base_offset"][0])
    return (int(rows["last_offset"][0]) if base < 0 else base) <= offset

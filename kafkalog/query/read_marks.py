"""What a log was when it was read last: marks of its batches, to see where it was cut.

Each batch read is marked: where it lay, and its header, in which its checksum is. What
lies before a batch that still stands was not changed, since a log is only cut and added
to. Of many marks fewer and fewer are kept the farther they are from the end; so a cut
is found at most about as far behind its place as that is behind the end.

Two things take batches away, and are no cut. Retention deletes whole segments at the
start. Compaction makes segments anew, but the last one: records are missing then, and
what is left of a batch keeps its offset and leader epoch, and has no later timestamp.

Knows: headers, and where they lay. Does not know: what is told of a cut.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kafkalog.decoding.batch_decoder import Bounds
from kafkalog.formats.entry_headers import Rows
from kafkalog.formats.layout import DELETE_HORIZON_FLAG, LOG_OVERHEAD
from kafkalog.query.header_columns import tell_all
from kafkalog.query.part_reading import PartReading, Problem, Request
from kafkalog.query.sources import Part
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import OpenedSource

One = TypeVar("One")

MOST_MARKS: Final = 128
UP_TO_CRC: Final = struct.Struct(">qiibI")
MESSAGE_UP_TO_MAGIC: Final = struct.Struct(">qiIb")


class Mark(NamedTuple):
    """A batch that was read: its header, a single row."""

    header: Rows

    @property
    def end(self) -> int:
        """Offset behind it."""
        return self.of("last_offset") + 1

    def of(self, name: str) -> int:
        """Return a field of the header."""
        return int(self.header[name][0])

    def lies_in(self, source: OpenedSource) -> bool:
        """Whether the very same batch is whole where it was."""
        position, size = self.of("position"), self.of("size_in_bytes")
        begin = self._begin(size - LOG_OVERHEAD)
        there = source.read(position, len(begin)).tobytes()
        return there == begin and position + size <= source.size

    def is_compacted_to(self, row: Rows | None) -> bool:
        """Whether compaction may have left this of it, or nothing, if None."""
        if row is None:
            return True
        left = Mark(row)
        if any(left.of(n) != self.of(n) for n in ("base_offset", "leader_epoch")):
            return False
        if left.of("crc") == self.of("crc"):
            return True
        # One that keeps all its records is copied, unless it is stamped with when its
        # markers may go; how many are in a wrapper is not known.
        stamped = bool(left.of("attributes") & DELETE_HORIZON_FLAG)
        fewer = left.of("count") < self.of("count") or left.of("count") < 0
        older = left.of("max_timestamp") <= self.of("max_timestamp")
        return older and (fewer or stamped)

    def _begin(self, size: int) -> bytes:
        """Encode what stands first of it, up to magic and checksum."""
        magic, crc = self.of("magic"), self.of("crc")
        if magic < 2:
            last = self.of("last_offset")
            return MESSAGE_UP_TO_MAGIC.pack(last, size, crc, magic)
        base, epoch = self.of("base_offset"), self.of("leader_epoch")
        return UP_TO_CRC.pack(base, size, epoch, magic, crc)


@dataclass(slots=True)
class Given:
    """Marks of the batches of one part, from `start` on, in order of offsets."""

    start: int
    marks: list[Mark] = field(default_factory=list)

    @property
    def last(self) -> Mark | None:
        """The newest mark."""
        return self.marks[-1] if self.marks else None

    @property
    def end(self) -> int:
        """Offset behind all that is marked."""
        return self.marks[-1].end if self.marks else self.start

    def extend(self, part: Part, max_batch_bytes: int) -> bool:
        """Mark the batches that have come since; answer whether no damage was met."""
        sound = True
        for piece in PartReading(
            part=part,
            bounds=Bounds(start_offset=self.end),
            request=Request(
                control_records=True, skip=True, max_batch_bytes=max_batch_bytes
            ),
            told=tell_all,
        ).pieces():
            if isinstance(piece, Problem):
                sound = False
                continue
            rows = piece.step.rows
            # The last batch before may reach farther than it says, and is read, too.
            rows = rows[rows["last_offset"] >= self.end]
            chosen = _thinned(range(len(rows)))
            self.marks += [Mark(rows[i : i + 1].copy()) for i in chosen]
            self.marks = _thinned(self.marks)
        return sound

    def forget(self, newest: Mark, segments: Sequence[LogSegment]) -> None:
        """Drop what does not stand, of the marks up to one that does not; and the rest.

        The first that stands, from the newest down, vouches for all before it.
        """
        self.marks = [one for one in self.marks if one.end < newest.end]
        while self.marks and not stands(self.marks[-1], segments):
            del self.marks[-1]


def _thinned(marks: Sequence[One]) -> list[One]:
    """Keep the newest, and the fewer of those before the older they are."""
    kept = list(marks)
    while len(kept) > MOST_MARKS:
        newest = len(kept) - MOST_MARKS // 2
        kept = [*kept[:newest:2], *kept[newest:]]
    return kept


def stands(mark: Mark, segments: Sequence[LogSegment]) -> bool:
    """Whether a log of these segments was not cut before the end of a batch marked."""
    at = [one for one in segments if one.base_offset <= mark.of("last_offset")]
    if not at:
        # Its segment was deleted at the start of the log.
        return True
    with suppress(FileNotFoundError), at[-1].open() as source:
        if mark.lies_in(source):
            return True
        if at[-1] is segments[-1]:
            return False
        return mark.is_compacted_to(at[-1].entry_holding(source, mark.end - 1))
    return False

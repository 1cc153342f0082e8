"""The batches that a follower has read of a log, to find where it was truncated since.

Of each batch its position and its header are recorded, with its CRC. A log is only
truncated and appended to, so everything before an unchanged batch is unchanged. Of many
batches fewer are kept the farther they are from the end: the point found is after the
truncation by at most about its distance from the end.

Two things remove batches, and are no truncation. Retention deletes whole segments at
the start. Compaction rewrites all segments but the last: records are missing then, and
the rest of a batch keeps its offset and leader epoch, and has no later timestamp.

Knows: headers and positions. Does not know: what is reported of a truncation.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import DELETE_HORIZON_FLAG, LOG_OVERHEAD
from kafkalog.query.header_counts import not_control
from kafkalog.query.partition_reader import PartitionReader, ScanProblem
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import OpenedSource

One = TypeVar("One")

MAX_BATCHES: Final = 128
UP_TO_CRC: Final = struct.Struct(">qiibI")
MESSAGE_UP_TO_MAGIC: Final = struct.Struct(">qiIb")


class ReadBatch(NamedTuple):
    """A batch that was read: its header, a single row."""

    header: BatchHeaders

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.of("last_offset") + 1

    def of(self, name: str) -> int:
        """Return a field of the header."""
        return int(self.header[name][0])

    def is_in(self, source: OpenedSource) -> bool:
        """Whether the same batch is whole at the same position."""
        position, size = self.of("position"), self.of("size_in_bytes")
        begin = self._begin(size - LOG_OVERHEAD)
        there = source.read(position, len(begin)).tobytes()
        return there == begin and position + size <= source.size

    def is_compacted_to(self, row: BatchHeaders | None) -> bool:
        """Whether compaction may have left `row` of it, or nothing, if None."""
        if row is None:
            return True
        left = ReadBatch(row)
        if any(left.of(n) != self.of(n) for n in ("base_offset", "leader_epoch")):
            return False
        if left.of("crc") == self.of("crc"):
            return True
        # A batch that keeps all its records is copied, unless it gets a delete horizon.
        # The number of records in a wrapper is unknown.
        has_horizon = bool(left.of("attributes") & DELETE_HORIZON_FLAG)
        fewer = left.of("count") < self.of("count") or left.of("count") < 0
        older = left.of("max_timestamp") <= self.of("max_timestamp")
        return older and (fewer or has_horizon)

    def _begin(self, size: int) -> bytes:
        """Return its first bytes, up to magic and CRC."""
        magic, crc = self.of("magic"), self.of("crc")
        if magic < 2:
            last = self.of("last_offset")
            return MESSAGE_UP_TO_MAGIC.pack(last, size, crc, magic)
        base, epoch = self.of("base_offset"), self.of("leader_epoch")
        return UP_TO_CRC.pack(base, size, epoch, magic, crc)


@dataclass(slots=True)
class BatchHistory:
    """The batches read of one partition, from `start` on, in order of offsets."""

    start: int
    batches: list[ReadBatch] = field(default_factory=list)

    @property
    def last(self) -> ReadBatch | None:
        """The last batch read."""
        return self.batches[-1] if self.batches else None

    @property
    def end(self) -> int:
        """The offset after the last batch read."""
        return self.batches[-1].end if self.batches else self.start

    def extend(self, source: PartitionSource, max_batch_bytes: int) -> bool:
        """Add the batches appended since; return whether there was no damage."""
        valid = True
        for step in PartitionReader(
            source=source,
            bounds=Bounds(start_offset=self.end),
            policy=ReadPolicy(
                needs="headers",
                check_crcs="while_decoding",
                on_corruption="skip",
                max_batch_bytes=max_batch_bytes,
                control_records=True,
            ),
            headers_suffice=not_control,
        ).steps():
            if isinstance(step, ScanProblem):
                valid = False
                continue
            rows = step.step.rows
            # A reader begins with the batch before: its range may reach the offset.
            rows = rows[rows["last_offset"] >= self.end]
            kept = _thinned(range(len(rows)))
            self.batches += [ReadBatch(rows[i : i + 1].copy()) for i in kept]
            self.batches = _thinned(self.batches)
        return valid

    def truncate(self, changed: ReadBatch, segments: Sequence[LogSegment]) -> None:
        """Remove a batch that is not in the log any more, and all others that are not.

        The last unchanged batch proves that all before it are unchanged.
        """
        self.batches = [one for one in self.batches if one.end < changed.end]
        while self.batches and not is_unchanged(self.batches[-1], segments):
            del self.batches[-1]


def _thinned(batches: Sequence[One]) -> list[One]:
    """Return the newest, and the fewer of the others the older they are."""
    kept = list(batches)
    while len(kept) > MAX_BATCHES:
        newest = len(kept) - MAX_BATCHES // 2
        kept = [*kept[:newest:2], *kept[newest:]]
    return kept


def is_unchanged(batch: ReadBatch, segments: Sequence[LogSegment]) -> bool:
    """Whether a log of these segments was not truncated before the end of a batch."""
    at = [one for one in segments if one.base_offset <= batch.of("last_offset")]
    if not at:
        # Its segment was deleted at the start of the log.
        return True
    with suppress(FileNotFoundError), at[-1].open() as source:
        if batch.is_in(source):
            return True
        if at[-1] is segments[-1]:
            return False
        return batch.is_compacted_to(at[-1].entry_holding(source, batch.end - 1))
    return False

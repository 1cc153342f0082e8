"""The batches that a follower has read, to find the offset of a later truncation.

Position, header and CRC of each batch are recorded. A log is only truncated and
appended to, so everything before an unchanged batch is unchanged. Of many batches, the
older ones are kept at growing intervals. So the last unchanged batch that is found may
be up to about twice as far from the end as the truncation.

Two things remove batches that are not a truncation. Retention deletes whole segments at
the start. Compaction rewrites all segments but the last: records are missing then, and
the rest of a batch keeps its offset and leader epoch, and has no later timestamp.
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

Batch = TypeVar("Batch")

MAX_BATCHES: Final = 128
UP_TO_CRC: Final = struct.Struct(">qiibI")
MESSAGE_UP_TO_MAGIC: Final = struct.Struct(">qiIb")


class ReadBatch(NamedTuple):
    """A batch that was read, as a table of headers with a single row."""

    header: BatchHeaders

    @property
    def end(self) -> int:
        """The offset after the batch."""
        return self.of("last_offset") + 1

    def of(self, name: str) -> int:
        """Return a field of the header."""
        return int(self.header[name][0])

    def is_in(self, source: OpenedSource) -> bool:
        """Return whether the same batch is complete at the same position."""
        position, size = self.of("position"), self.of("size_in_bytes")
        begin = self._begin(size - LOG_OVERHEAD)
        stored = source.read(position, len(begin)).tobytes()
        return stored == begin and position + size <= source.size

    def is_compacted_to(self, row: BatchHeaders | None) -> bool:
        """Return whether `row`, or None, may be what compaction left of the batch."""
        if row is None:
            return True
        rest = ReadBatch(row)
        if any(rest.of(n) != self.of(n) for n in ("base_offset", "leader_epoch")):
            return False
        if rest.of("crc") == self.of("crc"):
            return True
        # A batch that keeps all its records is copied, unless it gets a delete horizon.
        # The number of records in a wrapper is unknown.
        has_horizon = bool(rest.of("attributes") & DELETE_HORIZON_FLAG)
        fewer = rest.of("count") < self.of("count") or rest.of("count") < 0
        older = rest.of("max_timestamp") <= self.of("max_timestamp")
        return older and (fewer or has_horizon)

    def _begin(self, size: int) -> bytes:
        """Return the first bytes of the batch, up to magic and CRC."""
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
        """Add the batches appended since; return whether all of them are valid."""
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
        """Remove the batch `changed` and all others that are not in the log any more.

        All batches before an unchanged one are unchanged.
        """
        self.batches = [batch for batch in self.batches if batch.end < changed.end]
        while self.batches and not is_unchanged(self.batches[-1], segments):
            del self.batches[-1]


def _thinned(batches: Sequence[Batch]) -> list[Batch]:
    """Return the newest batches, and fewer of the others the older they are."""
    kept = list(batches)
    while len(kept) > MAX_BATCHES:
        newest = len(kept) - MAX_BATCHES // 2
        kept = [*kept[:newest:2], *kept[newest:]]
    return kept


def is_unchanged(batch: ReadBatch, segments: Sequence[LogSegment]) -> bool:
    """Return whether the log of `segments` still has `batch`, possibly compacted."""
    last_offset = batch.of("last_offset")
    at_or_before = [
        candidate for candidate in segments if candidate.base_offset <= last_offset
    ]
    if not at_or_before:
        # Retention deleted the segment of the batch.
        return True
    segment = at_or_before[-1]
    with suppress(FileNotFoundError), segment.open() as source:
        if batch.is_in(source):
            return True
        if segment is segments[-1]:
            return False
        return batch.is_compacted_to(segment.entry_holding(source, batch.end - 1))
    return False

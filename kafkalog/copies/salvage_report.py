"""The report of `salvage`: a row for each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafkalog.copies.offset_coverage import OffsetInterval
from kafkalog.reports import Int32, ReportBase, ReportRow, counted


@dataclass(frozen=True, slots=True)
class SalvagedPartition(ReportRow):
    """One partition that was written, and what of it is missing.

    Attributes
    ----------
    topic, partition : str, int
        The partition, by its name in the destination.
    records, batches : int
        Records, without control records, and batches that were written.
    missing : tuple of OffsetInterval
        Ranges of offsets, first and last included, of which there is no valid batch.
        Gaps without damaged bytes, such as compaction leaves, are not missing.
    bytes_unreadable : int
        Bytes of the source's ``.log`` files that are in no valid batch. Zeros at the
        end of a file are not counted.
    source : str
        The directory or file that the batches are from.
    source_ranges : tuple of (int, int)
        For an image, the ranges of its bytes that the batches are from: the first, and
        that after the last.
    notes : tuple of str
        Batches that were rejected, and why; leader epochs that were damaged, and those
        that the batches have now; that the source is a link, which is not followed.
    undeleted_segments : int
        Segments that retention had marked ``.deleted``, and that were written.
    """

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "records",
        "missing",
        "bytes_unreadable",
    )

    topic: str
    partition: Int32
    records: int
    batches: int
    missing: tuple[OffsetInterval, ...]
    bytes_unreadable: int
    source: str
    source_ranges: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    undeleted_segments: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or unreadable."""
        return not (self.missing or self.bytes_unreadable or self.notes)


@dataclass(frozen=True, slots=True, repr=False)
class SalvageReport(ReportBase):
    """The result of `salvage`.

    Attributes
    ----------
    partitions : tuple of SalvagedPartition
        A row for each partition that was written, by topic and number.

    Examples
    --------
    >>> row = SalvagedPartition("orders", 0, 9, 3, (), 0, "orders-0")
    >>> SalvageReport((row,))
    <SalvageReport: 1 partition, 9 records, nothing missing>
    """

    ROWS: ClassVar = "partitions"
    NOUN: ClassVar = "partition"

    partitions: tuple[SalvagedPartition, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or unreadable."""
        return all(row.ok for row in self.partitions)

    def __str__(self) -> str:
        count = counted(len(self.partitions), "partition")
        records = counted(sum(row.records for row in self.partitions), "record")
        lost = sum(
            found.last - found.first + 1
            for row in self.partitions
            for found in row.missing
        )
        state = f"{counted(lost, 'offset')} missing" if lost else "nothing missing"
        return f"{count}, {records}, {state}"

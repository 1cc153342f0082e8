"""The report of `heal`: a row for each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafkalog.copies.offset_coverage import OffsetInterval
from kafkalog.reports import Int32, ReportBase, ReportRow, counted


@dataclass(frozen=True, slots=True)
class HealedPartition(ReportRow):
    """One partition: what it was healed from, or why it cannot be.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    records, batches : int
        Records, without control records, and batches of the healed log; 0 if it
        cannot be healed.
    missing : tuple of OffsetInterval
        Ranges of offsets, first and last included, of which no replica has a valid
        batch of the true history.
    bytes_unreadable : int
        Bytes of all replicas' ``.log`` files that are in no valid batch.
    sources : mapping of int to str
        The replica of which the batches are, by the first offset from which on.
    why : str
        Empty, or why the partition cannot be healed.
    notes : tuple of str
        Why nothing had to be healed, and which replicas could not be read.
    """

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "records",
        "missing",
        "why",
        "bytes_unreadable",
        "notes",
    )

    topic: str
    partition: Int32
    records: int
    batches: int
    missing: tuple[OffsetInterval, ...]
    bytes_unreadable: int
    sources: dict[int, str]
    why: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the partition is healed."""
        return not self.why


@dataclass(frozen=True, slots=True, repr=False)
class HealReport(ReportBase):
    """The result of `heal`.

    Attributes
    ----------
    partitions : tuple of HealedPartition
        A row for each partition of any source, by topic and number.

    Examples
    --------
    >>> row = HealedPartition("orders", 0, 9, 3, (), 0, {0: "a"})
    >>> HealReport((row,))
    <HealReport: 1 partition healed>
    """

    ROWS: ClassVar = "partitions"
    NOUN: ClassVar = "partition"

    partitions: tuple[HealedPartition, ...]

    @property
    def ok(self) -> bool:
        """Whether all partitions are healed."""
        return all(row.ok for row in self.partitions)

    def __str__(self) -> str:
        count = counted(len(self.partitions), "partition")
        refused = sum(not row.ok for row in self.partitions)
        if refused == len(self.partitions) > 0:
            return f"{count}, {refused:,} cannot be healed: nothing written"
        if refused:
            return f"{count}, {refused:,} cannot be healed and not written"
        return f"{count} healed"

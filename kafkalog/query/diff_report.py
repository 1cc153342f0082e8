"""The report of `diff`: a row for each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kafkalog.reports import Int32, ReportBase, ReportRow, counted


@dataclass(frozen=True, slots=True)
class PartitionDiff(ReportRow):
    """The result of the comparison of one partition.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    equal : bool
        Whether both sides have the same records in the compared range, up to the same
        end, and no corrupt batch.
    first_difference : int or None
        The lowest offset at which the sides differ; None if they are equal.
    leader_epoch : int or None
        The leader epoch of the record at that offset: in `a`, or in `b` if `a` has
        none. None if it is unknown.
    records_only_in_a, records_only_in_b : int
        Number of records without an equal one at the same offset on the other side.
    why : str
        What was found, and which offsets were not compared.
    not_compared : tuple of (int, int)
        Ranges of offsets, first and last included, that only one side has, as they are
        before the log start of the other.
    """

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "equal",
        "why",
        "first_difference",
        "records_only_in_a",
        "records_only_in_b",
    )

    topic: str
    partition: Int32
    equal: bool
    first_difference: int | None
    leader_epoch: Int32 | None
    records_only_in_a: int
    records_only_in_b: int
    why: str
    not_compared: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class DiffReport(ReportBase):
    """The result of `diff`.

    Attributes
    ----------
    partitions : tuple of PartitionDiff
        A row for each partition of either side, by topic and number.

    Examples
    --------
    >>> row = PartitionDiff("orders", 0, True, None, None, 0, 0, "equal")
    >>> DiffReport((row,))
    <DiffReport: 1 partition, 0 of them different>
    """

    ROWS: ClassVar = "partitions"
    NOUN: ClassVar = "partition"
    RENAMED: ClassVar = {"equal": "ok"}

    partitions: tuple[PartitionDiff, ...]

    @property
    def ok(self) -> bool:
        """Whether all partitions are equal."""
        return all(row.equal for row in self.partitions)

    def __str__(self) -> str:
        different = sum(not row.equal for row in self.partitions)
        count = counted(len(self.partitions), "partition")
        return f"{count}, {different:,} of them different"

    def _html_rows(self) -> list[dict[str, Any]]:
        """Return the rows, those that differ before others."""
        return sorted(self.rows(), key=lambda row: bool(row["equal"]))

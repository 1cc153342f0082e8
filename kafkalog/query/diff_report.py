"""The report of `diff`: a row for each partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from kafkalog.text.counted_nouns import counted
from kafkalog.text.html_text import html_rows

if TYPE_CHECKING:
    import pyarrow as pa

TYPES: Final = {
    "topic": "string",
    "partition": "int32",
    "equal": "bool",
    "leader_epoch": "int32",
    "why": "string",
    "not_compared": "ranges",
}
"""The types of columns that are not int64."""


@dataclass(frozen=True, slots=True)
class PartitionDiff:
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

    topic: str
    partition: int
    equal: bool
    first_difference: int | None
    leader_epoch: int | None
    records_only_in_a: int
    records_only_in_b: int
    why: str
    not_compared: tuple[tuple[int, int], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the row as it is printed in JSON.

        Returns
        -------
        dict
            A member for each attribute, in their order.

        Examples
        --------
        >>> row = PartitionDiff("orders", 0, True, None, None, 0, 0, "equal")
        >>> row.as_dict()["equal"]
        True
        """
        row = asdict(self)
        row["not_compared"] = [list(each) for each in self.not_compared]
        return row


@dataclass(frozen=True, slots=True, repr=False)
class DiffReport:
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

    partitions: tuple[PartitionDiff, ...]

    @property
    def equal(self) -> bool:
        """Whether all partitions are equal."""
        return all(row.equal for row in self.partitions)

    def to_arrow(self) -> pa.Table:
        """Return the partitions as a table, one row each.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of `PartitionDiff`, in their order.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> DiffReport(()).to_arrow().column_names[:3]
        ['topic', 'partition', 'equal']
        """
        from kafkalog.export.report_table import report_table

        return report_table((row.as_dict() for row in self.partitions), _names(), TYPES)

    def __str__(self) -> str:
        different = sum(not row.equal for row in self.partitions)
        count = counted(len(self.partitions), "partition")
        return f"{count}, {different:,} of them different"

    def __repr__(self) -> str:
        return f"<DiffReport: {self}>"

    def _repr_html_(self) -> str:
        """Return the first rows as HTML, those that differ before others."""
        ordered = sorted(self.partitions, key=lambda row: row.equal)
        return html_rows(f"DiffReport: {self}", _names(), ordered, "partition")


def _names() -> list[str]:
    return [member.name for member in fields(PartitionDiff)]

"""The report of `heal`: a row for each partition."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from kafkalog.copies.offset_coverage import OffsetRange
from kafkalog.reports import counted
from kafkalog.text.html_text import html_rows

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class HealedPartition:
    """One partition: what it was healed from, or why it cannot be.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    records, batches : int
        Records, without control records, and batches of the healed log; 0 if it
        cannot be healed.
    missing : tuple of OffsetRange
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

    topic: str
    partition: int
    records: int
    batches: int
    missing: tuple[OffsetRange, ...]
    bytes_unreadable: int
    sources: dict[int, str]
    why: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the partition is healed."""
        return not self.why

    def as_dict(self) -> dict[str, Any]:
        """Return the partition as it is printed in JSON.

        Returns
        -------
        dict
            A member for each attribute, in their order; ranges are lists.

        Examples
        --------
        >>> row = HealedPartition("orders", 0, 9, 3, (), 210, {0: "a", 4: "b"})
        >>> row.as_dict()["sources"]
        {0: 'a', 4: 'b'}
        """
        row = {member.name: getattr(self, member.name) for member in fields(self)}
        row["missing"] = [list(lost) for lost in self.missing]
        row["notes"] = list(self.notes)
        return row


@dataclass(frozen=True, slots=True, repr=False)
class HealReport:
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

    partitions: tuple[HealedPartition, ...]

    @property
    def ok(self) -> bool:
        """Whether all partitions are healed."""
        return all(row.ok for row in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is printed in JSON.

        Returns
        -------
        dict
            The schema's number and the partitions.

        Examples
        --------
        >>> HealReport(()).as_dict()
        {'schema': 1, 'partitions': []}
        """
        rows = [row.as_dict() for row in self.partitions]
        return {"schema": SCHEMA, "partitions": rows}

    def to_arrow(self) -> pa.Table:
        """Return the partitions as a table, one row each.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of `HealedPartition`, in their order.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> HealReport(()).to_arrow().column_names[:3]
        ['topic', 'partition', 'records']
        """
        from kafkalog.export.report_table import report_table

        types = {
            "topic": "string",
            "partition": "int32",
            "missing": "ranges",
            "sources": "text_by_number",
            "why": "string",
            "notes": "texts",
        }
        rows = [row.as_dict() for row in self.partitions]
        for row in rows:
            row["sources"] = list(row["sources"].items())
        return report_table(rows, HealedPartition.__dataclass_fields__, types)

    def __str__(self) -> str:
        count = counted(len(self.partitions), "partition")
        refused = sum(not row.ok for row in self.partitions)
        if refused == len(self.partitions) > 0:
            return f"{count}, {refused:,} cannot be healed: nothing written"
        if refused:
            return f"{count}, {refused:,} cannot be healed and not written"
        return f"{count} healed"

    def __repr__(self) -> str:
        return f"<HealReport: {self}>"

    def _repr_html_(self) -> str:
        """Return the first partitions as HTML, for notebooks."""
        names = [member.name for member in fields(HealedPartition)]
        return html_rows(f"HealReport: {self}", names, self.partitions, "partition")

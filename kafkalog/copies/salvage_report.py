"""The report of `salvage`: a row for each partition."""

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
class SalvagedPartition:
    """One partition that was written, and what of it is missing.

    Attributes
    ----------
    topic, partition : str, int
        The partition, by its name in the destination.
    records, batches : int
        Records, without control records, and batches that were written.
    missing : tuple of OffsetRange
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

    topic: str
    partition: int
    records: int
    batches: int
    missing: tuple[OffsetRange, ...]
    bytes_unreadable: int
    source: str
    source_ranges: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    undeleted_segments: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or unreadable."""
        return not (self.missing or self.bytes_unreadable or self.notes)

    def as_dict(self) -> dict[str, Any]:
        """Return the partition as it is printed in JSON.

        Returns
        -------
        dict
            A member for each attribute, in their order; ranges are lists.

        Examples
        --------
        >>> lost = (OffsetRange(4, 6),)
        >>> row = SalvagedPartition("orders", 0, 9, 3, lost, 210, "orders-0")
        >>> row.as_dict()["missing"]
        [[4, 6]]
        """
        row = {member.name: getattr(self, member.name) for member in fields(self)}
        row["missing"] = [list(lost) for lost in self.missing]
        row["source_ranges"] = [list(found) for found in self.source_ranges]
        row["notes"] = list(self.notes)
        return row


@dataclass(frozen=True, slots=True, repr=False)
class SalvageReport:
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

    partitions: tuple[SalvagedPartition, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is missing or unreadable."""
        return all(row.ok for row in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is printed in JSON.

        Returns
        -------
        dict
            The schema's number and the partitions.

        Examples
        --------
        >>> SalvageReport(()).as_dict()
        {'schema': 1, 'partitions': []}
        """
        rows = [row.as_dict() for row in self.partitions]
        return {"schema": SCHEMA, "partitions": rows}

    def to_arrow(self) -> pa.Table:
        """Return the partitions as a table, one row each.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of `SalvagedPartition`, in their order.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> SalvageReport(()).to_arrow().column_names[:3]
        ['topic', 'partition', 'records']
        """
        from kafkalog.export.report_table import report_table

        types = {
            "topic": "string",
            "partition": "int32",
            "missing": "ranges",
            "source": "string",
            "source_ranges": "ranges",
            "notes": "texts",
        }
        rows = [row.as_dict() for row in self.partitions]
        return report_table(rows, SalvagedPartition.__dataclass_fields__, types)

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

    def __repr__(self) -> str:
        return f"<SalvageReport: {self}>"

    def _repr_html_(self) -> str:
        """Return the first partitions as HTML, for notebooks."""
        names = [member.name for member in fields(SalvagedPartition)]
        title = f"SalvageReport: {self}"
        return html_rows(title, names, self.partitions, "partition")

"""The report of `restore`: the files of a copy, and what is not in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalog.copies.erasure_proof import ProofReport
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.text.html_text import html_rows

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = 1
"""Version of the JSON form."""

_TYPES: Final = {"topic": "string", "topic_id": "string", "partition": "int32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredFile:
    """A file of the copy.

    Attributes
    ----------
    path : str
        The file, relative to the copy.
    sha256 : str or None
        The SHA-256 of its content in hex digits; None in a dry run.
    bytes : int or None
        Its size; None in a dry run.
    records : int or None
        Records in a ``.log``, without control records; None for other files.
    """

    path: str
    sha256: str | None = None
    bytes: int | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """A partition of the copy.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    topic_id : str or None
        The topic's id in the copy.
    log_start_offset, log_end_offset : int
        The offsets of the copy.
    records : int
        Records of the copy, without control records.
    excluded_records : int
        Records between the two offsets that are not in the copy, though the source has
        them.
    largest_producer_id : int
        The largest id of a producer in the copy's producer state, -1 without any.
    open_transactions : int
        Transactions without a marker in the copy: consumers with ``read_committed``
        stop at the first of them. 0 in a dry run, as is the next number.
    aborted_transactions : int
        Transactions that were open in the copy, and that a marker has aborted.
    """

    topic: str
    partition: int
    topic_id: str | None
    log_start_offset: int
    log_end_offset: int
    records: int
    excluded_records: int
    largest_producer_id: int = -1
    open_transactions: int = 0
    aborted_transactions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredOffset:
    """A committed offset of a consumer group, as it is carried over.

    Attributes
    ----------
    group, topic, partition : str, str, int
        The group and the partition.
    committed : int
        The offset in the source.
    offset : int or None
        The offset for the copy: within its offsets. None if the copy does not have the
        partition.
    """

    group: str
    topic: str
    partition: int
    committed: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RestoreReport:
    """The result of `restore`.

    Attributes
    ----------
    destination : str
        The log directory that was written, or would be.
    dry_run : bool
        Whether nothing was written.
    cluster_id, node_id, directory_id : str or int or None
        The ids in its ``meta.properties``; None without one.
    files : tuple of RestoredFile
        The files, by path; in a dry run without producer snapshots and transaction
        indexes, whose names follow from the content of the copy.
    partitions : tuple of RestoredPartition
        The partitions, by topic and number.
    excluded_records : int
        The sum over the partitions.
    groups : tuple of RestoredOffset
        The committed offsets that were carried over, by group and partition.
    problems : tuple of ScanProblem
        Damage in the source that was skipped.
    proof : ProofReport or None
        What was searched for in the result.
    unchanged_because : tuple of str
        If the copy has all records of the source, why each setting has left out none.
    backups : tuple of str
        The originals of repairs, in or next to the log directories of the source, that
        hold records which the copy leaves out.
    """

    destination: str
    dry_run: bool = False
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    files: tuple[RestoredFile, ...] = ()
    partitions: tuple[RestoredPartition, ...] = ()
    excluded_records: int = 0
    groups: tuple[RestoredOffset, ...] = ()
    problems: tuple[ScanProblem, ...] = ()
    proof: ProofReport | None = None
    unchanged_because: tuple[str, ...] = ()
    backups: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no damage was skipped, and nothing was found that should be gone."""
        return not self.problems and (self.proof is None or self.proof.ok)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is printed in JSON.

        Returns
        -------
        dict
            Names and values; files and partitions as dictionaries.

        Examples
        --------
        >>> list(RestoreReport(destination="copy").as_dict())[:3]
        ['schema', 'destination', 'dry_run']
        """
        return {
            "schema": SCHEMA,
            "destination": self.destination,
            "dry_run": self.dry_run,
            "cluster_id": self.cluster_id,
            "node_id": self.node_id,
            "directory_id": self.directory_id,
            "files": [asdict(file) for file in self.files],
            "partitions": [asdict(partition) for partition in self.partitions],
            "excluded_records": self.excluded_records,
            "groups": [asdict(offset) for offset in self.groups],
            "problems": [
                {
                    "path": None if problem.path is None else str(problem.path),
                    "position": problem.position,
                    "first_offset": problem.first_offset,
                    "last_offset": problem.last_offset,
                    "reason": problem.reason,
                }
                for problem in self.problems
            ],
            "proof": None if self.proof is None else self.proof.as_dict(),
            "unchanged_because": list(self.unchanged_because),
            "backups": list(self.backups),
        }

    def to_arrow(self) -> pa.Table:
        """Return the partitions as a table, one row each.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of `RestoredPartition`, in their order.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> RestoreReport(destination="copy").to_arrow().column_names[:2]
        ['topic', 'partition']
        """
        from kafkalog.export.report_table import report_table

        rows = [asdict(row) for row in self.partitions]
        return report_table(rows, RestoredPartition.__dataclass_fields__, _TYPES)

    def __str__(self) -> str:
        verb = "would be copied" if self.dry_run else "copied"
        records = sum(partition.records for partition in self.partitions)
        return (
            f"{records} records {verb}, {self.excluded_records} excluded, "
            f"partitions: {len(self.partitions)}, "
            f"committed offsets: {len(self.groups)}"
        )

    def __repr__(self) -> str:
        return f"<RestoreReport: {self}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a table of the partitions."""
        names = list(RestoredPartition.__dataclass_fields__)
        title = f"RestoreReport: {self}"
        return html_rows(title, names, self.partitions, "partition")

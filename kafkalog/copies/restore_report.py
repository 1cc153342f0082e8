"""The report of `restore`: the files of a copy, and what is not in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kafkalog.copies.erasure_proof import ProofReport
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.reports import Int32, ReportBase, ReportRow, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredFile(ReportRow):
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
class RestoredPartition(ReportRow):
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

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "log_start_offset",
        "log_end_offset",
        "records",
        "excluded_records",
        "open_transactions",
    )

    topic: str
    partition: Int32
    topic_id: str | None
    log_start_offset: int
    log_end_offset: int
    records: int
    excluded_records: int
    largest_producer_id: int = -1
    open_transactions: int = 0
    aborted_transactions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredOffset(ReportRow):
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
    partition: Int32
    committed: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RestoreReport(ReportBase):
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

    Examples
    --------
    >>> RestoreReport(destination="copy", excluded_records=1)
    <RestoreReport: 0 records copied, 1 excluded, 0 partitions, 0 committed offsets>
    """

    ROWS: ClassVar = "partitions"
    NOUN: ClassVar = "partition"

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

    def notes(self) -> Iterator[str]:
        """Yield what else is known of the copy, and the result of the proof.

        Examples
        --------
        >>> report = RestoreReport(
        ...     destination="copy", proof=ProofReport(), cluster_id="c"
        ... )
        >>> list(report.notes())
        ['proof: 0 found in 0 records of 0 files']
        """
        if self.dry_run:
            files = counted(len(self.files), "file")
            yield f"{files} to write, and producer snapshots and transaction indexes"
        for reason in self.unchanged_because:
            yield f"nothing is left out: {reason}"
        lost = [offset for offset in self.groups if offset.offset is None]
        if lost:
            yield f"committed offsets of partitions that are not copied: {len(lost)}"
        moved = [
            each for each in self.groups if each.offset not in (None, each.committed)
        ]
        if moved:
            yield f"committed offsets moved into the copy's offsets: {len(moved)}"
        if self.cluster_id is None:
            yield "no meta.properties: the ids of cluster and node are not known"
        if self.proof is not None:
            yield f"proof: {self.proof}"

    def __str__(self) -> str:
        verb = "would be copied" if self.dry_run else "copied"
        records = sum(partition.records for partition in self.partitions)
        parts = (
            f"{counted(records, 'record')} {verb}",
            f"{self.excluded_records:,} excluded",
            counted(len(self.partitions), "partition"),
            counted(len(self.groups), "committed offset"),
        )
        return ", ".join(parts)

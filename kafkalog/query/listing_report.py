"""The report of `ls`: the partitions of a log directory, or the segments of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafkalog.reports import Int32, ReportBase, ReportRow, counted
from kafkalog.text.binary_units import in_units


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary(ReportRow):
    """A segment. The number of entries of a missing index is None.

    `size_in_bytes` is the size of the ``.log``, `all_files_bytes` includes its indexes.
    Timestamps are in ms: that of the first batch with one, and the greatest; None if
    there is none. `state` is ``deleted``, ``cleaned``, ``swap`` or None.
    """

    IMPORTANCE: ClassVar = (
        "file",
        "next_offset",
        "size_in_bytes",
        "state",
        "max_timestamp",
        "first_timestamp",
        "base_offset",
    )

    file: str
    base_offset: int
    next_offset: int
    size_in_bytes: int
    all_files_bytes: int
    index_entries: int | None
    time_index_entries: int | None
    txn_index_entries: int | None
    first_timestamp: int | None
    max_timestamp: int | None
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary(ReportRow):
    """A partition. `segments` and `size_in_bytes` count its ``.log`` files.

    Files with the suffix ``.deleted``, ``.cleaned`` or ``.swap`` are included.
    `all_files_bytes` is the size of all files in the directory.

    `state` is ``delete``, ``future``, ``stray`` or None; `clean_shutdown` is whether
    the log directory has the marker of a clean shutdown.
    """

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "state",
        "size_in_bytes",
        "log_start_offset",
        "log_end_offset",
        "max_timestamp",
    )

    topic: str
    partition: Int32
    segments: int
    size_in_bytes: int
    all_files_bytes: int
    log_start_offset: int
    log_end_offset: int
    first_timestamp: int | None
    max_timestamp: int | None
    state: str | None
    clean_shutdown: bool
    directory: str


@dataclass(frozen=True, slots=True, repr=False)
class PartitionList(ReportBase):
    """The partitions of a log directory.

    Attributes
    ----------
    partitions : tuple of PartitionSummary
        The partitions by topic and number, or in the order asked for.

    Examples
    --------
    >>> import kafkalog
    >>> kafkalog.ls("tests/golden/k431-clean/logs")
    <PartitionList: 39 partitions, 399.4 KiB, shut down cleanly>
    """

    ROWS: ClassVar = "partitions"
    NOUN: ClassVar = "partition"

    partitions: tuple[PartitionSummary, ...]

    def __str__(self) -> str:
        size = sum(each.size_in_bytes for each in self.partitions)
        text = f"{counted(len(self.partitions), 'partition')}, {in_units(size)}"
        if not self.partitions:
            return text
        clean = self.partitions[0].clean_shutdown
        return f"{text}, {'' if clean else 'not '}shut down cleanly"


@dataclass(frozen=True, slots=True, repr=False)
class SegmentList(ReportBase):
    """The segments of a partition.

    Attributes
    ----------
    segments : tuple of SegmentSummary
        The segments by offset, or in the order asked for.

    Examples
    --------
    >>> import kafkalog
    >>> kafkalog.ls("tests/golden/k431-clean/logs/ledger-0")
    <SegmentList: 3 segments, 8.9 KiB>
    """

    ROWS: ClassVar = "segments"
    NOUN: ClassVar = "segment"

    segments: tuple[SegmentSummary, ...]

    def __str__(self) -> str:
        size = sum(each.size_in_bytes for each in self.segments)
        return f"{counted(len(self.segments), 'segment')}, {in_units(size)}"

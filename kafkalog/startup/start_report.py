"""The report of `preflight`: what a broker's start does to its log directories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kafkalog.reports import Int32, ReportBase, ReportRow, counted


class StartState(StrEnum):
    """What becomes of the directory of a partition."""

    CLEAN = "clean"
    RECOVER = "recover"
    STRAY = "stray"
    FUTURE = "future"
    DELETED = "deleted"
    OFFLINE = "offline"
    MISSING = "missing"


class FreeableKind(StrEnum):
    """Why bytes can be freed, the safest first."""

    DELETED_FILE = "deleted_file"
    DELETED_PARTITION = "deleted_partition"
    UNFINISHED = "unfinished"
    STRAY = "stray"
    DELETED_SEGMENT = "deleted_segment"


@dataclass(frozen=True, slots=True)
class Freeable(ReportRow):
    """A file or directory that may be removed before the start.

    Attributes
    ----------
    path : str
        The file or directory.
    bytes : int
        The bytes that it occupies on the disk.
    kind : FreeableKind
        ``deleted_file``, ``deleted_partition`` and ``unfinished`` are removed by the
        broker itself, at once or after ``file.delete.delay.ms``. A ``stray`` is kept by
        the broker: look at its records first. A ``deleted_segment`` was removed by
        retention or a request, and no record of it is elsewhere in the log: until the
        broker starts, which removes it, `salvage` with ``undelete`` brings it back.
    """

    path: str
    bytes: int
    kind: FreeableKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStart(ReportRow):
    """The start of one partition's log.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    directory : str
        The directory of the log.
    state : StartState
        ``clean`` if no segment is read through, ``recover`` if some are, ``stray`` if
        the log is one or becomes one, ``future`` for the target of a move, ``deleted``
        if the directory is removed, ``offline`` if the log is not available,
        ``missing`` if the cluster assigns the partition to the broker, and there is no
        directory: the broker creates an empty log.
    segments_to_read : int
        Number of segments that are read through.
    bytes_to_read : int
        Bytes that are read for that; a segment that is read twice counts twice.
    seconds : float or None
        The time that takes at the rate of the report; None without a rate.
    cut_from_offset : int or None
        The first offset that is cut, deleted or overwritten.
    bytes_cut : int
        Bytes of the ``.log`` files that are cut or deleted; 0 if that is only the
        unused end of a preallocated file.
    records_lost : int
        The number of readable records among them.
    segments_dropped : int
        Number of segments that are deleted as a whole.
    bytes_trailing : int
        Bytes after the last batch that are not cut. The broker appends after them, and
        does not find what it appends.
    log_start_offset, log_end_offset : int or None
        The log's offsets after the start; None if it is not loaded.
    bytes_to_write : int
        Bytes that loading writes: rebuilt indexes, snapshots, split segments.
    bytes_needed : int
        Bytes by which the files grow until after the next roll, with all indexes at
        their full size.
    cleaner_error : str or None
        The reason for which the cleaner would stop compacting the log.
    unserved : str or None
        The reason for which the partition has no leader, or is served without the
        records that it had.
    notes : tuple of str
        What else happens, and why.
    """

    IMPORTANCE: ClassVar = (
        "directory",
        "state",
        "records_lost",
        "bytes_to_read",
        "notes",
        "cut_from_offset",
        "bytes_cut",
    )

    topic: str
    partition: Int32
    directory: str
    state: StartState
    segments_to_read: int = 0
    bytes_to_read: int = 0
    seconds: float | None = None
    cut_from_offset: int | None = None
    bytes_cut: int = 0
    records_lost: int = 0
    segments_dropped: int = 0
    bytes_trailing: int = 0
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    bytes_to_write: int = 0
    bytes_needed: int = 0
    cleaner_error: str | None = None
    unserved: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing of the log is lost or stopped."""
        return (
            self.state != StartState.OFFLINE
            and not self.records_lost
            and not self.bytes_trailing
            and self.cleaner_error is None
            and self.unserved is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStart(ReportRow):
    """The start of one log directory.

    Attributes
    ----------
    directory : str
        The log directory.
    online : bool
        Whether the broker uses it.
    clean_shutdown : bool
        Whether the last shutdown was clean: ``.kafka_cleanshutdown`` exists.
    cluster_id, node_id, directory_id : str or int or None
        The ids in ``meta.properties``.
    bytes_free : int
        Bytes that are available on its file system.
    bytes_to_write, bytes_needed : int
        The sums over its partitions.
    bytes_freeable : int
        The sum over `freeable`.
    seconds : float or None
        The time of reading, with ``num.recovery.threads.per.data.dir`` threads.
    freeable : tuple of Freeable
        What may be removed before the start, the safest first.
    notes : tuple of str
        What else happens, and why.
    """

    directory: str
    online: bool
    clean_shutdown: bool
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    bytes_free: int
    bytes_to_write: int = 0
    bytes_needed: int = 0
    bytes_freeable: int = 0
    seconds: float | None = None
    freeable: tuple[Freeable, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StartReport(ReportBase):
    """The result of `preflight`.

    Attributes
    ----------
    directories : tuple of DirectoryStart
        The log directories.
    partitions : tuple of PartitionStart
        The directories of partitions, by log directory and name.
    stops : tuple of str
        The reasons for which the broker does not start at all.
    not_checked : tuple of str
        What the prediction does not cover: segments that were not read, facts that are
        unknown.
    bytes_free : int
        Bytes that are available on the file systems of the directories.
    bytes_needed : int
        The sum over the directories.
    read_rate : float or None
        The rate of reading in bytes a second, as given or as measured; None if nothing
        was read.

    Examples
    --------
    >>> start = PartitionStart(
    ...     topic="orders", partition=0, directory="a", state=StartState.CLEAN
    ... )
    >>> StartReport(partitions=(start,))
    <StartReport: 1 partition: 1 clean; 0 bytes to read, 0 records lost>
    """

    ROWS: ClassVar = "partitions"
    NOUN: ClassVar = "partition"
    HTML_COLUMNS: ClassVar = (
        "topic",
        "partition",
        "directory",
        "state",
        "segments_to_read",
        "bytes_to_read",
        "cut_from_offset",
        "bytes_cut",
        "records_lost",
    )

    directories: tuple[DirectoryStart, ...] = ()
    partitions: tuple[PartitionStart, ...] = ()
    stops: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    bytes_free: int = 0
    bytes_needed: int = 0
    read_rate: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the broker starts, and nothing is lost or stopped."""
        return (
            not self.stops
            and all(partition.ok for partition in self.partitions)
            and not self.new_strays
            and all(
                each.online and each.bytes_to_write <= each.bytes_free
                for each in self.directories
            )
        )

    @property
    def new_strays(self) -> tuple[PartitionStart, ...]:
        """The partitions that become strays with this start."""
        return tuple(
            each
            for each in self.partitions
            if each.state == StartState.STRAY and not each.directory.endswith("-stray")
        )

    def notes(self) -> Iterator[str]:
        """Yield the reasons for which the broker does not start.

        Examples
        --------
        >>> list(StartReport(stops=("two directories have one id",)).notes())
        ['the broker does not start: two directories have one id']
        """
        for stop in self.stops:
            yield f"the broker does not start: {stop}"

    def __str__(self) -> str:
        states = [each.state for each in self.partitions]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in StartState if state in states
        )
        read = sum(each.bytes_to_read for each in self.partitions)
        lost = sum(each.records_lost for each in self.partitions)
        parts = [
            f"{counted(len(states), 'partition')}{f': {counts}' if counts else ''}",
            f"{counted(read, 'byte')} to read, {counted(lost, 'record')} lost",
        ]
        if self.stops:
            parts.append("the broker does not start")
        return "; ".join(parts)

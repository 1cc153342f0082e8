"""`compact`: compaction of logs that no broker has open, in place or to a copy.

By default, a partition is copied to a temporary directory and compacted there, and the
report has the numbers before and after.

Records at or above the checkpointed high watermark are not compacted, as a broker may
truncate them. Without that checkpoint, the log end offset is used.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

from kafkalog.cleaner.batch_chunks import ChunkReader
from kafkalog.cleaner.corrupt_batches import CorruptBatches
from kafkalog.cleaner.log_cleaner import LogCleaner
from kafkalog.cleaner.partition_facts import chosen, partitions_at
from kafkalog.config import LogConfig
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    KafkaLogError,
    LocatedError,
    LogArgumentError,
    LogStateError,
)
from kafkalog.formats.batch_headers import have_flag
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES
from kafkalog.log.clock import Clock, Scheduler
from kafkalog.log.opening import open_to_append
from kafkalog.log.ownership import Name
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets_or_none,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.storage.location import is_file, local_path
from kafkalog.storage.log_directory import is_partition

SCHEMA: Final = 1
CHUNK_BYTES: Final = 1 << 20
UNCOPIED_SUFFIXES: Final = (".deleted", ".cleaned", ".swap", ".tmp")


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """One partition before and after compaction.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    records_before, records_after : int
        Records, without control records.
    bytes_before, bytes_after : int
        Bytes of the ``.log`` files.
    tombstones : int
        Records without a value that are left.
    segments_before, segments_after : int
        Segments, the active one included.
    """

    topic: str
    partition: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int
    tombstones: int
    segments_before: int
    segments_after: int

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is printed in JSON.

        Examples
        --------
        >>> list(CompactionReport("state", 0, 2, 1, 80, 71, 0, 1, 2).as_dict())[:3]
        ['schema', 'topic', 'partition']
        """
        return {"schema": SCHEMA, **asdict(self)}


def compact(
    path: str | Path,
    *,
    output: str | Path | None = None,
    in_place: bool = False,
    force: bool = False,
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
) -> list[CompactionReport]:
    """Compact the partitions under a path, or report the result of compacting them.

    The last record of each key is kept; a tombstone only until it is due. The active
    segment is rolled first, so that its records are compacted, too. By default nothing
    under `path` is changed: copies in a temporary directory are compacted.

    Parameters
    ----------
    path : str or path-like
        A partition's directory, or a log directory. In a log directory, the partitions
        of `topics` are compacted; without `topics`, those of all topics with
        ``compact`` in ``cleanup.policy``.
    output : str or path-like, optional
        A directory for compacted copies of the partitions. It is created if it is
        missing.
    in_place : bool
        Whether to compact the partitions themselves. No broker may have them open.
    force : bool
        Whether to compact topics without ``compact`` in ``cleanup.policy``, too.
    topics, partitions : sequence
        Names of topics and numbers of partitions to compact; by default all.

    Returns
    -------
    list of CompactionReport
        A report for each partition.

    Raises
    ------
    FileNotFoundError
        If `path`, a topic or a partition does not exist.
    NotALogDirectoryError
        If `path` is neither a partition nor a log directory.
    LogArgumentError
        If both `output` and `in_place` are given.
    LogStateError
        If a partition exists in `output`, if `output` is in the log directory, or if a
        topic to be compacted in place does not have ``compact`` in ``cleanup.policy``.
    LogLockedError
        If a broker, or kafkalog, has a log open for writing.
    CorruptRecordError, InvalidRecordError
        If a batch cannot be read.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/state-0", "a") as log:
    ...         _ = log.append_records({"key": [b"k", b"k"], "value": [b"old", b"new"]})
    ...         _ = log.update_high_watermark(log.log_end_offset)
    ...     [report] = kafkalog.compact(f"{root}/state-0")
    ...     report.records_before, report.records_after
    (2, 1)
    """
    if output is not None and in_place:
        raise LogArgumentError("both an output directory and in place, expected one")
    found = _find(local_path(path).absolute(), topics, partitions, force=force)
    if in_place:
        for log in found:
            if not (force or log.config.compact):
                raise _not_to_be_compacted(log)
        return [_compact(log, log.directory) for log in found]
    if output is not None:
        target = local_path(output).absolute()
        for log in found:
            if (target / log.directory.name).exists():
                raise LogStateError(f"partition exists: {target / log.directory.name}")
            if target.resolve().is_relative_to(log.directory.parent.resolve()):
                raise LogStateError(f"output directory in the log directory: {target}")
        return [_compact_copy(log, target) for log in found]
    reports = []
    for log in found:
        with TemporaryDirectory(prefix="kafkalog-compact-") as root:
            reports.append(_compact_copy(log, Path(root)))
    return reports


class FoundLog(NamedTuple):
    """The directory, name and settings of a partition."""

    directory: Path
    name: Name
    config: LogConfig


def _find(
    path: Path, topics: Sequence[str], partitions: Sequence[int], *, force: bool
) -> list[FoundLog]:
    """Return the logs to compact; the settings of the cluster are read once."""
    found = partitions_at(path)
    parents = [directory.parent for directory, _ in found[:1]]
    settings = TopicSettings(parents, None, None, None)
    if not (force or topics or is_partition(path)):
        found = [one for one in found if settings.of(one[1][0]).config.compact]
    return [
        FoundLog(directory, name, settings.of(name[0]).config)
        for directory, name in chosen(found, topics, partitions)
    ]


def _not_to_be_compacted(log: FoundLog) -> LogStateError:
    policy = ",".join(log.config.cleanup_policy)
    error = LogStateError(f"cleanup.policy {policy}, expected compact: {log.directory}")
    error.add_note("Use --force to compact the log nevertheless.")
    return error


def _compact_copy(log: FoundLog, target: Path) -> CompactionReport:
    """Copy a partition to another log directory, and compact the copy."""
    return _compact(log, copy_partition(log.directory, log.name, target))


def copy_partition(source: Path, name: Name, target: Path) -> Path:
    """Copy a partition, and its lines of the checkpoints, to another log directory.

    The line of ``cleaner-offset-checkpoint`` is not copied. Returns the new directory.
    """
    directory = target / source.name
    directory.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if is_file(path) and not path.name.endswith(UNCOPIED_SUFFIXES):
            shutil.copyfile(path, directory / path.name)
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
        offsets = read_offsets_or_none(source.parent, checkpoint)
        if name in offsets:
            copied = read_offsets_or_none(target, checkpoint) | {name: offsets[name]}
            write_offsets(target, checkpoint, copied, DISK)
    if is_file(source.parent / CLEAN_SHUTDOWN):
        shutil.copyfile(source.parent / CLEAN_SHUTDOWN, target / CLEAN_SHUTDOWN)
    return directory


@contextmanager
def locating_errors(directory: Path, copy: Path) -> Iterator[None]:
    """Make errors about a copy of a partition name the partition's own files.

    An error about a record, which names no file, becomes one that names `directory`.
    """
    try:
        yield
    except LocatedError as error:
        if isinstance(error.path, Path) and error.path.parent == copy:
            error.path = directory / error.path.name
        raise
    except KafkaLogError as error:
        if not isinstance(error.__cause__, LocatedError):
            raise
        corrupt = error.__cause__
        if isinstance(corrupt.path, Path) and corrupt.path.parent == copy:
            corrupt.path = directory / corrupt.path.name
        elif corrupt.path is None:
            corrupt = corrupt.located(directory)
        raise corrupt from None


def open_replicated(
    directory: Path,
    name: Name,
    config: LogConfig,
    *,
    clock: Clock | None = None,
    scheduler: Scheduler | None = None,
) -> WritableLog:
    """Open a log; without a checkpointed high watermark, that is the log end offset."""
    is_replica = name in read_offsets_or_none(directory.parent, HIGH_WATERMARKS)
    log = open_to_append(directory, config, clock=clock, scheduler=scheduler)
    if not is_replica:
        log.update_high_watermark(log.log_end_offset)
    return log


def _compact(found: FoundLog, directory: Path) -> CompactionReport:
    """Compact a log, or its copy in another directory."""
    name = found.name
    with (
        locating_errors(found.directory, directory),
        _opened(directory, name, found.config) as log,
    ):
        before = _measure(log)
        if log.growing_segments[-1].size:
            log.roll()
        with LogCleaner({name: log}) as cleaner:
            while cleaner.clean(*name) is not None:
                pass
        after = _measure(log)
    return CompactionReport(
        *name,
        records_before=before[0],
        records_after=after[0],
        bytes_before=before[2],
        bytes_after=after[2],
        tombstones=after[1],
        segments_before=before[3],
        segments_after=after[3],
    )


@contextmanager
def _opened(directory: Path, name: Name, config: LogConfig) -> Iterator[WritableLog]:
    """Open a log; after it is closed, remove its files marked as deleted."""
    log = open_replicated(directory, name, config)
    try:
        yield log
        log.close()
    finally:
        log.abandon()
    for path in sorted(directory.glob("*.deleted")):
        DISK.remove_if_there(path)


def _measure(log: WritableLog) -> tuple[int, int, int, int]:
    """Return the numbers of records, tombstones, bytes and segments of a log."""
    segments = log.growing_segments
    workspace = Workspace()
    reader = ChunkReader(CHUNK_BYTES, lambda _: None, CorruptBatches(), MAX_BATCH_BYTES)
    records = tombstones = 0
    for segment in segments:
        with log.runtime.disk.open(segment.path) as file:
            for chunk in reader.read(file, 0, segment.size, segment.base_offset):
                rows = chunk.rows[~chunk.is_corrupt]
                data = rows[~have_flag(rows, CONTROL_FLAG)]
                for views in reader.read_records(chunk, data, workspace):
                    records += len(views.records)
                    tombstones += int(np.sum(views.records["value_length"] < 0))
    size = sum(segment.size for segment in segments)
    return records, tombstones, size, len(segments)

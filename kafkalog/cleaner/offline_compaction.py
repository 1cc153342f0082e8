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
from typing import Any, Final

import numpy as np

from kafkalog.cleaner.batch_chunks import ChunkReader, read_records
from kafkalog.cleaner.log_cleaner import LogCleaner
from kafkalog.config import LogConfig
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    LogArgumentError,
    LogStateError,
    NotALogDirectoryError,
)
from kafkalog.formats.layout import CONTROL_FLAG
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
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, parse_partition_dir
from kafkalog.storage.location import local_path
from kafkalog.storage.log_directory import (
    choose_partitions,
    is_partition,
    list_partitions,
)

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
        If a partition exists in `output`, or if a topic to be compacted in place does
        not have ``compact`` in ``cleanup.policy``.
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
    found = _partitions(local_path(path).absolute(), topics, partitions, force=force)
    if in_place:
        for directory, name in found:
            if not (force or _is_to_be_compacted(directory, name)):
                raise _not_to_be_compacted(directory, name)
        return [
            _compact(directory, name, _config_of(directory, name))
            for directory, name in found
        ]
    if output is not None:
        target = local_path(output).absolute()
        for directory, _ in found:
            if (target / directory.name).exists():
                raise LogStateError(f"partition exists: {target / directory.name}")
        return [_compact_copy(directory, name, target) for directory, name in found]
    reports = []
    for directory, name in found:
        with TemporaryDirectory(prefix="kafkalog-compact-") as root:
            reports.append(_compact_copy(directory, name, Path(root)))
    return reports


def _partitions(
    path: Path, topics: Sequence[str], partitions: Sequence[int], *, force: bool
) -> list[tuple[Path, Name]]:
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if is_partition(path):
        name = parse_partition_dir(path.name)
        if name is None or name.state is not None:
            raise NotALogDirectoryError(f"not a partition's directory: {path}")
        found = [(path, (name.topic, name.partition))]
    else:
        found = [
            (path / name.name, (name.topic, name.partition))
            for name, _ in list_partitions(path)
        ]
        if not (force or topics):
            found = [
                (directory, name)
                for directory, name in found
                if _is_to_be_compacted(directory, name)
            ]
    chosen = choose_partitions([name for _, name in found], topics, partitions)
    return [found[number] for number in chosen]


def _config_of(directory: Path, name: Name) -> LogConfig:
    return TopicSettings([directory.parent], None, None, None).of(name[0]).config


def _is_to_be_compacted(directory: Path, name: Name) -> bool:
    return _config_of(directory, name).compact


def _not_to_be_compacted(directory: Path, name: Name) -> LogStateError:
    policy = ",".join(_config_of(directory, name).cleanup_policy)
    error = LogStateError(f"cleanup.policy {policy}, expected compact: {directory}")
    error.add_note("Use --force to compact the log nevertheless.")
    return error


def _compact_copy(source: Path, name: Name, target: Path) -> CompactionReport:
    """Copy a partition to another log directory, and compact the copy."""
    directory = copy_partition(source, name, target)
    return _compact(directory, name, _config_of(source, name))


def copy_partition(source: Path, name: Name, target: Path) -> Path:
    """Copy a partition, and its lines of the checkpoints, to another log directory.

    The line of ``cleaner-offset-checkpoint`` is not copied. Returns the new directory.
    """
    directory = target / source.name
    directory.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.name.endswith(UNCOPIED_SUFFIXES):
            shutil.copyfile(path, directory / path.name)
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
        offsets = read_offsets_or_none(source.parent, checkpoint)
        if name in offsets:
            copied = read_offsets_or_none(target, checkpoint) | {name: offsets[name]}
            write_offsets(target, checkpoint, copied, DISK)
    if (source.parent / CLEAN_SHUTDOWN).exists():
        shutil.copyfile(source.parent / CLEAN_SHUTDOWN, target / CLEAN_SHUTDOWN)
    return directory


def _compact(directory: Path, name: Name, config: LogConfig) -> CompactionReport:
    is_replica = name in read_offsets_or_none(directory.parent, HIGH_WATERMARKS)
    with _opened(directory, config) as log:
        if not is_replica:
            log.update_high_watermark(log.log_end_offset)
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
def _opened(directory: Path, config: LogConfig) -> Iterator[WritableLog]:
    """Open a log; after it is closed, remove its files marked as deleted."""
    log = open_to_append(directory, config)
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
    reader, workspace = ChunkReader(CHUNK_BYTES, lambda _: None), Workspace()
    records = tombstones = 0
    for segment in segments:
        with log.runtime.disk.open(segment.path) as file:
            for window in reader.read(file, 0, segment.size):
                rows = window.rows
                is_control = (rows["magic"] == 2) & (
                    rows["attributes"] & CONTROL_FLAG > 0
                )
                for views in read_records(window, rows[~is_control], workspace):
                    records += len(views.records)
                    tombstones += int(np.sum(views.records["value_length"] < 0))
    size = sum(segment.size for segment in segments)
    return records, tombstones, size, len(segments)

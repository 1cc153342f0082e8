"""`compact`: compaction of logs that no broker has open, in place or to a copy.

By default, a partition is compacted on a rehearsal disk, which reads the files where
they are and keeps what is written in a temporary directory. The report has the numbers
before and after.

Before logs are compacted in place, all are compacted on such a disk, without output: an
error ends the call before anything is changed. Copies are written to a directory that
gets its name when it is complete.

Records at or above the checkpointed high watermark are not compacted, as a broker may
truncate them. Without that checkpoint, the log end offset is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import numpy as np

from kafkalog.cleaner.batch_chunks import ChunkReader
from kafkalog.cleaner.cleanable_range import find_cleanable
from kafkalog.cleaner.corrupt_batches import (
    CorruptBatch,
    CorruptBatches,
    OnCorruptBatch,
    locating_errors,
)
from kafkalog.cleaner.log_copies import (
    check_loaded,
    cleaner_of,
    copy_marker,
    copy_partition,
    rehearsed,
)
from kafkalog.cleaner.partition_facts import chosen, partitions_at
from kafkalog.cleaner.unchanged_logs import reasons_not_to_compact
from kafkalog.config import LogConfig
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    LogArgumentError,
    LogCleaningAbortedError,
    LogStateError,
)
from kafkalog.formats.batch_headers import have_flag
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES
from kafkalog.log.clock import IdleScheduler
from kafkalog.log.opening import open_to_append
from kafkalog.log.ownership import Name
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.parallel import Map, mapping
from kafkalog.progress import note_begun
from kafkalog.renamed import renamed_arguments
from kafkalog.reports import Int32, ReportBase, counted
from kafkalog.storage.checkpoint_file import HIGH_WATERMARKS, read_offsets_or_none
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import parse_file_name
from kafkalog.storage.location import local_path
from kafkalog.storage.log_directory import (
    Numbers,
    PartitionSelection,
    Topics,
    is_partition,
)
from kafkalog.storage.pending_directory import PendingDirectory

CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(ReportBase):
    """One partition before and after compaction.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    records_before, records_after : int or None
        Records, without control records and those in corrupt batches. None for a log
        that was not read, as its topic does not have ``compact`` in ``cleanup.policy``.
    bytes_before, bytes_after : int
        Bytes of the ``.log`` files. `bytes_after` depends a little on the time: a batch
        with tombstones gets the time from which they may be removed, and its compressed
        size varies with that.
    tombstones : int or None
        Records without a value that are left.
    segments_before, segments_after : int
        Segments, the active one included.
    corrupt : tuple of CorruptBatch
        The corrupt batches that were dropped or kept.
    unchanged_because : tuple of str
        The reasons for which no record was removed, by setting; empty if any was.

    Examples
    --------
    >>> CompactionReport("state", 0, 2, 1, 80, 71, 0, 1, 2)
    <CompactionReport: state-0: 2 records, 80 bytes before; 1 record, 71 bytes after>
    """

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "records_before",
        "records_after",
        "bytes_before",
        "bytes_after",
        "unchanged_because",
        "tombstones",
    )

    topic: str
    partition: Int32
    records_before: int | None
    records_after: int | None
    bytes_before: int
    bytes_after: int
    tombstones: int | None
    segments_before: int
    segments_after: int
    corrupt: tuple[CorruptBatch, ...] = ()
    unchanged_because: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no batch was corrupt."""
        return not self.corrupt

    def notes(self) -> Iterator[str]:
        """Yield the corrupt batches, a line each.

        Examples
        --------
        >>> list(CompactionReport("state", 0, 2, 1, 80, 71, 0, 1, 2).notes())
        []
        """
        for batch in self.corrupt:
            yield f"{self.topic}-{self.partition}: {batch}"

    def __str__(self) -> str:
        before, after = (
            f"{'' if records is None else counted(records, 'record') + ', '}"
            f"{counted(size, 'byte')}"
            for records, size in (
                (self.records_before, self.bytes_before),
                (self.records_after, self.bytes_after),
            )
        )
        return f"{self.topic}-{self.partition}: {before} before; {after} after"


@renamed_arguments(output="destination", in_place="apply", force="ignore_policy")
def compact(
    path: str | Path | Sequence[str | Path],
    *,
    destination: str | Path | None = None,
    apply: bool = False,
    ignore_policy: bool = False,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    on_corruption: OnCorruptBatch = "raise",
    max_batch_bytes: int = MAX_BATCH_BYTES,
    threads: int = 1,
) -> list[CompactionReport]:
    """Compact the partitions under a path, or report the result of compacting them.

    The last record of each key is kept; a tombstone only until it is due. The active
    segment is rolled first, so that its records are compacted, too. By default nothing
    under `path` is changed: what compaction writes goes to a temporary directory.

    Parameters
    ----------
    path : str or path-like, or a sequence of them
        A partition's directory, or a log directory. In a log directory, the partitions
        of `topics` are compacted; without `topics`, those of all topics with
        ``compact`` in ``cleanup.policy``.
    destination : str or path-like, optional
        A directory for compacted copies of the partitions, which is missing or empty.
        It gets its name when all of them are complete.
    apply : bool
        Whether to compact the partitions themselves. No broker may have them open. They
        are compacted without output before, so an error changes none of them.
    ignore_policy : bool
        Whether to compact topics without ``compact`` in ``cleanup.policy``, too.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    on_corruption : {"raise", "skip", "keep"}
        Whether a corrupt batch raises an error, is dropped, or is copied byte for byte,
        with the CRC that does not match. The report lists the batches.
    max_batch_bytes : int
        Greatest size of a batch, uncompressed.
    threads : int
        Number of partitions that are compacted at the same time. Each may take 128 MB
        for the offsets of its keys. The threads end with the call.

    Returns
    -------
    list of CompactionReport
        A report for each partition that was found.

    Raises
    ------
    FileNotFoundError
        If `path`, a topic or a partition does not exist.
    NotALogDirectoryError
        If `path` is neither a partition nor a log directory.
    LogArgumentError
        If both `destination` and `apply` are given, or an argument is invalid.
    LogStateError
        If `destination` is not empty, or is in a log directory, if an interrupted copy
        is in its way, if a partition is found twice, or if a topic to be compacted in
        place does not have ``compact`` in ``cleanup.policy``.
    LogLockedError
        If a broker, or kafkalog, has a log open for writing.
    DiskSpaceError
        If there is not enough space for `destination`.
    CorruptRecordError
        If a batch is corrupt, and is not to be dropped or kept.
    BatchTooLargeError
        If a batch is larger than `max_batch_bytes`, uncompressed.

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
    if destination is not None and apply:
        raise LogArgumentError("both destination and apply, expected one")
    if on_corruption not in ("raise", "skip", "keep"):
        reason = f"on_corruption {on_corruption!r}, expected raise, skip or keep"
        raise LogArgumentError(reason)
    rules = _Rules(on_corruption, max_batch_bytes)
    paths = [path] if isinstance(path, (str, Path)) else path
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    found = [
        log
        for each in paths
        for log in _find(
            local_path(each).absolute(), selection, ignore_policy=ignore_policy
        )
    ]
    logs = [log for log in found if log.is_chosen]
    _check_names(logs)
    with mapping(threads, "compact") as run:
        if apply:
            reports = _compact_in_place(logs, rules, run, ignore_policy=ignore_policy)
        elif destination is not None:
            target = local_path(destination).absolute()
            reports = _compact_copies(logs, target, rules, run)
        else:
            reports = list(run(lambda log: _plan(log, rules), logs))
    done = iter(reports)
    return [next(done) if log.is_chosen else _unread(log) for log in found]


class SelectedLog(NamedTuple):
    """The directory, name and settings of a partition.

    `is_chosen` is whether it is compacted.
    """

    directory: Path
    name: Name
    config: LogConfig
    is_chosen: bool


class _Rules(NamedTuple):
    on_corruption: OnCorruptBatch
    max_batch_bytes: int


def _find(
    path: Path, selection: PartitionSelection, *, ignore_policy: bool
) -> list[SelectedLog]:
    """Return the logs at a path; the settings of the cluster are read once."""
    found = partitions_at(path)
    parents = [directory.parent for directory, _ in found[:1]]
    settings = TopicSettings(parents, None, None, None)
    is_named = bool(ignore_policy or selection.topics or is_partition(path))
    logs = []
    for directory, name in chosen(found, selection):
        config = settings.of(name[0]).config
        logs.append(SelectedLog(directory, name, config, is_named or config.compact))
    return logs


def _check_names(logs: Sequence[SelectedLog]) -> None:
    """Raise `LogStateError` if two logs are of one partition."""
    directories: dict[Name, Path] = {}
    for log in logs:
        if log.name in directories:
            both = f"{directories[log.name]}, {log.directory}"
            raise LogStateError(f"two logs of one partition: {both}")
        directories[log.name] = log.directory


def _not_to_be_compacted(log: SelectedLog) -> LogStateError:
    policy = ",".join(log.config.cleanup_policy)
    error = LogStateError(f"cleanup.policy {policy}, expected compact: {log.directory}")
    error.add_note("Use --ignore-policy to compact the log nevertheless.")
    return error


def _unread(log: SelectedLog) -> CompactionReport:
    """Return the report of a log that is not compacted because of its policy."""
    sizes = [
        path.lstat().st_size
        for path in log.directory.iterdir()
        if (file := parse_file_name(path.name)) is not None
        and file.kind == "log"
        and file.suffix is None
    ]
    size, policy = sum(sizes), ",".join(log.config.cleanup_policy)
    return CompactionReport(
        *log.name,
        records_before=None,
        records_after=None,
        bytes_before=size,
        bytes_after=size,
        tombstones=None,
        segments_before=len(sizes),
        segments_after=len(sizes),
        unchanged_because=(f"cleanup.policy {policy}, expected compact",),
    )


def _plan(found: SelectedLog, rules: _Rules) -> CompactionReport:
    """Compact a log on a rehearsal disk."""
    with rehearsed(found.directory, found.name, found.config) as rehearsal:
        return _compact(found, rehearsal.log, rules)


def _compact_in_place(
    logs: Sequence[SelectedLog], rules: _Rules, run: Map, *, ignore_policy: bool
) -> list[CompactionReport]:
    """Compact logs in place, if compaction of all of them succeeds without output."""
    for log in logs:
        if not (ignore_policy or log.config.compact):
            raise _not_to_be_compacted(log)

    def rehearse(log: SelectedLog) -> None:
        with (
            rehearsed(log.directory, log.name, log.config) as rehearsal,
            suppress(LogCleaningAbortedError),  # a segment is split, for a new round
        ):
            _inspect(log, rehearsal.log, rules)
            rehearsal.disk.discards_records = True
            _clean(rehearsal.log, log.name, rules)

    def compacted(log: SelectedLog) -> CompactionReport:
        with _opened(log.directory, log) as opened:
            return _compact(log, opened, rules)

    list(run(rehearse, logs))
    return list(run(compacted, logs))


def _compact_copies(
    logs: Sequence[SelectedLog], target: Path, rules: _Rules, run: Map
) -> list[CompactionReport]:
    """Compact copies of logs in a directory that is complete once it has its name."""
    sources = {log.directory.parent for log in logs}
    pending = PendingDirectory(target, sources)
    pending.check()
    pending.check_space(
        sum(path.stat().st_size for log in logs for path in log.directory.glob("*.log"))
    )

    def compacted(log: SelectedLog) -> CompactionReport:
        copy = pending.path / log.directory.name
        with locating_errors(log.directory, copy), _opened(copy, log) as opened:
            report = _compact(log, opened, rules)
        DISK.sync_directory(copy)
        return report

    with pending:
        # Not in threads: the checkpoints of the copies have lines of all of them.
        for log in logs:
            copy_partition(log.directory, log.name, pending.path)
        copy_marker(sources, pending.path)
        return list(run(compacted, logs))


@contextmanager
def _opened(directory: Path, found: SelectedLog) -> Iterator[WritableLog]:
    """Open a log; after it is closed, remove its files marked as deleted.

    Without a checkpointed high watermark, that is the log end offset.
    """
    is_replica = found.name in read_offsets_or_none(directory.parent, HIGH_WATERMARKS)
    # All is done in this thread: closing forces it to disk, and deletions follow here.
    log = open_to_append(directory, found.config, scheduler=IdleScheduler())
    try:
        if not is_replica:
            log.update_high_watermark(log.log_end_offset)
        yield log
        log.close()
    finally:
        log.abandon()
    for path in sorted(directory.glob("*.deleted")):
        DISK.remove_if_there(path)


class _Contents(NamedTuple):
    """The numbers of records, tombstones, bytes and segments of a log."""

    records: int
    tombstones: int
    size: int
    segments: int
    corrupt: dict[tuple[Path, int], CorruptBatch]


def _inspect(found: SelectedLog, log: WritableLog, rules: _Rules) -> _Contents:
    """Check that opening a log has cut nothing that is corrupt, and read it all."""
    check_loaded(found.directory, log.report)
    return _measure(log, rules)


def _compact(found: SelectedLog, log: WritableLog, rules: _Rules) -> CompactionReport:
    """Compact an open log: that of `found`, or its copy."""
    note_begun(found.directory)
    before = _inspect(found, log, rules)
    reasons = _clean(log, found.name, rules)
    after = _measure(log, rules)
    if before.records != after.records or before.size != after.size:
        reasons = []
    return CompactionReport(
        *found.name,
        records_before=before.records,
        records_after=after.records,
        bytes_before=before.size,
        bytes_after=after.size,
        tombstones=after.tombstones,
        segments_before=before.segments,
        segments_after=after.segments,
        corrupt=tuple(_outcomes(before, after)),
        unchanged_because=tuple(reasons),
    )


def _clean(log: WritableLog, name: Name, rules: _Rules) -> list[str]:
    """Run rounds of compaction; return why no record was removed, if none was."""
    if log.growing_segments[-1].size:
        log.roll()
    with cleaner_of(log, **rules._asdict()) as cleaner:
        checkpoint, now_ms = cleaner.states.checkpointed(log), log.runtime.now_ms()
        cleanable = find_cleanable(log, checkpoint, now_ms, checks_age=False)
        while cleaner.clean(*name) is not None:
            pass
    return reasons_not_to_compact(cleanable)


def _outcomes(before: _Contents, after: _Contents) -> Iterator[CorruptBatch]:
    """Yield the corrupt batches of a log, with whether they are still in it."""
    left = {(each.first_offset, each.last_offset) for each in after.corrupt.values()}
    for batch in before.corrupt.values():
        is_left = (batch.first_offset, batch.last_offset) in left
        yield replace(batch, kept=is_left)


def _measure(log: WritableLog, rules: _Rules) -> _Contents:
    """Read all batches of a log, and count what is in it."""
    segments = log.growing_segments
    corrupt, workspace = CorruptBatches(rules.on_corruption), Workspace()
    reader = ChunkReader(CHUNK_BYTES, lambda _: None, corrupt, rules.max_batch_bytes)
    records = tombstones = 0
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        base, size = segment.base_offset, segment.size
        with log.runtime.disk.open(segment.path) as file:
            for chunk in reader.read(file, 0, size, base, max(end, base + 1)):
                rows = chunk.rows[~chunk.is_corrupt]
                data = rows[~have_flag(rows, CONTROL_FLAG)]
                for views in reader.read_records(chunk, data, workspace):
                    records += len(views.records)
                    tombstones += int(np.sum(views.records["value_length"] < 0))
    size = sum(segment.size for segment in segments)
    return _Contents(records, tombstones, size, len(segments), corrupt.found)

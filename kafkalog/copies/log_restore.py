"""`restore`: make a log directory for a broker from a backup or another cluster's.

The copy is written next to its destination, and gets its name when it is complete:

    DST.kafkalog-restore/    written, checked and forced to disk
    DST/                     renamed from it, at the end

So a destination that exists is complete. ``meta.properties``, without which no broker
starts, is written last.

Batches are appended to the copy as by a follower: offsets and timestamps stay, indexes,
producer states and transaction indexes are made anew. Segments begin where those of the
source do. All records of the source count as replicated.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.copies.carried_offsets import (
    CONSUMER_OFFSETS,
    OFFSETS_PARTITIONS,
    CommittedOffset,
    carry_over,
    format_reset_file,
    offset_batches,
    read_committed_offsets,
)
from kafkalog.copies.erasure_proof import ProofReport, search
from kafkalog.copies.record_selection import (
    Header,
    Predicate,
    RecordSelection,
    as_headers,
    as_keys,
)
from kafkalog.copies.restore_report import (
    RestoredFile,
    RestoredOffset,
    RestoredPartition,
    RestoreReport,
)
from kafkalog.copies.selected_batches import (
    CopiedBatches,
    LogExtent,
    SelectedBatches,
    empty_batch,
)
from kafkalog.copies.target_cluster import (
    FIRST_EPOCH,
    TargetCluster,
    target_cluster,
)
from kafkalog.decoding.read_policy import FIRST, Bounds, OnCorruption, ReadPolicy
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.errors import (
    KafkaLogError,
    LogArgumentError,
    LogStateError,
    NotALogDirectoryError,
)
from kafkalog.formats.batch_headers import PARTITION_LEADER_EPOCH, have_flag
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES, NO_PRODUCER_ID
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.formats.producer_snapshot import format_snapshot, parse_snapshot
from kafkalog.formats.timestamps import Time, as_ms
from kafkalog.log.log_segments import list_segments
from kafkalog.log.ownership import Name
from kafkalog.log.producers.producer_entry import ProducerStateEntry
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.log_manager import LogManager
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.messages.internal_records import INTERNAL_TOPICS
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan import Source
from kafkalog.query.sources import (
    Offset,
    PartitionSource,
    bounds_of,
    check_known,
    check_offset,
    find_sources,
)
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS, read_if_exists
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import (
    LOCK,
    META_PROPERTIES,
    METADATA_TOPIC,
    PARTITION_METADATA,
    file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import AnyPath, Location, local_path
from kafkalog.storage.log_directory import matching_topics

STAGING: Final = ".kafkalog-restore"
"""Ending of the name of a copy that is not complete."""

INTERNAL_PREFIX: Final = "__"
ALL_EPOCHS: Final = 2**31 - 1
"""A leader epoch with which batches of all epochs are appended."""

UNLIMITED: Final = {
    "segment.bytes": 2**31 - 1,
    "segment.ms": 2**63 - 1,
    "segment.jitter.ms": 0,
    "retention.ms": -1,
    "retention.bytes": -1,
    "cleanup.policy": "delete",
    "file.delete.delay.ms": 0,
    "preallocate": False,
    "remote.storage.enable": False,
}
"""Settings with which a copy keeps all records, and the segments of its source."""

Progress = Callable[[int, int], object]
Offsets = dict[Name, tuple[int, int]]


def restore(
    source: Source,
    destination: str | Path,
    *,
    target: AnyPath | None = None,
    cluster_id: str | None = None,
    node_id: int | None = None,
    directory_id: str | None = None,
    topic_ids: Mapping[str, str] | AnyPath | None = None,
    leader_epoch: int | None = None,
    keep_producers: bool | None = None,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    start_offset: Offset = None,
    end_offset: Offset = None,
    start_timestamp: Time | None = None,
    end_timestamp: Time | None = None,
    keys: Iterable[bytes | str] | None = None,
    exclude_keys: Iterable[bytes | str] = (),
    producer_ids: Iterable[int] | None = None,
    exclude_producer_ids: Iterable[int] = (),
    headers: Iterable[Header] = (),
    exclude_headers: Iterable[Header] = (),
    where: Predicate | None = None,
    abort_open: bool = False,
    groups: str | Path | None = None,
    offsets_partitions: int = OFFSETS_PARTITIONS,
    on_corruption: OnCorruption = "raise",
    max_batch_bytes: int = MAX_BATCH_BYTES,
    dry_run: bool = False,
    prove: bool = False,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make a log directory for a broker from a backup, with some or all of its records.

    Every record keeps its offset and timestamp. One that is not selected leaves its
    offset, as compaction does. A batch whose records are all selected is copied byte
    for byte, except for the leader epoch. Control records are always copied.

    The destination gets its name when it is complete: if `restore` is interrupted, it
    does not exist, or is as empty as before. One background thread runs meanwhile, and
    has ended when `restore` returns.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, the directory of a partition, or several of them. No broker
        should write to it. Directories marked ``-delete``, ``-future`` and ``-stray``
        are not copied, and neither is ``__cluster_metadata``.
    destination : str or path-like
        The log directory to write. It must not exist, or be empty.
    target : path, optional
        A log directory of the broker that the copy is for. Its cluster, node and
        directory id, and the topic ids of its metadata, become those of the copy.
    cluster_id, node_id : str and int, optional
        The ids for ``meta.properties``. By default those of the source.
    directory_id : str, optional
        The directory id, by default a new one, or that of `target`.
    topic_ids : mapping or path, optional
        The ids of the topics in the target cluster: a mapping, a CSV or JSON file, the
        output of ``kafka-topics.sh --describe``, or the cluster's metadata.
    leader_epoch : int, optional
        The leader epoch that all batches get. By default 0 if the copy is for another
        cluster, whose partitions begin with it; otherwise batches keep theirs.
    keep_producers : bool, optional
        Whether the state of producers is kept, so that they continue. By default it is,
        unless the copy is for another cluster, which gives their ids to others.
    include, exclude : str or iterable of str
        Names or glob patterns of topics to copy, and not to copy. By default all are
        copied. Internal topics are copied only if a pattern of `include` that begins
        with ``__`` matches. Their records are all copied.
    start_offset, end_offset : int or mapping of (str, int) to int, optional
        The interval of offsets to copy. They become the log start offset and the log
        end offset of the copy, where they are within the log.
    start_timestamp, end_timestamp : int or datetime, optional
        The interval of timestamps of the records to copy; a record without a timestamp
        is outside.
    keys, exclude_keys : iterable of bytes or str
        Keys of the records to copy, and not to copy. They are compared byte for byte.
    producer_ids, exclude_producer_ids : iterable of int
        Producers of the records to copy, and not to copy; -1 stands for none.
    headers, exclude_headers : iterable
        Headers that a record has to have, each of them, and headers of the records not
        to copy. A header is a key, or a pair of key and value.
    where : callable, optional
        Called with chunks of `Records` of one partition, which are views. Returns an
        array of bools: which of the records to copy.
    abort_open : bool
        Whether transactions that are open at the end of the copy are aborted. A marker
        is appended for each; otherwise consumers with ``read_committed`` stop there.
    groups : path or "internal", optional
        Carry over the committed offsets of consumer groups in ``__consumer_offsets``:
        to a file, JSON if its name ends with ``.json``, otherwise CSV for
        ``kafka-consumer-groups.sh --reset-offsets --from-file``; or into the
        ``__consumer_offsets`` of the copy. They are moved to the copy's offsets.
    offsets_partitions : int
        The number of partitions of ``__consumer_offsets`` in the target cluster.
    on_corruption : {"raise", "skip"}
        Whether damage in the source raises an error, or is skipped and reported.
    max_batch_bytes : int
        Greatest size of a batch, uncompressed. A larger one counts as corrupt.
    dry_run : bool
        Whether nothing is written. The report is that of the copy, without hashes.
    prove : bool
        Whether the copy is searched for records that should not be in it.
    progress : callable, optional
        Called with the bytes read so far, and those to read.

    Returns
    -------
    RestoreReport
        The files, partitions and committed offsets of the copy.

    Raises
    ------
    FileNotFoundError
        If the source, a topic, or the parent of the destination does not exist.
    NotALogDirectoryError
        If the source is neither a log directory nor a partition's.
    LogStateError
        If the destination is not empty, if an interrupted copy is next to it, if a
        partition is in several directories, or if the id of a topic is unknown.
    CorruptRecordError
        If the source is damaged. Nothing is left of the copy.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/logs/people-0", "a") as log:
    ...         columns = {"key": [b"ann", b"bob", b"ann"], "value": [b"1", b"2", b"3"]}
    ...         appended = log.append_records(columns)
    ...     report = kafkalog.restore(
    ...         f"{root}/logs", f"{root}/copy", exclude_keys=["ann"], prove=True
    ...     )
    ...     copy = kafkalog.scan(f"{root}/copy").to_arrow()
    >>> report.excluded_records, report.ok, copy["offset"].to_pylist()
    (2, True, [1])
    """
    check_offset("start_offset", start_offset)
    check_offset("end_offset", end_offset)
    selection = _selection(
        keys=keys,
        exclude_keys=exclude_keys,
        producer_ids=producer_ids,
        exclude_producer_ids=exclude_producer_ids,
        headers=headers,
        exclude_headers=exclude_headers,
        times=(start_timestamp, end_timestamp),
        where=where,
    )
    found = _partitions(source)
    check_known("start_offset", start_offset, found)
    check_known("end_offset", end_offset, found)
    chosen = _chosen(found, _as_patterns(include), _as_patterns(exclude))
    logs = [
        SelectedBatches(
            each,
            _directory(each),
            Bounds()
            if each.topic in INTERNAL_TOPICS
            else _bounds_of(each, start_offset, end_offset),
            RecordSelection() if each.topic in INTERNAL_TOPICS else selection,
            ReadPolicy(on_corruption=on_corruption, max_batch_bytes=max_batch_bytes),
        )
        for each in chosen
    ]
    cluster = target_cluster(
        _log_directories(found),
        target=target,
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        topic_ids=topic_ids,
        leader_epoch=leader_epoch,
        keep_producers=keep_producers,
    )
    names = [log.name for log in logs]
    carries = groups == "internal"
    if carries and any(topic == CONSUMER_OFFSETS for topic, _ in names):
        reason = f"{CONSUMER_OFFSETS} is copied, and groups are carried over into it"
        raise LogArgumentError(f"{reason}, expected one of both")
    cluster.check_topics([*names, (CONSUMER_OFFSETS, 0)] if carries else names)
    target_path = local_path(destination).absolute()
    _check_destination(target_path, found)
    committed = None if groups is None else _committed(found)
    job = _Job(
        logs,
        cluster,
        groups,
        offsets_partitions,
        committed,
        abort_open=abort_open,
        progress=progress,
    )
    if dry_run:
        return job.plan(target_path)
    report = job.write(target_path)
    if prove:
        report = replace(report, proof=_prove(target_path, logs))
    return report


def prove(
    path: str | Path,
    *,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    start_offset: Offset = None,
    end_offset: Offset = None,
    start_timestamp: Time | None = None,
    end_timestamp: Time | None = None,
    keys: Iterable[bytes | str] | None = None,
    exclude_keys: Iterable[bytes | str] = (),
    producer_ids: Iterable[int] | None = None,
    exclude_producer_ids: Iterable[int] = (),
    headers: Iterable[Header] = (),
    exclude_headers: Iterable[Header] = (),
    where: Predicate | None = None,
) -> ProofReport:
    """Search a log directory for records that `restore` would not copy.

    All files with batches are read: also those marked ``.deleted``, ``.cleaned`` and
    ``.swap``, and those in directories marked ``-delete``, ``-future`` and ``-stray``.
    Records below the log start offset are found, too, and bytes of `exclude_keys` that
    are in no valid batch. Internal topics are not searched.

    Parameters
    ----------
    path : str or path-like
        A log directory, or the directory of a partition. Nothing in it is changed.
    include, exclude : optional
        As for `restore`.
    start_offset, end_offset, start_timestamp, end_timestamp : optional
        As for `restore`.
    keys, exclude_keys, producer_ids, exclude_producer_ids : optional
        As for `restore`.
    headers, exclude_headers, where : optional
        As for `restore`.

    Returns
    -------
    ProofReport
        The files in which something was found.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError
        If there is no log directory at `path`.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/people-0", "a") as log:
    ...         appended = log.append_records({"key": [b"ann"], "value": [b"1"]})
    ...     report = kafkalog.prove(root, exclude_keys=["ann"])
    >>> report.ok, report.findings[0].records
    (False, 1)
    """
    selection = _selection(
        keys=keys,
        exclude_keys=exclude_keys,
        producer_ids=producer_ids,
        exclude_producer_ids=exclude_producer_ids,
        headers=headers,
        exclude_headers=exclude_headers,
        times=(start_timestamp, end_timestamp),
        where=where,
    )
    root = local_path(path)
    found = find_sources(root)
    included, excluded = _as_patterns(include), _as_patterns(exclude)

    def selection_of(name: Name) -> tuple[RecordSelection, Bounds]:
        source = PartitionSource(*name)
        if not _chosen_topics({name[0]}, included, excluded):
            return RecordSelection(keys=frozenset()), Bounds()
        return selection, _bounds_of(source, start_offset, end_offset)

    check_known("start_offset", start_offset, found)
    check_known("end_offset", end_offset, found)
    return search(root, selection_of)


def _selection(
    *,
    keys: Iterable[bytes | str] | None,
    exclude_keys: Iterable[bytes | str],
    producer_ids: Iterable[int] | None,
    exclude_producer_ids: Iterable[int],
    headers: Iterable[Header],
    exclude_headers: Iterable[Header],
    times: tuple[Time | None, Time | None],
    where: Predicate | None,
) -> RecordSelection:
    """Return the selection that the arguments of `restore` state."""
    earliest, latest = (None if time is None else as_ms(time) for time in times)
    return RecordSelection(
        keys=None if keys is None else as_keys(keys),
        excluded_keys=as_keys(exclude_keys),
        producer_ids=None if producer_ids is None else frozenset(producer_ids),
        excluded_producer_ids=frozenset(exclude_producer_ids),
        headers=as_headers(headers),
        excluded_headers=as_headers(exclude_headers),
        timed=Bounds(start_timestamp=earliest, end_timestamp=latest),
        where=where,
    )


def _partitions(source: Source) -> list[PartitionSource]:
    """Return the partitions of a source that can be copied, by topic and number.

    Raises `LogStateError` for a partition in several directories.
    """
    found = [
        each
        for each in find_sources(source)
        if each.topic != METADATA_TOPIC and not _is_marked(each)
    ]
    seen: dict[Name, PartitionSource] = {}
    for each in found:
        other = seen.setdefault((each.topic, each.partition), each)
        if other is not each:
            raise LogStateError(f"partition in two directories: {other} and {each}")
    if not found:
        raise NotALogDirectoryError(f"no partition, expected at least one: {source}")
    return [seen[name] for name in sorted(seen)]


def _bounds_of(source: PartitionSource, start: Offset, end: Offset) -> Bounds:
    """Return the bounds of a partition; without a start, whole segments are copied."""
    unbounded = replace(source, log_start_offset=FIRST)
    return bounds_of(unbounded, start, end, (None, None))


def _is_marked(source: PartitionSource) -> bool:
    directory = _directory(source)
    parsed = parse_partition_dir(_absolute(directory).name)
    if parsed is None:
        raise NotALogDirectoryError(f"not a partition's directory: {directory}")
    return parsed.state is not None


def _directory(source: PartitionSource) -> Location:
    if source.directory is None:
        reason = f"neither a partition nor a log directory: {source}"
        raise NotALogDirectoryError(reason)
    return source.directory


def _absolute(location: Location) -> Location:
    return location.absolute() if isinstance(location, Path) else location


def _log_directories(found: list[PartitionSource]) -> list[Path]:
    """Return the local log directories around partitions, each once."""
    directories = [_absolute(_directory(each)) for each in found]
    parents = [each.parent for each in directories if isinstance(each, Path)]
    return list(dict.fromkeys(parents))


def _as_patterns(patterns: str | Iterable[str]) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _chosen(
    found: list[PartitionSource], include: Sequence[str], exclude: Sequence[str]
) -> list[PartitionSource]:
    """Return the partitions of topics to copy.

    Raises `FileNotFoundError` for a pattern of `include` that matches no topic.
    """
    topics = {each.topic for each in found}
    for pattern in include:
        if not matching_topics(topics, pattern):
            raise FileNotFoundError(2, "No such topic", pattern)
    included = _chosen_topics(topics, include, exclude)
    return [each for each in found if each.topic in included]


def _chosen_topics(
    topics: set[str], include: Sequence[str], exclude: Sequence[str]
) -> set[str]:
    """Return the topics that are included, and not excluded."""
    internal = topics.intersection(INTERNAL_TOPICS)
    chosen = set() if include else topics - internal
    for pattern in include:
        matching = matching_topics(topics, pattern)
        is_internal = pattern.startswith(INTERNAL_PREFIX)
        chosen |= matching if is_internal else matching - internal
    for pattern in exclude:
        chosen -= matching_topics(topics, pattern)
    return chosen


def _check_destination(path: Path, found: list[PartitionSource]) -> None:
    """Raise an error unless a copy may be written to a path."""
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(path.parent))
    if os.path.lexists(path):
        if path.is_symlink() or not path.is_dir():
            raise LogStateError(f"not a directory: {path}")
        if any(path.iterdir()):
            raise LogStateError(f"directory is not empty: {path}")
        if path.is_mount():
            error = LogStateError(f"mount point, expected a directory in it: {path}")
            error.add_note("A copy gets its name by a rename.")
            raise error
    staging = _staging(path)
    if os.path.lexists(staging):
        error = LogStateError(f"copy that is not complete: {staging}")
        error.add_note("Remove it, unless another process is writing it.")
        raise error
    for source in _log_directories(found):
        if path.resolve().is_relative_to(source.resolve()):
            raise LogStateError(f"destination in a source: {path}")


def _staging(path: Path) -> Path:
    return path.with_name(path.name + STAGING)


def _committed(found: list[PartitionSource]) -> list[CommittedOffset]:
    directories = [each.directory for each in found if each.topic == CONSUMER_OFFSETS]
    if not directories:
        raise NotALogDirectoryError(f"no partition of {CONSUMER_OFFSETS} in the source")
    return read_committed_offsets(directories)


def _prove(path: Path, logs: list[SelectedBatches]) -> ProofReport:
    by_name = {log.name: log for log in logs}

    def selection_of(name: Name) -> tuple[RecordSelection, Bounds]:
        log = by_name.get(name)
        if log is None:
            return RecordSelection(keys=frozenset()), Bounds()
        return log.selection, log.bounds

    return search(path, selection_of)


class _Planned(NamedTuple):
    """Records of each segment of a copy, by base offset, and the report of it."""

    partition: RestoredPartition
    records: dict[int, int]


class _Job:
    """One restore: the logs to copy, and where to."""

    def __init__(
        self,
        logs: list[SelectedBatches],
        cluster: TargetCluster,
        groups: str | Path | None,
        offsets_partitions: int,
        committed: list[CommittedOffset] | None,
        *,
        abort_open: bool,
        progress: Progress | None,
    ) -> None:
        self._abort_open = abort_open
        self._logs = logs
        self._cluster = cluster
        self._groups = groups
        self._offsets_partitions = offsets_partitions
        self._committed = committed
        if progress is not None:
            _follow(logs, progress)

    def plan(self, destination: Path) -> RestoreReport:
        """Return the report of the copy without writing it."""
        planned = []
        for log in self._logs:
            extent = log.extent()
            records: dict[int, int] = {}
            for copied in log.batches(extent):
                base = max(copied.segment.base_offset, extent.first)
                if not records:
                    base = max(copied.segment.base_offset, _first_base(copied, extent))
                elif copied.segment.base_offset < extent.first:
                    base = min(records)
                records[base] = records.get(base, 0) + copied.records
            planned.append(self._planned(log, extent.start, extent.end, records))
        files = [
            RestoredFile(
                path=f"{each.partition.topic}-{each.partition.partition}/"
                f"{file_name(base, 'log')}",
                records=count,
            )
            for each in planned
            for base, count in sorted(each.records.items())
        ]
        return self._report(destination, planned, files, dry_run=True)

    def write(self, destination: Path, disk: Disk = DISK) -> RestoreReport:
        """Write the copy, and return its report."""
        staging = _staging(destination)
        disk.make_directory(staging)
        try:
            planned, offsets = self._write_logs(staging)
            identity = self._cluster.identity
            if identity is not None:
                content = identity.format(datetime.now(UTC))
                disk.replace(staging / META_PROPERTIES, content)
            report = self._report(
                destination, planned, list(_files(staging, planned)), dry_run=False
            )
            if identity is not None:
                report = replace(report, directory_id=identity.directory_id)
            if self._groups not in (None, "internal"):
                path = local_path(str(self._groups))
                as_json = path.suffix == ".json"
                disk.replace(path, format_reset_file(offsets, as_json=as_json))
        except BaseException:
            _remove(staging)
            raise
        disk.sync_directory(staging)
        disk.rename(staging, destination)
        disk.sync_directory(destination.parent)
        return report

    def _write_logs(self, staging: Path) -> tuple[list[_Planned], list[RestoredOffset]]:
        directories = _log_directories([log.source for log in self._logs])
        topics = TopicSettings(directories, None, None, None)
        configs = {
            log.source.topic: _settings_of(topics, log).with_changes(UNLIMITED)
            for log in self._logs
        }
        manager = LogManager(
            staging,
            LogConfig().with_changes(UNLIMITED),
            topics=configs,
            broker=BrokerConfig(log_cleaner_enable=False),
        )
        try:
            planned = [self._write_log(manager, log) for log in self._logs]
            offsets = self._carried(planned)
            if self._groups == "internal":
                self._write_offsets(manager, offsets)
            manager.close()
        except BaseException:
            manager.abandon()
            raise
        if not self._cluster.keeps_producers:
            for each in planned:
                _forget_producers(staging, each.partition)
        for path in [*staging.rglob("*.deleted"), staging / LOCK]:
            DISK.remove_if_there(path)
        return planned, offsets

    def _write_log(self, manager: LogManager, log: SelectedBatches) -> _Planned:
        topic, partition = log.name
        topic_id = self._cluster.topic_id(topic, _topic_id(log))
        copy = manager.open(topic, partition, topic_id=topic_id)
        extent, cluster = log.extent(), self._cluster
        records: dict[int, int] = {}
        segment: int | None = None
        first_modern: int | None = None
        for copied in log.batches(extent):
            if segment is None:
                _begin(copy, log, _first_base(copied, extent), extent.end, cluster)
            if segment != copied.segment.base_offset:
                segment = copied.segment.base_offset
                _roll(copy, segment)
            copied = _with_epochs(copied, copy, cluster)
            _append(copy, copied)
            modern = copied.rows["base_offset"][copied.rows["magic"] == 2]
            if first_modern is None and len(modern):
                first_modern = int(modern[0])
            base = copy.growing_segments[-1].base_offset
            records[base] = records.get(base, 0) + copied.records
        if segment is None:
            _begin(copy, log, extent.first, extent.end, cluster)
        if first_modern is not None and not copy.leader_epochs:
            # A batch of magic 0 or 1 after one of magic 2 clears all epochs.
            copy.assign_epoch(FIRST_EPOCH, first_modern)
        if copy.log_end_offset < extent.end:
            end = empty_batch(extent.end - 1, _latest_epoch(copy))
            copy.append_as_follower(end, leader_epoch=ALL_EPOCHS)
        aborted = _abort_open_transactions(copy) if self._abort_open else 0
        if not cluster.keeps_producers and copy.growing_segments[-1].size:
            copy.roll()  # so that a recovery does not read the state from batches
        copy.update_high_watermark(copy.log_end_offset)
        copy.delete_records(extent.start)
        copy.flush(include_active=True)
        planned = self._planned(
            log, copy.log_start_offset, copy.log_end_offset, records
        )
        producers = copy.producers
        partition_report = replace(
            planned.partition,
            largest_producer_id=max(producers, default=NO_PRODUCER_ID),
            open_transactions=len(_open_producers(copy)),
            aborted_transactions=aborted,
        )
        return planned._replace(partition=partition_report)

    def _planned(
        self, log: SelectedBatches, start: int, end: int, records: dict[int, int]
    ) -> _Planned:
        partition = RestoredPartition(
            topic=log.source.topic,
            partition=log.source.partition,
            topic_id=self._cluster.topic_id(log.source.topic, _topic_id(log)),
            log_start_offset=start,
            log_end_offset=end,
            records=sum(records.values()),
            excluded_records=log.excluded,
        )
        return _Planned(partition, records)

    def _carried(self, planned: list[_Planned]) -> list[RestoredOffset]:
        if self._committed is None:
            return []
        extents: Offsets = {
            (each.partition.topic, each.partition.partition): (
                each.partition.log_start_offset,
                each.partition.log_end_offset,
            )
            for each in planned
        }
        return carry_over(self._committed, extents)

    def _write_offsets(
        self, manager: LogManager, carried: list[RestoredOffset]
    ) -> None:
        epoch = self._cluster.leader_epoch
        batches = offset_batches(
            carried,
            self._committed or (),
            partitions=self._offsets_partitions,
            leader_epoch=0 if epoch is None else epoch,
            keeps_epochs=epoch is None,
            now_ms=time.time_ns() // 1_000_000,
        )
        topic_id = self._cluster.topic_id(CONSUMER_OFFSETS, None)
        for partition, encoded in sorted(batches.items()):
            copy = manager.open(CONSUMER_OFFSETS, partition, topic_id=topic_id)
            for batch in encoded:
                copy.append_as_follower(batch, leader_epoch=ALL_EPOCHS)
            copy.update_high_watermark(copy.log_end_offset)

    def _report(
        self,
        destination: Path,
        planned: list[_Planned],
        files: list[RestoredFile],
        *,
        dry_run: bool,
    ) -> RestoreReport:
        problems: list[ScanProblem] = []
        for log in self._logs:
            problems += log.problems
        return RestoreReport(
            destination=str(destination),
            dry_run=dry_run,
            cluster_id=self._cluster.cluster_id,
            node_id=self._cluster.node_id,
            directory_id=self._cluster.directory_id,
            files=tuple(files),
            partitions=tuple(each.partition for each in planned),
            excluded_records=sum(log.excluded for log in self._logs),
            groups=tuple(self._carried(planned)),
            problems=tuple(problems),
        )


def _follow(logs: list[SelectedBatches], progress: Progress) -> None:
    """Call `progress` as the logs are read."""
    total = sum(
        segment.size_in_bytes
        for log in logs
        for segment in list_segments(log.directory)
    )
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    for log in logs:
        log.progress = add


def _settings_of(topics: TopicSettings, log: SelectedBatches) -> LogConfig:
    return topics.of(log.source.topic, _topic_id(log)).config


def _topic_id(log: SelectedBatches) -> str | None:
    """Return the id in ``partition.metadata`` of the source."""
    path = log.directory / PARTITION_METADATA
    stored = read_if_exists(path, PartitionMetadata.parse)
    return None if stored is None else stored.topic_id


def _first_base(copied: CopiedBatches, extent: LogExtent) -> int:
    """Return the base offset of a copy's first segment, by its first batches.

    It is the first offset to copy, which is that of a segment without bounds, or that
    of the batch that has it.
    """
    first = int(copied.rows["base_offset"][0])
    return extent.first if first < 0 else min(extent.first, first)


def _begin(
    copy: WritableLog,
    log: SelectedBatches,
    base: int,
    end: int,
    cluster: TargetCluster,
) -> None:
    """Begin a copy at a base offset, with the leader epochs of the source if kept.

    Epochs that begin above the end of the copy are not assigned.
    """
    if base != copy.log_end_offset:
        copy.truncate_fully(base)
    if cluster.leader_epoch is not None:
        return
    epochs = read_if_exists(log.directory / LEADER_EPOCHS, parse_epochs) or []
    for entry in epochs:
        if entry.start_offset <= end:
            copy.assign_epoch(entry.epoch, max(entry.start_offset, base))


def _open_producers(copy: WritableLog) -> list[ProducerStateEntry]:
    """Return the producers with an open transaction, by its first offset."""
    entries = [each for each in copy.producers.values() if each.txn_first_offset >= 0]
    return sorted(entries, key=lambda entry: entry.txn_first_offset)


def _abort_open_transactions(copy: WritableLog) -> int:
    """Append a marker for each open transaction; return their number."""
    producers = _open_producers(copy)
    for entry in producers:
        coordinator_epoch = max(entry.coordinator_epoch, 0)
        marker = end_transaction_marker(ControlRecordType.ABORT, coordinator_epoch)
        batch = RecordBatchBuilder(
            base_offset=copy.log_end_offset,
            leader_epoch=_latest_epoch(copy),
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            is_transactional=True,
            is_control=True,
        )
        batch.append(*marker, timestamp=time.time_ns() // 1_000_000)
        copy.append_as_follower(batch.build(), leader_epoch=ALL_EPOCHS)
    return len(producers)


def _forget_producers(staging: Path, partition: RestoredPartition) -> None:
    """Remove all producers but those with open transactions from the last snapshot."""
    name = file_name(partition.log_end_offset, "snapshot")
    path = staging / f"{partition.topic}-{partition.partition}" / name
    entries = read_if_exists(path, parse_snapshot)
    if entries is not None:
        is_open = entries["current_txn_first_offset"] >= 0
        DISK.replace(path, format_snapshot(entries[is_open]))


def _roll(copy: WritableLog, base: int) -> None:
    """Begin a segment where the source does."""
    active = copy.growing_segments[-1]
    if active.size or base > active.base_offset:
        copy.roll(base)


def _append(copy: WritableLog, copied: CopiedBatches) -> None:
    """Append batches; each transaction marker ends an append.

    The stable offset that a marker's entry of the transaction index has is otherwise
    that of the append, and may hide transactions that began after the marker.
    """
    rows = copied.rows
    ends = rows["position"] + rows["size_in_bytes"] - rows["position"][0]
    markers = np.flatnonzero(have_flag(rows, CONTROL_FLAG))
    cuts = [0, *ends[markers].tolist(), len(copied.data)]
    appends = [copied.data[a:b] for a, b in pairwise(cuts) if a < b]
    for outcome in copy.append_many_as_follower(appends, leader_epoch=ALL_EPOCHS):
        if isinstance(outcome, KafkaLogError):
            raise outcome


def _with_epochs(
    copied: CopiedBatches, copy: WritableLog, cluster: TargetCluster
) -> CopiedBatches:
    """Return batches with the leader epoch of the target, if it has one.

    A batch without one, as it is written anew from magic 0 or 1, gets the latest.
    """
    rows = copied.rows
    if cluster.leader_epoch is not None:
        return with_leader_epoch(copied, cluster.leader_epoch, rows["magic"] == 2)
    without = (rows["magic"] == 2) & (rows["leader_epoch"] < 0)
    if not without.any():
        return copied
    return with_leader_epoch(copied, _latest_epoch(copy), without)


def _latest_epoch(copy: WritableLog) -> int:
    epochs = copy.leader_epochs
    return epochs[-1].epoch if epochs else FIRST_EPOCH


def with_leader_epoch(
    copied: CopiedBatches, leader_epoch: int, chosen: npt.NDArray[np.bool_]
) -> CopiedBatches:
    """Return batches, of which the chosen ones get a leader epoch; no CRC covers it."""
    data = copied.data.copy()
    rows = copied.rows
    starts = (rows["position"] - rows["position"][0])[chosen]
    encoded = np.frombuffer(leader_epoch.to_bytes(4, signed=True), np.uint8)
    places = starts[:, None] + np.arange(
        PARTITION_LEADER_EPOCH.start, PARTITION_LEADER_EPOCH.stop
    )
    data[places] = encoded
    return copied._replace(data=data)


def _files(staging: Path, planned: list[_Planned]) -> Iterator[RestoredFile]:
    """Yield the files of a copy with their hashes, by path."""
    records = {
        f"{each.partition.topic}-{each.partition.partition}/{file_name(base, 'log')}": n
        for each in planned
        for base, n in each.records.items()
    }
    paths = [path for path in staging.rglob("*") if path.is_file()]
    for path in sorted(paths):
        name = path.relative_to(staging).as_posix()
        count = records.get(name, 0) if path.suffix == ".log" else None
        yield RestoredFile(
            path=name,
            sha256=_sha256(path),
            bytes=path.stat().st_size,
            records=count,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(directory: Path) -> None:
    """Remove a copy that is not complete."""
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            DISK.remove_directory(path)
        else:
            DISK.remove(path)
    DISK.remove_directory(directory)

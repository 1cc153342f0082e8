"""The steps of a restore.

``meta.properties``, without which no broker starts, is written last.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.copies.carried_offsets import (
    CommittedOffset,
    carry_over,
    format_reset_file,
    offset_batches,
)
from kafkalog.copies.partition_copy import (
    ALL_EPOCHS,
    plan_partition,
    write_partition,
)
from kafkalog.copies.restore_report import (
    RestoredFile,
    RestoredOffset,
    RestoredPartition,
    RestoreReport,
)
from kafkalog.copies.selected_batches import (
    SelectedBatches,
)
from kafkalog.copies.target_cluster import (
    TargetCluster,
)
from kafkalog.errors import (
    NotALogDirectoryError,
)
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.formats.producer_snapshot import format_snapshot, parse_snapshot
from kafkalog.integer_limits import MAX_INT32, MAX_INT64
from kafkalog.log.ownership import Name
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.manager.log_manager import LogManager
from kafkalog.parallel import mapping
from kafkalog.progress import Progress, note_begun
from kafkalog.query.newest_records import CONSUMER_OFFSETS
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.sources import (
    PartitionSource,
)
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_if_exists,
)
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    file_name,
)
from kafkalog.storage.location import Location, local_path
from kafkalog.storage.pending_directory import PendingDirectory

UNLIMITED: Final = {
    "segment.bytes": MAX_INT32,
    "internal.segment.bytes": MAX_INT32,
    "segment.ms": MAX_INT64,
    "segment.jitter.ms": 0,
    "retention.ms": -1,
    "retention.bytes": -1,
    "cleanup.policy": "delete",
    "file.delete.delay.ms": 0,
    "preallocate": False,
    "remote.storage.enable": False,
}
"""Settings with which a copy keeps all records, and the segments of its source."""

Offsets = dict[Name, tuple[int, int]]


class _Planned(NamedTuple):
    """Records of each segment of a copy, by base offset, and the report of it."""

    partition: RestoredPartition
    records: dict[int, int]


class RestoreJob:
    """One restore: the logs to copy, and where to."""

    def __init__(
        self,
        logs: list[SelectedBatches],
        cluster: TargetCluster,
        groups: str | Path | None,
        offsets_partitions: int,
        committed: list[CommittedOffset] | None,
        problems: list[ScanProblem],
        *,
        abort_open: bool,
        threads: int,
        progress: Progress | None,
    ) -> None:
        self._abort_open = abort_open
        self._threads = threads
        self._logs = logs
        self._cluster = cluster
        self._groups = groups
        self._offsets_partitions = offsets_partitions
        self._committed = committed
        self._problems = problems
        if progress is not None:
            _follow(logs, progress)

    def plan(self, destination: Path) -> RestoreReport:
        """Return the report of the copy without writing it."""
        with mapping(self._threads, "restore") as run:
            planned = [*run(self._plan_log, self._logs)]
        files = sorted(self._planned_files(planned), key=lambda file: file.path)
        return self._report(destination, planned, files, dry_run=True)

    def _plan_log(self, log: SelectedBatches) -> _Planned:
        note_begun(log.directory)
        extent = log.extent()
        records = plan_partition(
            log, extent, self._cluster, abort_open=self._abort_open
        )
        return self._planned(log, extent.start, extent.end, records)

    def _planned_files(self, planned: list[_Planned]) -> Iterator[RestoredFile]:
        """Yield the files whose names are known without writing them.

        These are all but producer snapshots and transaction indexes.
        """
        for each in planned:
            name = each.partition.topic, each.partition.partition
            yield from _files_of(name, each.partition.topic_id, each.records)
        if self._groups == "internal":
            topic_id = self._cluster.topic_id(CONSUMER_OFFSETS, None)
            for partition in self._offset_batches(self._carried(planned)):
                yield from _files_of((CONSUMER_OFFSETS, partition), topic_id, {0: 0})
        for file in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEAN_SHUTDOWN):
            yield RestoredFile(path=file)
        if self._cluster.identity is not None:
            yield RestoredFile(path=META_PROPERTIES)

    def write(self, copy: PendingDirectory) -> RestoreReport:
        """Write the copy, and return its report."""
        copy.check_space(sum(log.least_bytes() for log in self._logs))
        with copy:
            planned, offsets = self._write_logs(copy.path)
            identity = self._cluster.identity
            if identity is not None:
                content = identity.format(datetime.now(UTC))
                DISK.replace(copy.path / META_PROPERTIES, content)
            files = list(_files(copy.path, planned))
            report = self._report(copy.target, planned, files, dry_run=False)
            if identity is not None:
                report = replace(report, directory_id=identity.directory_id)
            if self._groups not in (None, "internal"):
                path = local_path(str(self._groups))
                as_json = path.suffix == ".json"
                DISK.replace(path, format_reset_file(offsets, as_json=as_json))
            return report

    def _write_logs(self, staging: Path) -> tuple[list[_Planned], list[RestoredOffset]]:
        directories = log_directories([log.source for log in self._logs])
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
            with mapping(self._threads, "restore") as run:
                planned = [*run(partial(self._write_log, manager), self._logs)]
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
        note_begun(log.directory)
        topic, partition = log.name
        topic_id = self._cluster.topic_id(topic, _topic_id(log))
        copy = manager.open(topic, partition, topic_id=topic_id)
        written = write_partition(copy, log, self._cluster, abort_open=self._abort_open)
        planned = self._planned(
            log, copy.log_start_offset, copy.log_end_offset, written.records
        )
        partition_report = replace(
            planned.partition,
            largest_producer_id=written.largest_producer_id,
            open_transactions=written.open_transactions,
            aborted_transactions=written.aborted_transactions,
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

    def _offset_batches(self, carried: list[RestoredOffset]) -> dict[int, list[bytes]]:
        epoch = self._cluster.leader_epoch
        return offset_batches(
            carried,
            self._committed or (),
            partitions=self._offsets_partitions,
            leader_epoch=0 if epoch is None else epoch,
            keeps_epochs=epoch is None,
            now_ms=time.time_ns() // 1_000_000,
        )

    def _write_offsets(
        self, manager: LogManager, carried: list[RestoredOffset]
    ) -> None:
        batches = self._offset_batches(carried)
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
        problems = self._problems + [
            problem for log in self._logs for problem in log.problems
        ]
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
    done, adding = 0, Lock()

    def add(size: int) -> None:
        nonlocal done
        with adding:
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


def _forget_producers(staging: Path, partition: RestoredPartition) -> None:
    """Remove all producers but those with open transactions from the last snapshot."""
    name = file_name(partition.log_end_offset, "snapshot")
    path = staging / f"{partition.topic}-{partition.partition}" / name
    entries = read_if_exists(path, parse_snapshot)
    if entries is not None:
        is_open = entries["current_txn_first_offset"] >= 0
        DISK.replace(path, format_snapshot(entries[is_open]))


def _files_of(
    name: Name, topic_id: str | None, records: dict[int, int]
) -> Iterator[RestoredFile]:
    """Yield the files of a planned partition with segments of some records."""
    directory = f"{name[0]}-{name[1]}"
    for base, count in records.items():
        yield RestoredFile(path=f"{directory}/{file_name(base, 'log')}", records=count)
        for kind in ("index", "timeindex"):
            yield RestoredFile(path=f"{directory}/{file_name(base, kind)}")
    yield RestoredFile(path=f"{directory}/{LEADER_EPOCHS}")
    if topic_id is not None:
        yield RestoredFile(path=f"{directory}/{PARTITION_METADATA}")


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


def partition_directory(source: PartitionSource) -> Location:
    """Return the directory of a partition; raise `NotALogDirectoryError` for a file."""
    if source.directory is None:
        reason = f"neither a partition nor a log directory: {source}"
        raise NotALogDirectoryError(reason)
    return source.directory


def absolute(location: Location) -> Location:
    """Return a local path as absolute path, so that it has a name."""
    return location.absolute() if isinstance(location, Path) else location


def log_directories(found: list[PartitionSource]) -> list[Path]:
    """Return the local log directories around partitions, each once."""
    directories = [absolute(partition_directory(each)) for each in found]
    parents = [each.parent for each in directories if isinstance(each, Path)]
    return list(dict.fromkeys(parents))

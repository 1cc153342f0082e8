"""`CopyDirectory`: a log directory that is written from batches of other logs.

It gets its name when it is complete: see `pending_directory`.

The batches keep their offsets, leader epochs and timestamps: they are appended as a
follower appends them, which makes the indexes, the producer snapshots and the epoch
checkpoint, and the checkpoints of the log directory with its clean shutdown marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.config import LogConfig
from kafkalog.decoding.record_counts import count_records
from kafkalog.errors import (
    CorruptCheckpointError,
    KafkaLogError,
    UnsupportedFormatError,
)
from kafkalog.formats.batch_headers import BatchHeaders, have_flag
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    MAX_FILE_BYTES,
)
from kafkalog.formats.partition_files import (
    PartitionMetadata,
    QuorumState,
    format_clean_shutdown,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.opening import open_to_append
from kafkalog.log.ownership import Name
from kafkalog.log.writable_log import WritableLog
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import read_if_exists
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import (
    BOOTSTRAP,
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    parse_file_name,
)
from kafkalog.storage.location import Location, is_file, local_path
from kafkalog.storage.pending_directory import PendingDirectory
from kafkalog.verification.sidecar_checks import QUORUM_STATE

SOURCE_SEGMENTS: Final = LogConfig(segment_bytes=MAX_FILE_BYTES, segment_ms=MAX_INT64)
"""Settings with which segments begin only where those of the source do."""

NEW_SEGMENTS: Final = LogConfig(segment_ms=MAX_INT64)
"""Settings with which segments begin as in a new log, by their size."""


class CopyDirectory(PendingDirectory):
    """A log directory being written from batches, and renamed at the end."""

    def make(self) -> None:
        """Create the directory with a clean shutdown marker."""
        super().make()
        DISK.replace(self.path / CLEAN_SHUTDOWN, format_clean_shutdown())

    def check_space_for(self, blocks: Iterable[BatchHeaders]) -> None:
        """Raise `DiskSpaceError` unless batches with these headers can be written."""
        sizes = (rows["size_in_bytes"].sum(dtype=np.int64) for rows in blocks)
        self.check_space(int(sum(sizes)))

    def open(
        self, name: Name, settings: LogConfig, topic_id: str | None = None
    ) -> CopiedLog:
        """Return a new, empty log of a partition."""
        path = self.path / f"{name[0]}-{name[1]}"
        return CopiedLog(open_to_append(path, settings, topic_id=topic_id))

    def remove(self, name: Name) -> None:
        """Remove the log of a partition."""
        DISK.remove_tree(self.path / f"{name[0]}-{name[1]}")

    def copy_identity(self, source: Location) -> None:
        """Copy the valid files with the ids of a log directory, unless there are any.

        They are ``meta.properties`` and ``bootstrap.checkpoint``.
        """
        if not isinstance(source, Path) or (self.path / META_PROPERTIES).exists():
            return
        identity, bootstrap = source / META_PROPERTIES, source / BOOTSTRAP
        if _is_valid(identity, MetaProperties.parse):
            DISK.copy_file(identity, self.path / META_PROPERTIES)
        if is_file(bootstrap) and LogSegment(bootstrap).whole_end() is not None:
            DISK.copy_file(bootstrap, self.path / BOOTSTRAP)


def _is_valid(path: Path, parse: Callable[[bytes], object]) -> bool:
    """Return whether there is a file that can be parsed."""
    try:
        return read_if_exists(path, parse) is not None
    except (CorruptCheckpointError, UnsupportedFormatError):
        return False


def topic_id_of(directory: Location) -> str | None:
    """Return the topic id in a partition's directory; None if none can be read."""
    try:
        found = read_if_exists(directory / PARTITION_METADATA, PartitionMetadata.parse)
    except (CorruptCheckpointError, UnsupportedFormatError):
        return None
    return None if found is None else found.topic_id


@dataclass(slots=True)
class CopiedLog:
    """A partition's log being written; a context that closes it.

    Control records are not counted.
    """

    log: WritableLog
    records: int = 0
    batches: int = 0
    has_begun: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.log.close()
        else:
            self.log.abandon()

    def begin_segment(self, base_offset: int, log_start: int | None = None) -> None:
        """Begin a segment, whose base offset is at or above the log end offset.

        `log_start` is the log start offset of a tiered log, whose first segment this
        is.
        """
        log = self.log
        if not self.has_begun:
            self.has_begun = True
            if log.log_end_offset != base_offset:
                log.truncate_fully(base_offset, log_start)
        elif log.growing_segments[-1].base_offset < base_offset:
            log.roll(base_offset)

    def append(
        self, data: Bytes, origin: int, rows: BatchHeaders
    ) -> list[tuple[int, KafkaLogError]]:
        """Append batches of `data`, which begins at `origin`; return those rejected.

        A rejected batch is returned with its index in `rows`, and not written.
        """
        starts = rows["position"] - origin
        bounds = zip(
            starts.tolist(), (starts + rows["size_in_bytes"]).tolist(), strict=True
        )
        views = [data[start:end].data for start, end in bounds]
        epoch = max(int(rows["leader_epoch"].max()), 0)
        outcomes = self.log.append_many_as_follower(views, leader_epoch=epoch)
        rejected = [
            (index, outcome)
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, KafkaLogError)
        ]
        self.batches += len(rows) - len(rejected)
        written = np.ones(len(rows), np.bool_)
        written[[index for index, _ in rejected]] = False
        written &= (rows["magic"] < 2) | ~have_flag(rows, CONTROL_FLAG)
        self.records += int(count_records(rows[written], data, origin).sum())
        return rejected

    def copy_quorum_files(self, source: Path) -> None:
        """Copy the valid snapshots and the election of a metadata log."""
        directory = local_path(self.log.path)
        for path in sorted(filter(is_file, source.iterdir())):
            name = parse_file_name(path.name)
            if path.name == QUORUM_STATE:
                is_valid = _is_valid(path, QuorumState.parse)
            elif name is not None and name.kind == "checkpoint" and not name.suffix:
                is_valid = LogSegment(path).whole_end() is not None
            else:
                is_valid = False
            if is_valid:
                DISK.copy_file(path, directory / path.name)

    def finish(
        self,
        log_start_offset: int | None,
        high_watermark: int | None,
        epochs: Sequence[EpochEntry],
    ) -> None:
        """Set the offsets of the end: None for those of the log itself.

        `epochs` may have leader epochs without records after those of the batches.
        """
        log = self.log
        end = log.log_end_offset
        for epoch, start in epochs:
            latest = log.leader_epochs[-1:] or [EpochEntry(-1, 0)]
            if epoch > latest[0].epoch and start == end:
                log.assign_epoch(epoch, start)
        log.update_high_watermark(end if high_watermark is None else high_watermark)
        if log_start_offset is not None:
            log.delete_records(min(log_start_offset, log.high_watermark))

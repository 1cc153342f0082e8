"""`CopyDirectory`: a log directory that is written from batches of other logs.

It is written under a temporary name next to its own, ``<name>.incomplete``, and gets
its own name last, once all of it is on disk. An interrupted copy keeps the temporary
name; after an error it is removed.

The batches keep their offsets, leader epochs and timestamps: they are appended as a
follower appends them, which makes the indexes, the producer snapshots and the epoch
checkpoint, and the checkpoints of the log directory with its clean shutdown marker.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final, Self

import numpy as np

from kafkalog.config import LogConfig
from kafkalog.errors import (
    CorruptCheckpointError,
    KafkaLogError,
    LogStateError,
    UnsupportedFormatError,
)
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import MAX_FILE_BYTES
from kafkalog.formats.partition_files import (
    PartitionMetadata,
    format_clean_shutdown,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.opening import open_to_append
from kafkalog.log.ownership import Name
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.checkpoint_file import read_if_exists
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
)
from kafkalog.storage.location import Location

INCOMPLETE: Final = ".incomplete"
"""Suffix of the name of a directory that is being written."""

NEVER_MS: Final = 2**63 - 1
SOURCE_SEGMENTS: Final = LogConfig(segment_bytes=MAX_FILE_BYTES, segment_ms=NEVER_MS)
"""Settings with which segments begin only where those of the source do."""

NEW_SEGMENTS: Final = LogConfig(segment_ms=NEVER_MS)
"""Settings with which segments begin as in a new log, by their size."""


class CopyDirectory:
    """A log directory being written; a context that gives it its name at the end.

    Raises `FileNotFoundError` if its parent is missing, and `LogStateError` if `target`
    exists and is not an empty directory, or if an interrupted copy is in the way.
    """

    def __init__(self, target: Path) -> None:
        self.target = target.absolute()
        self.path = self.target.with_name(self.target.name + INCOMPLETE)
        self.is_discarded = False

    def __enter__(self) -> Self:
        if not self.target.parent.is_dir():
            raise FileNotFoundError(2, os.strerror(2), str(self.target.parent))
        if self.target.is_symlink() or (
            self.target.exists()
            and not (self.target.is_dir() and not any(self.target.iterdir()))
        ):
            raise LogStateError(f"expected an empty or no directory: {self.target}")
        try:
            DISK.make_directory(self.path)
        except FileExistsError:
            error = LogStateError(f"incomplete copy of an earlier call: {self.path}")
            error.add_note("Remove it, and call again.")
            raise error from None
        DISK.replace(self.path / CLEAN_SHUTDOWN, format_clean_shutdown())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or self.is_discarded:
            rmtree(self.path)
            return
        DISK.sync_directory(self.path)
        DISK.rename(self.path, self.target)
        DISK.sync_directory(self.target.parent)

    def discard(self) -> None:
        """Remove the directory at the end, instead of giving it its name."""
        self.is_discarded = True

    def open(
        self, name: Name, settings: LogConfig, topic_id: str | None = None
    ) -> CopiedLog:
        """Return a new, empty log of a partition."""
        path = self.path / f"{name[0]}-{name[1]}"
        return CopiedLog(open_to_append(path, settings, topic_id=topic_id))

    def copy_identity(self, source: Location) -> None:
        """Copy a valid ``meta.properties`` of a log directory, unless there is one."""
        if (self.path / META_PROPERTIES).exists():
            return
        try:
            identity = read_if_exists(source / META_PROPERTIES, _with_bytes)
        except (CorruptCheckpointError, UnsupportedFormatError):
            return
        if identity is not None:
            DISK.replace(self.path / META_PROPERTIES, identity)


def _with_bytes(data: bytes) -> bytes:
    """Return the content of a ``meta.properties`` that can be parsed."""
    MetaProperties.parse(data)
    return data


def topic_id_of(directory: Location) -> str | None:
    """Return the topic id in a partition's directory; None if none can be read."""
    try:
        found = read_if_exists(directory / PARTITION_METADATA, PartitionMetadata.parse)
    except (CorruptCheckpointError, UnsupportedFormatError):
        return None
    return None if found is None else found.topic_id


@dataclass(slots=True)
class CopiedLog:
    """A partition's log being written; a context that closes it."""

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

    def begin_segment(self, base_offset: int) -> None:
        """Begin a segment, whose base offset is at or above the log end offset."""
        log = self.log
        if not self.has_begun:
            self.has_begun = True
            if log.log_end_offset != base_offset:
                log.truncate_fully(base_offset)
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
        self.records += int(rows["count"][written & (rows["count"] > 0)].sum())
        return rejected

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

"""The log start offset of a partition, and its offsets in remote storage.

A broker with tiered storage copies segments to remote storage, and deletes them from
its log directory. The log start offset of such a partition stays below its first
segment, and is in ``log-start-offset-checkpoint`` at all times. Of other partitions,
the checkpoint has only log start offsets above the first segment. So a checkpointed
log start offset at or below it belongs to a tiered partition, unless

- the metadata of the cluster states that the topic has no remote storage: then the
  first segments are lost, if the log start offset is below the first one, or
- retention has deleted segments since the checkpoint was written, as it is every
  minute: then the shutdown was not clean, and the leader epochs do not begin before
  the first segment, as they were truncated when the segments were deleted. A tiered
  partition always has those of its remote segments.

If the metadata is not there, a partition that has lost its first segments looks like a
tiered one.

Source: ``LogLoader.java`` (``load``), ``LogManager.scala``
(``checkpointLogStartOffsetsInDir``), ``UnifiedLog.java`` (``isRemoteLogEnabled``).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from kafkalog.errors import CorruptCheckpointError, KafkaLogError, TieredLogWarning
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.log.reading.cluster_metadata import (
    METADATA_PARTITION,
    ClusterSettings,
    is_tiered_by,
    read_cluster_settings,
)
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS, read_if_exists
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    MAX_OFFSET,
    parse_partition_dir,
)
from kafkalog.storage.location import Location

PACKAGE: Final = __name__.partition(".")[0]

CLUSTERS_KEPT: Final = 8
"""Metadata logs whose content is kept, as all partitions of a directory ask for it."""


class LogStart(NamedTuple):
    """The log start offset, and whether it is checkpointed even below the segments."""

    offset: int
    is_kept: bool


def log_start_of(
    checkpointed: int | None,
    first_base: int,
    *,
    is_tiered: bool | None,
    clean: bool,
    first_epoch_start: int | None,
) -> LogStart:
    """Return the log start offset of a log whose first segment is at `first_base`.

    `checkpointed` is the log start offset in the checkpoint, or None. `is_tiered` is
    whether the topic has remote storage, or None if that is not known. `clean` is
    whether the last shutdown was clean. `first_epoch_start` is the start of the first
    leader epoch: the greatest offset if there is none, or None if that is not known.

    >>> known = {"is_tiered": None, "clean": True, "first_epoch_start": 0}
    >>> log_start_of(500, 2999, **known)
    LogStart(offset=500, is_kept=True)
    >>> log_start_of(500, 2999, **{**known, "is_tiered": False})
    LogStart(offset=2999, is_kept=False)
    """
    start = checkpointed or 0
    if is_tiered:
        return LogStart(start, is_kept=True)
    is_stale = (
        start < first_base
        and not clean
        and first_epoch_start is not None
        and first_epoch_start >= first_base
    )
    is_above = checkpointed is None or checkpointed > first_base
    if is_tiered is False or is_above or is_stale:
        return LogStart(max(start, first_base), is_kept=False)
    return LogStart(start, is_kept=True)


class MissingStart(NamedTuple):
    """The offsets between the start of a log and its first segment.

    `is_tiered` is whether the topic has remote storage. It is None if that is not
    known: the offsets are in remote storage, or lost.
    """

    first_offset: int
    last_offset: int
    is_tiered: bool | None

    def __str__(self) -> str:
        """Return what is missing, and why.

        >>> print(MissingStart(5, 39, True))
        tiered partition: offsets 5 to 39 are in remote storage
        >>> print(MissingStart(5, 39, False))
        offsets 5 to 39, at the start of the log, are lost: no segment has them
        """
        offsets = f"offsets {self.first_offset} to {self.last_offset}"
        if self.is_tiered:
            return f"tiered partition: {offsets} are in remote storage"
        if self.is_tiered is False:
            return f"{offsets}, at the start of the log, are lost: no segment has them"
        return (
            f"tiered or damaged partition: {offsets}, at the start of the log, are in "
            "remote storage, or lost: no segment has them"
        )


def find_missing_start(
    directory: Location, segments: Sequence[LogSegment], checkpointed: int | None
) -> MissingStart | None:
    """Return the offsets before the first segment of a partition that its log has.

    `checkpointed` is the partition's log start offset in the checkpoint, or None. The
    metadata of the cluster is read only if other files state that offsets are missing.
    """
    if not segments or (first_base := segments[0].base_offset) <= (checkpointed or 0):
        return None
    first_epoch_start = _first_epoch_start(directory)
    begins_before = first_epoch_start is not None and first_epoch_start < first_base
    if checkpointed is None and not begins_before:
        return None
    has_tier = is_tiered(directory)
    start = log_start_of(
        checkpointed,
        first_base,
        is_tiered=has_tier,
        clean=(directory.absolute().parent / CLEAN_SHUTDOWN).exists(),
        first_epoch_start=first_epoch_start,
    )
    if start.offset < first_base:
        return MissingStart(start.offset, first_base - 1, has_tier)
    if not begins_before:
        return None
    # No remote storage: the leader epochs state where the log began.
    lost_from = max(checkpointed or 0, first_epoch_start or 0)
    return MissingStart(lost_from, first_base - 1, is_tiered=False)


def log_start_in(
    directory: Location, segments: Sequence[LogSegment], checkpointed: int | None
) -> int:
    """Return the log start offset of a partition, as a broker has it."""
    first = segments[0].base_offset if segments else 0
    missing = find_missing_start(directory, segments, checkpointed)
    if missing is None or missing.is_tiered is False:
        return max(first, checkpointed or 0)
    return missing.first_offset


def warn_of_missing_start(directory: Location, missing: MissingStart | None) -> None:
    """Warn that a partition is read without its tier, naming the line of the user."""
    if missing is None or missing.is_tiered is False:
        return
    warnings.warn(
        f"{missing}; only the offsets from {missing.last_offset + 1} on are read: "
        f"{directory}",
        TieredLogWarning,
        stacklevel=_level_of_user(),
    )


def _level_of_user() -> int:
    """Return the stack level of the first caller outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != PACKAGE:
            break
        level, frame = level + 1, frame.f_back
    return level


def _first_epoch_start(directory: Location) -> int | None:
    """Return the start of the first leader epoch; None if there is no such file."""
    with suppress(CorruptCheckpointError):
        epochs = read_if_exists(directory / LEADER_EPOCHS, parse_epochs)
        if epochs is not None:
            return epochs[0].start_offset if epochs else MAX_OFFSET
    return None


def is_tiered(directory: Location) -> bool | None:
    """Return whether a topic has remote storage; None if it is not known.

    A metadata log that cannot be read states nothing.
    """
    name = parse_partition_dir(directory.absolute().name)
    metadata = directory.absolute().parent / METADATA_PARTITION
    with suppress(KafkaLogError, OSError):
        if name is not None and metadata.is_dir():
            return is_tiered_by(_read_cluster(metadata), name.topic)
    return None


def _read_cluster(metadata: Location) -> ClusterSettings:
    """Return the settings of a cluster; a local log that has not changed is kept."""
    if not isinstance(metadata, Path):
        return read_cluster_settings(metadata)
    status = {path.name: path.lstat() for path in metadata.iterdir()}
    files = [(file, one.st_size, one.st_mtime_ns) for file, one in status.items()]
    return _read_unchanged(metadata, tuple(sorted(files)))


@lru_cache(CLUSTERS_KEPT)
def _read_unchanged(
    metadata: Path, _files: tuple[tuple[str, int, int], ...]
) -> ClusterSettings:
    """Return the settings of a cluster whose files have these sizes and times."""
    return read_cluster_settings(metadata)

"""The state of a log that is open for writing.

The modules of this package change it: appending, rolling, retention, truncation,
watermarks and others. Each takes a `LogState`, implements one of Kafka's concerns, and
is called with the lock of the log held.

    log_start_offset <= last stable offset <= high_watermark <= end
    recovery_point <= reach       all below it was forced to disk

Source: ``UnifiedLog.java``, ``LocalLog.java``, ``PartitionMetadataFile.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkalog.config import LogConfig
from kafkalog.errors import (
    CorruptCheckpointError,
    InconsistentTopicIdError,
    LogArgumentError,
)
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.reading.remote_offsets import MissingStart
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import DELETED, PARTITION_METADATA
from kafkalog.text.uuid_text import canonical_uuid


def checked_topic_id(topic_id: str | None) -> str | None:
    """Return an id as ``partition.metadata`` has it, or None.

    Raises `LogArgumentError` if the file cannot have it.
    """
    if topic_id is None:
        return None
    try:
        return canonical_uuid(PartitionMetadata(topic_id).topic_id)
    except (TypeError, ValueError):
        raise LogArgumentError(
            f"topic id {topic_id!r}, expected 22 characters of base64, not all A"
        ) from None


class TopicIdFile:
    """The ``partition.metadata`` of a log, which holds the id of its topic.

    It is on disk before the first record, so that records recovered after a crash are
    known to be the topic's. Kafka: ``UnifiedLog.initializeTopicId``.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.path = directory / PARTITION_METADATA
        self.topic_id: str | None = None
        self._disk = disk
        self._dirty = False

    def start(self, topic_id: str | None) -> bool:
        """Read the file, or keep `topic_id` to be written; return whether it existed.

        Raises `InconsistentTopicIdError` if the file has another id.
        """
        try:
            stored = PartitionMetadata.parse(read_regular(self.path)).topic_id
        except FileNotFoundError:
            self.topic_id = topic_id
            self._dirty = topic_id is not None
            return False
        except CorruptCheckpointError as error:
            raise error.located(self.path) from None
        if topic_id not in (None, stored):
            raise InconsistentTopicIdError(
                f"topic id {stored}, expected {topic_id}: {self.path}"
            )
        self.topic_id = stored
        return True

    def flush(self) -> None:
        """Write the file if its id was not written yet."""
        if self._dirty and self.topic_id is not None:
            self._disk.replace(self.path, PartitionMetadata(self.topic_id).format())
            self._dirty = False


@dataclass(slots=True, kw_only=True)
class LogState:
    """The parts of one log, and its offsets.

    `is_tiered` is whether the topic has remote storage, or None if that is not known.
    `keeps_log_start` is whether the log start offset is checkpointed even if it is not
    above the first segment, as of a tiered partition. `is_fragment` is whether offsets
    before the first segment were missing when the log was opened, or copied.
    `leads_alone` is whether there is no other replica, and no caller sets the high
    watermark. `cut` is the log end offset after a truncation inside a batch, and the
    end of the last batch that is left.
    `truncations` counts how often the end was moved back.
    """

    directory: Path
    config: LogConfig
    runtime: Runtime
    segments: SegmentMap
    producers: ProducerStateManager
    leader_epochs: LeaderEpochs
    topic_id_file: TopicIdFile
    log_start_offset: int
    recovery_point: int
    end: OffsetMetadata
    high_watermark: OffsetMetadata
    is_tiered: bool | None = False
    keeps_log_start: bool = False
    is_fragment: bool = False
    leads_alone: bool = False
    cut: tuple[int, int] | None = None
    first_unstable: OffsetMetadata | None = None
    last_flushed_ms: int = 0
    truncations: int = 0

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will have."""
        return self.end.offset

    @property
    def reach(self) -> int:
        """The log end offset, or the base offset of an active segment above it.

        A roll to an offset above the log end creates such a segment.
        """
        return max(self.end.offset, self.segments.active.base_offset)

    @property
    def log_start_to_checkpoint(self) -> int | None:
        """The log start offset; None if it is that of the first segment.

        Of a tiered partition, it is always checkpointed.
        """
        start, first = self.log_start_offset, self.segments.first.base_offset
        return start if self.keeps_log_start or start > first else None

    @property
    def end_after_closing(self) -> int:
        """The log end offset that the log has when it is opened again.

        After a truncation inside a batch that is the end of the last batch.
        """
        if self.cut is not None and self.cut[0] == self.end.offset:
            return self.cut[1]
        return self.end.offset

    @property
    def missing_start(self) -> MissingStart | None:
        """The offsets before the first segment, which may be in remote storage."""
        start, first = self.log_start_offset, self.segments.first.base_offset
        if self.is_tiered is False or start >= first:
            return None
        return MissingStart(start, first - 1, self.is_tiered)

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that a segment has, at or above the log start offset."""
        return max(self.log_start_offset, self.segments.first.base_offset)

    def rename_directory(self, target: Path) -> None:
        """Rename the directory, force the new name to disk, and update all paths.

        Removed segments whose files wait for their deletion are deleted now: the tasks
        have their old paths.
        """
        disk, segments = self.runtime.disk, list(self.segments)
        self.topic_id_file.flush()
        for path in sorted(self.directory.glob(f"*{DELETED}")):
            disk.remove(path)
        disk.sync_directory(self.directory)
        disk.rename(self.directory, target)
        disk.sync_directory(target.parent)
        self.directory = target
        for segment in segments:
            segment.move_to(target)
        self.producers.snapshots.directory = target
        self.leader_epochs.move_to(target)
        self.topic_id_file.path = target / PARTITION_METADATA

    def move_end(self, offset: int) -> None:
        """Set the log end offset, at the end of the active segment."""
        active = self.segments.active
        self.truncations += offset < self.end.offset
        self.end = OffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

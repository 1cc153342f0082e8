"""What a log that is written to knows of itself; the rooms beside it change it.

    appending    rolling    retention    truncation    watermarks    reading ...

Each takes a `LogState`, holds one of Kafka's concerns, and is called with the lock of
the log held.

    log_start_offset <= last stable offset <= high_watermark <= end
    recovery_point <= reach       all below it was forced to disk

Knows: the parts of a log. Does not know: what is done with them.
Source: ``UnifiedLog.java``, ``LocalLog.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkalog.config import LogConfig
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.partition_metadata import TopicIdFile
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap


@dataclass(slots=True, kw_only=True)
class LogState:
    """The parts of one log."""

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
    first_unstable: OffsetMetadata | None = None
    last_flushed_ms: int = 0
    cuts: int = 0  # how often the end was moved back
    written: tuple[OffsetMetadata, tuple[int, ...]] | None = None
    """The log's end after the last planned write, and where the segment ended then."""

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record will have."""
        return self.end.offset

    @property
    def reach(self) -> int:
        """The log's end, or the base of an active segment that begins beyond it.

        As one does that was rolled at an offset: nothing is appended in between.
        """
        return max(self.end.offset, self.segments.active.base_offset)

    @property
    def log_start_to_checkpoint(self) -> int | None:
        """First offset that may be read; None where the first segment tells it."""
        start, told = self.log_start_offset, self.segments.first.base_offset
        return start if start > told else None

    def move_end(self, offset: int) -> None:
        """Set the log's end, at the end of the active segment."""
        active = self.segments.active
        self.cuts += offset < self.end.offset
        self.end = OffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

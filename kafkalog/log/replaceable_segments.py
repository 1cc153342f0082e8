"""The segments of a log that is compacted: those to read, and those put in their place.

The methods take the lock of the log. What a cleaner reads and writes between two calls
needs no lock: segments below the active one do not change, and the cleaned segment is
no part of the log yet.

Source: ``UnifiedLog.replaceSegments``, ``UnifiedLog.splitOverflowedSegment``,
``LocalLog.createNewCleanedSegment``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.log.deletion import delete_snapshots
from kafkalog.log.recovery import segment_splitting
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.open_files import OpenFiles


class ReplaceableSegments:
    """The segments of a log, for a cleaner."""

    def __init__(self, log: LogState) -> None:
        self._log = log
        self.runtime = log.runtime

    def between(self, start: int, end: int) -> list[GrowingSegment]:
        """Return the segments that may hold offsets from `start` to below `end`."""
        with self.runtime.lock, self.runtime.guard():
            return self._log.segments.between(start, end)

    def begin_cleaned(self, base_offset: int) -> GrowingSegment:
        """Create the segment that a cleaner writes to."""
        with self.runtime.lock, self.runtime.guard():
            log = self._log
            return segment_splitting.begin_cleaned_segment(
                log.directory, base_offset, log.config, self.runtime, OpenFiles()
            )

    def replace(
        self, new: Sequence[GrowingSegment], old: Sequence[GrowingSegment]
    ) -> None:
        """Put cleaned segments, which are synced, in place of others."""
        with self.runtime.lock, self.runtime.guard():
            log = self._log
            for segment in new:
                segment.share_open_files(self.runtime.open_files)
            self._delete_snapshots(
                segment_splitting.replace_segments(
                    log.segments, new, old, log.directory, log.config, self.runtime
                )
            )

    def split(self, segment: GrowingSegment) -> None:
        """Split a segment whose offsets are too far apart for its indexes."""
        with self.runtime.lock, self.runtime.guard():
            log = self._log
            self._delete_snapshots(
                segment_splitting.split_segment(
                    segment, log.segments, log.directory, log.config, self.runtime
                )
            )

    def _delete_snapshots(self, segments: Sequence[GrowingSegment]) -> None:
        delay_ms = self._log.config.file_delete_delay_ms
        delete_snapshots(segments, self._log.producers, self.runtime, delay_ms)

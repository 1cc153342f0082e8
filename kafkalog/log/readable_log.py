"""What `Log` and `WritableLog` have in common: their methods, and results of reads.

Source: ``UnifiedLog.java``, ``FetchDataInfo.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import Isolation
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.timestamps import Times
from kafkalog.log.reading.remote_offsets import MissingStart
from kafkalog.reports import counted, html_table
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location

if TYPE_CHECKING:
    from socket import socket

MAX_READ_BYTES: Final = 1 << 20
LISTED_SEGMENTS: Final = 20
"""Maximum number of segments in the HTML of a log."""


@dataclass(frozen=True, slots=True)
class LogRead:
    """Whole batches of a log, starting with the one that holds the requested offset.

    Attributes
    ----------
    data : bytes
        The batches.
    next_offset : int
        The offset from which to continue.
    aborted : tuple of (int, int)
        With ``read_committed``, the aborted transactions among the batches: producer id
        and first offset.
    """

    data: bytes
    next_offset: int
    aborted: tuple[tuple[int, int], ...] = ()

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches one by one.

        Yields
        ------
        RecordBatch
            A batch, whose records are decoded on request.
        """
        position = 0
        while position < len(self.data):
            batch = RecordBatch(self.data, position)
            yield batch
            position += batch.size_in_bytes


class ReadableLog(Protocol):
    """What `Log` and `WritableLog` have in common: a partition's log that can be read.

    The methods are described at `Log`.
    """

    @property
    def path(self) -> Location:
        """The directory of the partition."""

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, in order of their base offsets."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def missing_start(self) -> MissingStart | None:
        """The offsets before the first segment, in remote storage or lost, or None."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are replicated."""

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which transactions are decided."""

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """The leader epochs, and their first offsets."""

    def producer_states(self) -> npt.NDArray[np.void]:
        """Return the producers' last batches."""

    def aborted_transactions(
        self, start: int | None = None, end: int | None = None
    ) -> npt.NDArray[np.void]:
        """Return the aborted transactions with records in an interval of offsets."""

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = MAX_READ_BYTES,
        isolation: Literal["log_end"] | Isolation = "log_end",
    ) -> LogRead:
        """Return batches from an offset on."""

    def send_to(
        self,
        socket: socket,
        offset: int,
        max_bytes: int = MAX_READ_BYTES,
        *,
        isolation: Literal["log_end"] | Isolation = "log_end",
    ) -> int:
        """Send batches from an offset on to a socket; return their size in bytes."""

    def offsets_for_times(self, timestamps: Times) -> npt.NDArray[np.int64]:
        """Return the first offset at or after each time."""

    def close(self) -> None:
        """Close the log."""


def segments_html(title: str, segments: Sequence[LogSegment]) -> str:
    """Return an HTML table of the last segments: their names and sizes."""
    last = segments[-LISTED_SEGMENTS:]
    rows = [(segment.name, _size_of(segment)) for segment in last]
    more = len(segments) - len(rows)
    footer = counted(more, "earlier segment") if more else ""
    return html_table(title, ("segment", "bytes"), rows, footer)


def _size_of(segment: LogSegment) -> int | str:
    """Return a segment's size, "?" if it was removed since it was listed."""
    try:
        return segment.size_in_bytes
    except FileNotFoundError:
        return "?"

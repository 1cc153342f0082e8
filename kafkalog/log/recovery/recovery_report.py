"""Report of the loading of a log: recovered, removed and lost data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

from kafkalog.errors import LostOffsetsWarning
from kafkalog.storage.file_names import file_name


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """A segment that was recovered: verified, truncated, its indexes rebuilt.

    `why` is ``unflushed``, ``index missing`` or ``index corrupt``. `bytes_cut` is the
    number of bytes truncated after the last valid batch, without preallocated zeros at
    the end of the file. `damage` is the reason, None if the last batch was incomplete.
    `bytes_read` are the bytes up to there, or all of a segment that was emptied.
    `end_offset` is the offset after its last batch then.
    """

    base_offset: int
    why: str
    bytes_cut: int
    damage: str | None = None
    bytes_read: int = 0
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """Offsets whose records are in the file of the last segment, but not in the log.

    The log end offset is found from the last entry of the offset index. If no complete
    batch is at its `position`, because the file was truncated to `file_bytes` after it
    was closed, the log end offset is the base offset of the segment, as in Kafka. The
    records from `first_offset` to `last_offset` are then not read, and their offsets
    are assigned again. Without that index, the segment is recovered and its end found.
    """

    base_offset: int
    first_offset: int
    last_offset: int
    position: int
    file_bytes: int


@dataclass(slots=True)
class RecoveryReport:
    """Report of the loading of a log.

    `clean` states that the last shutdown was clean. `removed` and `renamed` are names
    of files left by an interrupted deletion, compaction or split. `recovered` are the
    segments that were recovered. `dropped` are the base offsets of segments removed
    after a truncated one, or because all were below the log start offset. `split` are
    those of segments whose offsets were too far apart. `lost` are offsets at the end of
    the log that cannot be read, None if there are none. `replayed` are the segments
    that were read to restore the state of producers, by base offset, with the bytes.
    """

    clean: bool = True
    removed: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    recovered: list[RecoveredSegment] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    split: list[int] = field(default_factory=list)
    lost: LostOffsets | None = None
    replayed: list[tuple[int, int]] = field(default_factory=list)

    @property
    def bytes_cut(self) -> int:
        """Bytes truncated from segments, without those of dropped segments."""
        return sum(segment.bytes_cut for segment in self.recovered)


def warn_of_lost_offsets(
    report: RecoveryReport, directory: Path, *, stacklevel: int
) -> None:
    """Warn of lost offsets; `stacklevel` as for `warnings.warn`."""
    lost = report.lost
    if lost is None:
        return
    index = directory / file_name(lost.base_offset, "index")
    warnings.warn(
        f"offsets {lost.first_offset} to {lost.last_offset} are lost: the log ends at "
        f"{lost.first_offset}, as no complete batch is at byte {lost.position} of "
        f"{lost.file_bytes}, where the last entry of {index} points. Their records are "
        "still in the file: to keep them, close the log before anything is appended, "
        "remove that index and open the log again",
        LostOffsetsWarning,
        stacklevel=stacklevel,
    )

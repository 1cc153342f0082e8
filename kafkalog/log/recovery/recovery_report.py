"""What opening a log found and did, as data.

Knows: what may happen. Does not know: how.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

from kafkalog.errors import LostOffsetsWarning
from kafkalog.storage.file_names import file_name


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """A segment that was read through, and its indexes made anew.

    `why` is ``unflushed``, ``index missing`` or ``index corrupt``. `bytes_cut` were
    after the last valid batch, zeros to the end of the file not counted: that space was
    preallocated. They were cut because of `damage`, None where the last batch was just
    not whole.
    """

    base_offset: int
    why: str
    bytes_cut: int
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """Offsets whose records are in the last segment's file, but not in the log.

    The log's end is looked for from the last entry of the offset index on. Where no
    whole batch follows at its `position`, as the file was cut to `file_bytes` after it
    was closed, the end is the segment's base offset: Kafka does the same. The records
    from `first_offset` to `last_offset` are then not read, and their offsets are given
    once more. Without that index the segment is read through, and its end found.
    """

    base_offset: int
    first_offset: int
    last_offset: int
    position: int
    file_bytes: int


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did.

    `clean` says that the last stop was. `removed` and `renamed` are names of files left
    by an interrupted deletion, compaction or split; `recovered` the segments read
    through; `dropped` the base offsets of segments deleted behind a cut, or before a
    log start beyond them all; `split` those of segments whose offsets were too far
    apart. `lost` are offsets at the end of the log that its index has hidden, None
    where all are there.
    """

    clean: bool = True
    removed: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    recovered: list[RecoveredSegment] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    split: list[int] = field(default_factory=list)
    lost: LostOffsets | None = None

    @property
    def bytes_cut(self) -> int:
        """Bytes cut from segments, those of dropped ones not counted."""
        return sum(one.bytes_cut for one in self.recovered)


def warn_of_lost_offsets(
    report: RecoveryReport, directory: Path, *, stacklevel: int
) -> None:
    """Warn of offsets that opening has lost; `stacklevel` as for `warnings.warn`."""
    lost = report.lost
    if lost is None:
        return
    index = directory / file_name(lost.base_offset, "index")
    warnings.warn(
        f"offsets {lost.first_offset} to {lost.last_offset} are lost: the log ends at "
        f"{lost.first_offset}, as no whole batch begins at byte {lost.position} of "
        f"{lost.file_bytes}, where the last entry of {index} points. Their records are "
        "still in the file: to keep them, close the log before anything is appended, "
        "remove that index and open the log again",
        LostOffsetsWarning,
        stacklevel=stacklevel,
    )

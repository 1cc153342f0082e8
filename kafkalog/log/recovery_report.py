"""What opening a log found and did, as data.

Knows: what may happen. Does not know: how.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """A segment that was read through, and its indexes made anew.

    `why` is ``unflushed``, ``index missing`` or ``index corrupt``. `bytes_cut` were
    behind the last sound batch, because of `damage`, None where the last batch was
    just not whole.
    """

    base_offset: int
    why: str
    bytes_cut: int
    damage: str | None = None


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did.

    `clean` says that the last stop was. `removed` and `renamed` are names of files left
    by an interrupted deletion, compaction or split; `recovered` the segments read
    through; `dropped` the base offsets of segments deleted behind a cut, or before a
    log start beyond them all; `split` those of segments whose offsets were too far
    apart.
    """

    clean: bool = True
    removed: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    recovered: list[RecoveredSegment] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    split: list[int] = field(default_factory=list)

    @property
    def bytes_cut(self) -> int:
        """Bytes cut from segments, those of dropped ones not counted."""
        return sum(one.bytes_cut for one in self.recovered)

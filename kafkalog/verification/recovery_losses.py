"""What a start would cost: the records that can be read now, and could not be after.

Knows: one segment, and how a loss is described. Does not know: why something is cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource
from kafkalog.verification.log_checks import LogCheck
from kafkalog.verification.report import Findings, Problem, Recovery, Severity
from kafkalog.verification.sidecar_checks import NO_EPOCHS


class SegmentContents(NamedTuple):
    """What a segment holds: how many records, and the offset after the last batch."""

    records: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionContents:
    """What a partition holds: its end, and its segments by their base offsets."""

    end: int | None = None
    segments: dict[int, SegmentContents] = field(default_factory=dict)


def contents_from(path: Path, base_offset: int, position: int = 0) -> SegmentContents:
    """Count the records of a segment from a byte on, past whatever is damaged.

    A file that is missing, or was removed meanwhile, holds none.
    """
    try:
        opened = FileSource(path)
    except FileNotFoundError:
        return SegmentContents(0, base_offset)
    with opened as source:
        facts = LogCheck(
            source=source,
            findings=Findings(path.name),
            start=position,
            limits=LogSegment(path, base_offset).limits,
            epochs=NO_EPOCHS,
            max_batch_bytes=MAX_BATCH_BYTES,
            advance=lambda _: None,
        ).run()
    return SegmentContents(facts.records, facts.last_offset + 1)


def describe_loss(
    problem: Problem,
    *,
    first: int,
    end: int,
    records: int,
    segments: int,
    is_metadata: bool,
    remedy: str = "",
) -> Problem:
    """Add to a problem that records from offset `first` to before `end` would go."""
    if not records:
        return problem
    what = f"offsets {first} to {end - 1}, {_number(records, 'readable record')}"
    if segments:
        what += f", and with them {_number(segments, 'whole segment')} after this one"
    if problem.recovery == Recovery.OVERWRITE:
        text = f"a broker takes {first} for the end, and writes over {what}{remedy}"
    else:
        text = f"a start cuts off {what}"
    if is_metadata:
        text += (
            "; each partition of a topic that is made in them is unknown then, "
            "and set aside as -stray"
        )
    return replace(
        problem,
        severity=Severity.ERROR,
        message=f"{problem.message}; {text}",
        lost_from=first,
        lost_to=end - 1,
        lost_records=records,
        lost_segments=segments,
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

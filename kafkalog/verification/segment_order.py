"""Checks of how a partition's segments follow one another, and of what is missing.

    gap       offsets between two segments are in neither: compaction makes such gaps,
              and so they count only where nothing shows compaction
    tail      a segment that is not the last ends in part of an entry, and the next one
              does not follow: what was there is lost
    orphan    an index is there, and no log: a broker marks a log as deleted before its
              indexes, so this is no deletion

Knows: names and what was read. Does not know: how logs are read.
Source: ``LocalLog.java``, ``LogSegment.changeFileSuffixes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from kafkalog.storage.file_names import SegmentFile, file_name
from kafkalog.verification.log_checks import Epochs, LogFacts
from kafkalog.verification.report import Cause, Findings, Problem, Severity

TAILS = (Cause.INCOMPLETE, Cause.PREALLOCATED)
FindingsFor = Callable[[str], Findings]


class ReadSegment(NamedTuple):
    """A segment that was read: its base offset, file, contents and problems."""

    base: int
    log: str
    facts: LogFacts
    problems: list[Problem]


def check_succession(
    segments: Sequence[ReadSegment],
    orphans: Sequence[int],
    findings_for: FindingsFor,
    *,
    is_compacted: bool,
) -> None:
    """Note where the segments, by rising base, do not follow one another.

    `orphans` are base offsets of indexes without a log, of which notice is taken
    elsewhere. Problems at the end of a segment that costs offsets become errors.
    """
    compacted = is_compacted or any(one.facts.is_compacted for one in segments)
    for one, following in pairwise(segments):
        first, last = one.facts.last_offset + 1, following.base - 1
        if first > last:
            continue
        where = f"offsets {first} to {last} are missing before the next segment"
        if one.facts.tail_bytes:
            for i, found in enumerate(one.problems):
                if found.cause in TAILS and found.position == one.facts.end:
                    one.problems[i] = replace(
                        found,
                        severity=Severity.ERROR,
                        message=f"{found.message}; {where}",
                        last_offset=last,
                    )
        elif (
            not compacted
            and one.facts.damaged_at is None
            and not any(first <= base <= last for base in orphans)
        ):
            findings_for(following.log).warn(
                Cause.GAP,
                f"offsets {first} to {last} before this segment are in none, "
                "and nothing shows that they were compacted",
                offset=first,
                last_offset=last,
            )


def check_orphans(
    names: dict[str, SegmentFile],
    orphans: Sequence[tuple[str, SegmentFile, bool]],
    log_start_offset: int,
    findings_for: FindingsFor,
) -> None:
    """Note indexes without a log: file, name, and whether there are entries in it.

    The first of a segment's is an error, if the log held records above the log start.
    """
    logs = sorted(
        name.base_offset
        for name in names.values()
        if name.kind == "log" and name.suffix is None
    )
    explained = {
        name.base_offset
        for name in names.values()
        if name.kind == "log" and name.suffix is not None
    }
    reported = set()
    for file, name, has_entries in orphans:
        base = name.base_offset
        message = "there is no log that it belongs to: a broker deletes it"
        after = next((one for one in logs if one > base), None)
        held_records = has_entries if after is None else after > log_start_offset
        if base in explained or base in reported or not held_records:
            findings_for(file).warn(Cause.ORPHAN, message, offset=base)
            continue
        reported.add(base)
        findings_for(file).add(
            Cause.ORPHAN,
            f"{file_name(base, 'log')} is missing, with the records from offset {base} "
            f"{'on' if after is None else f'to {after - 1}'}: copy it from another "
            "replica; a broker deletes its indexes and goes on without it",
            offset=base,
            last_offset=None if after is None else after - 1,
        )


def check_epoch_entries(
    epochs: Epochs, segments: Sequence[ReadSegment], end: int, findings: Findings
) -> None:
    """Hold the entries of a ``leader-epoch-checkpoint`` to where the log ends.

    One may start at the end: that of a leader that has written nothing yet.
    """
    for start, epoch in zip(*(column.tolist() for column in epochs), strict=True):
        if start > end:
            findings.warn(
                Cause.LOG_END,
                f"leader epoch {epoch} starts at offset {start}, but the log ends at "
                f"{end}: a broker removes the entry",
                offset=start,
            )
    given = [one.facts for one in segments if one.facts.first_epoch >= 0]
    if given and not len(epochs[0]):
        epoch, (_, offset) = given[0].first_epoch, given[0].first_epoch_at
        findings.add(
            Cause.LEADER_EPOCH,
            f"it has no entry, though batches from offset {offset} on have leader "
            f"epochs from {epoch} on: followers cannot find where they differ",
            offset=offset,
        )

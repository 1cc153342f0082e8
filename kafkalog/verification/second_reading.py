"""Findings are settled by a second reading, for a broker may be writing meanwhile.

No order of reading is safe for all: an index that is read before its log lacks what was
appended between, and one that is read after it has more. So whatever was found is read
again, all files anew, and what both readings find stays: in the one the file was read
before the other file's second reading, in the other after its first.

Of an abort the marker is written first, and the entry in the transaction index next;
both readings may fall between the two. So the second one waits for the time of a write.

Knows: checks of one partition. Does not know: what they find.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkalog.storage.file_names import parse_file_name
from kafkalog.verification.partition_checks import PartitionCheck
from kafkalog.verification.report import Cause, Problem
from kafkalog.verification.segment_checks import SegmentResult, SegmentTask

WRITE_SECONDS: Final = 0.02
CheckLog = Callable[[SegmentTask], SegmentResult]


def file_names(directory: Path) -> list[str]:
    """List the files in a directory, no links, and none that goes meanwhile."""
    names = []
    for entry in os.scandir(directory):
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                names.append(entry.name)
    return names


def settled(
    check: PartitionCheck, results: list[SegmentResult], check_log: CheckLog
) -> list[Problem]:
    """Return what a second reading of a partition finds, too.

    Of segments without a finding the first reading, `results`, is taken.
    """
    read = (parse_file_name(Path(one.path).name) for one in check.problems)
    suspects = {name.base_offset for name in read if name is not None}
    known = {
        one.task.log: one
        for one in results
        if one.task.limits.least not in suspects and not one.problems
    }
    lacks_entry = any(one.cause == Cause.TXN_INDEX for one in check.problems)
    if lacks_entry and not check.around.clean:
        time.sleep(WRITE_SECONDS)
    try:
        names = file_names(check.directory)
    except FileNotFoundError:
        return []
    again = PartitionCheck.of(check.directory, check.prefix, names, check.around)
    again.finish([known.get(task.log) or check_log(task) for task in again.plan()])
    found = set(map(_place, check.problems))
    return [one for one in again.problems if _place(one) in found]


def log_end(check: PartitionCheck, check_log: CheckLog) -> int | None:
    """Return where a partition's log ends now; None where it has none any more."""
    with suppress(FileNotFoundError):
        names = file_names(check.directory)
        again = PartitionCheck.of(check.directory, check.prefix, names, check.around)
        active = [task for task in again.plan() if task.active]
        for result in map(check_log, active):
            if result.facts is not None:
                return result.facts.last_offset + 1
    return None


def _place(problem: Problem) -> tuple[str, int | None, int | None, Cause]:
    return problem.path, problem.position, problem.offset, problem.cause

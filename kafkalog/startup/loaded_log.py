"""What is known of each log while a broker's start is predicted.

Source: ``LogManager.scala``, ``ReplicaManager.maybeAddLogDirFetchers``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkalog.log.topic_settings import PartitionSettings
from kafkalog.rehearsal.log_rehearsal import LogRehearsal
from kafkalog.rehearsal.segment_contents import contents_from
from kafkalog.reports import counted
from kafkalog.startup.early_expiry import find_early, retention_settings
from kafkalog.startup.found_directories import FoundDirectory
from kafkalog.startup.start_report import PartitionStart, StartState
from kafkalog.storage.file_names import PartitionDir, parse_file_name


@dataclass(slots=True)
class LoadedLog:
    """The facts of a log that was loaded, or the error that prevents it.

    `read_seconds` is the time that loading took. `accepted` states that the cluster has
    recorded the log in its directory.
    """

    found: FoundDirectory
    name: PartitionDir
    start: PartitionStart
    topic_id: str | None = None
    read_seconds: float = 0.0
    accepted: bool = False
    removed: list[Path] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.name.topic, self.name.partition

    @property
    def is_current(self) -> bool:
        """Whether it is the current log of its partition, as far as is known."""
        return self.start.state in (StartState.CLEAN, StartState.RECOVER)

    def unserve(self, reason: str) -> None:
        """Note that the partition is not served, and why."""
        self.note(f"not served: {reason}", unserved=reason)

    def note(self, *notes: str, **changes: Any) -> None:
        """Add notes to the partition, and change attributes."""
        self.start = replace(self.start, notes=(*self.start.notes, *notes), **changes)


def expire_early(
    loaded: LoadedLog, rehearsal: LogRehearsal, settings: PartitionSettings
) -> None:
    """Add the segments that retention deletes at once for a damaged time index."""
    config = retention_settings(settings)
    early = find_early(rehearsal.log, config)
    if not early:
        return
    start, base = loaded.start, early[0].base_offset
    cut_from = base if start.cut_from_offset is None else start.cut_from_offset
    loaded.note(
        *(each.note(config.retention_ms) for each in early),
        cut_from_offset=min(base, cut_from),
        bytes_cut=start.bytes_cut + sum(each.size for each in early),
        records_lost=start.records_lost
        + sum(rehearsal.count_records(each.base_offset) for each in early),
        segments_dropped=start.segments_dropped + len(early),
    )


def place_future(future: LoadedLog, logs: list[LoadedLog], *, has_failed: bool) -> None:
    """Note what becomes of the target of a move; `logs` are the current ones.

    If a directory `has_failed`, it may have the current log, and none is created.
    """
    here = [log for log in logs if log.found is future.found]
    if future.accepted and here:
        taken = here[0].start.directory
        future.note(f"cannot be promoted: {taken} exists in its directory")
        future.found.failures.append(
            f"{future.start.directory} cannot be renamed: {taken} exists"
        )
    elif future.accepted:
        future.note("promoted: becomes the current log of the partition")
        for log in logs:
            log.note(
                f"replaced by {future.start.directory}, and removed after "
                "file.delete.delay.ms",
                state=StartState.DELETED,
            )
    elif logs:
        ends = logs[0].start.log_end_offset, future.start.log_end_offset
        behind = counted(max(0, (ends[0] or 0) - (ends[1] or 0)), "offset")
        future.note(f"kept: the move goes on, {behind} behind")
    elif has_failed:
        future.note("kept: there is no current log to copy from")
    else:
        _empty_future(future)


def _empty_future(future: LoadedLog) -> None:
    """Note that a broker truncates the target of a move to a new, empty log."""
    path, name = Path(future.start.directory), future.name
    contents = [
        contents_from(file, int(file.stem))
        for file in sorted(path.glob("*.log"))
        if parse_file_name(file.name) is not None
    ]
    records = sum(each.records for each in contents)
    start = future.start.log_start_offset
    future.note(
        f"emptied: there is no current log. The broker creates an empty one, and "
        f"truncates this one to its end; rename it to {name.topic}-{name.partition} to "
        "keep the records",
        records_lost=records,
        cut_from_offset=start if records else future.start.cut_from_offset,
        bytes_cut=sum(file.stat().st_size for file in path.glob("*.log")),
    )

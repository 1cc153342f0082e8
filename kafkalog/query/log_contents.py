"""What is in logs, as the headers of their batches tell it, added up.

Only headers are looked at: no checksum, nothing unpacked. The one exception are
wrappers of magic 0 and 1, whose headers do not count what is inside.

Knows: headers, and sums. Does not know: how they are shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import Bounds
from kafkalog.errors import LocatedError
from kafkalog.formats.entry_headers import Rows
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from kafkalog.query.part_reading import Problem, Request
from kafkalog.query.record_counts import count_records, counting
from kafkalog.query.sources import Part
from kafkalog.segment.file_records import FileRecords, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.strays import Limits
from kafkalog.storage.byte_source import only_zeros

UNKNOWN_CODEC: Final = "unknown"
MOST_PRODUCERS: Final = 100_000
"""How many producers of a log are told apart."""

Range = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class Contents:
    """What a log holds, or several; made by `contents_of`, added up by `add`.

    `batches` counts entries: batches, and below magic 2 messages and wrappers. Times
    are in ms, None where there is none; `leader_epochs` the first and the last. Of
    `producers` there are at most `MOST_PRODUCERS`, `more_producers` says if there were
    more.
    """

    batches: int = 0
    records: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    magics: Counter[int] = field(default_factory=Counter)
    first_timestamp: int | None = None
    max_timestamp: int | None = None
    leader_epochs: Range | None = None
    producers: set[int] = field(default_factory=set)
    more_producers: bool = False
    transactional_batches: int = 0
    control_batches: int = 0

    def add(self, other: Contents) -> None:
        """Take in what a later log holds."""
        for name in ("batches", "records", "transactional_batches", "control_batches"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.codecs += other.codecs
        self.magics += other.magics
        self._add_producers(other)
        if self.first_timestamp is None:
            self.first_timestamp = other.first_timestamp
        times = [
            time
            for time in (self.max_timestamp, other.max_timestamp)
            if time is not None
        ]
        self.max_timestamp = max(times, default=None)
        epochs = (*(self.leader_epochs or ()), *(other.leader_epochs or ()))
        self.leader_epochs = (min(epochs), max(epochs)) if epochs else None

    def _add_producers(self, other: Contents) -> None:
        self.producers |= other.producers
        self.more_producers |= other.more_producers
        if len(self.producers) > MOST_PRODUCERS:
            self.producers = set(islice(self.producers, MOST_PRODUCERS))
            self.more_producers = True

    def as_dict(self) -> dict[str, Any]:
        """Return the members that the command's JSON has; producers by their number."""
        untold = {"more_producers": True} if self.more_producers else {}
        return {
            "batches": self.batches,
            "records": self.records,
            "codecs": {name: self.codecs[name] for name in sorted(self.codecs)},
            "magics": {str(one): self.magics[one] for one in sorted(self.magics)},
            "first_timestamp": self.first_timestamp,
            "max_timestamp": self.max_timestamp,
            "leader_epochs": self.leader_epochs and list(self.leader_epochs),
            "producers": len(self.producers),
            **untold,
            "transactional_batches": self.transactional_batches,
            "control_batches": self.control_batches,
        }


@dataclass(slots=True, kw_only=True)
class LogContents:
    """What one ``.log`` holds up to byte `end`, and how it goes on there.

    `tail` is None at the file's end, else ``incomplete``, ``preallocated``, or
    ``damaged``, in which case `damage` says what it is.
    """

    contents: Contents
    next_offset: int
    end: int
    tail: str | None = None
    damage: str | None = None


def contents_of(segment: LogSegment, limits: Limits | None = None) -> LogContents:
    """Read the headers of a ``.log``, up to its end or to where it is damaged.

    Offsets must lie within `limits`, by default those of the segment.

    Raises `FileNotFoundError` where it is gone.
    """
    found = LogContents(
        contents=Contents(), next_offset=max(segment.base_offset, 0), end=0
    )
    with segment.open() as source:
        records = FileRecords(
            source=source,
            suffice=lambda _: True,
            limits=limits or segment.limits,
            check_crcs=False,
        )
        wrapped = False
        try:
            for step in records:
                if isinstance(step, Step):
                    found.contents.add(_of_rows(step.rows))
                    found.next_offset = int(step.rows["last_offset"][-1]) + 1
                    wrapped |= bool((step.rows["count"] < 0).any())
        except LocatedError as error:
            found.tail, found.damage = "damaged", str(error)
        found.end = records.end
        if found.tail is None and found.end < source.size:
            zeros = only_zeros(source, found.end)
            found.tail = "preallocated" if zeros else "incomplete"
        if wrapped:
            found.contents.records = _count(segment, found.next_offset)
    return found


def _count(segment: LogSegment, end: int) -> int:
    """Count the records below offset `end` of a log with wrappers: these unpacked."""
    problems: list[Problem] = []
    request = Request(skip=True, control_records=True)
    bounds = Bounds(end_offset=end)
    reading = counting(Part(file=segment.path), bounds, request)
    return sum(count_records(reading, problems))


def _of_rows(rows: Rows) -> Contents:
    """Add up one step's headers."""
    batch = rows["magic"] == 2
    flags = np.where(batch, rows["attributes"], 0)
    codes = Counter((rows["attributes"] & CODEC_MASK).tolist())
    counts = rows["count"]
    times, epochs = rows["max_timestamp"], rows["leader_epoch"][batch]
    producers = rows["producer_id"][batch]
    epochs = epochs[epochs >= 0]
    began = begin_times(rows)
    began = began[began >= 0]
    return Contents(
        batches=len(rows),
        records=int(counts[counts > 0].sum(dtype=np.int64)),
        codecs=Counter({_codec(code): n for code, n in codes.items()}),
        magics=Counter(rows["magic"].tolist()),
        first_timestamp=int(began[0]) if len(began) else None,
        max_timestamp=int(times.max()) if (times >= 0).any() else None,
        leader_epochs=(int(epochs.min()), int(epochs.max())) if len(epochs) else None,
        producers=set(producers[producers >= 0].tolist()),
        transactional_batches=int((flags & TRANSACTIONAL_FLAG > 0).sum()),
        control_batches=int((flags & CONTROL_FLAG > 0).sum()),
    )


def _codec(code: int) -> str:
    return CODECS[code] if code < len(CODECS) else UNKNOWN_CODEC


def begin_times(rows: Rows) -> npt.NDArray[np.int64]:
    """Time of each batch's first record, -1 where the header does not tell.

    That of a batch under compaction does not: its base is the delete horizon.
    """
    attributes = rows["attributes"]
    created = (rows["magic"] == 2) & (attributes & LOG_APPEND_TIME_FLAG == 0)
    times = np.where(created, rows["base_timestamp"], rows["max_timestamp"])
    untold = (rows["magic"] == 2) & (attributes & DELETE_HORIZON_FLAG != 0)
    untold |= rows["count"] == 0
    return np.where(untold, -1, times)

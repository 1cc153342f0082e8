"""Totals of a log's batches and records, from the headers of its batches.

Only headers are read: no CRC is checked and nothing is decompressed. The exceptions are
wrappers of magic 0 and 1, whose headers do not count the messages inside.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np

from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    begin_times,
    has_count,
)
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    MAX_BATCH_BYTES,
    TRANSACTIONAL_FLAG,
)
from kafkalog.query.header_counts import count_records, counting_reader
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.file_records import FileRecords, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import only_zeros

UNKNOWN_CODEC: Final = "unknown"
MAX_PRODUCERS: Final = 100_000
"""Maximum number of distinct producers that are counted."""

Range = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class Contents:
    """Totals of one log, or of several.

    `batches` counts batches, and below magic 2 messages and wrappers. Timestamps are in
    ms; None if there is none. `leader_epochs` are the lowest and the highest.
    `producers` has at most `MAX_PRODUCERS`; `more_producers` is whether there are more.
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
        """Add the totals of a later log."""
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
        if len(self.producers) > MAX_PRODUCERS:
            self.producers = set(islice(self.producers, MAX_PRODUCERS))
            self.more_producers = True

    def as_dict(self) -> dict[str, Any]:
        """Return the members of the command's JSON; `producers` is their number."""
        more = {"more_producers": True} if self.more_producers else {}
        return {
            "batches": self.batches,
            "records": self.records,
            "codecs": {name: self.codecs[name] for name in sorted(self.codecs)},
            "magics": {str(n): self.magics[n] for n in sorted(self.magics)},
            "first_timestamp": self.first_timestamp,
            "max_timestamp": self.max_timestamp,
            "leader_epochs": self.leader_epochs and list(self.leader_epochs),
            "producers": len(self.producers),
            **more,
            "transactional_batches": self.transactional_batches,
            "control_batches": self.control_batches,
        }


@dataclass(slots=True, kw_only=True)
class LogContents:
    """Totals of one ``.log`` up to byte `end`, and what follows there.

    `tail` is None at the file's end, else ``incomplete``, ``preallocated``, or
    ``damaged``, with the error's text in `damage`.
    """

    contents: Contents
    next_offset: int
    end: int
    tail: str | None = None
    damage: str | None = None


def contents_of(segment: LogSegment, limits: Limits | None = None) -> LogContents:
    """Return the totals of a ``.log``, up to its end or to the first damage.

    Offsets must be within `limits`, by default those of the segment.

    Raises `FileNotFoundError` if the file was removed.
    """
    result = LogContents(
        contents=Contents(), next_offset=max(segment.start_offset, 0), end=0
    )
    with segment.open() as source:
        records = FileRecords(
            source=source,
            limits=limits or segment.limits,
            policy=ReadPolicy(needs="headers", check_crcs="never"),
        )
        decoded = False
        try:
            for step in records:
                if isinstance(step, Step):
                    result.contents.add(_of_rows(step.rows))
                    end = int(step.rows["last_offset"][-1]) + 1
                    result.next_offset = max(result.next_offset, end)
                    decoded |= not has_count(step.rows, MAX_BATCH_BYTES).all()
        except LocatedError as error:
            result.tail, result.damage = "damaged", str(error)
        result.end = records.end
        if result.tail is None and result.end < source.size:
            zeros = only_zeros(source, result.end)
            result.tail = "preallocated" if zeros else "incomplete"
        if decoded:
            result.contents.records = _count(segment, result.next_offset)
    return result


def _count(segment: LogSegment, end: int) -> int:
    """Return the number of records below offset `end`, decoded where necessary."""
    policy = ReadPolicy(on_corruption="skip", control_records=True)
    source = PartitionSource(file=segment.path)
    reader = counting_reader(source, Bounds(end_offset=end), policy)
    return sum(count_records(reader, []))


def _of_rows(rows: BatchHeaders) -> Contents:
    """Return the totals of one step."""
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

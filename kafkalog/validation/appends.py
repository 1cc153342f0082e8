"""The appends of one call, on their way into a log: bytes, headers, what is known.

Each append stands for itself: one that is refused leaves its error and no bytes, and
says nothing about the others. What is not refused lies one behind another in `data`, a
copy that is written to: `place` gives it its offsets.

    analysis.analyze_appends      which batches count, and what they say of themselves
    validation.lead_appends       a leader's: that, records judged, timestamps, codec
    Appends.place                 a leader's: offsets

Knows: batches and records. Does not know: logs, segments, producers' states.
Source: ``LogAppendInfo.java``, ``AppendOrigin.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Final, Literal, Self, TypeAlias

import numpy as np

from kafkalog import _speedups
from kafkalog.decoding.workspace import Workspace
from kafkalog.encoding.record_columns import Int64s
from kafkalog.errors import KafkaLogError, LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.layout import BATCH

_MOST: Final = 2**63 - 1
UNKNOWN_OFFSET: Final = -1
"""The first offset of an append of magic 0 or 1, which only unpacking it would tell."""


Origin: TypeAlias = Literal["client", "coordinator", "replication", "raft_leader"]


class AppendOrigin(Enum):
    """Who appends, on which depends what is checked."""

    REPLICATION = "replication"
    COORDINATOR = "coordinator"
    CLIENT = "client"
    RAFT_LEADER = "raft_leader"


APPEND: Final = np.dtype(
    [
        ("first_offset", np.int64),
        ("last_offset", np.int64),
        ("last_offset_of_first_batch", np.int64),
        ("max_timestamp", np.int64),
        ("log_append_time", np.int64),
        ("valid_bytes", np.int64),
        ("last_leader_epoch", np.int32),
        ("records", np.int32),
        ("source_codec", np.int8),
        ("rebuilt", np.int8),
        ("_unused", np.int8, 6),
    ]
)
"""What is known of one append, one row each.

``first_offset`` and ``last_offset`` are those of the batches as they came, until
`Appends.place` gives them new ones; ``last_offset_of_first_batch``, ``valid_bytes``,
``last_leader_epoch`` (-1 none) and ``source_codec`` stay those that came.
``log_append_time`` is -1 with CreateTime, ``max_timestamp`` where there is none.
``records`` is how many offsets a leader gives, 0 where it gives none. ``rebuilt`` is 1
where the bytes are not those that came.
"""


_BYTE: Final = np.dtype(np.uint8)


@dataclass(slots=True)
class AppendMemory:
    """Memory that is kept from call to call: for bytes that come in, unpacked, anew."""

    joined: Workspace = field(default_factory=Workspace)
    unpacked: Workspace = field(default_factory=Workspace)
    merged: Workspace = field(default_factory=Workspace)
    rows: BatchHeaders = field(default_factory=lambda: np.empty(256, BATCH))
    info: BatchHeaders = field(default_factory=lambda: np.empty(64, APPEND))

    def spans_for(self, appends: int) -> BatchHeaders:
        """Return room for what is known of as many appends."""
        if len(self.info) < appends:
            self.info = np.empty(2 * appends, APPEND)
        return self.info[:appends]

    def more_rows(self) -> None:
        """Make room for more headers."""
        self.rows = np.empty(4 * len(self.rows), BATCH)


@dataclass(slots=True)
class Appends:
    """The appends of a call: `info` has a row each, `errors` those refused.

    Append i is the batches ``rows[row_bounds[i]:row_bounds[i + 1]]`` and the bytes
    ``data[byte_bounds[i]:byte_bounds[i + 1]]``, none where it is refused or has no
    whole batch; a row's `position` counts from the start of `data`. `data`, `rows`
    and `info` lie in memory that is used again for the next call.
    """

    data: Bytes
    rows: BatchHeaders
    row_bounds: Int64s
    byte_bounds: Int64s
    info: BatchHeaders
    errors: dict[int, KafkaLogError]

    @classmethod
    def refused(cls, error: KafkaLogError) -> Self:
        """Make a single append that is nothing but its error."""
        none, bounds = np.empty(0, np.uint8), np.zeros(2, np.int64)
        info, rows = np.empty(1, APPEND), np.empty(0, BATCH)
        _speedups.take_batches(
            *([b""], bounds, False, False, 0, 0, 0, None, none),
            *(as_bytes(rows), as_bytes(info), bounds.copy()),
        )
        return cls(none, rows, bounds, bounds, info, {0: error})

    @classmethod
    def merged(cls, parts: Sequence[Appends], room: Workspace) -> Self:
        """Put single appends one behind another, their bytes into `room`."""
        sizes = [len(part.data) for part in parts]
        byte_bounds = bounds_of(sizes)
        data = room.bytes_for(int(byte_bounds[-1]))
        _speedups.join_buffers([part.data for part in parts], data)
        rows = np.concatenate([part.rows for part in parts])
        counts = [len(part.rows) for part in parts]
        rows["position"] += np.repeat(byte_bounds[:-1], counts)
        return cls(
            data,
            rows,
            bounds_of(counts),
            byte_bounds,
            np.concatenate([part.info for part in parts]),
            {i: part.errors[0] for i, part in enumerate(parts) if part.errors},
        )

    def __len__(self) -> int:
        return len(self.info)

    def only(self, append: int) -> Appends:
        """See one of them by itself; its bytes stay where they are."""
        first, end = self.row_bounds[append : append + 2].tolist()
        start, stop = self.byte_bounds[append : append + 2].tolist()
        rows = self.rows[first:end].copy()
        rows["position"] -= start
        return Appends(
            self.data[start:stop],
            rows,
            np.array([0, end - first], np.int64),
            np.array([0, stop - start], np.int64),
            self.info[append : append + 1].copy(),
            {0: self.errors[append]} if append in self.errors else {},
        )

    def place(self, next_offset: int, first: int = 0, end: int | None = None) -> int:
        """Give the appends from `first` to `end` their offsets; return the one behind.

        They follow one another from `next_offset` on; those without a batch take none.
        May be called again, for all or some, where one turns out not to be written.
        Raises `LogArgumentError` where there are no more offsets.
        """
        end = len(self) if end is None else end
        behind = _speedups.place_batches(
            as_bytes(self.rows),
            self.row_bounds[first : end + 1],
            as_bytes(self.info[first:end]),
            next_offset,
            self.data,
        )
        if behind < next_offset:
            if int(self.info["records"][first:end].sum()) > _MOST - next_offset:
                raise LogArgumentError(f"too few offsets are left from {next_offset}")
            raise ValueError("batches that do not lie in their data")
        return behind


def as_bytes(rows: BatchHeaders) -> Bytes:
    """See rows as the bytes they are, as the kernels take them."""
    return np.frombuffer(rows, _BYTE)


def bounds_of(sizes: Iterable[int]) -> Int64s:
    """Sum up `sizes`: where each begins, and the end of all (n + 1,).

    >>> bounds_of([3, 4])
    array([0, 3, 7])
    """
    return np.array([0, *accumulate(sizes)], np.int64)

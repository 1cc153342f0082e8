"""The appends of one call: their bytes, batch headers and summaries.

Appends are independent of each other: a rejected one has an error and no bytes, and
does not affect the others. The bytes of the accepted ones are contiguous in `data`, a
copy that the leader writes its fields into.

| step | on a follower | on a leader |
|---|---|---|
| headers, checksums | `append_analysis.analyze_appends` | (part of the next) |
| records, timestamps, codec | | `leader_validation.validate_for_leader` |
| offsets | | `Appends.assign_offsets` |

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
from kafkalog.array_types import Bytes, Int64s
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import KafkaLogError, LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import BATCH
from kafkalog.integer_limits import MAX_INT64

UNKNOWN_OFFSET: Final = -1
"""First offset of an append of magic 0 or 1; it is not known before decompression."""


Origin: TypeAlias = Literal["client", "coordinator", "replication", "raft_leader"]


class AppendOrigin(Enum):
    """Source of an append, on which its checks depend."""

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
        ("_unused", np.void, 6),
    ]
)
"""Summary of one append, a row each (Kafka's ``LogAppendInfo``).

``first_offset`` and ``last_offset`` are those received, until `Appends.assign_offsets`
replaces them. ``last_offset_of_first_batch``, ``valid_bytes``, ``last_leader_epoch``
(-1 for none) and ``source_codec`` are always those received. ``max_timestamp`` is -1 if
no record has one, ``log_append_time`` is -1 with CreateTime. ``records`` is the number
of offsets that a leader assigns, 0 on a follower. ``rebuilt`` is 1 if the leader built
a new batch.
"""


AppendArrays: TypeAlias = tuple[Bytes, BatchHeaders, Int64s, Int64s, BatchHeaders]
"""Data, rows, row bounds, byte bounds and info of `Appends`."""


@dataclass(slots=True)
class AppendMemory:
    """Buffers that are kept from call to call.

    `joined` has the bytes received, `decompressed` the decompressed records, `merged`
    the bytes after validation one by one.
    """

    joined: Workspace = field(default_factory=Workspace)
    decompressed: Workspace = field(default_factory=Workspace)
    merged: Workspace = field(default_factory=Workspace)
    rows: BatchHeaders = field(default_factory=lambda: np.empty(256, BATCH))
    info: BatchHeaders = field(default_factory=lambda: np.empty(64, APPEND))

    def info_rows(self, appends: int) -> BatchHeaders:
        """Return a summary row for each of so many appends."""
        if len(self.info) < appends:
            self.info = np.empty(2 * appends, APPEND)
        return self.info[:appends]

    def grow_rows(self) -> None:
        """Replace the buffer of headers by a larger one."""
        self.rows = np.empty(4 * len(self.rows), BATCH)


@dataclass(slots=True)
class Appends:
    """The appends of a call: `info` has a row for each, `errors` the rejections.

    Append i has the batches ``rows[row_bounds[i]:row_bounds[i + 1]]`` and the bytes
    ``data[byte_bounds[i]:byte_bounds[i + 1]]``. Both are empty if it is rejected or has
    no complete batch. The `position` of a row counts from the start of `data`. `data`,
    `rows` and `info` are in buffers that the next call reuses.
    """

    data: Bytes
    rows: BatchHeaders
    row_bounds: Int64s
    byte_bounds: Int64s
    info: BatchHeaders
    errors: dict[int, KafkaLogError]

    @classmethod
    def rejected(cls, error: KafkaLogError) -> Self:
        """Return one append without batches, and its error."""
        data, rows, info = (
            np.empty(0, np.uint8),
            np.empty(0, BATCH),
            np.zeros(1, APPEND),
        )
        bounds = np.zeros(2, np.int64)
        return cls(data, rows, bounds, bounds, info, {0: error})

    @classmethod
    def merged(cls, parts: Sequence[Appends], buffer: Workspace) -> Self:
        """Return single appends as one `Appends`, their bytes copied to `buffer`."""
        sizes = [len(part.data) for part in parts]
        byte_bounds = bounds_of(sizes)
        data = buffer.bytes_for(int(byte_bounds[-1]))
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

    @property
    def arrays(self) -> AppendArrays:
        """The arrays, as the kernels take them."""
        return self.data, self.rows, self.row_bounds, self.byte_bounds, self.info

    def select(self, append: int) -> Appends:
        """Return one of the appends; its bytes are a view of `data`."""
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

    def assign_offsets(
        self, next_offset: int, first: int = 0, end: int | None = None
    ) -> int:
        """Assign offsets to the appends from `first` to `end`; return the next offset.

        The offsets are contiguous from `next_offset` on; an append without a batch gets
        none. May be called again, for all or some, if an append is not written in the
        end. Raises `LogArgumentError` if too few offsets are left.
        """
        end = len(self) if end is None else end
        following = _speedups.place_batches(self.arrays, first, end, next_offset)
        if following < next_offset:
            count = int(self.info["records"][first:end].sum())
            if count > MAX_INT64 - next_offset:
                raise LogArgumentError(
                    f"{count} records, expected at most {MAX_INT64 - next_offset}: "
                    f"the next offset is {next_offset}"
                )
            raise ValueError(f"a batch outside of the {len(self.data)} bytes of data")
        return following


def bounds_of(sizes: Iterable[int]) -> Int64s:
    """Return where each of `sizes` begins, and the end of the last, shape (n + 1,).

    >>> bounds_of([3, 4])
    array([0, 3, 7])
    """
    return np.array([0, *accumulate(sizes)], np.int64)

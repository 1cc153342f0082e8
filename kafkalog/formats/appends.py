"""The appends of one call, on their way into a log: bytes, headers, what is known.

Each append stands for itself: one that is refused leaves its error and no bytes, and
says nothing about the others. What is not refused lies one behind another in `data`, a
copy that is written to: `place` gives it its offsets.

    analysis.analyze_appends      which batches count, and what they say of themselves
    validation.validate_appends   a leader's: records judged, timestamps, codec, format
    Appends.place                 a leader's: offsets

Knows: batches and records. Does not know: logs, segments, producers' states.
Source: ``LogAppendInfo.java``, ``AppendOrigin.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from kafkalog.errors import KafkaLogError
from kafkalog.formats.headers import Bytes, Rows
from kafkalog.formats.record_columns import Int64s

UNKNOWN_OFFSET: Final = -1
"""The first offset of an append of magic 0 or 1, which only unpacking it would tell."""


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
        ("rebuilt", np.bool_),
        ("_unused", np.int8, 6),
    ]
)
"""What is known of one append, one row each.

``first_offset`` and ``last_offset`` are those of the batches as they came, until
`Appends.place` gives them new ones; ``last_offset_of_first_batch``, ``valid_bytes``,
``last_leader_epoch`` (-1 none) and ``source_codec`` stay those that came.
``log_append_time`` is -1 with CreateTime, ``max_timestamp`` where there is none.
``records`` is how many offsets a leader gives, 0 where it gives none; ``rebuilt`` says
that the bytes are not those that came.
"""


@dataclass(slots=True)
class Appends:
    """The appends of a call: `info` has a row each, `errors` those refused.

    Append i is the batches ``rows[row_bounds[i]:row_bounds[i + 1]]`` and the bytes
    ``data[byte_bounds[i]:byte_bounds[i + 1]]``, none where it is refused or has no
    whole batch; a row's `position` counts from the start of `data`. `data` lies in
    memory that is used again for the next call.
    """

    data: Bytes
    rows: Rows
    row_bounds: Int64s
    byte_bounds: Int64s
    info: Rows
    errors: dict[int, KafkaLogError]
    _leads: Int64s | None = None

    def __len__(self) -> int:
        return len(self.info)

    def place(self, next_offset: int, first: int = 0, end: int | None = None) -> int:
        """Give the appends from `first` to `end` their offsets; return the one behind.

        They follow one another from `next_offset` on; refused ones take none. May be
        called again, for all or some, where it turns out that one is not to be written.
        """
        raise NotImplementedError

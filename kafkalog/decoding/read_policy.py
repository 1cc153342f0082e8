"""`Bounds` on the records that are read, and the `ReadPolicy` for batches.

One policy object is passed from the public function down to the files. Each layer reads
the fields it needs, and none adds flags of its own:

    surface      makes the policy from its options (scan, Spark's options, a command)
    query        narrows it with `replace`: `needs` by the columns, `check_crcs` by the
                 use of the records; maps files where `memory_map` is true
    segment      reads only headers where `needs` is ``headers`` and they suffice;
                 checks CRCs before a step is used, or leaves them to the decoder
    decoding     checks the CRC of each batch whose step was not checked
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.integer_limits import MAX_INT64, MIN_INT64

LARGE_BATCH_BYTES: Final = 4 << 20
"""Size above which a batch is decoded in parts of this size, its CRC checked before.

The last record of a part may exceed it.
"""

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
OnCorruption: TypeAlias = Literal["raise", "skip"]
CrcCheck: TypeAlias = Literal["before", "while_decoding", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Ranges of offsets and timestamps to read, each [start, end).

    A record without a timestamp is outside of any bound on timestamps.
    """

    start_offset: int = MIN_INT64
    end_offset: int = MAX_INT64
    start_timestamp: int | None = None
    end_timestamp: int | None = None

    @property
    def timed(self) -> bool:
        """Whether there is a bound on timestamps."""
        return self.start_timestamp is not None or self.end_timestamp is not None

    def as_array(self) -> npt.NDArray[np.int64]:
        """Return the first and last offset and timestamp, inclusive, for kernels."""
        start, end = self.start_timestamp, self.end_timestamp
        last = self.end_offset
        if last < MAX_INT64:  # there is an end, which is exclusive
            last = max(last - 1, MIN_INT64)
        bounds = (
            self.start_offset,
            last,
            MIN_INT64 if start is None else start,
            MAX_INT64 if end is None else max(end - 1, MIN_INT64),
        )
        return np.array(bounds, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPolicy:
    """Parts of a batch to read, when to check its CRC, and the response to corruption.

    Parameters
    ----------
    needs : {"records", "headers"}
        With ``headers``, batches are not decoded where their headers suffice, and only
        headers are read where they suffice for a whole step.
    check_crcs : {"before", "while_decoding", "never"}
        ``before``: the CRCs of a step are checked before any of it is used, which reads
        all its bytes. ``while_decoding``: only batches that are decoded are
        checked, right before their records. ``never``: no CRC is checked.
    on_corruption : {"raise", "skip"}
        Whether corruption raises an error, or is skipped and listed as a problem.
    max_batch_bytes : int
        Greatest size of a decompressed batch. A larger one counts as corrupt.
    isolation : {"read_uncommitted", "read_committed"}
        With the latter, records of aborted and open transactions are skipped.
    control_records : bool
        Whether control records are returned.
    memory_map : bool
        Whether local segments are mapped instead of copied.
    """

    needs: Literal["records", "headers"] = "records"
    check_crcs: CrcCheck = "before"
    on_corruption: OnCorruption = "raise"
    max_batch_bytes: int = MAX_BATCH_BYTES
    isolation: Isolation = "read_uncommitted"
    control_records: bool = False
    memory_map: bool = False

    @property
    def skips(self) -> bool:
        """Whether corruption is skipped."""
        return self.on_corruption == "skip"

    @property
    def trusts_headers(self) -> bool:
        """Whether headers are used before their CRCs are checked."""
        return self.needs == "headers" and self.check_crcs != "before"

    @property
    def checks_steps(self) -> bool:
        """Whether the CRCs of all batches that are used are checked."""
        return self.check_crcs != "never" and not self.trusts_headers

    def checking_first(self) -> ReadPolicy:
        """Return this policy with CRCs checked before a step is used, if at all."""
        if self.check_crcs != "while_decoding":
            return self
        return replace(self, check_crcs="before")


STRICT: Final = ReadPolicy()
"""Policy that reads records, checks all CRCs of a step first, raises on corruption."""

SKIPPING: Final = ReadPolicy(on_corruption="skip")
"""The same policy, except that it skips corruption."""

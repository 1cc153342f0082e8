"""What an append's bytes hold: which batches count, and what they say of themselves.

Checked is what headers and checksums tell; records are not looked at. Each append of a
call is judged by itself, in Kafka's order of checks, so that the first fault found is
the one that Kafka finds.

Knows: headers, checksums, who may send what. Does not know: records, the log.
Source: ``UnifiedLog.analyzeAndValidateRecords``, ``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkalog.formats.appends import AppendOrigin, Appends
from kafkalog.formats.workspace import Workspace


def analyze_appends(
    pieces: Sequence[Any],
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    max_message_bytes: int | None,
    monotonic: bool,
    workspace: Workspace,
) -> Appends:
    """Copy the appends of a call, and find the batches that are to be written.

    Each of `pieces` is the bytes of one append, bytes-like. `max_message_bytes` None
    leaves sizes unchecked, as for a follower; `monotonic` asks for offsets that rise,
    as where none are assigned. Behind the last whole batch, and from the first batch of
    a higher epoch than a replica knows, bytes are cut off without an error.

    Errors, in `Appends.errors`: `InvalidRecordError`, `RecordTooLargeError`,
    `CorruptRecordError`, `OffsetsOutOfOrderError`.
    """
    raise NotImplementedError

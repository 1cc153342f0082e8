"""Checks of the small files beside logs: snapshots, checkpoints, properties.

A file that its parser refuses is an error: a broker would refuse it too, or, worse, go
on without it. Offsets that lead past the end of a log are judged as a broker treats
them when it starts: it lowers a recovery point, a high watermark, a cleaner offset
(warning), and it deletes the whole log where its start lies behind its end (error).

Knows: what these files say. Does not know: where they lie.
Source: ``LogLoader.java``, ``LogManager.scala``, ``ProducerStateManager.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import numpy as np

from kafkalog.errors import LocatedError
from kafkalog.formats.checkpoint import parse_epochs, parse_offsets
from kafkalog.formats.partition_files import PartitionMetadata, QuorumState
from kafkalog.formats.producer_snapshot import ENTRY, NONE, parse_snapshot
from kafkalog.formats.properties import MetaProperties
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import META_PROPERTIES, PARTITION_METADATA
from kafkalog.verification.log_checks import Epochs
from kafkalog.verification.report import Cause, Findings

Parsed = TypeVar("Parsed")
Offsets = dict[tuple[str, int], int]

QUORUM_STATE: Final = "quorum-state"

CHECKPOINTS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_TO)

NO_EPOCHS: Final[Epochs] = (np.empty(0, np.int64), np.empty(0, np.int64))

SNAPSHOT_HEADER_BYTES: Final = 10


@contextmanager
def reading(findings: Findings) -> Iterator[None]:
    """Note that a file cannot be read; one that is gone meanwhile is passed over.

    That one may not read it is no finding: `PermissionError` passes through.
    """
    try:
        yield
    except FileNotFoundError:
        return
    except PermissionError:
        raise
    except OSError as error:
        findings.add(Cause.UNREADABLE, f"it cannot be read: {error.strerror}")


def parsed(
    parse: Callable[[bytes], Parsed], data: bytes, findings: Findings
) -> Parsed | None:
    """Parse a file; where that is refused, note why and answer None."""
    try:
        return parse(data)
    except LocatedError as error:
        findings.add_error(error)
        return None


FORMS: Final[Mapping[str, Callable[[bytes], object]]] = {
    META_PROPERTIES: MetaProperties.parse,
    PARTITION_METADATA: PartitionMetadata.parse,
    QUORUM_STATE: QuorumState.parse,
}
"""Files of which nothing is asked but that they have their form."""


def check_epochs(data: bytes, findings: Findings) -> Epochs:
    """Read a ``leader-epoch-checkpoint``, in which epochs and offsets must rise.

    Entries at or above the end of the log may stand in it: brokers cut it back late.
    """
    entries = parsed(parse_epochs, data, findings)
    if not entries:
        return NO_EPOCHS
    epochs, starts = (
        np.array(column, np.int64) for column in zip(*entries, strict=True)
    )
    if epochs[0] < 0 or starts[0] < 0:
        findings.add(Cause.FORMAT, "an epoch or its start offset is negative")
        return NO_EPOCHS
    falls = (np.diff(epochs) <= 0) | (np.diff(starts) <= 0)
    if falls.any():
        line = int(falls.argmax()) + 2
        message = f"entry {line}: epochs and their start offsets do not rise"
        findings.add(Cause.ORDER, message)
        return NO_EPOCHS
    return starts, epochs


def check_offsets(data: bytes, findings: Findings) -> Offsets:
    """Read an offset checkpoint, in which no offset is negative."""
    offsets = parsed(parse_offsets, data, findings) or {}
    for (topic, partition), offset in offsets.items():
        if offset < 0:
            message = f"offset {offset} of {topic}-{partition} is negative"
            findings.add(Cause.FORMAT, message, offset=offset)
    return offsets


def check_snapshot(
    data: bytes, offset: int | None, findings: Findings
) -> dict[int, int]:
    """Hold a producer snapshot to its checksum and to the `offset` in its name.

    Answers the producer of each last offset that it knows.
    """
    entries = parsed(parse_snapshot, data, findings)
    if entries is None or not len(entries):
        return {}
    column = {name: entries[name].astype(np.int64) for name in ENTRY.names or ()}
    behind = 2**63 - 1 if offset is None else offset
    last, first = column["last_offset"], column["current_txn_first_offset"]
    producers = column["producer_id"]
    repeated = np.ones(len(entries), np.bool_)
    repeated[np.unique(producers, return_index=True)[1]] = False
    for which, message in (
        (repeated, "is there twice"),
        (producers < 0, "has a negative id"),
        ((last >= behind) | (first >= behind), "wrote behind the snapshot's offset"),
        ((last < NONE) | (first < NONE), "has a negative offset"),
        (column["last_sequence"] < NONE, "has a negative sequence"),
        (column["offset_delta"] < 0, "has a negative offset delta"),
    ):
        for slot in np.flatnonzero(which).tolist():
            findings.add(
                Cause.PRODUCER_STATE,
                f"producer {producers[slot]} {message}",
                position=SNAPSHOT_HEADER_BYTES + slot * ENTRY.itemsize,
                offset=int(last[slot]) if last[slot] >= 0 else None,
            )
    known = last >= 0
    return dict(zip(last[known].tolist(), producers[known].tolist(), strict=True))


def check_log_end(
    partition: str, offset: int, end: int, findings: Findings, *, clean: bool
) -> None:
    """Hold a partition's offset in an offset checkpoint to where its log ends.

    A `clean` shutdown has recorded that end as the recovery point: what lay between is
    lost where the log ends before it.
    """
    left = clean and findings.path == RECOVERY_POINTS
    if offset == end or (offset < end and not left):
        return
    message = f"{partition}: offset {offset}, but the log ends at {end}"
    if findings.path == LOG_STARTS:
        findings.add(Cause.LOG_END, message, offset=end)
    elif left and offset > end:
        lost = (
            f"{message}: offsets {end} to {offset - 1} are missing after a clean stop"
        )
        findings.add(Cause.LOG_END, lost, offset=end, last_offset=offset - 1)
    else:
        findings.warn(Cause.LOG_END, message, offset=end)

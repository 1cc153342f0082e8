"""Checks of the small files of a log: snapshots, checkpoints, properties.

A file that cannot be parsed is an error: a broker refuses it too, or, worse, continues
without it. The severity of an offset past the end of a log depends on what a broker
does about it when it starts: it lowers a recovery point, a high watermark or a cleaner
offset (warning), and it deletes a log that ends before its log start offset (error).

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
from kafkalog.integer_limits import MAX_INT64
from kafkalog.storage.checkpoint_file import (
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import META_PROPERTIES, PARTITION_METADATA
from kafkalog.verification.log_checks import Epochs
from kafkalog.verification.verification_report import Cause, Findings, Recovery

Parsed = TypeVar("Parsed")
Offsets = dict[tuple[str, int], int]

QUORUM_STATE: Final = "quorum-state"


NO_EPOCHS: Final[Epochs] = (np.empty(0, np.int64), np.empty(0, np.int64))

SNAPSHOT_HEADER_BYTES: Final = 10


@contextmanager
def reading(findings: Findings) -> Iterator[None]:
    """Add a problem if a file cannot be read; ignore one that was deleted meanwhile.

    A missing permission is not a problem of the file: `PermissionError` is raised.
    """
    try:
        yield
    except FileNotFoundError:
        return
    except PermissionError:
        raise
    except OSError as error:
        findings.add(Cause.UNREADABLE, f"the file cannot be read: {error.strerror}")


def parsed(
    parse: Callable[[bytes], Parsed], data: bytes, findings: Findings
) -> Parsed | None:
    """Return a file's content; if it cannot be parsed, add a problem; return None."""
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
"""Parsers of files that need no other check."""


def check_epochs(data: bytes, findings: Findings) -> Epochs:
    """Return the content of a ``leader-epoch-checkpoint``; its entries must rise.

    It may hold entries at or above the end of the log: brokers truncate it late.
    """
    entries = parsed(parse_epochs, data, findings)
    if not entries:
        return NO_EPOCHS
    epochs, starts = (
        np.array(column, np.int64) for column in zip(*entries, strict=True)
    )
    if epochs[0] < 0 or starts[0] < 0:
        findings.add(
            Cause.FORMAT, "an epoch or a start offset is negative, expected 0 or more"
        )
        return NO_EPOCHS
    falls = (np.diff(epochs) <= 0) | (np.diff(starts) <= 0)
    if falls.any():
        line = int(falls.argmax()) + 2
        message = f"entry {line}: epochs and their start offsets do not rise"
        findings.add(Cause.ORDER, message)
        return NO_EPOCHS
    return starts, epochs


def check_offsets(data: bytes, findings: Findings) -> Offsets:
    """Return the content of an offset checkpoint; no offset may be negative."""
    offsets: Offsets = {}
    try:
        offsets = parse_offsets(data)
    except LocatedError as error:
        is_number = error.kafka_name == "NumberFormatException"
        findings.add_error(
            error, recovery=Recovery.RESET if is_number else Recovery.NOTHING
        )
    for (topic, partition), offset in offsets.items():
        if offset < 0:
            message = f"offset {offset} of {topic}-{partition}, expected 0 or more"
            findings.add(
                Cause.FORMAT,
                message,
                offset=offset,
                topic_partition=(topic, partition),
            )
    return offsets


def check_snapshot(
    data: bytes, offset: int | None, findings: Findings
) -> dict[int, int]:
    """Check a producer snapshot: its checksum, and the `offset` in its name.

    Returns its producers, by their last offsets.
    """
    entries = parsed(parse_snapshot, data, findings)
    if entries is None or not len(entries):
        return {}
    column = {name: entries[name].astype(np.int64) for name in ENTRY.names or ()}
    end = MAX_INT64 if offset is None else offset
    last, first = column["last_offset"], column["current_txn_first_offset"]
    producers = column["producer_id"]
    repeated = np.ones(len(entries), np.bool_)
    repeated[np.unique(producers, return_index=True)[1]] = False
    for which, message in (
        (repeated, "has two entries"),
        (producers < 0, "has a negative id"),
        ((last >= end) | (first >= end), "has an offset past the snapshot's"),
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
    key: tuple[str, int], offset: int, end: int, findings: Findings, *, clean: bool
) -> None:
    """Compare a partition's offset in an offset checkpoint with the end of its log.

    A `clean` shutdown records the end as the recovery point: if the log ends before it,
    the records in between are lost.
    """
    recorded_end = clean and findings.path == RECOVERY_POINTS
    if offset == end or (offset < end and not recorded_end):
        return
    message = f"{key[0]}-{key[1]}: offset {offset}, but the log ends at {end}"
    if findings.path == LOG_STARTS:
        findings.add(Cause.LOG_END, message, offset=end, topic_partition=key)
    elif recorded_end and offset > end:
        lost = (
            f"{message}: offsets {end} to {offset - 1} are missing after a clean stop"
        )
        findings.add(
            Cause.LOG_END,
            lost,
            offset=end,
            last_offset=offset - 1,
            topic_partition=key,
        )
    else:
        findings.warn(Cause.LOG_END, message, offset=end, topic_partition=key)

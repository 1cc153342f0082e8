"""The effect of recovery on one segment, and the records that it would lose.

Recovery checks an entry's size, its checksum, the distance of its offset from the base
offset, and the markers of producers' control batches; it checks nothing else in it. A
marker that cannot be read keeps the log from opening.

Recovery notices an offset that does not rise only where it would add an index entry for
it. It then removes the whole segment. This is computed for the default
``index.interval.bytes``.

Source: ``LogSegment.recover``, ``readNextOffset``; ``LocalLog.splitOverflowedSegment``,
``TransactionIndex.sanityCheck``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from kafkalog.config import LogConfig
from kafkalog.errors import CorruptIndexError, KafkaLogError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    Bytes,
    find_crc_mismatches,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import (
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAX_BATCH_BYTES,
    MAX_OFFSET_DELTA,
    NO_PRODUCER_ID,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.indexes.index_table import read_slots
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.markers import read_markers
from kafkalog.rehearsal.segment_contents import SegmentContents
from kafkalog.reports import counted
from kafkalog.storage.byte_source import FileSource
from kafkalog.verification.verification_report import (
    Cause,
    Problem,
    Recovery,
    Severity,
)


@dataclass(frozen=True, slots=True)
class PartitionContents:
    """The log end offset of a partition, and its segments by base offset."""

    end: int | None = None
    segments: dict[int, SegmentContents] = field(default_factory=dict)


STRAYS: Final = (
    "partitions of topics that were created in them become unknown, and are renamed to "
    "-stray"
)
"""The effect of the loss of records of the cluster's metadata."""


def describe_loss(
    problem: Problem,
    *,
    first: int,
    end: int,
    records: int,
    segments: int,
    is_metadata: bool,
    remedy: str = "",
) -> Problem:
    """Add to a problem the loss of the records from `first` to before `end`.

    `segments` are those after this one, or all of a log that is deleted. The reason of
    the problem stays.
    """
    if not records:
        return problem
    deletes = problem.recovery == Recovery.DELETE_LOG
    lost = f"offsets {first} to {end - 1}, {counted(records, 'readable record')}"
    if segments and not deletes:
        lost += f", and {counted(segments, 'whole segment')} after this one"
    if problem.recovery == Recovery.OVERWRITE:
        text = f"a broker appends at offset {first} and overwrites {lost}{remedy}"
    elif deletes:
        text = f"a broker deletes {lost}"
    else:
        text = f"recovery truncates {lost}"
    if is_metadata:
        text += f"; {STRAYS}"
    return replace(
        problem,
        severity=Severity.ERROR,
        message=f"{problem.message}; {text}",
        lost_from=first,
        lost_to=end - 1,
        lost_records=records,
        lost_segments=segments,
    )


TRUNCATING: Final = frozenset(
    {Cause.SIZE, Cause.CRC, Cause.INCOMPLETE, Cause.PREALLOCATED}
)
"""Causes that recovery truncates at in any case."""

INSIDE: Final = frozenset({Cause.CONTROL, Cause.RECORDS, Cause.COMPRESSION})
"""Causes that recovery notices only in markers of transactions."""

STEP_BYTES: Final = 4 << 20


class RecoveryEffect(NamedTuple):
    """The effect of recovery on a segment; for `TRUNCATE`, it ends at `position` then.

    The effect is that of all problems of the segment from byte `begins` on.
    """

    recovery: Recovery
    begins: int
    position: int | None = None


def find_effect(
    path: Path, base_offset: int, problem: Problem
) -> RecoveryEffect | None:
    """Return the effect of recovery because of one problem; None if there is none."""
    at = problem.position
    if at is None:
        return None
    if problem.cause in TRUNCATING:
        return RecoveryEffect(Recovery.TRUNCATE, at, at)
    with FileSource(path) as source:
        data, rows = _entry(source, at)
        if problem.cause == Cause.MAGIC:
            if _is_valid_to_kafka(data, rows):
                return None
            return RecoveryEffect(Recovery.TRUNCATE, at, at)
        if problem.cause == Cause.OFFSET:
            if not _is_valid_to_kafka(data, rows):
                return RecoveryEffect(Recovery.TRUNCATE, at, at)
            return _for_offset(source, base_offset, rows)
        if problem.cause in INSIDE and len(rows):
            return _for_marker(data, rows)
    return None


def ends_too_early(path: Path, base_offset: int) -> bool:
    """Return whether a transaction index has an entry below its base offset."""
    width = TransactionIndex.ENTRY.itemsize
    try:
        data, _ = read_slots(path, width)
    except CorruptIndexError:  # too large to be read
        return False
    entries = data[: len(data) // width * width].view(TransactionIndex.ENTRY)
    return bool((entries["last_offset"] < base_offset).any())


def _entry(source: FileSource, position: int) -> tuple[Bytes, BatchHeaders]:
    """Read the entry at a position, of any magic, as Kafka does.

    There is no row for an entry above the maximum size.
    """
    size = size_field(source.read(position, LOG_OVERHEAD))
    most = min(max(LOG_OVERHEAD + size, RECORD_BATCH_OVERHEAD), MAX_BATCH_BYTES)
    data = source.read(position, min(most, source.size - position))
    rows, _, _ = scan_headers(data, 0, position, 1, any_magic=True)
    return data, rows


def _is_valid_to_kafka(data: Bytes, rows: BatchHeaders) -> bool:
    """Return whether recovery accepts an entry: the checksum matches, of any magic."""
    return bool(len(rows)) and not len(
        find_crc_mismatches(data, int(rows["position"][0]), rows)
    )


def _for_marker(data: Bytes, rows: BatchHeaders) -> RecoveryEffect | None:
    """Return the effect of an entry that may be a marker of a transaction.

    A marker that cannot be parsed keeps the log from opening.
    """
    begins = int(rows["position"][0])
    if rows["magic"][0] < 2 or rows["producer_id"][0] == NO_PRODUCER_ID:
        return None
    try:
        read_markers(data, rows, begins)
    except KafkaLogError:
        return RecoveryEffect(Recovery.REFUSE, begins)
    return None


def _for_offset(
    source: FileSource, base_offset: int, rows: BatchHeaders
) -> RecoveryEffect | None:
    """Return the effect of an invalid offset.

    An offset too far above the base offset is split off if it is the last one, and
    fails the loading otherwise.
    """
    begins, last = int(rows["position"][0]), int(rows["last_offset"][0])
    if last - base_offset > MAX_OFFSET_DELTA:
        left = source.size - begins - int(rows["size_in_bytes"][0])
        is_last = left <= HEADER_SIZE_UP_TO_MAGIC
        recovery = Recovery.SPLIT if is_last else Recovery.REFUSE
        return RecoveryEffect(recovery, begins)
    if last < base_offset:
        return RecoveryEffect(Recovery.REFUSE, begins)
    if _rebuilt_index_falls(source):
        return RecoveryEffect(Recovery.TRUNCATE, 0, 0)
    return None


def _rebuilt_index_falls(source: FileSource) -> bool:
    """Return whether the entries of a rebuilt offset index would not increase."""
    interval = LogConfig().index_interval_bytes
    position, since, latest = 0, 0, -1
    while position < source.size:
        rows, _, place = scan_headers(source.read(position, STEP_BYTES), 0, position)
        if not len(rows):
            return False
        for size, offset in rows[["size_in_bytes", "last_offset"]].tolist():
            if since > interval:
                if offset <= latest:
                    return True
                since, latest = 0, offset
            since += size
        position += place
    return False

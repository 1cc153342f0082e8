"""What recovery would do to one segment, and which records that would lose.

Recovery checks an entry's size, its checksum, the distance of its offset from the base
offset, and the markers of producers' control batches; it checks nothing else in it. A
marker that cannot be read keeps the log from opening.

Recovery notices an offset that does not rise only where it would add an index entry for
it. It then removes the whole segment. This is computed for the default
``index.interval.bytes``.

Knows: one segment. Does not know: which segments recovery reads.
Source: ``LogSegment.recover``, ``readNextOffset``; ``LocalLog.splitOverflowedSegment``,
``TransactionIndex.sanityCheck``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkalog import _speedups
from kafkalog.config import LogConfig
from kafkalog.errors import CorruptIndexError, CorruptRecordError, KafkaLogError
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
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.markers import read_markers
from kafkalog.segment.file_batches import find_end
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.durable_file import DISK, DurableFile
from kafkalog.storage.file_names import file_name
from kafkalog.verification.log_checks import LogCheck
from kafkalog.verification.sidecar_checks import NO_EPOCHS
from kafkalog.verification.verification_report import (
    Cause,
    Findings,
    Problem,
    Recovery,
    Severity,
)


class SegmentContents(NamedTuple):
    """What a segment holds: how many records, and the offset after the last batch."""

    records: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionContents:
    """What a partition holds: its end, and its segments by their base offsets."""

    end: int | None = None
    segments: dict[int, SegmentContents] = field(default_factory=dict)


def contents_from(path: Path, base_offset: int, position: int = 0) -> SegmentContents:
    """Count the records of a segment from a byte on, past whatever is damaged.

    A file that is missing, or was removed meanwhile, holds none.
    """
    try:
        opened = FileSource(path)
    except FileNotFoundError:
        return SegmentContents(0, base_offset)
    with opened as source:
        facts = LogCheck(
            source=source,
            findings=Findings(path.name),
            start=position,
            limits=LogSegment(path, base_offset).limits,
            epochs=NO_EPOCHS,
            max_batch_bytes=MAX_BATCH_BYTES,
            advance=lambda _: None,
        ).run()
    return SegmentContents(facts.records, facts.last_offset + 1)


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
    """Add to a problem that records from offset `first` to before `end` would go."""
    if not records:
        return problem
    what = f"offsets {first} to {end - 1}, {_number(records, 'readable record')}"
    if segments:
        what += f", and with them {_number(segments, 'whole segment')} after this one"
    if problem.recovery == Recovery.OVERWRITE:
        text = f"a broker takes {first} for the end, and writes over {what}{remedy}"
    else:
        text = f"a start cuts off {what}"
    if is_metadata:
        text += (
            "; each partition of a topic that is made in them is unknown then, "
            "and set aside as -stray"
        )
    return replace(
        problem,
        severity=Severity.ERROR,
        message=f"{problem.message}; {text}",
        lost_from=first,
        lost_to=end - 1,
        lost_records=records,
        lost_segments=segments,
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


AT_ONCE: Final = frozenset(
    {Cause.SIZE, Cause.CRC, Cause.INCOMPLETE, Cause.PREALLOCATED}
)
INSIDE: Final = frozenset({Cause.CONTROL, Cause.RECORDS, Cause.COMPRESSION})
STEP_BYTES: Final = 4 << 20


class Cut(NamedTuple):
    """What is done to a segment: for `TRUNCATE` it then ends at byte `position`.

    `begins` is from where on findings in it share that.
    """

    recovery: Recovery
    begins: int
    position: int | None = None


def find_cut(path: Path, base_offset: int, problem: Problem) -> Cut | None:
    """Say where a log would be cut for one problem in it; None if it would not be."""
    at = problem.position
    if at is None:
        return None
    if problem.cause in AT_ONCE:
        return Cut(Recovery.TRUNCATE, at, at)
    with FileSource(path) as source:
        data, rows = _entry(source, at)
        if problem.cause == Cause.MAGIC:
            return None if _passes(data, rows) else Cut(Recovery.TRUNCATE, at, at)
        if problem.cause == Cause.OFFSET:
            if not _passes(data, rows):
                return Cut(Recovery.TRUNCATE, at, at)
            return _for_offset(source, base_offset, rows)
        if problem.cause in INSIDE and len(rows):
            return _for_marker(data, rows)
    return None


class FramedEnd(NamedTuple):
    """Where a log that was closed in order is taken to end, and why.

    `offset` follows the last entry that was read, which ends at byte `position`. Where
    the log holds no entry for the last one of the offset index, which is at byte
    `beyond_log` of it, the segment counts as empty. What `is_refused` has an entry too
    small to be one at `position`, and the log is not opened.
    """

    offset: int
    position: int
    beyond_log: int | None = None
    is_refused: bool = False


READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""How a ``.log`` is opened here; what is no file waits for nobody."""


def framed_end(path: Path, base_offset: int) -> FramedEnd:
    """Return where a broker takes a last segment to end that it does not read through.

    Entries count by their frames, valid or not.
    """
    offset, position, slot = _last_indexed(path, base_offset)
    with DurableFile(DISK, path, READ_ONLY) as file:
        try:
            end = find_end(file, offset, position, file.size())
        except CorruptRecordError as error:
            return FramedEnd(base_offset, error.position or 0, is_refused=True)
    if end is None:
        return FramedEnd(base_offset, 0, slot)
    return FramedEnd(end.offset, end.position)


def _last_indexed(path: Path, base_offset: int) -> tuple[int, int, int | None]:
    """Return offset and position in the last slot of a log's index, and its byte."""
    entry = OffsetIndex.ENTRY
    try:
        data, size = read_slots(
            path.with_name(file_name(base_offset, "index")), entry.itemsize
        )
    except (FileNotFoundError, CorruptIndexError):
        return base_offset, 0, None
    slot = size // entry.itemsize * entry.itemsize - entry.itemsize
    if slot < 0 or len(data) < slot + entry.itemsize:  # none, or preallocated
        return base_offset, 0, None
    last = data[slot : slot + entry.itemsize].view(entry)[0]
    return base_offset + int(last["relative_offset"]), int(last["position"]), slot


def ends_too_early(path: Path, base_offset: int) -> bool:
    """Whether a transaction index has an entry that ends before its segment begins."""
    width = TransactionIndex.ENTRY.itemsize
    try:
        data, _ = read_slots(path, width)
    except CorruptIndexError:  # too large to be looked into
        return False
    entries = data[: len(data) // width * width].view(TransactionIndex.ENTRY)
    return bool((entries["last_offset"] < base_offset).any())


def _entry(source: FileSource, position: int) -> tuple[Bytes, BatchHeaders]:
    """Read the entry at a position, whatever its magic, like Kafka.

    Of one that is larger than any should be there is no row.
    """
    size = size_field(source.read(position, LOG_OVERHEAD))
    most = min(max(LOG_OVERHEAD + size, RECORD_BATCH_OVERHEAD), MAX_BATCH_BYTES)
    data = source.read(position, min(most, source.size - position))
    rows, _, _ = scan_headers(data, 0, position, 1, any_magic=True)
    return data, rows


def _passes(data: Bytes, rows: BatchHeaders) -> bool:
    """Whether an entry is sound to Kafka, which does not mind its magic."""
    return bool(len(rows)) and not len(
        find_crc_mismatches(data, int(rows["position"][0]), rows)
    )


def _for_marker(data: Bytes, rows: BatchHeaders) -> Cut | None:
    """Read an entry as recovery does, if it may end a transaction.

    One that cannot be read stays, so that producers cannot be followed past it.
    """
    begins = int(rows["position"][0])
    if rows["magic"][0] < 2 or rows["producer_id"][0] == NO_PRODUCER_ID:
        return None
    try:
        read_markers(data, rows, begins)
    except KafkaLogError:
        return Cut(Recovery.REFUSE, begins)
    return None


def _for_offset(source: FileSource, base_offset: int, rows: BatchHeaders) -> Cut | None:
    """Tell what an offset that cannot be does to its segment.

    One too far above is split off, if it is the last; and else of that nothing comes.
    """
    begins, last = int(rows["position"][0]), int(rows["last_offset"][0])
    if last - base_offset > MAX_OFFSET_DELTA:
        left = source.size - begins - int(rows["size_in_bytes"][0])
        is_last = left <= HEADER_SIZE_UP_TO_MAGIC
        return Cut(Recovery.SPLIT if is_last else Recovery.REFUSE, begins)
    if last < base_offset:
        return Cut(Recovery.REFUSE, begins)
    return Cut(Recovery.TRUNCATE, 0, 0) if _index_falls(source) else None


def _index_falls(source: FileSource) -> bool:
    """Whether the entries of an offset index made of a log would not rise."""
    interval = LogConfig().index_interval_bytes
    position, since, latest, greatest = 0, 0, -1, (-1, -1)
    while position < source.size:
        data = source.read(position, STEP_BYTES)
        rows, _, place = scan_headers(data, 0, position)
        if not len(rows):
            return False
        room = np.empty((5, len(rows)), np.int64)
        sizes, times, offsets = (
            rows[name] for name in ("size_in_bytes", "max_timestamp", "last_offset")
        )
        due, since, *now = _speedups.due_entries(
            sizes, times, offsets, position, interval, since, *greatest, room
        )
        greatest = (now[0], now[1])
        entered = np.concatenate(([latest], room[0, :due]))
        if (np.diff(entered) <= 0).any():
            return True
        latest, position = int(entered[-1]), position + place
    return False

"""Rows from which a log can be rebuilt: records, with the headers of their batches.

A row has the columns of a scan, and those of `BATCH_COLUMNS`. Its batch is identified
by ``batch_last_offset``, which rises along a log. The records of a batch and its header
give its bytes again, as far as the encoder of this package writes the same bytes. Where
it does not, the first row of the batch has them in ``batch_bytes``:

- messages of magic 0 and 1, and batches without records;
- batches above 4 MiB, which are decoded in parts;
- header keys that are not UTF-8, attributes of records, varints with more bytes than
  needed: `BatchReader` encodes each batch, and compares the records.

Two kinds of rows have no record, and a null offset: a batch from which compaction has
removed all records, and a segment without batches, whose ``batch_base_offset`` is null
as well. The latter's ``batch_last_offset`` is the offset before the segment.

The bytes of a compressed batch depend on the compressor, so that only its records come
back, unless all bytes are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bytes
from kafkalog.decoding.batch_decoder import DecodedRecords, find_records
from kafkalog.decoding.decoded_columns import (
    ColumnBuffers,
    ColumnWorkspace,
    DecodedColumns,
)
from kafkalog.decoding.decompression import Payloads, decompress_batches
from kafkalog.decoding.large_batches import split_large_batches
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.encoding.arrow_input import bytes_from_arrow, headers_from_arrow
from kafkalog.encoding.batch_encoder import encode
from kafkalog.encoding.record_columns import RecordColumns
from kafkalog.errors import ConfigError, LocatedError, NotALogDirectoryError
from kafkalog.export import arrow
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    BATCH,
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.log.reading.log_segments import (
    OpenSegment,
    from_offset,
    list_segments,
    read_on,
)
from kafkalog.query.partition_reader import ScanProblem, SegmentStep
from kafkalog.query.records import Origin, make_records
from kafkalog.query.scan_columns import COLUMNS, DEFAULT_COLUMNS
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.file_records import Skipped, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import read_if_exists
from kafkalog.storage.file_names import MAX_OFFSET, PARTITION_METADATA
from kafkalog.storage.location import Location

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.query.scan import Scan
else:
    from kafkalog.optional_packages import require

    pa = require("pyarrow", "arrow")

BATCH_COLUMNS: Final = {
    "topic_id": pa.string(),
    "timestamp_delta": pa.int64(),
    "segment_base_offset": pa.int64(),
    "log_start_offset": pa.int64(),
    "batch_base_offset": pa.int64(),
    "batch_last_offset": pa.int64(),
    "batch_base_timestamp": pa.int64(),
    "batch_max_timestamp": pa.int64(),
    "batch_base_sequence": pa.int32(),
    "batch_attributes": pa.int16(),
    "batch_has_delete_horizon": pa.bool_(),
    "batch_crc": pa.int64(),
    "batch_records": pa.int32(),
    "batch_bytes": pa.binary(),
}
"""The columns beside those of a scan, and their types in Arrow."""

HEADER_FIELDS: Final = {
    "base_offset": "batch_base_offset",
    "last_offset": "batch_last_offset",
    "base_timestamp": "batch_base_timestamp",
    "max_timestamp": "batch_max_timestamp",
    "producer_id": "producer_id",
    "crc": "batch_crc",
    "leader_epoch": "leader_epoch",
    "base_sequence": "batch_base_sequence",
    "attributes": "batch_attributes",
    "producer_epoch": "producer_epoch",
    "magic": "magic",
}
"""The fields of a batch's header, and the columns that have them."""

SCHEMA: Final = pa.schema(
    [*arrow.schema_of(COLUMNS), *map(pa.field, BATCH_COLUMNS, BATCH_COLUMNS.values())]
)


class BatchRows(NamedTuple):
    """Rows of one partition in order.

    A reading that begins at `next_offset` continues after them. It is None where more
    rows of the last batch follow, which is a large one.
    """

    topic: str
    partition: int
    rows: pa.RecordBatch
    next_offset: int | None

    @property
    def has_batches(self) -> bool:
        """Whether the rows are of batches, and not of a segment without batches."""
        return bool(self.rows["batch_base_offset"].null_count < len(self.rows))


def read_rows(scan: Scan, *, keep_batches: bool) -> Iterator[BatchRows]:
    """Yield the rows of all partitions of a scan; damage goes to `Scan.problems`.

    Its bounds on offsets select whole batches, by their last offset. The scan has been
    checked by `check_scan`.
    """
    scan.problems = []
    readers = [
        BatchReader(
            source=source,
            directory=directory,
            bounds=bounds,
            policy=scan.policy,
            keep_batches=keep_batches,
            problems=scan.problems,
        )
        for source, bounds in scan.sources
        if (directory := source.directory) is not None
    ]
    total = done = 0
    if scan.progress is not None:
        total = sum(reader.size() for reader in readers)
    for reader in readers:
        for rows in reader:
            yield rows
            if scan.progress is not None:
                scan.progress(min(done + reader.bytes_done, total), total)
        done += reader.bytes_done


def first_offset(source: PartitionSource, bounds: Bounds) -> int:
    """Return the offset to begin with: by default that of the log start's segment.

    So the segment has all of its batches.
    """
    start = bounds.start_offset
    if start == source.log_start_offset and source.directory is not None:
        for segment in from_offset(list_segments(source.directory), start)[:1]:
            start = segment.base_offset
    return max(start, 0)


def check_scan(scan: Scan) -> None:
    """Raise an error for a scan that leaves something out.

    It is a `ConfigError` for other columns or bounds on timestamps, and
    `NotALogDirectoryError` for a source that is not a partition's directory.
    """
    if scan.columns != DEFAULT_COLUMNS:
        raise ConfigError("expected no columns to be named: --reversible needs all")
    if scan.policy.isolation != "read_uncommitted":
        raise ConfigError("expected no isolation: --reversible needs all records")
    for source, bounds in scan.sources:
        if bounds.timed:
            raise ConfigError("expected no bounds on timestamps with --reversible")
        if source.directory is None or not source.topic:
            reason = f"expected a partition's directory, got {source}"
            raise NotALogDirectoryError(reason)


@dataclass(slots=True, kw_only=True)
class BatchReader:
    """A reader of one partition as rows, for batches with a last offset in `bounds`.

    With `keep_batches`, every batch has its bytes. Appends what it skips to `problems`.
    `bytes_done` rises up to `size` meanwhile.
    """

    source: PartitionSource
    directory: Location
    bounds: Bounds
    policy: ReadPolicy
    keep_batches: bool
    problems: list[ScanProblem]
    bytes_done: int = 0
    _workspace: ColumnWorkspace = field(init=False)
    _buffers: ColumnBuffers = field(init=False)
    _next_offset: int = field(init=False)
    _of_log: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.policy = self.policy.checking_first()
        self._buffers = ColumnBuffers(kept=False)
        self._workspace = ColumnWorkspace(COLUMNS, self._buffers)
        self._next_offset = max(self.bounds.start_offset, 0)
        stored = read_if_exists(
            self.directory / PARTITION_METADATA, PartitionMetadata.parse
        )
        self._of_log = {
            "topic_id": None if stored is None else stored.topic_id,
            "log_start_offset": max(self.source.log_start_offset, 0),
        }

    def segments(self) -> list[LogSegment]:
        """Return the segments to read."""
        return from_offset(list_segments(self.directory), self._next_offset)

    def size(self) -> int:
        """Return the number of bytes to read, about."""
        total = 0
        for segment in self.segments():
            with suppress(FileNotFoundError):
                total += segment.size_in_bytes
        return total

    def __iter__(self) -> Iterator[BatchRows]:
        """Yield the rows of all batches."""
        for opened in read_on(self.directory, self.segments()):
            yield from self._of_segment(opened)

    def _of_segment(self, opened: OpenSegment) -> Iterator[BatchRows]:
        segment, before = opened.segment, self.bytes_done
        has_batches, start = False, 0
        if self._next_offset > max(segment.base_offset, 0):
            start = opened.position_for(min(self._next_offset, MAX_OFFSET))
        records = opened.records(
            start, end_offset=self.bounds.end_offset, policy=self.policy
        )
        for step in records:
            if isinstance(step, Skipped):
                lost = (step.first_offset, step.last_offset)
                self.problems.append(ScanProblem.of(step.error, *lost))
                continue
            has_batches = True
            last = step.rows["last_offset"]
            new = (last >= self._next_offset) & (last < self.bounds.end_offset)
            yield from self._of_step(segment, replace(step, rows=step.rows[new]))
            self.bytes_done = before + records.end
        if not has_batches and segment.base_offset >= self._next_offset:
            yield self._rows(segment, [_row_without_batch(segment.base_offset)])
        self.bytes_done = before + opened.source.size

    def _of_step(self, segment: LogSegment, step: Step) -> Iterator[BatchRows]:
        """Yield rows of batches with records, and of those without, in order."""
        rows = step.rows
        empty = rows["count"] == 0
        for first, end in _equal_runs(empty):
            part = replace(step, rows=rows[first:end])
            if not empty[first]:
                yield from self._of_records(segment, part)
                continue
            for row in part.rows:
                self._next_offset = int(row["last_offset"]) + 1
                data = _bytes_of(step.data, step.origin, row)
                yield self._rows(segment, [_row_of_header(row, data)])

    def _of_records(self, segment: LogSegment, step: Step) -> Iterator[BatchRows]:
        """Yield the rows of batches with records."""
        decoded = step.rows.copy()
        # Without the flag, records of magic 2 are decoded with their own timestamps.
        decoded["attributes"][decoded["magic"] == 2] &= ~LOG_APPEND_TIME_FLAG
        seen: tuple[int, int] = (-1, 0)  # a batch's position, and its records so far
        for result in self._decode(replace(step, rows=decoded)):
            if isinstance(result, LocatedError):
                self._skip(segment, step, result)
                continue
            part, run = result
            position, count = run.rows[["position", "count"]][-1].tolist()
            is_continued = position == seen[0]
            records = int(run.counts[-1]) + seen[1] * is_continued
            seen = position, records
            rows = self._table(segment, step, part, run, is_continued)
            is_whole = records >= count  # the count of a wrapper is -1
            if is_whole:
                self._next_offset = int(run.rows["last_offset"][-1]) + 1
            yield self._chunk(rows, is_whole=is_whole)

    def _decode(
        self, step: Step
    ) -> Iterator[tuple[Payloads, DecodedRecords[DecodedColumns]] | LocatedError]:
        """Yield decompressed batches with their records, or errors, in order."""
        limit = self.policy.max_batch_bytes
        for payloads in decompress_batches(
            step.data, step.origin, step.rows, limit, self._workspace
        ):
            if isinstance(payloads, LocatedError):
                yield payloads
                continue
            for part in split_large_batches(payloads):
                if isinstance(part, LocatedError):
                    yield part
                    continue
                for run in find_records(part, Bounds(), self._workspace):
                    yield run if isinstance(run, LocatedError) else (part, run)

    def _skip(self, segment: LogSegment, step: Step, error: LocatedError) -> None:
        place = SegmentStep(step, segment.name, segment.path, self.bounds, 0)
        self.problems.append(place.skip(error, self.policy))

    def _table(
        self,
        segment: LogSegment,
        step: Step,
        payloads: Payloads,
        run: DecodedRecords[DecodedColumns],
        is_continued: bool,
    ) -> pa.RecordBatch:
        """Return the rows of decoded records."""
        at = np.searchsorted(step.rows["position"], run.rows["position"])
        headers, counts = step.rows[at], run.counts
        origin = Origin(self.source.topic, self.source.partition, (segment.name,))
        records = make_records(
            replace(run, rows=headers), origin, COLUMNS, self._buffers
        )
        is_batch = headers["magic"] == 2
        raw = records.timestamp
        base = np.where(is_batch, headers["base_timestamp"], 0)
        stamped = is_batch & (headers["attributes"] & LOG_APPEND_TIME_FLAG != 0)
        columns = {
            **records.columns,
            "timestamp": np.where(
                np.repeat(stamped, counts),
                np.repeat(headers["max_timestamp"], counts),
                raw,
            ),
        }
        records.columns = columns
        made = arrow.to_batch(records, arrow.schema_of(COLUMNS))
        deltas = pa.array(raw - np.repeat(base, counts))
        extra = self._extra(segment, headers, counts, deltas)
        table = pa.RecordBatch.from_arrays([*made.columns, *extra], schema=SCHEMA)
        if is_continued:
            return table
        kept = self._unlike(table, payloads, run, headers)
        return _with_bytes(table, kept, step, headers, counts)

    def _extra(
        self,
        segment: LogSegment,
        headers: BatchHeaders,
        counts: npt.NDArray[np.int64],
        deltas: pa.Array,
    ) -> list[pa.Array]:
        """Return the columns of `BATCH_COLUMNS`, without the bytes of batches."""
        is_batch = headers["magic"] == 2
        horizon = is_batch & (headers["attributes"] & DELETE_HORIZON_FLAG != 0)
        values = {
            "segment_base_offset": np.full(len(headers), segment.base_offset),
            "batch_has_delete_horizon": horizon,
            "batch_records": np.where(is_batch, headers["count"], counts),
            **{
                column: headers[name]
                for name, column in HEADER_FIELDS.items()
                if column in BATCH_COLUMNS
            },
        }
        found = {
            name: pa.array(np.repeat(array, counts)).cast(BATCH_COLUMNS[name])
            for name, array in values.items()
        }
        rows = int(counts.sum())
        for name, value in self._of_log.items():
            found[name] = pa.repeat(pa.scalar(value, BATCH_COLUMNS[name]), rows)
        found["timestamp_delta"] = deltas
        found["batch_bytes"] = pa.nulls(rows, pa.binary())
        return [found[name] for name in BATCH_COLUMNS]

    def _unlike(
        self,
        table: pa.RecordBatch,
        payloads: Payloads,
        run: DecodedRecords[DecodedColumns],
        headers: BatchHeaders,
    ) -> npt.NDArray[np.bool_]:
        """Return which batches need their bytes, as their records do not give them."""
        unlike = (headers["magic"] < 2) | np.bool_(self.keep_batches)
        partial = run.counts != np.where(headers["magic"] == 2, headers["count"], -1)
        unlike |= partial
        if unlike.all():
            return unlike
        places = np.searchsorted(payloads.rows["position"], run.rows["position"])
        starts, lengths = payloads.starts[places], payloads.lengths[places]
        rows = table
        if unlike.any():
            rows = table.filter(pa.array(np.repeat(~unlike, run.counts)))
        others = np.flatnonzero(~unlike)
        encoded = headers[others].copy()
        encoded["attributes"] &= ~CODEC_MASK
        bounds = np.append(0, np.cumsum(run.counts[others]))
        data = encode(
            record_columns(rows, encoded, bounds), encoded, bounds, is_checked=True
        )
        for i, row in zip(others.tolist(), encoded, strict=True):
            begin = int(row["position"]) + RECORD_BATCH_OVERHEAD
            end = int(row["position"]) + int(row["size_in_bytes"])
            start = int(starts[i])
            stored = payloads.data[start : start + int(lengths[i])]
            unlike[i] = not np.array_equal(
                np.frombuffer(data[begin:end], np.uint8), stored
            )
        return unlike

    def _rows(self, segment: LogSegment, rows: list[dict[str, Any]]) -> BatchRows:
        """Return rows without records."""
        common = {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "headers": [],
            "segment": segment.name,
            "segment_base_offset": segment.base_offset,
            **self._of_log,
        }
        return self._chunk(
            pa.RecordBatch.from_pylist([common | row for row in rows], SCHEMA)
        )

    def _chunk(self, rows: pa.RecordBatch, *, is_whole: bool = True) -> BatchRows:
        place = self.source.topic, self.source.partition
        return BatchRows(*place, rows, self._next_offset if is_whole else None)


def record_columns(
    rows: pa.RecordBatch | pa.Table,
    headers: BatchHeaders,
    bounds: npt.NDArray[np.int64],
) -> RecordColumns:
    """Return the records of batches of magic 2 to encode, by the rows of a table.

    Batch i has the header ``headers[i]``, and the rows ``bounds[i]`` to
    ``bounds[i + 1]``.
    """
    delta = rows["timestamp_delta"].to_numpy(zero_copy_only=False)
    return RecordColumns(
        np.ascontiguousarray(rows["offset"].to_numpy(zero_copy_only=False)),
        delta + np.repeat(headers["base_timestamp"], np.diff(bounds)),
        bytes_from_arrow(rows["key"]),
        bytes_from_arrow(rows["value"]),
        headers_from_arrow(rows["headers"]),
    )


def batch_headers(rows: pa.Table) -> BatchHeaders:
    """Return the headers of batches, of which each row of the table has one."""
    headers = np.zeros(len(rows), BATCH)
    for name, column in HEADER_FIELDS.items():
        headers[name] = rows[column].to_numpy(zero_copy_only=False)
    return headers


def _row_of_header(row: np.void, data: bytes) -> dict[str, Any]:
    """Return the row of a batch without records."""
    values = {column: int(row[name]) for name, column in HEADER_FIELDS.items()}
    flags = int(row["attributes"])
    return {
        **values,
        "timestamp_type": int(bool(flags & LOG_APPEND_TIME_FLAG)),
        "batch_has_delete_horizon": bool(flags & DELETE_HORIZON_FLAG),
        "batch_records": 0,
        "batch_bytes": data,
        "position": int(row["position"]),
    }


def _row_without_batch(base_offset: int) -> dict[str, Any]:
    """Return the row of a segment without batches."""
    return {"batch_last_offset": base_offset - 1}


def _with_bytes(
    table: pa.RecordBatch,
    kept: npt.NDArray[np.bool_],
    step: Step,
    headers: BatchHeaders,
    counts: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    """Return the table with the bytes of `kept` batches in their first rows."""
    if not kept.any():
        return table
    values: list[bytes | None] = [None] * len(table)
    firsts = np.cumsum(counts) - counts
    for i in np.flatnonzero(kept).tolist():
        values[int(firsts[i])] = _bytes_of(step.data, step.origin, headers[i])
    column = pa.array(values, pa.binary())
    return table.set_column(
        table.schema.get_field_index("batch_bytes"), "batch_bytes", column
    )


def _bytes_of(data: Bytes, origin: int, row: np.void) -> bytes:
    start = int(row["position"]) - origin
    return data[start : start + int(row["size_in_bytes"])].tobytes()


def _equal_runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the first index and the end of each run of equal values.

    >>> list(_equal_runs(np.array([1, 1, 0])))
    [(0, 2), (2, 3)]
    """
    if len(values):
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        edges = [0, *changes.tolist(), len(values)]
        yield from pairwise(edges)

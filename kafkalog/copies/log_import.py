"""Log directories rebuilt from tables with the columns of `batch_columns`.

The table is Parquet files or a Delta table. Its row groups may be in any order, and
batches may be divided between them. A first pass reads three columns, and finds the
offsets of each partition in each row group. Row groups are then read in the order of
their offsets, those that overlap together.

Only ``.log`` files are written, and the log start offsets. Then each log is opened as a
broker opens it after a crash, which makes its indexes, snapshots and checkpoints.

An uncompressed batch that is rebuilt from its records has to have the CRC that the
table has, so that it has the bytes of the original. A batch with missing rows is an
error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.codecs.checksum import crc_mismatch
from kafkalog.config import LogConfig
from kafkalog.encoding.batch_encoder import encode
from kafkalog.errors import (
    CorruptRecordError,
    NotALogDirectoryError,
    UnfitRecordsError,
    UnsupportedFormatError,
)
from kafkalog.export.batch_columns import (
    HEADER_FIELDS,
    SCHEMA,
    batch_headers,
    record_columns,
)
from kafkalog.export.delta_table import errors_of_delta, is_delta_table
from kafkalog.export.file_export import check_target
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    find_crc_mismatches,
    scan_headers,
)
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.log.clock import IdleScheduler
from kafkalog.log.opening import open_to_append
from kafkalog.optional_packages import require
from kafkalog.progress import Progress, note_begun
from kafkalog.renamed import renamed_arguments
from kafkalog.reports import ReportBase, counted
from kafkalog.storage.checkpoint_file import LOG_STARTS, write_offsets
from kafkalog.storage.durable_file import DISK, DurableFile
from kafkalog.storage.file_names import MAX_OFFSET, file_name, parse_partition_dir
from kafkalog.storage.log_directory import Numbers, PartitionSelection, Topics
from kafkalog.storage.pending_directory import PendingDirectory, destination_of
from kafkalog.text.uuid_text import uuid_from_text

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

PARTITION: Final = ["topic", "partition"]
NEEDED: Final = (
    *PARTITION,
    "offset",
    "timestamp_delta",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "magic",
    "topic_id",
    "segment_base_offset",
    "log_start_offset",
    "batch_base_offset",
    "batch_last_offset",
    "batch_base_timestamp",
    "batch_max_timestamp",
    "batch_base_sequence",
    "batch_attributes",
    "batch_crc",
    "batch_records",
    "batch_bytes",
)
"""The columns from which a log is rebuilt."""
OF_SEGMENT: Final = ("segment_base_offset", "log_start_offset")
OF_BATCH: Final = (*HEADER_FIELDS.values(), "batch_records")
PART_ROWS: Final = 1 << 15
"""The rows that are encoded at a time, and those of their last batch."""
ORDER: Final = ("batch_last_offset", "segment_base_offset", "offset")


@dataclass(slots=True, repr=False)
class ImportResult(ReportBase):
    """The numbers of what was written.

    Attributes
    ----------
    partitions, segments, batches, records : int
        Their numbers; control records are counted as well.
    size_in_bytes : int
        The size of all segments.

    Examples
    --------
    >>> ImportResult(1, 2, 1, 5, 400)
    <ImportResult: 1 partition, 2 segments, 1 batch, 5 records, 400 bytes>
    """

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_in_bytes: int = 0

    def __str__(self) -> str:
        parts = (
            counted(self.partitions, "partition"),
            counted(self.segments, "segment"),
            counted(self.batches, "batch", "batches"),
            counted(self.records, "record"),
            counted(self.size_in_bytes, "byte"),
        )
        return ", ".join(parts)


class RowGroup(NamedTuple):
    """A row group with rows of a partition: the least and greatest last offset."""

    first: int
    last: int
    piece: Any


@renamed_arguments(table="source", logs="destination")
def import_logs(
    source: Path,
    destination: Path,
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportResult:
    """Write the logs from which a table was exported with ``reversible``.

    Segments have their names. Uncompressed batches have the bytes of the original, and
    so have all batches if they were kept; other batches have the same records.

    Parameters
    ----------
    source : Path
        A Delta table, a Parquet file, or a directory of Parquet files.
    destination : Path
        The log directory, which is missing or empty. It gets its name when it is
        complete.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    dry_run : bool
        Whether nothing is written to `destination`. The copy is written to a temporary
        directory, and removed.
    progress : callable, optional
        Called with the bytes of row groups read, and their sum, as stored.

    Returns
    -------
    ImportResult
        The numbers of partitions, segments, batches, records and bytes written.

    Raises
    ------
    FileExistsError, PermissionError
        If `destination` is not empty, or is in another log directory.
    LogStateError
        If an interrupted copy is in the way of `destination`.
    UnfitRecordsError
        If the table does not have the columns of a reversible export.
    CorruptRecordError
        If rows of a batch are missing, there twice or contradict each other. What was
        written is removed then. A changed key, value or header is noticed only in an
        uncompressed batch.

    Examples
    --------
    >>> import kafkalog, tempfile
    >>> from kafkalog.export.file_export import write_files
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/logs/orders-0", "a") as log:
    ...         _ = log.append_records({"value": [b"one", b"two"]})
    ...     lake, copy = Path(root, "lake"), Path(root, "copy")
    ...     orders = kafkalog.scan(f"{root}/logs")
    ...     _ = write_files(orders, lake, "parquet", reversible=True)
    ...     result = import_logs(lake, copy)
    ...     segment = "orders-0/00000000000000000000.log"
    ...     original = Path(root, "logs", segment).read_bytes()
    ...     Path(copy, segment).read_bytes() == original
    True
    >>> result.records
    2
    """
    check_target(destination)
    PendingDirectory(destination).check()
    table = _TableSource(source)
    found = sorted(table.groups)
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    chosen = [found[i] for i in selection.choose(found)]
    with (
        destination_of(destination, dry_run=dry_run) as written_to,
        PendingDirectory(written_to) as pending,
    ):
        result, written = _write_logs(source, table, chosen, pending.path, progress)
        starts = {place: log.log_start_offset for place, log in written.items()}
        if starts := {place: start for place, start in starts.items() if start}:
            write_offsets(pending.path, LOG_STARTS, starts, DISK)
        for log in written.values():
            open_to_append(
                log.directory,
                LogConfig(),
                topic_id=log.topic_id,
                scheduler=IdleScheduler(),  # closing forces all of it to disk
            ).close()
    return result


def _write_logs(
    table: Path,
    source: _TableSource,
    chosen: Sequence[tuple[str, int]],
    logs: Path,
    progress: Progress | None,
) -> tuple[ImportResult, dict[tuple[str, int], _PartitionWriter]]:
    """Write the segments of all partitions, and force them to disk."""
    result = ImportResult(partitions=len(chosen))
    written = dict[tuple[str, int], _PartitionWriter]()
    done, total = 0, sum(source.size(place) for place in chosen)
    for topic, partition in chosen:
        directory = logs / f"{topic}-{partition}"
        note_begun(directory.name)
        writer = written[topic, partition] = _PartitionWriter(table, directory, result)
        for rows, size in source.read((topic, partition)):
            writer.write(rows)
            done += size
            if progress is not None:
                progress(done, total)
        writer.close()
    if progress is not None:
        progress(total, total)
    return result, written


class _TableSource:
    """The row groups of a table, by partition."""

    def __init__(self, table: Path) -> None:
        self._dataset, self._table = _open_dataset(table), table
        missing = [n for n in NEEDED if n not in self._dataset.schema.names]
        if missing:
            error = UnfitRecordsError(
                f"expected a table of export --reversible, without column "
                f"{missing[0]}: {table}"
            )
            raise error
        self.groups: dict[tuple[str, int], list[RowGroup]] = defaultdict(list)
        with _errors_of_arrow(table):
            for fragment in self._dataset.get_fragments():
                for piece in fragment.split_by_row_group():
                    self._add(table, piece)

    def size(self, place: tuple[str, int]) -> int:
        """Return the bytes of a partition's row groups."""
        return sum(_size_of(group) for group in self.groups[place])

    def read(self, place: tuple[str, int]) -> Iterator[tuple[pa.Table, int]]:
        """Yield whole batches of a partition in order, and the bytes read for them."""
        compute = require("pyarrow.compute", "arrow")
        topic, partition = place
        wanted = (compute.field("topic") == topic) & (
            compute.field("partition") == partition
        )
        kept: pa.Table | None = None
        for groups in _overlapping(self.groups[place]):
            parts = [] if kept is None else [kept]
            for group in groups:
                with _errors_of_arrow(self._table):
                    read = group.piece.to_table(
                        schema=self._dataset.schema, columns=list(NEEDED), filter=wanted
                    )
                parts.append(self._of_types(read))
            rows = _in_order(pa.concat_tables(parts).combine_chunks())
            *whole, kept = _by_batches(rows)  # the next group may have more rows of it
            del parts, rows
            sizes = chain([sum(map(_size_of, groups))], repeat(0))
            while whole:
                yield whole.pop(0), next(sizes)
        if kept is not None:
            yield kept, 0

    def _of_types(self, rows: pa.Table) -> pa.Table:
        """Return rows with the types of an export; other tools may write others."""
        columns = []
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            expected = SCHEMA.field(name).type
            if name == "topic":
                expected = expected.value_type
            try:
                columns.append(column.cast(expected))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                reason = f"column {name} of {column.type}, expected {expected}: {error}"
                raise UnfitRecordsError(f"{reason}: {self._table}") from None
        return pa.table(columns, rows.schema.names)

    def _add(self, table: Path, piece: Any) -> None:
        columns = [*PARTITION, "batch_last_offset"]
        rows = self._of_types(
            piece.to_table(schema=self._dataset.schema, columns=columns)
        )
        bounds = rows.group_by(PARTITION).aggregate(
            [("batch_last_offset", "min"), ("batch_last_offset", "max")]
        )
        for row in bounds.to_pylist():
            topic, partition = row["topic"], row["partition"]
            first, last = row["batch_last_offset_min"], row["batch_last_offset_max"]
            _check_partition(table, topic, partition)
            if first is None or first < -1 or last >= MAX_OFFSET:
                reason = f"last offsets {first} to {last} of {topic}-{partition}"
                raise UnfitRecordsError(f"{reason}, expected offsets: {table}")
            self.groups[topic, partition].append(RowGroup(first, last, piece))


@dataclass(slots=True)
class _PartitionWriter:
    """A partition's directory being written, one segment after another."""

    table: Path
    directory: Path
    result: ImportResult
    log_start_offset: int = 0
    topic_id: str | None = None
    _segment: int = -1
    _last_offset: int = -1
    _file: DurableFile | None = None
    _size: int = 0
    _pending: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        DISK.make_directory(self.directory)

    def write(self, rows: pa.Table) -> None:
        """Append the batches of rows, all of whose rows are there."""
        if not len(rows):
            return
        self._check_rows(rows)
        starts = _column(rows, "log_start_offset")
        self.log_start_offset = max(self.log_start_offset, int(starts.max()))
        records = len(rows) - rows["offset"].null_count
        for topic_id in rows["topic_id"].unique().drop_null().to_pylist():
            if self.topic_id not in (None, topic_id):
                raise self._error(f"topic id {topic_id}, expected {self.topic_id}")
            try:
                uuid_from_text(topic_id)
            except ValueError as error:
                raise self._error(f"topic id {error}") from None
            self.topic_id = topic_id
        for segment, first, last_offset, data in self._batches(rows):
            # A segment that compaction merged into an earlier one keeps its rows.
            if segment > self._segment:
                self._begin(segment)
            if data is None:
                continue
            if first <= self._last_offset:
                raise self._error(
                    f"batch with the offsets {first} to {last_offset} after "
                    f"{self._last_offset}, expected ascending offsets"
                )
            if first < self._segment:
                raise self._error(
                    f"batch with the offsets {first} to {last_offset} in a segment "
                    f"with the base offset {self._segment}, expected at most {first}"
                )
            self._last_offset = last_offset
            self._pending.append(data)
            self.result.batches += 1
        self._flush()
        self.result.records += records

    def close(self) -> None:
        """Force the last segment to disk. Raise an error for a log start after it."""
        end = max(self._last_offset + 1, self._segment)
        if self.log_start_offset > end:
            raise self._error(
                f"log start offset {self.log_start_offset}, expected at most the log "
                f"end offset {end}"
            )
        if self._file is not None:
            self._file.sync()
            self._file.close()
        DISK.sync_directory(self.directory)

    def _begin(self, base_offset: int) -> None:
        if base_offset <= self._last_offset:
            raise self._error(
                f"segment base offset {base_offset} after offset {self._last_offset}, "
                "expected ascending offsets"
            )
        self._flush()
        if self._file is not None:
            self._file.sync()
            self._file.close()
        path = self.directory / file_name(base_offset, "log")
        self._file = DISK.open(path, exclusive=True)
        self._segment, self._size = base_offset, 0
        self.result.segments += 1

    def _flush(self) -> None:
        if self._pending and self._file is not None:
            data = b"".join(self._pending)
            self._file.write(data, self._size)
            self._size += len(data)
            self.result.size_in_bytes += len(data)
        self._pending = []

    def _check_rows(self, rows: pa.Table) -> None:
        """Raise an error for nulls, or a batch whose rows have several headers."""
        last = _column(rows, "batch_last_offset")
        is_batch = rows["batch_base_offset"].is_valid().to_numpy()
        follows = (last[1:] == last[:-1]) & is_batch[1:] & is_batch[:-1]
        for name in (*OF_SEGMENT, *OF_BATCH):
            column = rows[name]
            if column.null_count:
                null = column.is_null().to_numpy()
                null = null if name in OF_SEGMENT else null & is_batch
                for i in np.flatnonzero(null)[:1]:
                    raise self._row_error(last[i], f"{name} is null, expected a number")
                column = column.fill_null(0)
            values = column.to_numpy()
            if name in OF_SEGMENT and values.min() < 0:
                i = int(values.argmin())
                reason = f"{name} {values[i]}, expected at least 0"
                raise self._row_error(last[i], reason)
            differs = follows & (values[1:] != values[:-1])
            if name == "log_start_offset":  # a later run may have found another one
                continue
            for i in np.flatnonzero(differs)[:1]:
                reason = f"{name} {values[i]} and {values[i + 1]} in rows of one batch"
                raise self._row_error(last[i], f"{reason}, expected the same")

    def _check_records(
        self, records: pa.Table, headers: BatchHeaders, bounds: npt.NDArray[np.int64]
    ) -> None:
        """Raise an error unless each row is a record, in order, within its batch."""
        batch = np.repeat(np.arange(len(headers)), np.diff(bounds))
        for name in ("offset", "timestamp_delta"):
            null = records[name].is_null().to_numpy()
            for i in np.flatnonzero(null)[:1]:
                last = headers["last_offset"][batch[i]]
                raise self._row_error(last, f"{name} is null, expected a number")
        offset = _column(records, "offset")
        first, last = headers["base_offset"][batch], headers["last_offset"][batch]
        valid = (offset >= first) & (offset <= last)
        valid[1:] &= (offset[1:] > offset[:-1]) | (batch[1:] != batch[:-1])
        for i in np.flatnonzero(~valid)[:1]:
            reason = f"row with offset {offset[i]}, expected ascending offsets from "
            raise self._row_error(last[i], f"{reason}{first[i]} to {last[i]}")

    def _batches(
        self, rows: pa.Table
    ) -> Iterator[tuple[int, int, int, bytes | memoryview | None]]:
        """Yield the segment, the first and last offset and the bytes of each batch.

        The bytes of a segment without batches are None. Compressed messages of magic 0
        and 1 have no first offset; it is the last one.
        """
        last, base = _column(rows, "batch_last_offset"), rows["batch_base_offset"]
        is_batch = base.is_valid().to_numpy()
        changed = (last[1:] != last[:-1]) | (is_batch[1:] != is_batch[:-1])
        changed |= ~is_batch[1:]
        firsts = np.append(0, np.flatnonzero(changed) + 1)
        counts = np.diff(np.append(firsts, len(rows)))
        heads = rows.take(pa.array(firsts))
        segments = _column(heads, "segment_base_offset")
        ends, begins = last[firsts], heads["batch_base_offset"].fill_null(-1).to_numpy()
        begins = np.where(begins < 0, ends, begins)
        stored = self._stored(rows, firsts, counts)
        built = [i for i, data in enumerate(stored) if data is None]
        built = [i for i in built if is_batch[firsts[i]]]
        encoded = dict(zip(built, self._built(rows, heads, counts, built), strict=True))
        for i, data in enumerate(stored):
            offsets = int(begins[i]), int(ends[i])
            yield int(segments[i]), *offsets, encoded.get(i, data)

    def _stored(
        self,
        rows: pa.Table,
        firsts: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
    ) -> list[bytes | memoryview | None]:
        """Return the bytes of the batches that have them."""
        column = rows["batch_bytes"]
        found: list[bytes | memoryview | None] = [None] * len(firsts)
        if column.null_count == len(column):
            return found
        at = np.flatnonzero(column.is_valid().to_numpy())
        batches = np.searchsorted(firsts, at, side="right") - 1
        for i, data in zip(batches.tolist(), column.take(pa.array(at)), strict=True):
            found[i] = data.as_py()
            self._check_stored(found[i], rows, int(firsts[i]), int(counts[i]))
        return found

    def _check_stored(self, data: Any, rows: pa.Table, first: int, count: int) -> None:
        """Raise an error unless bytes are one valid batch, with the row's offset."""
        last_offset = rows["batch_last_offset"][first].as_py()
        whole = np.frombuffer(data, np.uint8)
        headers, _, end = scan_headers(whole)
        name = f"batch with the last offset {last_offset}"
        if len(headers) != 1 or end != len(whole):
            raise self._error(f"{name}: expected the bytes of one batch")
        if len(find_crc_mismatches(whole, 0, headers)):
            raise self._error(f"{name}: its bytes do not match their CRC")
        found = int(headers["last_offset"][0])
        if found != last_offset:
            raise self._error(f"{name}: its bytes have the last offset {found}")

    def _built(
        self,
        rows: pa.Table,
        heads: pa.Table,
        counts: npt.NDArray[np.int64],
        built: list[int],
    ) -> list[memoryview]:
        """Return batches that are encoded from their records."""
        if not built:
            return []
        heads, sizes = heads.take(pa.array(built)), counts[built]
        headers = batch_headers(heads)
        crcs = headers["crc"].copy()
        expected = _column(heads, "batch_records")
        for i in np.flatnonzero((expected != sizes) | (headers["magic"] != 2))[:1]:
            raise self._error(
                f"batch with the last offset {headers['last_offset'][i]}: "
                f"{sizes[i]} rows, expected {expected[i]} of magic 2"
            )
        is_built = np.zeros(len(counts), np.bool_)
        is_built[built] = True
        records = rows.filter(pa.array(np.repeat(is_built, counts)))
        bounds = np.append(0, np.cumsum(sizes))
        self._check_records(records, headers, bounds)
        columns = record_columns(records, headers, bounds)
        try:
            data = encode(columns, headers, bounds, is_checked=True)
        except UnsupportedFormatError as error:
            raise self._error(str(error)) from None
        found, _, _ = scan_headers(np.frombuffer(data, np.uint8), 0, 0, len(headers))
        uncompressed = headers["attributes"] & CODEC_MASK == 0
        for i in np.flatnonzero(uncompressed & (found["crc"] != crcs))[:1]:
            reason = crc_mismatch(int(crcs[i]), int(found["crc"][i]))
            last_offset = headers["last_offset"][i]
            raise self._error(f"batch with the last offset {last_offset}: {reason}")
        ends = headers["position"] + headers["size_in_bytes"]
        return [
            data[begin:end]
            for begin, end in zip(
                headers["position"].tolist(), ends.tolist(), strict=True
            )
        ]

    def _row_error(self, last_offset: int, reason: str) -> CorruptRecordError:
        return self._error(f"batch with the last offset {last_offset}: {reason}")

    def _error(self, reason: str) -> CorruptRecordError:
        error = CorruptRecordError(f"{self.directory.name}: {reason}")
        return error.located(self.table)


def _open_dataset(table: Path) -> Any:
    """Open a Delta table or Parquet files as a dataset of pyarrow."""
    if not table.exists():
        raise FileNotFoundError(2, "No such file or directory", str(table))
    if is_delta_table(table):
        delta = require("deltalake", "delta")
        with errors_of_delta(table):
            return delta.DeltaTable(str(table.absolute())).to_pyarrow_dataset()
    dataset = require("pyarrow.dataset", "arrow")
    keys = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
    # A file has the two columns, which may be of other types than those of a path.
    hive = dataset.partitioning(keys, flavor="hive") if table.is_dir() else None
    with _errors_of_arrow(table):
        return dataset.dataset(table, format="parquet", partitioning=hive)


@contextmanager
def _errors_of_arrow(table: Path) -> Iterator[None]:
    """Raise `UnfitRecordsError` for files that pyarrow cannot read as an export."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the operating system; pyarrow's own have no number
        reason = str(error).partition("\n")[0]
        raise UnfitRecordsError(f"expected Parquet files: {table}: {reason}") from None


def _check_partition(table: Path, topic: Any, partition: Any) -> None:
    """Raise an error unless a topic and a partition can name a directory."""
    name = parse_partition_dir(f"{topic}-{partition}")
    valid = name is not None and name.state is None
    if name is None or not valid or (name.topic, name.partition) != (topic, partition):
        reason = f"expected a topic and a partition, found {topic!r} and {partition!r}"
        raise NotALogDirectoryError(f"{reason}: {table}")


def _size_of(group: RowGroup) -> int:
    return int(group.piece.row_groups[0].total_byte_size)


def _overlapping(groups: list[RowGroup]) -> Iterator[list[RowGroup]]:
    """Yield row groups by their offsets, those that overlap together.

    >>> groups = [RowGroup(7, 9, "c"), RowGroup(0, 4, "a"), RowGroup(3, 7, "b")]
    >>> [[group.piece for group in some] for some in _overlapping(groups)]
    [['a', 'b'], ['c']]
    """
    together: list[RowGroup] = []
    last = -1
    for group in sorted(groups, key=lambda one: one[:2]):
        if together and group.first >= last:
            yield together
            together = []
        together.append(group)
        last = max(last, group.last)
    if together:
        yield together


def _in_order(rows: pa.Table) -> pa.Table:
    """Return rows in the order of a log."""
    compute = require("pyarrow.compute", "arrow")
    keys = [(name, "ascending") for name in ORDER]
    order = compute.sort_indices(rows, keys).to_numpy()
    if (order[1:] > order[:-1]).all():
        return rows
    return rows.take(pa.array(order))


def _by_batches(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows in parts of whole batches; the last part is a copy of the last one."""
    last = rows["batch_last_offset"].to_numpy()
    end_of_parts = int(np.searchsorted(last, last[-1]))
    begin = 0
    while begin < end_of_parts:
        end = min(begin + PART_ROWS, end_of_parts)
        if end < end_of_parts:
            following = np.searchsorted(last, last[end - 1], side="right")
            end = min(int(following), end_of_parts)
        yield rows.slice(begin, end - begin)
        begin = end
    yield rows.take(pa.array(range(end_of_parts, len(rows))))


def _column(rows: pa.Table, name: str) -> npt.NDArray[Any]:
    return np.asarray(rows[name].to_numpy())

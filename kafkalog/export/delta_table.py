"""Records in a Delta table, to which each run appends what is new.

The table has a transaction of Delta's for each partition, with the application id
``kafkalog/TOPIC-PARTITION``, whose version is the offset to continue from. A commit
adds files and these versions together, so that a run that ends at any point has
appended each record once or not at all. Files that were written for a commit that did
not happen are no part of the table; Delta's ``VACUUM`` removes them. Each commit is
forced to disk before the next one (`kafkalog.export.delta_files`).

A commit fails if another one has changed a version that it changes, or if the table's
snapshot has another version than this run has reached. So of two runs at once, one
fails.

Source: "Transaction Identifiers" in the Delta transaction log protocol.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np

from kafkalog.decoding.read_policy import Bounds
from kafkalog.errors import (
    CommitConflictError,
    ConfigError,
    InvalidRecordError,
    KafkaLogError,
    LocatedError,
    NotALogDirectoryError,
)
from kafkalog.export import arrow
from kafkalog.export.delta_files import (
    LOG_FOLDER,
    check_last_files,
    sync_commits,
    sync_creation,
)
from kafkalog.formats.timestamps import MAX_MS_IN_US
from kafkalog.optional_packages import require
from kafkalog.query.readable_offsets import earliest_offset, end_of_reading
from kafkalog.query.scan import warn_of_internal, without_internal
from kafkalog.renamed import renamed_arguments
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.values.value_decoding import DecodeArguments, decoder_of, read_options

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.export.file_export import PartitionBy
    from kafkalog.query.scan import Scan
    from kafkalog.query.sources import PartitionSource
    from kafkalog.storage.location import Location
    from kafkalog.values.value_decoding import ValueDecoder
else:
    pa = require("pyarrow", "delta")

Place = tuple[str, int]
"""A topic and a partition."""

APPLICATION: Final = "kafkalog"
COMMIT_BYTES: Final = 128 << 20
"""The bytes of rows, as Arrow, that a commit appends."""
CODECS: Final = {
    "zstd": "ZSTD",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "lz4": "LZ4_RAW",
    "none": "UNCOMPRESSED",
}
DATE: Final = "date"
STACK: Final = "\n   0: "
"""Where errors of Delta's library have the stack of its own code."""
OS_ERROR: Final = re.compile(r"\(os error (\d+)\)|\bOs { code: (\d+),")
"""The number of an error of the operating system, in errors of Delta's library."""
CLEANS_UP: Final = "delta.enableExpiredLogCleanup"


@dataclass(slots=True)
class DeltaResult:
    """What a run appended, and what it found missing.

    Attributes
    ----------
    records : int
        The number of rows appended.
    commits : int
        The number of commits; 0 if there was nothing new.
    version : int
        The table's version after the run.
    losses : list of str
        A line for each partition whose log does not continue where the table ends.
    problems : list of ScanProblem
        What the scan skipped.
    """

    records: int = 0
    commits: int = 0
    version: int = 0
    losses: list[str] = field(default_factory=list)
    problems: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class _Continued:
    """A partition: its version in the table, and the offsets of this run.

    All records of the run below `next_offset` are buffered or committed, and all below
    `reached` are committed. `has_rows` is whether some are buffered.
    """

    topic: str
    partition: int
    committed: int | None
    reached: int
    next_offset: int
    end: int
    has_rows: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def changed(self) -> bool:
        return self.has_rows or self.next_offset != self.reached


def application_id(topic: str, partition: int) -> str:
    """Return the application id of a partition's transactions.

    >>> application_id("orders", 0)
    'kafkalog/orders-0'
    """
    return f"{APPLICATION}/{topic}-{partition}"


def is_delta_table(out: Path) -> bool:
    """Return whether a directory has the log of a Delta table.

    >>> is_delta_table(Path("missing"))
    False
    """
    return (out / LOG_FOLDER).is_dir()


@contextmanager
def errors_of_delta(out: Path) -> Iterator[None]:
    """Raise `CommitConflictError` for a conflict, `KafkaLogError` for other errors.

    An error of the operating system gets the name of the table's directory.
    """
    delta = require("deltalake.exceptions", "delta")
    try:
        yield
    except delta.CommitFailedError as error:
        raise CommitConflictError(
            f"another run has changed the table: {out}: {error}"
        ) from error
    except (delta.DeltaError, OSError) as error:
        if getattr(error, "filename", None) is not None:
            raise  # of one of our own calls
        reason = " ".join(str(error).partition(STACK)[0].split())
        if code := OS_ERROR.search(reason):
            number = int(code[1] or code[2])
            raise OSError(number, os.strerror(number), str(out)) from error
        raise KafkaLogError(f"{reason}: {out}") from error


@renamed_arguments(out="destination", by_date="partition_by")
def append_new(
    scan: Scan,
    destination: Path,
    *,
    partition_by: PartitionBy | None = None,
    compression: str = "zstd",
    commit_bytes: int = COMMIT_BYTES,
    reversible: bool = False,
    keep_batches: bool = False,
    disk: Disk = DISK,
    **decoding: Unpack[DecodeArguments],
) -> DeltaResult:
    """Append the records of a scan that a Delta table does not have yet.

    What is appended is on disk when this returns. The table is made if it is missing.
    It is partitioned by topic. A partition that the table has is continued where the
    last run ended, whatever the scan's start offset; the first run begins at the scan's
    bounds. Memory is bounded by `commit_bytes`.

    Parameters
    ----------
    scan : Scan
        The records, of partition directories, each given once, without bounds on
        timestamps. Its columns are those of the table.
    destination : Path
        The directory of the table.
    partition_by : {"date"}, optional
        Whether the table also has, and is partitioned by, the column ``date``: the UTC
        date of the timestamp, null without one.
    compression : {"zstd", "snappy", "gzip", "lz4", "none"}
        The compression of the table's Parquet files.
    commit_bytes : int
        The bytes of rows, as Arrow, from which a commit is made.
    reversible : bool
        Whether the table gets all batches of the partitions, with the columns that
        `kafkalog.copies.log_import.import_logs` needs, whatever the scan's columns.
    keep_batches : bool
        Whether a reversible table also has the bytes of each batch.
    disk : Disk
        What forces files to disk.
    **decoding : DecodeArguments
        How keys and values become typed columns, as for `write_files`. The columns of a
        table stay as its first run made them: a later version of a schema is resolved
        to them if they are given as `schema`.

    Returns
    -------
    DeltaResult
        The number of records and commits, and what is missing or was skipped.

    Raises
    ------
    CorruptRecordError
        If a batch is corrupt. The records before it have been appended.
    CorruptCheckpointError
        If the last commit is torn, as a power cut may leave it.
    CommitConflictError
        If another run appends records of the same partitions. Commits made before
        stay, and are complete.
    ConfigError
        If the table has other columns, or the scan cannot be continued.
    InvalidRecordError
        If a timestamp is outside of the range of Delta's microseconds. Commits made
        before stay.
    MissingDependencyError
        If deltalake is not installed.

    Examples
    --------
    >>> import kafkalog, tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     counts = []
    ...     for value in (b"one", b"two"):
    ...         with kafkalog.open(f"{root}/logs/orders-0", "a") as log:
    ...             _ = log.append_records({"value": [value]})
    ...         orders = kafkalog.scan(f"{root}/logs/orders-0")
    ...         counts.append(append_new(orders, Path(root, "lake")).records)
    >>> counts
    [1, 1]
    """
    options = read_options(**decoding)
    if partition_by not in (None, "date"):
        raise ValueError(f"partition_by {partition_by!r}, expected date")
    if options is not None:
        if reversible or keep_batches:
            raise ConfigError("expected no formats with reversible")
        scan, left_out = without_internal(scan)
        warn_of_internal(left_out)
    decoder, schema = None, scan.schema
    if options is not None:
        read = tuple(_with_needed(schema).names)
        decoder = decoder_of(replace(scan, columns=read, problems=[]), options)
        more = set(read).difference(scan.columns)
        schema = pa.schema([one for one in decoder.schema if one.name not in more])
    kind = _DeltaAppend
    if reversible or keep_batches:
        from kafkalog.export.batch_columns import SCHEMA

        kind, schema = _ReversibleAppend, SCHEMA
    run = kind(
        scan,
        destination,
        schema,
        by_date=partition_by is not None,
        compression=compression,
        commit_bytes=commit_bytes,
        keep_batches=keep_batches,
        decoder=decoder,
        disk=disk,
    )
    damage: LocatedError | None = None
    try:
        run.read()
    except LocatedError as error:
        damage = error
    run.commit()
    if damage is not None:
        raise damage
    return run.result


Reached = tuple[int | None, int]
"""The version that a table has of a partition, None for none, and the next one."""


class DeltaAppender:
    """A Delta table, made if it is missing, to which commits append.

    A commit has rows or files, and the offset to continue from of each partition.
    `keys` are the columns by which the table is partitioned.

    Raises `CorruptCheckpointError` if the last commit is torn, and `ConfigError` if the
    table has other columns.
    """

    def __init__(
        self, out: Path, schema: pa.Schema, *, by_date: bool, disk: Disk = DISK
    ) -> None:
        self._delta = require("deltalake", "delta")
        self._out, self._disk = out, disk
        self.schema = _table_schema(schema, by_date=by_date)
        self.keys = ["topic", DATE] if by_date else ["topic"]
        place = str(out.absolute())
        table_class = self._delta.DeltaTable
        check_last_files(out.absolute(), APPLICATION)
        with errors_of_delta(out):
            if not table_class.is_deltatable(place):
                table_class.create(
                    place, schema=self.schema, mode="ignore", partition_by=self.keys
                )
                sync_creation(out.absolute(), disk)
            self._table = table_class(place)
            found = [field.name for field in self._table.schema().fields]
            metadata = self._table.metadata()
            self.version = int(self._table.version())
        if found == [*self.schema.names, DATE] and not by_date:
            raise ConfigError(
                f"the table is partitioned by date: add --partition-by {DATE}, in "
                f'Python partition_by="{DATE}": {out}'
            )
        if found != self.schema.names:
            raise ConfigError(
                f"expected the columns of the table, {', '.join(found)}, got "
                f"{', '.join(self.schema.names)}: {out}"
            )
        partitioned = metadata.partition_columns
        if partitioned != self.keys:
            raise ConfigError(
                f"expected a table partitioned by {', '.join(self.keys)}, found "
                f"{', '.join(partitioned) or 'no partitions'}: {out}"
            )
        self._cleans_up = metadata.configuration.get(CLEANS_UP, "true") == "true"

    def committed(self, topic: str, partition: int) -> int | None:
        """Return the version that the table's snapshot has of a partition."""
        with errors_of_delta(self._out):
            found: int | None = self._table.transaction_version(
                application_id(topic, partition)
            )
        return found

    def append_rows(
        self, rows: pa.Table, reached: Mapping[Place, Reached], compression: str
    ) -> None:
        """Append rows with the table's columns as one commit, which is on disk then."""
        writer = self._delta.WriterProperties(compression=CODECS[compression])
        with self._committing(reached) as properties:
            self._delta.write_deltalake(
                self._table, rows, mode="append", writer_properties=writer, **properties
            )

    def append_files(self, files: list[Any], reached: Mapping[Place, Reached]) -> None:
        """Append files in the table's directory, as `AddAction` of the library."""
        with self._committing(reached) as properties:
            self._table.create_write_transaction(
                files, "append", self.schema, self.keys, **properties
            )

    @contextmanager
    def _committing(self, reached: Mapping[Place, Reached]) -> Iterator[dict[str, Any]]:
        """Yield the properties of a commit; force it to disk afterwards.

        Raises `CommitConflictError` unless the table's snapshot is where this run is.
        Another commit that changes one of these versions after the snapshot makes the
        commit fail.
        """
        for (topic, partition), (expected, _) in reached.items():
            found = self.committed(topic, partition)
            if found != expected:
                raise CommitConflictError(
                    f"another run has appended {topic}-{partition}: expected offset "
                    f"{expected or 0} as the next, found {found}: {self._out}"
                )
        delta = self._delta
        transactions = [
            delta.Transaction(application_id(*place), next_offset)
            for place, (_, next_offset) in reached.items()
        ]
        # Earlier commits stay until a checkpoint of them is on disk.
        hooks = delta.PostCommitHookProperties(cleanup_expired_logs=False)
        with errors_of_delta(self._out):
            yield {
                "commit_properties": delta.CommitProperties(
                    app_transactions=transactions
                ),
                "post_commithook_properties": hooks,
            }
            table, version = self._out.absolute(), int(self._table.version())
            versions = range(self.version + 1, version + 1)
            checkpointed = sync_commits(table, versions, APPLICATION, self._disk)
            if checkpointed and self._cleans_up:
                self._table.cleanup_metadata()
        self.version = version


class _DeltaAppend:
    """One run: the rows that are not committed yet, and the offsets reached."""

    def __init__(
        self,
        scan: Scan,
        out: Path,
        schema: pa.Schema,
        *,
        by_date: bool,
        compression: str,
        commit_bytes: int,
        keep_batches: bool,
        decoder: ValueDecoder | None,
        disk: Disk,
    ) -> None:
        require("deltalake", "delta")
        self._check_scan(scan)
        self._out, self._by_date, self._columns = out, by_date, schema.names
        self._compression, self._commit_bytes = compression, commit_bytes
        self._keep_batches = keep_batches
        self._decoder = decoder
        self._read_schema = _with_needed(schema if decoder is None else scan.schema)
        self._row_schema = self._read_schema if decoder is None else decoder.schema
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._table = DeltaAppender(out, schema, by_date=by_date, disk=disk)
        self.result = DeltaResult(version=self._table.version)
        self._plan(scan)

    def read(self) -> None:
        """Read all new records, with a commit for each `commit_bytes` of rows."""
        last: _Continued | None = None
        for topic, partition, rows, next_offset in self._chunks():
            continued = self._continued[topic, partition]
            if last is not None and last is not continued:
                last.next_offset = last.end
            last = continued
            if "timestamp" in self._columns:
                self._check_timestamps(continued.name, rows)
            self._buffered.append(rows)
            self._buffered_bytes += rows.nbytes
            continued.has_rows = True
            if next_offset is None:
                continue
            continued.next_offset = next_offset
            if self._buffered_bytes >= self._commit_bytes:
                self.commit()
        for continued in self._continued.values():
            continued.next_offset = continued.end

    def commit(self) -> None:
        """Append the buffered rows and the offsets reached, as one commit."""
        changed = [one for one in self._continued.values() if one.changed]
        if not changed:
            return
        rows = self._rows()
        reached = {
            (one.topic, one.partition): (one.committed, one.next_offset)
            for one in changed
        }
        self._table.append_rows(rows, reached, self._compression)
        for one in changed:
            one.committed = one.reached = one.next_offset
            one.has_rows = False
        self.result.records += self._count(rows)
        self.result.commits += 1
        self.result.version = self._table.version

    def _chunks(self) -> Iterator[tuple[str, int, pa.RecordBatch, int | None]]:
        """Yield topic, partition, rows, and the offset to continue from after them.

        The offset is None where more rows of the same batch follow.
        """
        scan = replace(self._scan, columns=tuple(self._read_schema.names))
        chunks = scan.chunks()
        self.result.problems = scan.problems
        for records in chunks:
            if len(records):
                place = records.topic, int(records.partition[0])
                rows = arrow.to_batch(records, self._read_schema)
                for part in self._decoded(rows):
                    yield *place, part, part["offset"][-1].as_py() + 1

    def _decoded(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows with typed columns, and the others that a run needs."""
        if self._decoder is None:
            yield rows
            return
        yield from self._decoder.stream(iter([rows]))

    def _check_scan(self, scan: Scan) -> None:
        """Raise `ConfigError` for a scan that a table cannot continue."""
        if "topic" not in scan.columns or len(scan.columns) == 1:
            raise ConfigError(
                "expected the column topic, by which the table is partitioned, and "
                f"another one, got {', '.join(scan.columns)}"
            )
        if any(bounds.timed for _, bounds in scan.sources):
            raise ConfigError(
                "expected no bounds on timestamps: a run continues from an offset"
            )

    def _first(self, source: PartitionSource, bounds: Bounds) -> int:
        """Return where a partition begins that the table does not have."""
        return max(bounds.start_offset, 0)

    def _start(self, directory: Location, source: PartitionSource) -> int:
        """Return the offset before which nothing can be read."""
        return earliest_offset(directory, source)

    def _count(self, rows: pa.Table) -> int:
        return int(rows.num_rows)

    def _plan(self, scan: Scan) -> None:
        """Determine the offsets to read of each partition, and report what is lost."""
        self._continued: dict[tuple[str, int], _Continued] = {}
        sources = []
        for source, bounds in scan.sources:
            directory, place = source.directory, (source.topic, source.partition)
            if directory is None or not source.topic:
                reason = f"expected a partition's directory, got {source}"
                raise NotALogDirectoryError(reason)
            if place in self._continued:
                raise ConfigError(
                    f"expected one directory of {source.topic}-{source.partition}, got "
                    f"two: {source}"
                )
            start = self._start(directory, source)
            first = self._first(source, bounds)
            one = _Continued(*place, None, first, first, first)
            one.committed = self._table.committed(*place)
            if one.committed is not None:
                one.reached = one.committed
                one.next_offset = max(one.committed, start)
            end = end_of_reading(directory, source, one.next_offset, scan.policy)
            if one.committed is not None and (
                loss := _loss(one.name, one.committed, start, end)
            ):
                self.result.losses.append(loss)
            one.end = max(one.next_offset, min(end, bounds.end_offset))
            self._continued[place] = one
            new = replace(bounds, start_offset=one.next_offset, end_offset=one.end)
            sources.append((source, new))
        self._scan = replace(scan, sources=tuple(sources), problems=[])

    def _rows(self) -> pa.Table:
        """Return the buffered rows with the table's columns, and forget them."""
        read = pa.Table.from_batches(self._buffered, self._row_schema)
        self._buffered, self._buffered_bytes = [], 0
        rows = read.select(self._columns)
        if self._by_date:
            rows = rows.append_column(DATE, arrow.dates(read["timestamp"]))
        return rows.cast(self._table.schema)

    def _check_timestamps(self, name: str, rows: pa.RecordBatch) -> None:
        """Raise `InvalidRecordError` for a timestamp that Delta cannot hold."""
        column = rows.column("timestamp").cast(pa.int64())
        times = column.fill_null(0).to_numpy()
        far = np.flatnonzero((times > MAX_MS_IN_US) | (times < -MAX_MS_IN_US))
        if not len(far):
            return
        i = int(far[0])
        error = InvalidRecordError(
            f"timestamp {times[i]} of {name} at offset {rows['offset'][i]}, expected "
            f"{-MAX_MS_IN_US} to {MAX_MS_IN_US}, which Delta's microseconds can hold"
        )
        error.add_note("Parquet files, or --columns without timestamp, can have it.")
        raise error


class _ReversibleAppend(_DeltaAppend):
    """A run that appends all batches, with the columns to rebuild the log from."""

    def _chunks(self) -> Iterator[tuple[str, int, pa.RecordBatch, int | None]]:
        from kafkalog.export.batch_columns import read_rows

        new = set[tuple[str, int]]()
        for rows in read_rows(self._scan, keep_batches=self._keep_batches):
            self.result.problems = self._scan.problems
            place = rows.topic, rows.partition
            if rows.has_batches:
                new.add(place)
            # The table has the row of a segment without batches from an earlier run.
            if place in new or self._continued[place].committed is None:
                yield rows

    def _check_scan(self, scan: Scan) -> None:
        from kafkalog.export.batch_columns import check_scan

        check_scan(scan)

    def _first(self, source: PartitionSource, bounds: Bounds) -> int:
        from kafkalog.export.batch_columns import first_offset

        return first_offset(source, bounds)

    def _start(self, directory: Location, source: PartitionSource) -> int:
        return self._first(source, Bounds(start_offset=source.log_start_offset))

    def _count(self, rows: pa.Table) -> int:
        return int(rows.num_rows - rows["offset"].null_count)


def _with_needed(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the columns that a run needs, too."""
    needed = arrow.schema_of(("partition", "offset", "timestamp"))
    more = [column for column in needed if column.name not in schema.names]
    return pa.schema([*schema, *more])


def _table_schema(schema: pa.Schema, *, by_date: bool) -> pa.Schema:
    """Return the table's schema: without dictionaries, timestamps in microseconds."""
    fields = [column.with_type(_table_type(column.type)) for column in schema]
    if by_date:
        fields.append(pa.field(DATE, pa.date32()))
    return pa.schema(fields)


def _table_type(kind: Any) -> Any:
    """Return the type of a column of Delta that holds all values of one of Arrow."""
    types = pa.types
    if types.is_dictionary(kind):
        return kind.value_type
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if types.is_unsigned_integer(kind):
        return pa.decimal128(20) if kind.bit_width == 64 else pa.int64()
    if types.is_time(kind):
        return pa.int64()
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([one.with_type(_table_type(one.type)) for one in kind])
    if types.is_map(kind):
        return pa.map_(_table_type(kind.key_type), _table_type(kind.item_type))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_table_type(kind.value_type)))
    return kind


def _loss(name: str, committed: int, start: int, end: int) -> str | None:
    """Return how a log does not continue the table, or None if it does."""
    if committed < start:
        lost = f"offsets {committed} to {start - 1} of {name} are missing"
        return f"{lost}: the log starts at {start}, expected {committed} or less"
    if end < committed:
        return f"the log of {name} ends at offset {end}, expected {committed} or more"
    return None

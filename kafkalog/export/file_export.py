"""Records as files: Parquet, JSON Lines, CSV, Arrow IPC.

Without an extension, the output is a directory with a file for each partition, in
Hive's layout; DuckDB, Spark, Polars and pyarrow read topic and partition back as
columns:

    OUT/topic=orders/partition=0/part-00000.parquet
    OUT/topic=orders/partition=0/date=2026-11-27/part-00000.parquet

The latter is a file for each partition and UTC date.

Parquet and Arrow files then do not have the columns ``topic`` and ``partition``. JSON
Lines and CSV have them, since such files are often concatenated. With an extension, the
output is one file of all partitions with all columns.

Files are written under temporary names, forced to disk, and renamed at the end, all
together. An earlier export is set aside under hidden names until then, and has its
names again if a call fails or is interrupted: either the new files have their names, or
the old ones. Memory is bounded by a row group.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, Unpack

from kafkalog.errors import ConfigError, LocatedError
from kafkalog.export import text_lines
from kafkalog.export.output_files import OutputFile, OutputFiles
from kafkalog.optional_packages import require
from kafkalog.query.records import Records
from kafkalog.query.scan import warn_of_internal, without_internal
from kafkalog.renamed import renamed_arguments
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import parse_file_name, parse_partition_dir
from kafkalog.storage.log_directory import ROOT_FILES
from kafkalog.values.value_decoding import DecodeArguments, decoder_of, read_options

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan
    from kafkalog.values.value_decoding import DecodeOptions, ValueDecoder

PartitionBy: TypeAlias = Literal["date"]
FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
IN_THE_PATH: Final = ("topic", "partition")
NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of null or an empty string in a path, as in Hive and Spark."""
ROW_GROUP_BYTES: Final = 64 << 20
OLD_FILES: Final = ("topic=*/partition=*/part-*", "topic=*/partition=*/date=*/part-*")
OPEN_FILES: Final = 16
"""Files of dates that are written at the same time; more parts of a date follow."""


class Writer(Protocol):
    """A file being written."""

    def write(self, records: Records) -> None:
        """Add a chunk."""

    def close(self) -> None:
        """Write what is buffered; the file stays open."""


class TextWriter:
    """A writer of JSON Lines or CSV."""

    def __init__(self, file: OutputFile, columns: tuple[str, ...], form: str) -> None:
        self._columns = columns
        self._spell = text_lines.csv_lines if form == "csv" else text_lines.json_lines
        self._file = file
        if form == "csv":
            self._file.write(f"{text_lines.csv_header(columns)}\n".encode())

    def write(self, records: Records) -> None:
        """Add a chunk, one line for each record."""
        lines = self._spell(records, self._columns)
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Do nothing: all lines are written."""


class TableWriter:
    """A writer of Parquet or Arrow IPC, in row groups of about `ROW_GROUP_BYTES`.

    Its rows are records, or record batches of Arrow that have all columns of `schema`.
    """

    def __init__(
        self, file: OutputFile, schema: Any, form: str, compression: str
    ) -> None:
        from kafkalog.export import arrow

        pa = require("pyarrow", "arrow")
        self._to_batch = arrow.to_batch
        self._to_table = pa.Table.from_batches
        self._read_schema = schema
        self._schema = pa.schema(
            [_decoded_type(column) for column in self._read_schema]
        )
        self._buffered: list[Any] = []
        self.buffered_bytes = 0
        if form == "parquet":
            parquet = require("pyarrow.parquet", "arrow")
            self._file = parquet.ParquetWriter(
                file, self._schema, compression=compression
            )
        else:
            self._file = require("pyarrow.ipc", "arrow").new_file(file, self._schema)

    def write(self, records: Records) -> None:
        """Add a chunk; it is kept until its row group is written."""
        self.write_rows(self._to_batch(records, self._read_schema))

    def write_rows(self, rows: Any) -> None:
        """Add a record batch of Arrow; it is kept until its row group is written."""
        batch = rows.select(self._read_schema.names)
        self._buffered.append(batch)
        self.buffered_bytes += batch.nbytes
        if self.buffered_bytes >= ROW_GROUP_BYTES:
            self.write_group()

    def close(self) -> None:
        """Write the last row group, and the end of the format."""
        try:
            self.write_group()
        finally:
            self._file.close()

    def write_group(self) -> None:
        """Write the rows that are kept as a row group."""
        if self._buffered:
            table = self._to_table(self._buffered, self._read_schema)
            self._buffered, self.buffered_bytes = [], 0
            self._file.write_table(table.cast(self._schema))


def _decoded_type(column: Any) -> Any:
    """Return a field with the type of its values: files have no dictionaries."""
    kind = column.type
    return column.with_type(kind.value_type if _is_dictionary(kind) else kind)


def _is_dictionary(kind: Any) -> bool:
    return bool(require("pyarrow", "arrow").types.is_dictionary(kind))


@dataclass(slots=True)
class ExportResult:
    """The files written, the number of records, and the problems of the scan."""

    files: list[Path] = field(default_factory=list)
    records: int = 0
    problems: list[Any] = field(default_factory=list)


def is_one_file(out: Path) -> bool:
    """Return whether `out` names one file for all partitions: it has an extension.

    >>> is_one_file(Path("orders.parquet")), is_one_file(Path("orders"))
    (True, False)
    """
    return bool(out.suffix) and not out.is_dir()


def check_parent(out: Path) -> None:
    """Raise `FileNotFoundError` if the directory of `out` is missing."""
    parent = out.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(out.parent))


def check_target(out: Path, *, overwrite: bool = False) -> None:
    """Raise an error if `out` has files, or has or is among Kafka's own files.

    Raises
    ------
    FileExistsError
        If `out` is a file, or a directory that is not empty, unless `overwrite`.
    PermissionError
        If `out` is a log directory or a partition directory, or in one.
    """
    real = out.absolute().resolve()
    for directory in (real, *real.parents):
        if _is_kafkas(directory):
            reason = f"expected a directory without Kafka's files, found {directory}"
            raise PermissionError(1, reason, str(out))
    if out.is_dir():
        if not overwrite and any(out.iterdir()):
            raise FileExistsError(39, "the directory is not empty", str(out))
    elif out.exists() and not (overwrite and is_one_file(out)):
        raise FileExistsError(17, "the file exists already", str(out))


def _is_kafkas(directory: Path) -> bool:
    """Return whether a directory is a log directory or a partition directory."""
    if any((directory / name).exists() for name in ROOT_FILES):
        return True
    if parse_partition_dir(directory.name) is None:
        return False
    with suppress(OSError):
        return any(parse_file_name(path.name) for path in directory.iterdir())
    return False


@renamed_arguments(out="destination")
def write_files(
    scan: Scan,
    destination: Path,
    form: str,
    *,
    partition_by: PartitionBy | None = None,
    compression: str = "zstd",
    reversible: bool = False,
    keep_batches: bool = False,
    disk: Disk = DISK,
    **decoding: Unpack[DecodeArguments],
) -> ExportResult:
    """Write the records of a scan to files, which are on disk when this returns.

    An earlier export in the directory is replaced; other files there stay. If the call
    fails or is interrupted, the earlier export is as it was.

    Parameters
    ----------
    scan : Scan
        The records to write.
    destination : Path
        A directory, or a file if it has an extension.
    form : {"parquet", "jsonl", "csv", "arrow"}
        The format.
    partition_by : {"date"}, optional
        Whether each partition has a file for each UTC date of its records' timestamps,
        in a directory such as ``date=2026-11-27``; only for a directory of Parquet or
        Arrow files. Files of at most `OPEN_FILES` dates are written at the same time: a
        log whose timestamps are in no order may have several files of a date.
    compression : {"zstd", "snappy", "gzip", "lz4", "none"}
        The compression of Parquet files.
    reversible : bool
        Whether Parquet files get all batches of the partitions, with the columns that
        `kafkalog.copies.log_import.import_logs` needs, whatever the scan's columns.
    keep_batches : bool
        Whether reversible files also have the bytes of each batch.
    disk : Disk
        What makes the changes to files.
    **decoding : DecodeArguments
        How keys and values become typed columns of Parquet and Arrow files:
        ``key_format`` and ``value_format`` as the format of `kafkalog.values.decode`,
        and its ``schemas``, ``schema``, ``errors`` and ``flatten``. Without a format, a
        column is as the scan has it: bytes, or text.

    Returns
    -------
    ExportResult
        The files, the number of records, and the problems of the scan.

    Raises
    ------
    CorruptRecordError
        If a batch is corrupt. The records before it have been written.
    ConfigError
        If no column is left, since topic and partition are in the path, or if a
        reversible export is not of whole logs as Parquet.

    Examples
    --------
    >>> import kafkalog, tempfile
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> with tempfile.TemporaryDirectory() as root:
    ...     out = Path(root, "orders.csv")
    ...     result = write_files(kafkalog.scan(batch.build()), out, "csv")
    ...     header, row = out.read_text().splitlines()
    >>> result.records, row.split(",")[2]
    (1, '0')
    """
    export: _FileExport
    options = read_options(**decoding)
    if partition_by not in (None, "date"):
        raise ValueError(f"partition_by {partition_by!r}, expected date")
    if (reversible or keep_batches) and (options or partition_by):
        raise ConfigError("expected no formats and no partition_by with reversible")
    if form in ("parquet", "arrow") and (options or partition_by or scan.text):
        export = _TableExport(
            scan, destination, form, compression, disk, partition_by, options
        )
    elif options or partition_by:
        raise ConfigError(
            f"expected parquet or arrow with formats and dates, got {form}"
        )
    elif reversible or keep_batches:
        export = _ReversibleExport(
            scan, destination, form, compression, disk, keep_batches
        )
    else:
        export = _FileExport(scan, destination, form, compression, disk)
    damage: LocatedError | None = None
    try:
        try:
            export.run()
        except LocatedError as error:
            damage = error
        export.publish()
    except BaseException:
        export.discard()
        raise
    if damage is not None:
        raise damage
    return export.result


class _FileExport:
    """One export: the file being written, and those that are complete."""

    def __init__(
        self, scan: Scan, out: Path, form: str, compression: str, disk: Disk
    ) -> None:
        self._out, self._form, self._compression = out, form, compression
        self._one_file = is_one_file(out)
        self._columns = scan.columns
        read = scan.columns
        if not self._one_file:
            if form in ("parquet", "arrow"):
                self._columns = tuple(c for c in read if c not in IN_THE_PATH)
            read = tuple(dict.fromkeys((*self._columns, "partition")))
        if not self._columns:
            raise ConfigError(
                "expected columns besides topic and partition, which are in the path"
            )
        self._scan = replace(scan, columns=read, problems=[])
        self._writer: Writer | None = None
        self._files = OutputFiles(out, disk)
        self._numbers = Counter[Path]()
        self.result = ExportResult()

    def run(self) -> None:
        """Read and write all records, starting a file at each partition."""
        if self._one_file:
            self._begin(self._out)
        place: tuple[str, int] | None = None
        for records in self._chunks():
            if not self._one_file:
                here = (records.topic, int(records.partition[0]))
                if here != place:
                    self._begin(self._next_part(self._folder(*here)))
                    place = here
            if self._writer is not None:
                self._writer.write(records)
            self.result.records += len(records)

    def _chunks(self) -> Iterator[Records]:
        reuse = self._form in ("jsonl", "csv") and self._scan.threads == 1
        chunks = self._scan.chunks(reuse=reuse)
        self.result.problems = self._scan.problems
        return (records for records in chunks if len(records))

    def _folder(self, topic: str, partition: int) -> Path:
        return self._out / f"topic={topic or NO_TOPIC}" / f"partition={partition}"

    def _next_part(self, folder: Path) -> Path:
        number = self._numbers[folder]
        self._numbers[folder] += 1
        return folder / f"part-{number:05d}.{self._form}"

    def _begin(self, path: Path) -> None:
        self._finish()
        self._file = self._files.create(path)
        self.result.files.append(path)
        self._writer = self._open(self._file)

    def _open(self, file: OutputFile) -> Writer:
        if self._form in ("jsonl", "csv"):
            return TextWriter(file, self._columns, self._form)
        from kafkalog.export import arrow

        schema = arrow.schema_of(self._columns)
        return TableWriter(file, schema, self._form, self._compression)

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._file.complete()

    def publish(self) -> None:
        """Give all files their names, in place of the files of an earlier export."""
        self._finish()
        old = () if self._one_file else OLD_FILES
        self._files.publish(
            sorted(path for form in old for path in self._out.glob(form))
        )

    def discard(self) -> None:
        """Remove the files, unless they have got their names."""
        self._writer = None
        self._files.discard()


@dataclass(slots=True)
class _OpenFile:
    """A file of a partition or a date that is being written."""

    file: OutputFile
    writer: TableWriter

    def close(self) -> None:
        """Write the end of the file, and force it to disk."""
        self.writer.close()
        self.file.complete()


class _TableExport(_FileExport):
    """An export of text or typed columns, or with a file for each date."""

    def __init__(
        self,
        scan: Scan,
        out: Path,
        form: str,
        compression: str,
        disk: Disk,
        partition_by: PartitionBy | None,
        options: DecodeOptions | None,
    ) -> None:
        super().__init__(scan, out, form, compression, disk)
        if partition_by is not None and self._one_file:
            raise ConfigError(
                f"expected a directory with partition_by, got a file: {out}"
            )
        needed = dict.fromkeys((*self._columns, "topic", "partition", "offset"))
        if partition_by is not None:
            needed["timestamp"] = None
        kept = scan
        if options is not None:
            kept, left_out = without_internal(scan)
            warn_of_internal(left_out)
        self._scan = replace(kept, columns=tuple(needed), problems=[])
        self._by_date = partition_by is not None
        self._open_files: OrderedDict[Path, _OpenFile] = OrderedDict()
        self._decoder: ValueDecoder | None = None
        self._schema = self._scan.schema
        if options is not None:
            self._decoder = decoder_of(self._scan, options)
            self._schema = self._decoder.schema
        extra = needed.keys() - set(self._columns)
        fields = [field for field in self._schema if field.name not in extra]
        self._schema = require("pyarrow", "arrow").schema(fields)

    def run(self) -> None:
        """Read and write all records, starting a file at each partition and date."""
        if self._one_file:
            self._file_at(self._out)
        for batch in self._batches():
            place = batch["topic"][0].as_py(), batch["partition"][0].as_py()
            for path, rows in self._parts(batch, self._folder(*place)):
                self._file_at(path).writer.write_rows(rows)
            self._bound_memory()
            self.result.records += len(batch)

    def _batches(self) -> Iterator[Any]:
        """Yield decoded batches, each of one partition, none of them empty."""
        from kafkalog.export.arrow import to_batches

        def read() -> Iterator[Any]:
            for batch in to_batches(self._scan):
                self.result.problems = self._scan.problems
                yield batch
            self.result.problems = self._scan.problems

        batches = read() if self._decoder is None else self._decoder.stream(read())
        return (batch for batch in batches if len(batch))

    def _parts(self, batch: Any, folder: Path) -> Iterator[tuple[Path, Any]]:
        """Yield the paths of the folders that rows of a batch are for, and the rows."""
        if not self._by_date:
            yield (self._out if self._one_file else folder), batch
            return
        from kafkalog.export.arrow import dates

        compute = require("pyarrow.compute", "arrow")
        days = dates(batch["timestamp"])
        for day in days.unique():
            if day.is_valid:
                name, rows = day.as_py().isoformat(), compute.equal(days, day)
            else:
                name, rows = NO_TOPIC, days.is_null()
            yield folder / f"date={name}", batch.filter(rows)

    def _file_at(self, folder: Path) -> _OpenFile:
        """Return the file that is written in a folder, a new one if there is none."""
        found = self._open_files.get(folder)
        if found is None:
            while len(self._open_files) >= (OPEN_FILES if self._by_date else 1):
                _, oldest = self._open_files.popitem(last=False)
                oldest.close()
            path = folder if self._one_file else self._next_part(folder)
            file = self._files.create(path)
            self.result.files.append(path)
            writer = TableWriter(file, self._schema, self._form, self._compression)
            found = self._open_files[folder] = _OpenFile(file, writer)
        self._open_files.move_to_end(folder)
        return found

    def _bound_memory(self) -> None:
        """Write row groups while all files together keep more than one."""
        writers = [one.writer for one in self._open_files.values()]
        while sum(writer.buffered_bytes for writer in writers) >= ROW_GROUP_BYTES:
            max(writers, key=lambda writer: writer.buffered_bytes).write_group()

    def _finish(self) -> None:
        while self._open_files:
            _, oldest = self._open_files.popitem(last=False)
            oldest.close()

    def discard(self) -> None:
        """Remove the files, unless they have got their names."""
        self._open_files.clear()
        super().discard()


class _ReversibleExport(_FileExport):
    """An export of all batches, with the columns to rebuild the log from."""

    def __init__(
        self,
        scan: Scan,
        out: Path,
        form: str,
        compression: str,
        disk: Disk,
        keep_batches: bool,
    ) -> None:
        if form != "parquet":
            raise ConfigError(f"expected parquet with --reversible, got {form}")
        from kafkalog.export.batch_columns import check_scan, first_offset

        check_scan(scan)
        super().__init__(scan, out, form, compression, disk)
        sources = tuple(
            (source, replace(bounds, start_offset=first_offset(source, bounds)))
            for source, bounds in scan.sources
        )
        self._scan = replace(scan, sources=sources, problems=[])
        self._keep_batches = keep_batches

    def run(self) -> None:
        """Read and write all batches, starting a file at each partition."""
        from kafkalog.export.batch_columns import read_rows

        rows_of = read_rows(self._scan, keep_batches=self._keep_batches)
        if self._one_file:
            self._begin(self._out)
        place: tuple[str, int] | None = None
        for topic, partition, rows, _ in rows_of:
            if not self._one_file and (topic, partition) != place:
                place = topic, partition
                self._begin(self._next_part(self._folder(*place)))
            if isinstance(self._writer, TableWriter):
                self._writer.write_rows(rows)
            self.result.records += len(rows) - rows["offset"].null_count
        self.result.problems = self._scan.problems

    def _open(self, file: OutputFile) -> Writer:
        from kafkalog.export.batch_columns import SCHEMA

        pa = require("pyarrow", "arrow")
        in_path = () if self._one_file else IN_THE_PATH
        fields = [column for column in SCHEMA if column.name not in in_path]
        return TableWriter(file, pa.schema(fields), self._form, self._compression)

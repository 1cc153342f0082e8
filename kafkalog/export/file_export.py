"""Records as files: Parquet, JSON Lines, CSV, Arrow IPC.

Without an extension, the output is a directory with a file for each partition, in
Hive's layout; DuckDB, Spark, Polars and pyarrow read topic and partition back as
columns:

    OUT/topic=orders/partition=0/part-00000.parquet

Parquet and Arrow files then do not have the columns ``topic`` and ``partition``. JSON
Lines and CSV have them, since such files are often concatenated. With an extension, the
output is one file of all partitions with all columns.

Files are written under temporary names, forced to disk, and renamed at the end, all
together. An earlier export is set aside under hidden names until then, and has its
names again if a call fails or is interrupted: either the new files have their names, or
the old ones. Memory is bounded by a row group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog.errors import ConfigError, LocatedError
from kafkalog.export import text_lines
from kafkalog.export.output_files import OutputFile, OutputFiles
from kafkalog.optional_packages import require
from kafkalog.query.records import Records
from kafkalog.renamed import renamed_arguments
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import parse_file_name, parse_partition_dir
from kafkalog.storage.log_directory import ROOT_FILES

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan

FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
IN_THE_PATH: Final = ("topic", "partition")
NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of null or an empty string in a path, as in Hive and Spark."""
ROW_GROUP_BYTES: Final = 64 << 20
OLD_FILES: Final = "topic=*/partition=*/part-*"


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
        self._buffered_bytes = 0
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
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write the last row group, and the end of the format."""
        try:
            self._write_group()
        finally:
            self._file.close()

    def _write_group(self) -> None:
        if self._buffered:
            table = self._to_table(self._buffered, self._read_schema)
            self._buffered, self._buffered_bytes = [], 0
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
    compression: str = "zstd",
    reversible: bool = False,
    keep_batches: bool = False,
    disk: Disk = DISK,
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
    compression : {"zstd", "snappy", "gzip", "lz4", "none"}
        The compression of Parquet files.
    reversible : bool
        Whether Parquet files get all batches of the partitions, with the columns that
        `kafkalog.copies.log_import.import_logs` needs, whatever the scan's columns.
    keep_batches : bool
        Whether reversible files also have the bytes of each batch.
    disk : Disk
        What makes the changes to files.

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
    if reversible or keep_batches:
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
        self._parts = Counter[Path]()
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
                    self._begin(self._path_for(*here))
                    place = here
            if self._writer is not None:
                self._writer.write(records)
            self.result.records += len(records)

    def _chunks(self) -> Iterator[Records]:
        reuse = self._form in ("jsonl", "csv") and self._scan.threads == 1
        chunks = self._scan.chunks(reuse=reuse)
        self.result.problems = self._scan.problems
        return (records for records in chunks if len(records))

    def _path_for(self, topic: str, partition: int) -> Path:
        folder = self._out / f"topic={topic or NO_TOPIC}" / f"partition={partition}"
        number = self._parts[folder]
        self._parts[folder] += 1
        return folder / f"part-{number:05d}.{self._form}"

    def _begin(self, path: Path) -> None:
        self._finish()
        file = self._files.create(path)
        self.result.files.append(path)
        self._writer = self._open(file)

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
            self._files.complete()

    def publish(self) -> None:
        """Give all files their names, in place of the files of an earlier export."""
        self._finish()
        old = [] if self._one_file else sorted(self._out.glob(OLD_FILES))
        self._files.publish(old)

    def discard(self) -> None:
        """Remove the files, unless they have got their names."""
        self._writer = None
        self._files.discard()


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
                self._begin(self._path_for(*place))
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

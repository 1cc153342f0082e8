"""Records as files: Parquet, JSON Lines, CSV, Arrow IPC.

Into a directory, a file goes for each partition, laid out as Hive does, which DuckDB,
Spark, Polars and pyarrow read back as columns:

    OUT/topic=orders/partition=0/part-00000.parquet

Parquet and Arrow files then do without the columns ``topic`` and ``partition``: the
path has them. JSON Lines and CSV keep them, since such files are often joined. A path
that has an extension is one file of all partitions, with all columns.

Files are written under temporary names, and given theirs at the end, all together: a
reader sees a whole export or none. Memory is bounded by a row group, whatever is read.

Knows: file formats and names. Does not know: terminals; how records are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from kafkalog.errors import ConfigError, LocatedError
from kafkalog.export import text_lines
from kafkalog.export.optional_packages import require
from kafkalog.query.records import Records
from kafkalog.storage.file_names import parse_file_name, parse_partition_dir
from kafkalog.storage.log_directory import ROOT_FILES

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan

FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
IN_THE_PATH: Final = ("topic", "partition")
NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and Spark write for a null or an empty string in a path."""
ROW_GROUP_BYTES: Final = 64 << 20
TEMPORARY: Final = ".tmp"
OLD_FILES: Final = "topic=*/partition=*/part-*"


class Writer(Protocol):
    """One file being written."""

    def write(self, records: Records) -> None:
        """Add a chunk."""

    def close(self) -> None:
        """Write what is still held, and close the file."""


class TextWriter:
    """JSON Lines or CSV."""

    def __init__(self, path: Path, columns: tuple[str, ...], form: str) -> None:
        self._columns = columns
        self._spell = text_lines.csv_lines if form == "csv" else text_lines.json_lines
        self._file: BinaryIO = path.open("wb")
        if form == "csv":
            self._file.write(f"{text_lines.csv_header(columns)}\n".encode())

    def write(self, records: Records) -> None:
        """Add a chunk, a line a record."""
        lines = self._spell(records, self._columns)
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TableWriter:
    """Parquet or Arrow IPC, in row groups of some size."""

    def __init__(
        self, path: Path, columns: tuple[str, ...], form: str, compression: str
    ) -> None:
        from kafkalog.export import arrow

        pa = require("pyarrow", "arrow")
        self._to_batch = arrow.to_batch
        self._to_table = pa.Table.from_batches
        self._read_schema = arrow.schema_of(columns)
        self._schema = pa.schema([_plain(one) for one in self._read_schema])
        self._held: list[Any] = []
        self._held_bytes = 0
        if form == "parquet":
            parquet = require("pyarrow.parquet", "arrow")
            self._file = parquet.ParquetWriter(
                path, self._schema, compression=compression
            )
        else:
            self._file = require("pyarrow.ipc", "arrow").new_file(path, self._schema)

    def write(self, records: Records) -> None:
        """Add a chunk; its arrays are kept until the row group is written."""
        batch = self._to_batch(records, self._read_schema)
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write the last row group, and close the file."""
        try:
            self._write_group()
        finally:
            self._file.close()

    def _write_group(self) -> None:
        if self._held:
            table = self._to_table(self._held, self._read_schema)
            self._held, self._held_bytes = [], 0
            self._file.write_table(table.cast(self._schema))


def _plain(column: Any) -> Any:
    """Turn a dictionary column into one of its values: files know no dictionary."""
    kind = column.type
    return column.with_type(getattr(kind, "value_type", kind) if _coded(kind) else kind)


def _coded(kind: Any) -> bool:
    return bool(require("pyarrow", "arrow").types.is_dictionary(kind))


@dataclass(slots=True)
class Exported:
    """What was written: `files`, `records` in all, and what the scan left out."""

    files: list[Path] = field(default_factory=list)
    records: int = 0
    problems: list[Any] = field(default_factory=list)


def is_one_file(out: Path) -> bool:
    """Whether `out` is to be one file of all partitions: it has an extension.

    >>> is_one_file(Path("orders.parquet")), is_one_file(Path("orders"))
    (True, False)
    """
    return bool(out.suffix) and not out.is_dir()


def check_parent(out: Path) -> None:
    """Raise `FileNotFoundError` where the directory of `out` is missing."""
    parent = out.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(out.parent))


def check_target(out: Path, *, overwrite: bool = False) -> None:
    """Refuse to write over what is there, or among Kafka's own files.

    Raises `FileExistsError` for a file, or a directory that is not empty, unless
    `overwrite`; `PermissionError` inside a log directory or a partition's.
    """
    for directory in out.absolute().resolve().parents:
        if _is_kafkas(directory):
            reason = f"nothing is written where Kafka's own files are, in {directory}"
            raise PermissionError(1, reason, str(out))
    if out.is_dir():
        if _is_kafkas(out.resolve()):
            reason = "nothing is written where Kafka's own files are"
            raise PermissionError(1, reason, str(out))
        if not overwrite and any(out.iterdir()):
            raise FileExistsError(39, "the directory is not empty", str(out))
    elif out.exists() and not (overwrite and is_one_file(out)):
        raise FileExistsError(17, "the file is there already", str(out))


def _is_kafkas(directory: Path) -> bool:
    """Whether a directory is a log directory, or a partition's."""
    if any((directory / name).exists() for name in ROOT_FILES):
        return True
    if parse_partition_dir(directory.name) is None:
        return False
    with suppress(OSError):
        return any(parse_file_name(path.name) for path in directory.iterdir())
    return False


def write_files(
    scan: Scan, out: Path, form: str, *, compression: str = "zstd"
) -> Exported:
    """Read a scan, and write its records as files: see above for which.

    What an earlier export left in a directory is replaced; other files there stay.
    Where damage ends the scan, what was read before it is written, and the error raised
    then; where anything else does, nothing is.
    """
    exporting = _Exporting(scan, out, form, compression)
    damage: LocatedError | None = None
    try:
        try:
            exporting.run()
        except LocatedError as error:
            damage = error
        exporting.settle()
    except BaseException:
        exporting.discard()
        raise
    if damage is not None:
        raise damage
    return exporting.done


class _Exporting:
    """One export: the file being written, and all that wait for their names."""

    def __init__(self, scan: Scan, out: Path, form: str, compression: str) -> None:
        self._out, self._form, self._compression = out, form, compression
        self._whole = is_one_file(out)
        self._columns = scan.columns
        read = scan.columns
        if not self._whole:
            if form in ("parquet", "arrow"):
                self._columns = tuple(c for c in read if c not in IN_THE_PATH)
            read = tuple(dict.fromkeys((*self._columns, "partition")))
        if not self._columns:
            raise ConfigError("topic and partition are in the path: no column is left")
        self._scan = replace(scan, columns=read, problems=[])
        self._writer: Writer | None = None
        self._temporary: list[Path] = []
        self.done = Exported()

    def run(self) -> None:
        """Read and write all; begin a file where another partition does."""
        if self._whole:
            self._begin(self._out)
        place: tuple[str, int] | None = None
        for records in self._chunks():
            if not self._whole:
                here = (records.topic, int(records.partition[0]))
                if here != place:
                    self._begin(self._path_for(*here))
                    place = here
            if self._writer is not None:
                self._writer.write(records)
            self.done.records += len(records)

    def _chunks(self) -> Iterator[Records]:
        kept = self._form in ("jsonl", "csv") and self._scan.threads == 1
        chunks = self._scan.chunks(reuse=kept)
        self.done.problems = self._scan.problems
        return (records for records in chunks if len(records))

    def _path_for(self, topic: str, partition: int) -> Path:
        folder = self._out / f"topic={topic or NO_TOPIC}" / f"partition={partition}"
        number = sum(path.parent == folder for path in self.done.files)
        return folder / f"part-{number:05d}.{self._form}"

    def _begin(self, path: Path) -> None:
        self._finish()
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}{TEMPORARY}")
        self._temporary.append(temporary)
        self.done.files.append(path)
        self._writer = self._open(temporary)

    def _open(self, path: Path) -> Writer:
        if self._form in ("jsonl", "csv"):
            return TextWriter(path, self._columns, self._form)
        return TableWriter(path, self._columns, self._form, self._compression)

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def settle(self) -> None:
        """Give all files their names, in place of an earlier export's."""
        self._finish()
        self._out.parent.mkdir(parents=True, exist_ok=True)
        if not self._whole:
            self._out.mkdir(exist_ok=True)
            for old in set(self._out.glob(OLD_FILES)) - set(self.done.files):
                old.unlink()
        for temporary, path in zip(self._temporary, self.done.files, strict=True):
            temporary.replace(path)

    def discard(self) -> None:
        """Leave nothing that has not its name yet."""
        with suppress(Exception):
            self._finish()
        for temporary in self._temporary:
            temporary.unlink(missing_ok=True)
            if not self._whole:
                self._drop_empty(temporary.parent)

    def _drop_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder.is_relative_to(self._out):
                folder.rmdir()
                folder = folder.parent

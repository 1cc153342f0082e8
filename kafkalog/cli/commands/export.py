"""``kafkalog export``: write records as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import exits
from kafkalog.cli.command_options import (
    LocalPath,
    ScanOptions,
    ValueOptions,
    compression_option,
    copied_argument,
    dry_run_option,
    examples,
    quiet_option,
    scan_options,
    value_options,
    verbose_option,
)
from kafkalog.cli.terminal import escape, progress_bar
from kafkalog.reports import counted

if TYPE_CHECKING:
    from kafkalog.progress import Progress
    from kafkalog.query.scan import Scan
    from kafkalog.query.scan_columns import Text
    from kafkalog.storage.location import Location

FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")
DELTA: Final = "delta"
TABLES: Final = ("parquet", "arrow")
VALUE_FORMATS: Final = ("json", "avro", "protobuf")
COMPRESSED: Final = frozenset(
    ("gz", "gzip", "zst", "zstd", "bz2", "xz", "lz4", "snappy", "sz", "br", "zip")
)
"""Extensions of files that are compressed as a whole, which is not supported."""


@click.command(
    "export",
    epilog=examples(
        "kafkalog export /var/lib/kafka/data lake --format parquet",
        "kafkalog export /var/lib/kafka/data/orders.zstd-0 orders.parquet",
        "kafkalog export /var/lib/kafka/data ledger.jsonl --topic ledger "
        "--columns offset,value",
        "kafkalog export /var/lib/kafka/data tables --format delta --partition-by date",
    ),
)
@copied_argument
@click.argument("destination", metavar="DST", type=LocalPath())
@click.option(
    "--format",
    "--to",
    "form",
    type=click.Choice((*FORMATS, DELTA)),
    help="Output format; default: the extension of DST, or parquet without one.",
)
@click.option(
    "--partition-by",
    type=click.Choice(["date"]),
    help="Partition Parquet and Arrow files, or the Delta table, by the records' UTC "
    "date too.",
)
@scan_options
@value_options
@click.option(
    "--flatten",
    is_flag=True,
    help="Make columns of the members of typed keys and values, in place of one.",
)
@click.option(
    "--errors",
    type=click.Choice(["stop", "column"]),
    default="stop",
    show_default=True,
    help="At a key or value that is not of its format, stop, or write null, and the "
    "reason and bytes in a column of their own.",
)
@compression_option
@click.option(
    "--reversible",
    is_flag=True,
    help="Write what kafkalog import needs to write the logs again: all batches, with "
    "their headers. With --format parquet or delta.",
)
@click.option(
    "--keep-batches",
    is_flag=True,
    help="Also write the bytes of each batch, once, so that compressed batches are "
    "written again with the same bytes. Implies --reversible.",
)
@dry_run_option
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@quiet_option
@verbose_option
def command(
    paths: tuple[Location, ...],
    destination: Path,
    form: str | None,
    partition_by: str | None,
    options: ScanOptions,
    values: ValueOptions,
    flatten: bool,
    errors: str,
    compression: str,
    reversible: bool,
    keep_batches: bool,
    dry_run: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the records of SRC as files, or append them to a Delta table.

    If DST has no extension, or is an existing directory, it is a directory that gets
    DST/topic=T/partition=P/part-00000.parquet and so on. Otherwise it is a file whose
    extension is its format: .parquet, .jsonl, .csv or .arrow. Any other extension needs
    --format; one that contradicts it or names a compression (.parquet.gz) is rejected.
    The parent directory of DST must exist. Files get their final names once all are
    complete and on disk. With --overwrite, an export that fails or is interrupted
    leaves the earlier one as it was. If corrupt data ends the scan, the valid records
    before it are written.

    With --format delta, DST is the directory of a Delta table, partitioned by topic.
    Each run appends what is new since the last one, and appends it once, even if runs
    are interrupted. The first run begins at --start-offset, later ones where the last
    one ended. If a log does not continue there, the missing offsets are reported, the
    rest is appended, and the exit code is 1. It is 4 if another run is appending.

    With --reversible, rows have the columns of their batches, and kafkalog import
    writes the logs again. Batches without records, control batches and segments without
    batches have rows too; the offset of a row without a record is null.

    Parquet and Arrow need pyarrow, and Delta deltalake; without it the exit code is 3.
    """
    from kafkalog.export import file_export

    form = _form_of(destination, form)
    reversible |= keep_batches
    if reversible and form not in ("parquet", DELTA):
        raise click.UsageError("--reversible, expected with --format parquet or delta")
    if reversible and options.columns is not None:
        raise click.UsageError("--reversible, expected without --columns")
    if dry_run and (form == DELTA or reversible):
        reason = "expected without --format delta, --reversible and --keep-batches"
        raise click.UsageError(f"--dry-run, {reason}")
    decoding = _decoding(values, form, flatten=flatten, errors=errors)
    if reversible and decoding:
        raise click.UsageError("--reversible, expected without --value-format")
    if form == DELTA:
        if overwrite:
            raise click.UsageError("--overwrite, expected without --format delta")
        written = {
            "partition_by": partition_by,
            "compression": compression,
            "reversible": reversible,
            "keep_batches": keep_batches,
            **decoding,
        }
        read = partial(_scan, options, values, paths)
        _append(read, destination, written, quiet=quiet)
        return
    if partition_by is not None and (
        form not in TABLES or file_export.is_one_file(destination)
    ):
        reason = "expected with a directory of parquet or arrow, or --format delta"
        raise click.UsageError(f"--partition-by, {reason}")
    try:
        file_export.check_target(destination, overwrite=overwrite)
    except (FileExistsError, PermissionError) as error:
        raise exits.Refused.of(error) from None
    file_export.check_parent(destination)
    with progress_bar(destination.name, quiet=quiet) as progress:
        scan = _scan(options, values, paths, progress)
        if dry_run:
            click.echo(f"{scan.count():,} records to write", err=True)
            exits.report_problems(scan.problems)
            return
        done = file_export.write_files(
            scan,
            destination,
            form,
            partition_by="date" if partition_by else None,
            compression=compression,
            reversible=reversible,
            keep_batches=keep_batches,
            **decoding,
        )
    if not quiet:
        files = counted(len(done.files), "file")
        click.echo(f"{counted(done.records, 'record')}, {files}", err=True)
    exits.report_problems(done.problems)


def _decoding(
    values: ValueOptions, form: str, *, flatten: bool, errors: str
) -> dict[str, Any]:
    """Return the arguments that make typed columns; none without a typed format."""
    formats = values.formats
    typed = {name: one for name, one in formats.items() if one in VALUE_FORMATS}
    if "base64" in formats.values():
        raise click.UsageError("--value-format base64, expected with cat, head or tail")
    if formats and form not in (*TABLES, DELTA):
        reason = "expected with --format parquet, arrow or delta"
        raise click.UsageError(f"--value-format, {reason}")
    if not typed:
        if values.schemas or values.schema or flatten or errors != "stop":
            reason = "expected with --value-format json, avro or protobuf"
            raise click.UsageError(f"--schemas, --flatten or --errors, {reason}")
        return {}
    return {
        **{f"{name}_format": one for name, one in typed.items()},
        **values.arguments(),
        "flatten": flatten,
        "errors": "raise" if errors == "stop" else errors,
    }


def _scan(
    options: ScanOptions,
    values: ValueOptions,
    paths: tuple[Location, ...],
    progress: Progress | None = None,
) -> Scan:
    """Return the scan of an export, without internal topics if columns are typed."""
    scan = options.scan(paths, progress)
    formats = values.formats
    if not formats:
        return scan
    from kafkalog.cli.value_cells import named_only

    text: Text = False
    match formats.get("key"), formats.get("value"):
        case "text", "text":
            text = True
        case "text", _:
            text = "key"
        case _, "text":
            text = "value"
    return replace(named_only(scan), text=text)


def _append(
    read: Callable[[Progress | None], Scan],
    out: Path,
    written: dict[str, Any],
    *,
    quiet: bool,
) -> None:
    """Append what is new to a Delta table."""
    from kafkalog.errors import CommitConflictError
    from kafkalog.export import delta_table
    from kafkalog.export.file_export import check_parent, check_target

    try:
        check_target(out, overwrite=delta_table.is_delta_table(out))
    except (FileExistsError, PermissionError) as error:
        raise exits.Refused.of(error) from None
    check_parent(out)
    try:
        with progress_bar(out.name, quiet=quiet) as progress:
            scan = read(progress)
            done = delta_table.append_new(scan, out, **written)
    except CommitConflictError as error:
        raise exits.Refused.of(error) from None
    if not quiet:
        if done.commits:
            records = counted(done.records, "record")
            commits = counted(done.commits, "commit")
            summary = f"{records}, {commits}, version {done.version}"
        else:
            summary = f"nothing new for {out}"
        click.echo(escape(summary), err=True)
    for loss in done.losses:
        exits.print_error(loss)
    exits.report_problems(done.problems)
    if done.losses:
        lacking = counted(len(done.losses), "partition")
        raise exits.Damaged(f"{lacking} with missing offsets")


def _form_of(out: Path, form: str | None) -> str:
    """Return the format of DST. Raise `click.UsageError` for a wrong extension."""
    if str(out) == "-":
        raise click.UsageError(
            "DST is -, expected a file or a directory: kafkalog cat writes records to "
            "standard output"
        )
    extension = out.suffix[1:].lower()
    if not extension or out.is_dir():
        return form or "parquet"
    known = ", ".join(f".{name}" for name in FORMATS)
    if extension in COMPRESSED:
        reason = f"DST ends with .{extension}, and files are not compressed as a whole"
        raise click.UsageError(f"{reason}: expected one of {known}")
    if extension in FORMATS:
        if form == DELTA:
            reason = f"DST ends with .{extension}, expected the directory of a table"
            raise click.UsageError(f"{reason} with --format delta")
        if form not in (None, extension):
            reason = f"DST ends with .{extension}, but --format is {form}"
            raise click.UsageError(f"{reason}: expected .{form}")
        return extension
    if form is None:
        reason = f"DST ends with .{extension}, expected one of {known}"
        raise click.UsageError(f"{reason}; or give the format with --format")
    return form

"""``kafkalog export``: write records as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import exits
from kafkalog.cli.command_options import (
    LocalPath,
    ScanOptions,
    compression_option,
    examples,
    scan_options,
    source_argument,
)
from kafkalog.cli.terminal import progress_bar

if TYPE_CHECKING:
    from kafkalog.storage.location import Location

FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")
COMPRESSED: Final = frozenset(
    ("gz", "gzip", "zst", "zstd", "bz2", "xz", "lz4", "snappy", "sz", "br", "zip")
)
"""Extensions of files that are compressed as a whole, which is not supported."""


@click.command(
    "export",
    epilog=examples(
        "kafkalog export /var/lib/kafka/data lake --to parquet",
        "kafkalog export /var/lib/kafka/data/orders.zstd-0 orders.parquet",
        "kafkalog export /var/lib/kafka/data ledger.jsonl --topic ledger "
        "--columns offset,value",
    ),
)
@source_argument
@click.argument("out", type=LocalPath())
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    help="Output format; default: the extension of OUT, or parquet without one.",
)
@scan_options
@compression_option
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")
def command(
    path: Location,
    out: Path,
    form: str | None,
    options: ScanOptions,
    compression: str,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the records under PATH as files.

    If OUT has no extension, or is an existing directory, it is a directory that gets
    OUT/topic=T/partition=P/part-00000.parquet and so on. Otherwise it is a file whose
    extension is its format: .parquet, .jsonl, .csv or .arrow. Any other extension needs
    --to; one that contradicts --to or names a compression (.parquet.gz) is rejected.
    The parent directory of OUT must exist. Files get their final names once all are
    complete. If corrupt data ends the scan, the valid records before it are written.

    Parquet and Arrow need pyarrow; without it the exit code is 3.
    """
    from kafkalog.export import file_export

    form = _form_of(out, form)
    try:
        file_export.check_target(out, overwrite=overwrite)
    except (FileExistsError, PermissionError) as error:
        raise exits.Refused(exits.describe(error)) from None
    file_export.check_parent(out)
    with progress_bar(out.name, quiet=quiet) as progress:
        scan = options.scan([path], progress)
        done = file_export.write_files(scan, out, form, compression=compression)
    if not quiet:
        click.echo(f"{done.records:,} records, files: {len(done.files):,}", err=True)
    exits.report_problems(done.problems)


def _form_of(out: Path, form: str | None) -> str:
    """Return the format of OUT. Raise `click.UsageError` for a wrong extension."""
    extension = out.suffix[1:].lower()
    if not extension or out.is_dir():
        return form or "parquet"
    known = ", ".join(f".{name}" for name in FORMATS)
    if extension in COMPRESSED:
        reason = f"OUT ends with .{extension}, and files are not compressed as a whole"
        raise click.UsageError(f"{reason}: expected one of {known}")
    if extension in FORMATS:
        if form not in (None, extension):
            reason = f"OUT ends with .{extension}, but --to is {form}"
            raise click.UsageError(f"{reason}: expected .{form}")
        return extension
    if form is None:
        reason = f"OUT ends with .{extension}, expected one of {known}"
        raise click.UsageError(f"{reason}; or give the format with --to")
    return form

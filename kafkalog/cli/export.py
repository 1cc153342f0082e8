"""``kafkalog export``: write records as files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import exits
from kafkalog.cli.command_options import (
    LocalPath,
    ScanOptions,
    compression_option,
    examples,
    scan_options,
)
from kafkalog.cli.terminal import bar

FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")
COMPRESSED: Final = frozenset(
    ("gz", "gzip", "zst", "zstd", "bz2", "xz", "lz4", "snappy", "sz", "br", "zip")
)
"""Extensions that say a file is compressed as a whole: none is."""


@click.command(
    "export",
    epilog=examples(
        "kafkalog export /var/lib/kafka/data lake --to parquet",
        "kafkalog export /var/lib/kafka/data/orders.zstd-0 orders.parquet",
        "kafkalog export /var/lib/kafka/data ledger.jsonl --topic ledger "
        "--columns offset,value",
    ),
)
@click.argument("path", type=LocalPath())
@click.argument("out", type=LocalPath())
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    help="The format; by default told by the extension of OUT, parquet of none.",
)
@scan_options
@compression_option
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
def command(
    path: Path,
    out: Path,
    form: str | None,
    options: ScanOptions,
    compression: str,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the records under PATH as files.

    OUT without an extension, or a directory that is there, is a directory, for
    OUT/topic=T/partition=P/part-00000.parquet and so on. With one it is a file:
    .parquet, .jsonl, .csv or .arrow say its format; any other extension needs --to, and
    one that says another format, or a compression (.parquet.gz), is refused. The
    directory of OUT must be there. Files get their names when all are whole. Where
    damage ends the reading, the valid records before it are written.

    Parquet and Arrow need pyarrow; without it the command ends with 3.
    """
    from kafkalog.export import file_export

    form = _form_of(out, form)
    try:
        file_export.check_target(out, overwrite=overwrite)
    except (FileExistsError, PermissionError) as error:
        raise exits.Refused(exits.describe(error)) from None
    file_export.check_parent(out)
    with bar(out.name, quiet=quiet) as tell:
        scan = options.scan([path], tell)
        done = file_export.write_files(scan, out, form, compression=compression)
    if not quiet:
        click.echo(f"{done.records:,} records, files: {len(done.files):,}", err=True)
    exits.report_problems(done.problems)


def _form_of(out: Path, form: str | None) -> str:
    """Return the format of OUT; `click.UsageError` where its extension misleads."""
    extension = out.suffix[1:].lower()
    if not extension or out.is_dir():
        return form or "parquet"
    known = ", ".join(f".{one}" for one in FORMATS)
    if extension in COMPRESSED:
        reason = f"no file is compressed as a whole, as .{extension} would say"
        raise click.UsageError(f"{reason}; OUT may end with {known}")
    if extension in FORMATS:
        if form not in (None, extension):
            reason = f"OUT ends with .{extension}, and --to says {form}"
            raise click.UsageError(f"{reason}: end it with .{form}")
        return extension
    if form is None:
        reason = f".{extension} says no format: OUT may end with {known}"
        raise click.UsageError(f"{reason}; or say which by --to")
    return form

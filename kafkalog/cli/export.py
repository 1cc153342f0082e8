"""``kafkalog export``: write records as files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import exits
from kafkalog.cli.options import Reading, compression_option, examples, reading_options
from kafkalog.cli.progress import bar

FORMATS: Final = ("parquet", "jsonl", "csv", "arrow")


@click.command(
    "export",
    epilog=examples(
        "kafkalog export /var/lib/kafka/data lake --to parquet",
        "kafkalog export /var/lib/kafka/data/orders.zstd-0 orders.parquet",
        "kafkalog export /var/lib/kafka/data ledger.jsonl --topic ledger "
        "--columns offset,value",
    ),
)
@click.argument("path", type=click.Path(readable=False, path_type=Path))
@click.argument("out", type=click.Path(readable=False, path_type=Path))
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    help="The format; by default told by the extension of OUT, else parquet.",
)
@reading_options
@compression_option
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
def command(
    path: Path,
    out: Path,
    form: str | None,
    reading: Reading,
    compression: str,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the records under PATH as files.

    OUT is a directory, for OUT/topic=T/partition=P/part-00000.parquet and so on; or,
    where it ends with the format's extension, one file. Files get their names when all
    are whole. Where damage ends the reading, what was sound before it is written.

    Parquet and Arrow need pyarrow; without it the command ends with 3.
    """
    from kafkalog.export import files

    form = form or _form_of(out)
    try:
        files.check_target(out, form, overwrite=overwrite)
    except (FileExistsError, PermissionError) as error:
        raise exits.Refused(exits.describe(error)) from None
    with bar(out.name, quiet=quiet) as tell:
        scan = reading.scan([path], tell)
        done = files.write_files(scan, out, form, compression=compression)
    if not quiet:
        click.echo(f"{done.records:,} records, files: {len(done.files):,}", err=True)
    exits.report_problems(done.problems)


def _form_of(out: Path) -> str:
    form = out.suffix.removeprefix(".")
    return form if form in FORMATS else "parquet"

"""``kafkalog import``: write logs from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    LocalPath,
    Selection,
    dry_run_option,
    examples,
    format_options,
    quiet_option,
    selection_options,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.terminal import progress_bar

FIELDS: Final = tuple(
    TableField(name, name.replace("size_in_bytes", "bytes"), right=True)
    for name in ("partitions", "segments", "batches", "records", "size_in_bytes")
)


@click.command(
    "import",
    epilog=examples(
        "kafkalog import lake /tmp/restored",
        "kafkalog import lake /tmp/restored --topic orders --format json",
    ),
)
@click.argument("source", metavar="SRC", type=LocalPath())
@click.argument("destination", metavar="DST", type=LocalPath())
@selection_options
@dry_run_option
@quiet_option
@verbose_option
@format_options
def command(
    source: Path,
    destination: Path,
    selection: Selection,
    dry_run: bool,
    quiet: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Write the logs from which SRC was exported to the log directory DST.

    SRC is a Delta table, a Parquet file, or a directory of Parquet files that
    kafkalog export --reversible wrote. DST has to be missing or empty; otherwise the
    exit code is 4. It is written as DST.incomplete, and renamed last. Its parent
    directory must exist.

    Segments have the same names. Uncompressed batches have the same bytes, and so have
    all batches of a table with --keep-batches. Other batches are compressed anew, and
    have the same records. Indexes and snapshots are made as a broker makes them after a
    crash. If rows of a batch are missing, there twice or contradict each other, the
    exit code is 1, and what was written is removed.

    The report has the numbers of partitions, segments, batches, records and bytes that
    were written.

    The command needs pyarrow, and for a Delta table deltalake; without it the exit code
    is 3.
    """
    from kafkalog.copies.log_import import import_logs

    try:
        with progress_bar(destination.name, quiet=quiet) as progress:
            report = import_logs(
                source, destination, dry_run=dry_run, progress=progress, **selection
            )
    except (FileExistsError, PermissionError) as error:
        raise exits.Refused.of(error) from None
    command_output.print_report(report, FIELDS, form, no_color=no_color, summary=False)

"""``kafkalog repair``: repair the files of a log directory, or print how."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    LocalPath,
    examples,
    format_options,
    threads_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.exits import Refused

FIELDS: Final = (
    TableField("path", "path", cut="path"),
    TableField("action", "action"),
    TableField("position", "byte", right=True),
    TableField("records_lost", "records lost", right=True),
    TableField("first_offset", "from", right=True),
    TableField("last_offset", "to", right=True),
    TableField("reason", "reason", cut="text"),
)


@click.command(
    "repair",
    epilog=examples(
        "kafkalog repair /var/lib/kafka/data --format table",
        "kafkalog repair /var/lib/kafka/data --allow-data-loss --format json",
    ),
)
@click.argument("path", type=LocalPath())
@click.option("--dry-run", is_flag=True, help="Change nothing, which is the default.")
@click.option("--apply", is_flag=True, help="Change the files; keep the originals.")
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Also take damaged parts out of logs, which loses their records.",
)
@click.option("--undo", is_flag=True, help="Restore the originals of the last repair.")
@click.option(
    "--backup",
    type=LocalPath(),
    metavar="DIR",
    help="Directory for the originals; default: the parent of the log directory.",
)
@threads_option("Number of segments that are verified at the same time.")
@format_options
def command(
    path: Path,
    dry_run: bool,
    apply: bool,
    allow_data_loss: bool,
    undo: bool,
    backup: Path | None,
    threads: int,
    form: str | None,
    no_color: bool,
) -> None:
    """Repair the files of a log directory, or print what a repair would change.

    PATH is a log directory or a partition's directory, on which no broker is running.
    By default nothing is changed, and the changes are printed. Each is to rebuild an
    index, a snapshot or the leader epochs from the log; to cut a log from a byte on, as
    a broker's recovery does; to skip corrupt bytes inside a log, whose offsets become a
    gap; to remove a file that a broker removes as well; or to rewrite lines of a
    checkpoint.

    With --apply the files are changed. A file is only replaced if the result, which was
    verified before, has fewer errors. The originals are kept in a directory
    .kafkalog-repair-TIME next to the log directory, and --undo restores them.
    Changes that lose records are only made with --allow-data-loss.

    The exit code is 0 if there is nothing to repair or everything was repaired, 1 if
    there is something to repair or errors are left, and 4 if the log directory is
    locked, or if files were changed since the repair that is to be undone. If nothing
    is changed, it says why.
    """
    from kafkalog.errors import LogArgumentError, LogStateError
    from kafkalog.repairs.directory_repair import repair

    if dry_run and (apply or undo):
        raise click.UsageError("--dry-run excludes --apply and --undo")
    if undo and (apply or allow_data_loss):
        raise click.UsageError("--undo excludes --apply and --allow-data-loss")
    try:
        report = repair(
            path,
            apply=apply,
            allow_data_loss=allow_data_loss,
            undo=undo,
            backup=backup,
            threads=threads,
        )
    except LogArgumentError as error:
        raise click.UsageError(str(error)) from error
    except LogStateError as error:
        raise Refused.of(error) from error
    rows = [action.as_dict() for action in (*report.actions, *report.skipped)]
    command_output.print_report(report, FIELDS, form, no_color=no_color, rows=rows)
    exits.end_with(report)

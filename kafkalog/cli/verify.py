"""``kafkalog verify``: whether everything under a path is as Kafka wrote it.

Knows: how a report is shown. Does not know: what is asked of a log.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, terminal
from kafkalog.cli.command_options import (
    examples,
    format_options,
    max_batch_bytes_option,
    paths_argument,
    selection_options,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.exits import Exit
from kafkalog.cli.terminal import bar

if TYPE_CHECKING:
    from kafkalog.verification.report import Report

FIELDS: Final = (
    TableField("path", "path"),
    TableField("position", "position", right=True),
    TableField("offset", "offset", right=True),
    TableField("cause", "cause"),
    TableField("severity", "severity"),
    TableField("recovery", "recovery"),
    TableField("recovery_position", "cut at", right=True),
    TableField("message", "message"),
)


@click.command(
    "verify",
    epilog=examples(
        "kafkalog verify /var/lib/kafka/data --threads 4 --format table",
        "kafkalog verify /var/lib/kafka/data/orders.zstd-0 --format json",
        "kafkalog verify /var/lib/kafka/data/ledger-0/00000000000000000005.log "
        "--format json",
        "kafkalog verify /var/lib/kafka/data/ledger-0 /var/lib/kafka/data/ledger-1 "
        "--format json",
    ),
)
@paths_argument
@selection_options
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many segments are read at a time.",
)
@max_batch_bytes_option(None)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@format_options
def command(
    paths: tuple[Path, ...],
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    threads: int,
    max_batch_bytes: int,
    quiet: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Look at everything under each PATH, and list what is wrong with it.

    PATH is a log directory, a partition's directory or a file of one. Every batch is
    held to its checksum and to all that the checksum does not cover; indexes,
    snapshots and checkpoints are held to the log. No byte is changed.

    With each problem goes what a broker would do about it when it starts: nothing;
    truncate the log at a byte; overwrite what is in it; rebuild, delete or reset the
    file; split the segment; delete_log; set the partition aside as a stray; or refuse
    to start with it. Where records would go, the message says which.

    The path of a problem is relative to PATH; where there are several, it begins with
    the PATH it lies under, and the counts of all add up. With --topic or --partition a
    log directory's own files are looked at, too.

    Ends with 1 if there is an error: what would mislead a reader, what a broker does
    not start with, and what costs records. A warning is what a crash may leave behind,
    and what a broker mends by itself. A PATH that is not Kafka's ends with 3.
    """
    from kafkalog.storage.log_directory import choose, places_under
    from kafkalog.verification.path_verification import sum_up, verify

    if topics or partitions:
        choose(
            [one for path in paths for one in places_under(path)], topics, partitions
        )
    reports = []
    for path in paths:
        with bar(path.name, quiet=quiet) as progress:
            report = verify(
                path,
                topics=topics,
                partitions=partitions,
                max_batch_bytes=max_batch_bytes,
                threads=threads,
                progress=progress,
            )
        reports.append((path, report))
    report = sum_up(reports) if len(paths) > 1 else report
    _show(report, command_output.chosen_format(form), no_color=no_color)
    if not report.is_sound:
        click.get_current_context().exit(Exit.DAMAGE)


def _show(report: Report, form: str, *, no_color: bool) -> None:
    """Print the problems; as JSON with the counts, and below a table in words."""
    if form == "json":
        text = json.dumps(report.as_dict(), ensure_ascii=False)
        on_terminal = sys.stdout.isatty()
        command_output.emit(
            f"{terminal.harmless_json(text) if on_terminal else text}\n"
        )
        return
    if report.problems or form != "table":
        rows = (problem.as_dict() for problem in report.problems)
        command_output.print_rows(rows, FIELDS, form, no_color=no_color)
    if form == "table":
        command_output.emit(f"{summary(report)}\n")


def summary(report: Report) -> str:
    """Say in a line how much was looked at, and how much is wrong.

    >>> from kafkalog.verification.report import Report
    >>> summary(Report(files=3, bytes=8192, batches=1, records=1024, problems=()))
    '3 files, 8,192 bytes, 1 batch, 1,024 records: 0 errors, 0 warnings'
    """
    counts = (
        (report.files, "file", "files"),
        (report.bytes, "byte", "bytes"),
        (report.batches, "batch", "batches"),
        (report.records, "record", "records"),
        (report.errors, "error", "errors"),
        (report.warnings, "warning", "warnings"),
    )
    parts = [f"{n:,} {one if n == 1 else many}" for n, one, many in counts]
    return f"{', '.join(parts[:4])}: {', '.join(parts[4:])}"

"""``kafkalog verify``: whether everything under a path is as Kafka wrote it.

Knows: how a report is shown. Does not know: what is asked of a log.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli.exits import Exit
from kafkalog.cli.table import Column, lines_of
from kafkalog.cli.terminal import columns_wide, harmless, harmless_json
from kafkalog.manager.report import Problem, Report, Severity

if TYPE_CHECKING:
    from kafkalog.manager.verification import Progress

COLUMNS: Final = (
    Column("path"),
    Column("position", right=True),
    Column("offset", right=True),
    Column("cause"),
    Column("severity"),
    Column("message"),
)
EXAMPLES: Final = """\b
Examples:
  kafkalog verify /var/lib/kafka/data
  kafkalog verify orders-0 --threads 4
  kafkalog verify orders-0/00000000000000000000.log --format json
"""
FORMATS: Final = ("table", "jsonl", "json", "csv")


@click.command(epilog=EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="A table on a terminal, JSON Lines in a pipe; json is one object in all.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many segments are read at a time.",
)
@click.option(
    "--max-batch-bytes",
    type=click.IntRange(min=1),
    default=64 << 20,
    show_default=True,
    help="How much a batch may take, unpacked.",
)
def verify(path: Path, form: str | None, threads: int, max_batch_bytes: int) -> None:
    """Look at everything under PATH, and list what is wrong with it.

    PATH is a log directory, a partition's directory or a file of one. Every batch is
    held to its checksum and to all that the checksum does not cover; indexes,
    snapshots and checkpoints are held to the log.

    Ends with 1 if there is an error. A warning is what a crash may leave behind.
    """
    from kafkalog.manager import verification

    with _progress() as progress:
        report = verification.verify(
            path, max_batch_bytes=max_batch_bytes, threads=threads, progress=progress
        )
    if form is None:
        form = "table" if sys.stdout.isatty() else "jsonl"
    _show(report, form)
    if not report.is_sound:
        click.get_current_context().exit(Exit.DAMAGE)


def _show(report: Report, form: str) -> None:
    if form == "json":
        click.echo(harmless_json(json.dumps(report.as_dict())))
    elif form == "jsonl":
        for problem in report.problems:
            click.echo(harmless_json(json.dumps(problem.as_dict())))
    elif form == "csv":
        names = [field.name for field in fields(Problem)]
        rows = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        rows.writeheader()
        rows.writerows(problem.as_dict() for problem in report.problems)
    else:
        _show_table(report)


def _show_table(report: Report) -> None:
    rows = [
        ["-" if cell is None else harmless(str(cell)) for cell in cells]
        for cells in map(astuple, report.problems)
    ]
    if rows:
        for line in lines_of(COLUMNS, rows, width=columns_wide()):
            click.echo(line)
    click.echo(summary(report))


def summary(report: Report) -> str:
    """Say in a line how much was looked at, and how much is wrong.

    >>> summary(Report(files=3, bytes=8192, batches=1, records=1024, problems=()))
    '3 files, 8,192 bytes, 1 batch, 1,024 records: 0 errors, 0 warnings'
    """
    counts = (
        (report.files, "file", "files"),
        (report.bytes, "byte", "bytes"),
        (report.batches, "batch", "batches"),
        (report.records, "record", "records"),
        (report.count(Severity.ERROR), "error", "errors"),
        (report.count(Severity.WARNING), "warning", "warnings"),
    )
    parts = [f"{n:,} {one if n == 1 else many}" for n, one, many in counts]
    return f"{', '.join(parts[:4])}: {', '.join(parts[4:])}"


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Give what draws a bar on a terminal, and None where there is none."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show

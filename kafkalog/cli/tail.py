"""``kafkalog tail``: print the last records, and those that come."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    ScanOptions,
    decode_option,
    examples,
    format_options,
    paths_argument,
    tail_options,
)

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan
    from kafkalog.query.tailing import Follower


@click.command(
    "tail",
    epilog=examples(
        "kafkalog tail /var/lib/kafka/data/orders.zstd-0",
        "kafkalog tail /var/lib/kafka/data --topic ledger -n 3 --columns offset,value",
        "kafkalog tail -f /var/lib/kafka/data --topic orders.none --format jsonl",
    ),
)
@paths_argument
@tail_options
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many records of each partition.",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with what is written from now on."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait before looking again.",
)
@decode_option
@format_options
def command(
    paths: tuple[Path, ...],
    options: ScanOptions,
    count: int,
    follow: bool,
    interval: float,
    decode: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the last records of each partition, found from its end.

    With -f the command goes on until it is interrupted, or nobody reads its output any
    more. It follows a log that is being written to across new segments, retention and
    partitions that come and go. Where a broker cuts a log back, that is told on
    standard error, and what is written behind the cut comes next. So are offsets that
    are skipped, since retention deleted them before they were read.
    """
    from kafkalog.query.tailing import last_records

    scan = last_records(options.scan(paths), count)
    if follow:
        form = command_output.chosen_format(form)
        shown = scan.columns
        scan = command_output.decodable(scan) if decode else scan
        with command_output.RecordPrinter(
            shown, form, no_color=no_color, decode=decode
        ) as printer:
            _follow(scan, paths, options, interval, printer)
        return
    command_output.print_records(scan, form, no_color=no_color, decode=decode)


def _follow(
    scan: Scan,
    paths: Sequence[Path],
    options: ScanOptions,
    interval: float,
    printer: command_output.RecordPrinter,
) -> None:
    from kafkalog.query.tailing import Follower

    follower = Follower(scan, lambda: options.parts(paths))
    _show(follower, printer, first=True)
    while True:
        _wait(interval)
        _show(follower, printer)


def _show(
    follower: Follower, printer: command_output.RecordPrinter, *, first: bool = False
) -> None:
    """Print what a look gives, at once."""
    for found in follower.first_look() if first else follower.look():
        if isinstance(found, str):
            exits.complain(found)
        else:
            printer.show(found)
    printer.flush()
    sys.stdout.flush()


def _wait(seconds: float) -> None:
    """Wait; raise `BrokenPipeError` once nobody reads standard output any more."""
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)
    if reader.poll(seconds * 1000):
        raise BrokenPipeError

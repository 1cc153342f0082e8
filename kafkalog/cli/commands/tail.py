"""``kafkalog tail``: print the last records, and follow a growing log."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    ScanOptions,
    ValueOptions,
    decode_option,
    examples,
    format_options,
    limit_option,
    sources_argument,
    tail_options,
    value_options,
)

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan
    from kafkalog.query.tailing import Follower
    from kafkalog.storage.location import Location


@click.command(
    "tail",
    epilog=examples(
        "kafkalog tail /var/lib/kafka/data/orders.zstd-0",
        "kafkalog tail /var/lib/kafka/data --topic ledger -n 3 --columns offset,value",
        "kafkalog tail -f /var/lib/kafka/data --topic orders.none --format jsonl",
    ),
)
@sources_argument
@tail_options
@limit_option("Number of records of each partition.", default=10)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Follow the log: print records as they are written.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two checks for new records.",
)
@value_options
@decode_option
@format_options
def command(
    paths: tuple[Location, ...],
    options: ScanOptions,
    limit: int,
    follow: bool,
    interval: float,
    values: ValueOptions,
    decode: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the last records of each partition.

    They are found from the end of the log. With -f the command runs until it is
    interrupted, or its output is closed. It follows a growing log across new segments,
    retention, and partitions that are created and deleted. If a broker truncates a log,
    a message on standard error states that, and the records written after the
    truncation are printed next. Offsets deleted by retention before they were read are
    reported in the same way.
    """
    from kafkalog.query.tailing import last_records

    scan = last_records(options.scan(paths), limit)
    if follow:
        with command_output.record_printer(
            scan, form, no_color=no_color, decode=decode, values=values
        ) as (scan, printer):
            _follow(scan, paths, options, interval, printer)
        return
    command_output.print_records(
        scan, form, no_color=no_color, decode=decode, values=values
    )


def _follow(
    scan: Scan,
    paths: Sequence[Location],
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
    """Print what one poll for new records returns, at once."""
    for item in follower.first_poll() if first else follower.poll():
        if isinstance(item, str):
            exits.print_error(item)
        else:
            printer.show(item)
    printer.flush()
    sys.stdout.flush()


def _wait(seconds: float) -> None:
    """Wait; raise `BrokenPipeError` if the reader of standard output has closed it."""
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)
    if reader.poll(seconds * 1000):
        raise BrokenPipeError

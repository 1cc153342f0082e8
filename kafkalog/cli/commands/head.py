"""``kafkalog head``: print the first records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog.cli import command_output
from kafkalog.cli.command_options import (
    ScanOptions,
    ValueOptions,
    decode_option,
    examples,
    format_options,
    limit_option,
    scan_options,
    sources_argument,
    value_options,
)

if TYPE_CHECKING:
    from kafkalog.storage.location import Location


@click.command(
    "head",
    epilog=examples(
        "kafkalog head /var/lib/kafka/data/orders.zstd-0",
        "kafkalog head /var/lib/kafka/data/clock.gzip-0 -n 3 --columns offset,value",
        "kafkalog head /var/lib/kafka/data --topic ledger --partition 1 --format jsonl",
        "kafkalog head /var/lib/kafka/data/orders.zstd-0 --value-format json "
        "--format jsonl",
    ),
)
@sources_argument
@scan_options
@limit_option("Number of records in total.", default=10)
@value_options
@decode_option
@format_options
def command(
    paths: tuple[Location, ...],
    options: ScanOptions,
    limit: int,
    values: ValueOptions,
    decode: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the first records, and read no more than they need."""
    scan = options.scan(paths)
    command_output.print_records(
        scan,
        form,
        limit=limit,
        no_color=no_color,
        decode=decode,
        values=values,
    )

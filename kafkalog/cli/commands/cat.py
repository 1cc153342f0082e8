"""``kafkalog cat``: print records."""

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
    "cat",
    epilog=examples(
        "kafkalog cat /var/lib/kafka/data/orders.zstd-0 --start-offset 100",
        "kafkalog cat /var/lib/kafka/data --topic ledger "
        "--isolation-level read_committed",
        "kafkalog cat /var/lib/kafka/data/state.none-0 --columns offset,key "
        "--format csv",
        "kafkalog cat /var/lib/kafka/data/__consumer_offsets-2 --decode",
    ),
)
@sources_argument
@scan_options
@limit_option("Print at most this many records.")
@value_options
@decode_option
@format_options
def command(
    paths: tuple[Location, ...],
    options: ScanOptions,
    limit: int | None,
    values: ValueOptions,
    decode: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the records of files, partitions or whole log directories.

    Partitions are printed one after another, by topic and number, each in offset order.
    In JSON, bytes are a string if they are valid UTF-8, and otherwise an object with
    their base64; --key-format and --value-format change that. Timestamps are
    milliseconds since 1970, or null. With --decode, the keys and values of Kafka's
    internal topics are printed as decoded JSON objects, whatever --key-format and
    --value-format are.
    """
    scan = options.scan(paths)
    command_output.print_records(
        scan,
        form,
        limit=limit,
        no_color=no_color,
        decode=decode,
        values=values,
    )

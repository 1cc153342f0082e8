"""``kafkalog latest``: print the latest record of each key."""

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
    latest_options,
    limit_option,
    sources_argument,
    value_options,
)

if TYPE_CHECKING:
    from kafkalog.storage.location import Location


@click.command(
    "latest",
    epilog=examples(
        "kafkalog latest /var/lib/kafka/data/state.gzip-0 --columns key,value",
        "kafkalog latest /var/lib/kafka/data --topic state.txn "
        "--isolation-level read_committed",
        "kafkalog latest /var/lib/kafka/data/state.gzip-0 "
        "--end-timestamp 2023-11-14T22:18:00Z",
    ),
)
@sources_argument
@latest_options
@click.option(
    "--tombstones",
    is_flag=True,
    help="Include keys that are deleted: their latest record has no value.",
)
@click.option(
    "--memory-bytes",
    type=click.IntRange(min=1 << 16),
    default=256 << 20,
    show_default=True,
    help="Maximum size of the table of keys, 32 bytes a key. With more keys in a "
    "partition, it is read several times.",
)
@limit_option("Print at most this many records.")
@value_options
@decode_option
@format_options
def command(
    paths: tuple[Location, ...],
    options: ScanOptions,
    tombstones: bool,
    memory_bytes: int,
    limit: int | None,
    values: ValueOptions,
    decode: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the latest record of each key: the table that a topic states.

    Keys are those of a partition. Keys whose latest record has no value are deleted,
    and records without a key are left out. The other options select the records of
    which the latest are printed: with --end-timestamp the table as of that time.

    Each log is read twice, first its keys, then the records. What is appended in
    between is ignored; what a broker compacts in between may be missing.
    """
    from kafkalog.query.latest_records import latest_of

    command_output.print_records(
        latest_of(
            options.scan(paths), tombstones=tombstones, memory_bytes=memory_bytes
        ),
        form,
        limit=limit,
        no_color=no_color,
        decode=decode,
        values=values,
    )

"""``kafkalog heal``: write one valid log from replicas damaged elsewhere."""

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
    selection_options,
    threads_option,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.exits import refusals

FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("records", "records", right=True),
    TableField("batches", "batches", right=True),
    TableField("missing", "missing offsets", cut="text"),
    TableField("bytes_unreadable", "bytes unreadable", right=True),
    TableField("sources", "ranges", lambda sources: str(len(sources)), right=True),
    TableField("why", "why not", cut="text"),
    TableField("notes", "notes", cut="text"),
)


@click.command(
    "heal",
    epilog=examples(
        "kafkalog heal /mnt/broker1/kafka /mnt/broker2/kafka /mnt/broker3/kafka "
        "/var/lib/kafka/healed",
        "kafkalog heal 1/orders-0 2/orders-0 healed --format json",
    ),
)
@click.argument("source", metavar="SRC...", nargs=-1, required=True, type=LocalPath())
@click.argument("destination", metavar="DST", type=LocalPath())
@selection_options
@dry_run_option
@threads_option("Number of partitions that are healed at the same time.")
@verbose_option
@format_options
def command(
    source: tuple[Path, ...],
    destination: Path,
    selection: Selection,
    dry_run: bool,
    threads: int,
    form: str | None,
    no_color: bool,
) -> None:
    """Write one valid log from replicas that are each damaged elsewhere.

    SRC... are log directories of several brokers, or directories of replicas of one
    partition. Nothing in them is changed. DST is a new log directory, which is missing
    or empty; otherwise the exit code is 4. It is written as DST.incomplete, and renamed
    last.

    The replica with the greatest last leader epoch, and of those the one with the
    greatest end offset, defines the true history. Batches that it lacks are taken from
    the other replicas, if their CRCs are valid and their leader epochs are those of the
    true history. All batches keep their bytes.

    A partition cannot be healed if no replica has a valid batch for an offset, or if
    two have different records of one offset and leader epoch. It is not written, the
    others are, and the exit code is 1.

    A row is for a partition: the numbers of its records and batches, the offsets that
    are missing, the bytes of all replicas that are in no valid batch, the number of
    ranges that are from one replica each, why it cannot be healed, or why nothing had
    to be. JSON has the replica of each range.
    """
    from kafkalog.copies.replica_healing import heal
    from kafkalog.errors import LogArgumentError

    with refusals():
        try:
            report = heal(
                source, destination, dry_run=dry_run, threads=threads, **selection
            )
        except LogArgumentError as error:
            raise click.UsageError(str(error)) from None
    command_output.print_report(report, FIELDS, form, no_color=no_color)
    exits.end_with(report)

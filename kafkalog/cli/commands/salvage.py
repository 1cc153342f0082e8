"""``kafkalog salvage``: write what is readable of damaged logs to a new directory."""

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
)


@click.command(
    "salvage",
    epilog=examples(
        "kafkalog salvage /mnt/failed/kafka /var/lib/kafka/salvaged",
        "kafkalog salvage /tmp/fragment.bin salvaged --fragment --output-topic orders",
        "kafkalog salvage /var/lib/kafka/data/orders-0 undeleted --undelete",
    ),
)
@click.argument("source", metavar="SRC", type=LocalPath())
@click.argument("destination", metavar="DST", type=LocalPath())
@selection_options
@click.option(
    "--output-topic",
    metavar="TOPIC",
    help="The topic that a partition, a file or an image is written as.",
)
@click.option(
    "--output-partition",
    type=click.IntRange(min=0),
    help="The partition's number; of an image, the first one.",
)
@click.option(
    "--fragment/--image",
    default=None,
    help="Read a file as a part of one log, or as an image of a disk. "
    "By default a file named .log is a part of a log.",
)
@click.option(
    "--undelete",
    is_flag=True,
    help="Write also segments that retention has marked .deleted and not removed yet, "
    "and begin the log with them.",
)
@dry_run_option
@threads_option("Number of partitions that are read and written at the same time.")
@verbose_option
@format_options
def command(
    source: Path,
    destination: Path,
    selection: Selection,
    output_topic: str | None,
    output_partition: int | None,
    fragment: bool | None,
    undelete: bool,
    dry_run: bool,
    threads: int,
    form: str | None,
    no_color: bool,
) -> None:
    """Write all that is readable of damaged logs to DST, for a broker to take.

    SRC is a log directory, the directory of a partition, a part of a .log file under
    any name, or an image of a disk (a block device, a tar archive, or any bytes).
    Nothing in it is changed. DST is a new log directory, which is missing or empty;
    otherwise the exit code is 4. It is written as DST.incomplete, and renamed last.

    A batch is readable if its CRC is valid and its offset fits. It keeps its offset,
    leader epoch, timestamps and bytes; segments keep their names. The indexes,
    snapshots and checkpoints are made anew.

    In an image, batches of magic 2 are found by their headers and CRCs. Which partition
    they belong to is unknown: those that certainly follow on become one partition,
    numbered from 0 or --output-partition on, of the topic "salvaged" or
    --output-topic.

    A row is for a partition: the numbers of its records and batches, the offsets that
    are missing between its known start and end, and the bytes of the source that are in
    no valid batch.

    The exit code is 1 if something is missing or unreadable.
    """
    from kafkalog.copies.log_salvage import salvage
    from kafkalog.errors import LogArgumentError

    with refusals():
        try:
            report = salvage(
                source,
                destination,
                **selection,
                output_topic=output_topic,
                output_partition=output_partition,
                fragment=fragment,
                undelete=undelete,
                dry_run=dry_run,
                threads=threads,
            )
        except LogArgumentError as error:
            raise click.UsageError(str(error)) from None
    command_output.print_report(report, FIELDS, form, no_color=no_color)
    exits.end_with(report)

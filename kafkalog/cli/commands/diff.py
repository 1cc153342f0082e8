"""``kafkalog diff``: compare two replicas, or a backup and its source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    LocalPath,
    Selection,
    examples,
    format_options,
    selection_options,
    threads_option,
    verbose_option,
)
from kafkalog.cli.command_output import TableField

FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("equal", "equal"),
    TableField("first_difference", "first difference", right=True),
    TableField("leader_epoch", "leader epoch", right=True),
    TableField("records_only_in_a", "only in a", right=True),
    TableField("records_only_in_b", "only in b", right=True),
    TableField("why", "why", cut="text"),
)


@click.command(
    "diff",
    epilog=examples(
        "kafkalog diff /var/lib/kafka/data /var/lib/kafka/data --topic 'orders.*'",
        "kafkalog diff /var/lib/kafka/data/orders.zstd-0 "
        "/var/lib/kafka/data/orders.zstd-0 --compare-bytes --format json",
    ),
)
@click.argument("a", type=LocalPath())
@click.argument("b", type=LocalPath())
@click.option(
    "--compare-bytes",
    is_flag=True,
    help="Compare batches byte for byte, as they are in replicas that were not "
    "compacted.",
)
@selection_options
@threads_option("Number of partitions that are compared at the same time.")
@verbose_option
@format_options
def command(
    a: Path,
    b: Path,
    compare_bytes: bool,
    selection: Selection,
    threads: int,
    form: str | None,
    no_color: bool,
) -> None:
    """Compare two replicas, or a backup and its source, partition by partition.

    A and B are two log directories, or the directories of two partitions. Nothing in
    them is changed.

    Records are equal if they have the same offset, leader epoch, timestamp, key, value,
    headers and producer, whatever their batches, compression and segments. Partitions
    are compared from the higher of the two log start offsets on.

    A row is for a partition, also one that only A or B has. It states whether the sides
    are equal; if not, the first offset at which they differ, the leader epoch there,
    the number of records without an equal one on the other side, and whether one side
    is behind, diverged, lacks records or is corrupt.

    The exit code is 1 if a partition differs.
    """
    from kafkalog.query.log_diff import diff

    report = diff(a, b, compare_bytes=compare_bytes, threads=threads, **selection)
    command_output.print_report(report, FIELDS, form, no_color=no_color, as_list=True)
    exits.end_with(report)

"""``kafkalog compact``: keep the last record of each key."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import command_output
from kafkalog.cli.command_options import (
    examples,
    format_options,
    paths_argument,
    selection_options,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.exits import refusals

FIELDS: Final = (
    TableField("topic", "topic"),
    TableField("partition", "partition", right=True),
    TableField("records_before", "records before", right=True),
    TableField("records_after", "after", right=True),
    TableField("bytes_before", "bytes before", right=True),
    TableField("bytes_after", "after", right=True),
    TableField("tombstones", "tombstones", right=True),
    TableField("segments_before", "segments before", right=True),
    TableField("segments_after", "after", right=True),
)


@click.command(
    "compact",
    epilog=examples(
        "kafkalog compact /var/lib/kafka/data --topic state.none --format table",
        "kafkalog compact /var/lib/kafka/data/state.none-0 --output /tmp/compacted",
    ),
)
@paths_argument
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write compacted copies of the partitions to this directory.",
)
@click.option("--in-place", is_flag=True, help="Compact the partitions themselves.")
@click.option(
    "--force",
    is_flag=True,
    help="Also compact topics without compact in cleanup.policy.",
)
@selection_options
@format_options
def command(
    paths: tuple[Path, ...],
    output: Path | None,
    in_place: bool,
    force: bool,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    form: str | None,
    no_color: bool,
) -> None:
    """Keep the last record of each key, or print what that leaves.

    PATH is a partition's directory, or a log directory. In a log directory, the
    partitions of the given topics are compacted; without --topic, those of all topics
    with compact in cleanup.policy. By default nothing in PATH is changed: the
    partitions are copied to a temporary directory and compacted there, and the numbers
    before and after are printed.

    The rules are those of a broker's cleaner. Records at or above the checkpointed high
    watermark are not compacted; without a checkpoint, all are. A record without a key
    is removed. A tombstone is kept for delete.retention.ms after the first compaction.

    With --in-place no broker may be running on the log directory. The exit code is 4 if
    a partition exists in the output directory, or if a topic that is to be compacted in
    place does not have compact in cleanup.policy.
    """
    from kafkalog.cleaner.offline_compaction import compact

    if output is not None and in_place:
        raise click.UsageError("--output and --in-place exclude each other")
    rows = []
    for path in paths:
        with refusals():
            reports = compact(
                path,
                output=output,
                in_place=in_place,
                force=force,
                topics=topics,
                partitions=partitions,
            )
        rows += [report.as_dict() for report in reports]
    form = command_output.chosen_format(form)
    command_output.print_rows(rows, FIELDS, form, no_color=no_color)

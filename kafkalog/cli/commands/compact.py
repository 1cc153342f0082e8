"""``kafkalog compact``: keep the last record of each key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, terminal
from kafkalog.cli.command_options import (
    LocalPath,
    Selection,
    examples,
    format_options,
    max_batch_bytes_option,
    on_corruption_option,
    paths_argument,
    selection_options,
    threads_option,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.exits import Damaged, refusals
from kafkalog.reports import counted

if TYPE_CHECKING:
    from kafkalog.cleaner.corrupt_batches import OnCorruptBatch

FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("records_before", "records before", right=True),
    TableField("records_after", "after", right=True),
    TableField("bytes_before", "bytes before", right=True),
    TableField("bytes_after", "after", right=True),
    TableField("tombstones", "tombstones", right=True),
    TableField("segments_before", "segments before", right=True),
    TableField("segments_after", "after", right=True),
    TableField("unchanged_because", "unchanged because", cut="text"),
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
    "-o",
    "--output",
    "destination",
    metavar="DST",
    type=LocalPath(),
    help="Write compacted copies of the partitions to this directory.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing, also not to --output.")
@click.option("--apply", is_flag=True, help="Compact the partitions themselves.")
@click.option(
    "--ignore-policy",
    is_flag=True,
    help="Also compact topics without compact in cleanup.policy.",
)
@on_corruption_option("Stop at a corrupt batch, skip it, or keep it as it is.", "keep")
@max_batch_bytes_option(None)
@selection_options
@threads_option("Number of partitions that are compacted at the same time.")
@verbose_option
@format_options
def command(
    paths: tuple[Path, ...],
    destination: Path | None,
    dry_run: bool,
    apply: bool,
    ignore_policy: bool,
    on_corruption: OnCorruptBatch,
    max_batch_bytes: int,
    selection: Selection,
    threads: int,
    form: str | None,
    no_color: bool,
) -> None:
    """Keep the last record of each key, or print what that leaves.

    PATH is a partition's directory, or a log directory. In a log directory, the
    partitions of the given topics are compacted; without --topic, those of all topics
    with compact in cleanup.policy. By default nothing in PATH is changed: what
    compaction writes goes to a temporary directory, and the numbers before and after
    are printed. If no record is removed, the reasons are in unchanged_because.

    The rules are those of a broker's cleaner. Records at or above the checkpointed high
    watermark are not compacted; without a checkpoint, all are. A record without a key
    is removed. A tombstone is kept for delete.retention.ms after the first compaction.

    With --apply no broker may be running on the log directory. The exit code is 4 if
    the output directory is not empty, or if a topic that is to be compacted in place
    does not have compact in cleanup.policy.

    A corrupt batch ends the command with exit code 1, before anything is written. With
    --on-corruption skip or keep it is dropped, or copied byte for byte; the exit code
    is 1, too, and standard error and the member corrupt have the batches.
    """
    from kafkalog.cleaner.offline_compaction import CompactionReport, compact

    if destination is not None and apply:
        raise click.UsageError("--output and --apply exclude each other")
    if dry_run and apply:
        raise click.UsageError("--dry-run and --apply exclude each other")
    with refusals():
        reports = compact(
            paths,
            destination=None if dry_run else destination,
            apply=apply,
            ignore_policy=ignore_policy,
            **selection,
            on_corruption=on_corruption,
            max_batch_bytes=max_batch_bytes,
            threads=threads,
        )
    rows = [row for report in reports for row in report.rows()]
    form = command_output.chosen_format(form)
    has_reasons = any(row["unchanged_because"] for row in rows)
    fields = FIELDS if has_reasons else FIELDS[:-1]
    command_output.print_rows(
        rows,
        fields,
        form,
        importance=CompactionReport.importance(),
        no_color=no_color,
        schema=CompactionReport.schema,
    )
    lines = [line for report in reports for line in report.notes()]
    for line in lines:
        click.echo(terminal.escape(line), err=True)
    if lines:
        raise Damaged(counted(len(lines), "corrupt batch", "corrupt batches"))

"""``kafkalog restore``: make a log directory for a broker from a backup."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    BOUNDS,
    FILTERS,
    KEY_HELP,
    TOPICS,
    Function,
    LocalPath,
    SourcePath,
    all_of,
    examples,
    format_options,
    max_batch_bytes_option,
    on_corruption_option,
    quiet_option,
    read_header,
    read_key,
    refuse_url,
    threads_option,
    verbose_option,
    with_options,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.exits import refusals
from kafkalog.cli.terminal import progress_bar

if TYPE_CHECKING:
    from kafkalog.copies.record_selection import Predicate

FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("topic_id", "topic id"),
    TableField("log_start_offset", "log start", right=True),
    TableField("log_end_offset", "log end", right=True),
    TableField("records", "records", right=True),
    TableField("excluded_records", "excluded", right=True),
    TableField("open_transactions", "open transactions", right=True),
)
FINDING_FIELDS: Final = (
    TableField("path", "path", cut="path"),
    TableField("records", "records", right=True),
    TableField("first_offset", "first offset", right=True),
    TableField("occurrences", "occurrences", right=True),
    TableField("position", "byte", right=True),
)


def read_predicate(text: str) -> Predicate:
    """Read FILE:FUNCTION, and run the file."""
    path, colon, name = text.rpartition(":")
    if not colon:
        raise click.BadParameter(f"{text!r}, expected FILE:FUNCTION")
    found = runpy.run_path(path).get(name)
    if not callable(found):
        raise click.BadParameter(f"no function {name!r} in {path}")
    function: Predicate = found
    return function


TARGET: Final = (
    click.option(
        "--target",
        type=LocalPath(),
        metavar="LOGDIR",
        help="A log directory of the broker that the copy is for: its cluster, node "
        "and directory id, and the topic ids in its metadata.",
    ),
    click.option("--cluster-id", metavar="ID", help="The cluster id of the copy."),
    click.option("--node-id", type=click.IntRange(min=0), help="The broker's node.id."),
    click.option(
        "--directory-id", metavar="ID", help="The directory id; default: a new one."
    ),
    click.option(
        "--topic-ids",
        type=LocalPath(),
        metavar="FILE",
        help="The topic ids of the target cluster: CSV of topic and id, JSON, the "
        "output of kafka-topics.sh --describe, or a log directory with the cluster's "
        "metadata.",
    ),
    click.option(
        "--leader-epoch",
        type=click.IntRange(min=0),
        help="Leader epoch for all batches; default: 0 for another cluster, otherwise "
        "each keeps its own.",
    ),
    click.option(
        "--keep-producers/--forget-producers",
        default=None,
        help="Whether the state of producers is kept; default: unless the copy is for "
        "another cluster.",
    ),
)
RECORDS: Final = (
    *TOPICS,
    *BOUNDS,
    *FILTERS,
    click.option(
        "--exclude-key",
        "exclude_keys",
        multiple=True,
        type=read_key,
        callback=all_of,
        metavar="KEY",
        help=f"Not records with this key: {KEY_HELP}",
    ),
    click.option(
        "--exclude-producer-id",
        "exclude_producer_ids",
        multiple=True,
        type=click.IntRange(min=-1),
        help="Not records of this producer; may be repeated.",
    ),
    click.option(
        "--exclude-header",
        "exclude_headers",
        multiple=True,
        type=read_header,
        metavar="NAME[=VALUE]",
        help="Not records with this header; may be repeated.",
    ),
    click.option(
        "--where",
        type=read_predicate,
        metavar="FILE:FUNCTION",
        help="A Python file, which is run, and its function that returns for each "
        "chunk of records which of them to copy.",
    ),
)


def restore_options(function: Function) -> Function:
    """Add the options for the target and the selection of records."""
    return with_options((*TARGET, *RECORDS), function)


@click.command(
    "restore",
    epilog=examples(
        "kafkalog restore /var/lib/kafka/data copy --topic 'orders.*' --dry-run",
        "kafkalog restore /var/lib/kafka/data erased --exclude-key key-38 --prove",
        "kafkalog restore /var/lib/kafka/data copy --target /var/lib/kafka/data "
        "--topic orders.none",
    ),
)
@click.argument("paths", metavar="SRC... DST", nargs=-1, type=SourcePath())
@restore_options
@click.option(
    "--open-transactions",
    type=click.Choice(["keep", "abort"]),
    default="keep",
    show_default=True,
    help="What happens to transactions that are open in the copy; abort appends a "
    "marker for each.",
)
@click.option(
    "--groups-file",
    metavar="FILE",
    help="Carry over the committed offsets of consumer groups: to a file for "
    "kafka-consumer-groups.sh --reset-offsets --from-file (CSV, or JSON if its name "
    "ends with .json), or with 'internal' into the copy's __consumer_offsets.",
)
@click.option(
    "--offsets-partitions",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Partitions of __consumer_offsets in the target cluster.",
)
@on_corruption_option(
    "At corrupt data, stop and copy nothing, or skip it; the exit code is 1 either way."
)
@max_batch_bytes_option(None)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Write nothing; print the report. It lists all files that would be written "
    "but producer snapshots and transaction indexes.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Search the copy for records that should not be in it. With DST alone, search "
    "that directory and write nothing.",
)
@threads_option("Number of partitions that are copied at the same time.")
@quiet_option
@verbose_option
@format_options
def command(
    paths: tuple[Any, ...],
    dry_run: bool,
    prove: bool,
    threads: int,
    quiet: bool,
    form: str | None,
    no_color: bool,
    exclude_keys: tuple[bytes, ...] | None,
    producer_ids: tuple[int, ...],
    **options: Any,
) -> None:
    """Make a log directory for a broker, with some or all records of SRC.

    SRC is a log directory, that of a partition, or several of them; DST is the log
    directory to write, which must not exist, or be empty. Records keep their offsets. A
    record that is not copied leaves its offset, as compaction does. Only batches with
    such records are written anew. Internal topics are copied only if a pattern of
    --topic that begins with __ matches.

    For another cluster, create its topics first, stop the broker, and pass its log
    directory as --target; or pass --cluster-id, --node-id and --topic-ids. The broker
    then starts on DST in place of its log directory.

    DST gets its name when it is complete. A row is for a partition; JSON has the report
    with the SHA-256 of each file. The exit code is 1 if SRC is corrupt, or if --prove
    finds anything, and 4 if DST is not empty or the id of a topic is missing.
    """
    options |= {
        "exclude_keys": exclude_keys or (),
        "producer_ids": producer_ids or None,
    }
    if prove and len(paths) == 1:
        _prove_alone(paths[0], options, form, no_color=no_color)
        return
    if len(paths) < 2:
        raise click.UsageError("expected SRC and DST, or --prove with one directory")
    from kafkalog.copies.log_restore import restore

    *sources, destination = paths
    refuse_url(str(destination))
    with refusals(), progress_bar(Path(str(destination)).name, quiet=quiet) as progress:
        report = restore(
            sources,
            destination,
            dry_run=dry_run,
            prove=prove,
            threads=threads,
            progress=progress,
            **options,
        )
    command_output.print_report(report, FIELDS, form, no_color=no_color)
    for problem in report.problems:
        exits.print_error(f"skipped: {problem}")
    for backup in report.backups:
        exits.print_error(f"the originals of a repair hold what is left out: {backup}")
    exits.end_with(report)


def _prove_alone(
    path: Any, options: dict[str, Any], form: str | None, *, no_color: bool
) -> None:
    """Search a directory for records that the filters exclude."""
    from kafkalog.copies.log_restore import prove
    from kafkalog.copies.record_selection import RecordFilters

    filters = RecordFilters.__optional_keys__
    report = prove(path, **{name: options[name] for name in filters})
    command_output.print_report(report, FINDING_FIELDS, form, no_color=no_color)
    exits.end_with(report)

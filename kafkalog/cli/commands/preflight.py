"""``kafkalog preflight``: print what a broker's start would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    LocalPath,
    examples,
    format_options,
    read_broker,
    threads_option,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.reports import counted

if TYPE_CHECKING:
    from kafkalog.startup.start_report import StartReport

FIELDS: Final = (
    TableField("directory", "directory", cut="path"),
    TableField("state", "state"),
    TableField("segments_to_read", "segments to read", right=True),
    TableField("bytes_to_read", "bytes", right=True),
    TableField("cut_from_offset", "cut from", right=True),
    TableField("bytes_cut", "bytes cut", right=True),
    TableField("records_lost", "records lost", right=True),
    TableField("notes", "notes", cut="text"),
)


@click.command(
    "preflight",
    epilog=examples(
        "kafkalog preflight /var/lib/kafka/data --format table",
        "kafkalog preflight /var/lib/kafka/data --read-rate 200000000 --format json",
    ),
)
@click.argument("paths", metavar="LOGDIR...", nargs=-1, required=True, type=LocalPath())
@click.option(
    "--cluster",
    type=LocalPath(),
    metavar="PATH",
    help="A __cluster_metadata-0, if none of the log directories has it.",
)
@click.option(
    "--cluster-id", metavar="ID", help="The cluster id that the directories must have."
)
@click.option(
    "--node-id",
    type=click.IntRange(min=0),
    help="The broker's node.id; default: the one in --server-properties.",
)
@click.option(
    "--server-properties",
    type=LocalPath(),
    metavar="FILE",
    help="The broker's server.properties.",
)
@click.option(
    "--read-rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="BYTES",
    help="Bytes a second that the broker reads; default: the rate of this command.",
)
@click.option(
    "--check-cleaner/--no-check-cleaner",
    default=True,
    show_default=True,
    help="Whether compacted logs are read for batches that stop the log cleaner.",
)
@threads_option("Number of logs that are loaded at the same time.")
@verbose_option
@format_options
def command(
    paths: tuple[Path, ...],
    cluster: Path | None,
    cluster_id: str | None,
    node_id: int | None,
    server_properties: Path | None,
    read_rate: float | None,
    check_cleaner: bool,
    threads: int,
    form: str | None,
    no_color: bool,
) -> None:
    """Print what a broker does to its log directories when it starts on them.

    LOGDIR... are all log directories of the broker, which is not running. Nothing in
    them is changed: each log is loaded as a broker loads it, and the changes are made
    to temporary files.

    A row is for the directory of one partition. Its state is clean (no segment is read
    through), recover (some are), stray (the cluster does not assign the partition to
    this broker; the directory is renamed), future (the target of a move), deleted (the
    directory is removed), offline (the log cannot be loaded, or its log directory
    fails) or missing (the cluster assigns the partition to this broker, which creates
    an empty log). Cut bytes are truncated or deleted; records lost are the readable
    ones among them. JSON also has the log directories: their ids, the space that the
    start needs, and the files that may be removed before.

    The exit code is 1 if the broker does not start, if records are lost, if a partition
    becomes a stray, is offline or gets no leader, if a batch would stop the log
    cleaner, or if there is not enough space.
    """
    from kafkalog.startup.broker_start import preflight
    from kafkalog.storage.properties_file import read_properties

    server = {} if server_properties is None else read_properties(server_properties)
    report = preflight(
        paths,
        cluster=cluster,
        cluster_id=cluster_id,
        node_id=_node_id(server) if node_id is None else node_id,
        roles=[role.strip() for role in server.get("process.roles", "").split(",")],
        broker=read_broker(server_properties),
        read_rate=read_rate,
        check_cleaner=check_cleaner,
        threads=threads,
    )
    command_output.print_report(
        report, FIELDS, form, no_color=no_color, details=_details(report)
    )
    exits.end_with(report)


def _node_id(server: Mapping[str, str]) -> int | None:
    """Return the ``node.id`` in a ``server.properties``; None if it has none."""
    text = server.get("node.id", "").strip()
    return int(text) if text.isdecimal() else None


def _details(report: StartReport) -> Iterator[str]:
    """Yield what happens to the log directories, and what is unknown."""
    for each in report.directories:
        for note in each.notes:
            yield f"{each.directory}: {note}"
        if each.seconds:
            yield f"{each.directory}: about {each.seconds:.1f} seconds of reading"
        if each.bytes_freeable:
            size = counted(each.bytes_freeable, "byte")
            yield f"{each.directory}: {size} can be freed before"
        deleted = [one for one in each.freeable if one.kind == "deleted_segment"]
        if deleted:
            segments = counted(len(deleted), "segment")
            how = "the broker removes them, salvage --undelete brings them back"
            yield f"{each.directory}: {segments} marked .deleted: {how}"
    for unchecked in report.not_checked:
        yield f"not checked: {unchecked}"

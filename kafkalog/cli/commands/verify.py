"""``kafkalog verify``: check every file under a path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    SERVER_PROPERTIES,
    Selection,
    examples,
    format_options,
    max_batch_bytes_option,
    paths_argument,
    quiet_option,
    read_older_broker,
    selection_options,
    threads_option,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.terminal import progress_bar

FIELDS: Final = (
    TableField("path", "path", cut="path"),
    TableField("position", "position", right=True),
    TableField("offset", "offset", right=True),
    TableField("last_offset", "to", right=True),
    TableField("cause", "cause"),
    TableField("severity", "severity"),
    TableField("recovery", "recovery"),
    TableField("recovery_position", "cut at", right=True),
    TableField("message", "message", cut="text"),
)


@click.command(
    "verify",
    epilog=examples(
        "kafkalog verify /var/lib/kafka/data --threads 4 --format table",
        "kafkalog verify /var/lib/kafka/data/orders.zstd-0 --format json",
        "kafkalog verify /var/lib/kafka/data/ledger-0/00000000000000000005.log "
        "--format json",
        "kafkalog verify /var/lib/kafka/data/ledger-0 /var/lib/kafka/data/ledger-1 "
        "--format json",
    ),
)
@paths_argument
@selection_options
@threads_option("Number of segments that are read at the same time.")
@max_batch_bytes_option(None)
@SERVER_PROPERTIES
@quiet_option
@verbose_option
@format_options
def command(
    paths: tuple[Path, ...],
    selection: Selection,
    threads: int,
    max_batch_bytes: int,
    server_properties: Path | None,
    quiet: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Verify everything under each PATH, and list the problems found.

    PATH is a log directory, a partition's directory or one of its files. Every batch is
    checked against its checksum and against the rules that the checksum does not cover;
    indexes, snapshots and checkpoints are checked against the log. No byte is changed.

    Each problem states what a broker does about it when it starts: nothing; truncate
    the log at a byte; overwrite part of it; rebuild, delete or reset the file; split
    the segment; delete_log; set the partition aside as a stray; or refuse to start. If
    records would be lost, the message states which. The settings are those of the
    topic in the cluster's metadata log, if the log directory is a broker's, and those
    of --server-properties, or else Kafka's defaults.

    Paths of problems are relative to PATH; with several, they begin with their PATH,
    and the counts are added up. The files of the log directory itself are verified
    whatever partitions are selected.

    The exit code is 1 if there is an error: something that misleads a reader, that
    keeps a broker from starting, or that loses records. A warning is what a crash may
    leave behind and a broker repairs by itself. If PATH has no file of Kafka's, the
    exit code is 3.
    """
    from kafkalog.storage.log_directory import PartitionSelection
    from kafkalog.verification.path_verification import combine_reports, verify_selected

    chosen = PartitionSelection.of(**selection)
    chosen.check(paths)
    reports = []
    for path in paths:
        with progress_bar(path.name, quiet=quiet) as progress:
            report = verify_selected(
                path,
                chosen,
                max_batch_bytes=max_batch_bytes,
                broker=read_older_broker(server_properties),
                threads=threads,
                progress=progress,
            )
        reports.append((path, report))
    report = combine_reports(reports) if len(paths) > 1 else report
    command_output.print_report(report, FIELDS, form, no_color=no_color, quiet=quiet)
    exits.end_with(report)

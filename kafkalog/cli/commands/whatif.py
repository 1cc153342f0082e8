"""``kafkalog whatif``: print what retention and compaction would remove."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, terminal
from kafkalog.cli.command_options import (
    LocalPath,
    Selection,
    examples,
    format_options,
    quiet_option,
    read_older_broker,
    retention_options,
    selection_options,
)
from kafkalog.cli.command_output import TableField

if TYPE_CHECKING:
    from kafkalog.cleaner.removal_report import SettingsUsed

FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("segment", "segment"),
    TableField("records", "records", right=True),
    TableField("bytes", "bytes", right=True),
    TableField("removed_by", "removed by"),
    TableField("at", "at, UTC", terminal.in_seconds),
    TableField("unchanged_because", "unchanged because", cut="text"),
)
SOURCES: Final = {
    "cluster": "the cluster's metadata log",
    "broker": "the broker's server.properties",
    "defaults": "Kafka's defaults",
    "unknown": "unknown, nothing is removed by them",
}


@click.command(
    "whatif",
    epilog=examples(
        "kafkalog whatif /var/lib/kafka/data --set retention.ms=3600000 "
        "--topic orders.none",
        "kafkalog whatif /var/lib/kafka/data/orders.none-0 "
        "--set cleanup.policy=compact",
    ),
)
@click.argument("path", type=LocalPath())
@selection_options
@retention_options
@quiet_option
@format_options
def command(
    path: Path,
    settings: tuple[tuple[str, str], ...],
    selection: Selection,
    at: int | None,
    server_properties: Path | None,
    quiet: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print what retention and compaction would remove now, and by which setting.

    PATH is a partition's directory, or a log directory. Nothing in it is changed. A
    partition with compact in cleanup.policy is compacted, and what that writes goes to
    a temporary directory.

    --set changes a setting of the topics, such as retention.ms=3600000. The other
    settings are those of the topic in the cluster's metadata log, or Kafka's defaults.
    In a broker's directory without that log, they are those of --server-properties. The
    origin is printed on standard error.

    A row is for the records of one segment that one rule removes: log_start_offset,
    retention.bytes, retention.ms, compact (a later record has the same key),
    delete.retention.ms (tombstones and transaction markers), null_key or
    aborted_transaction. Segments that get too old later are listed with that time. A
    partition without removals has one row, with the reasons in unchanged_because.
    """
    from kafkalog.cleaner.planned_removals import whatif

    report = whatif(
        path,
        dict(settings),
        **selection,
        at=at,
        broker=read_older_broker(server_properties),
    )
    if not quiet:
        report_settings(report.settings)
    fields = FIELDS if report.unchanged else FIELDS[:-1]
    command_output.print_report(
        report, fields, form, no_color=no_color, as_list=True, summary=False
    )


def report_settings(used: Iterable[SettingsUsed]) -> None:
    """Print the origin of the settings on standard error, one line per origin."""
    from kafkalog.log.topic_settings import PASS_PROPERTIES

    topics: dict[tuple[str, str | None], list[str]] = {}
    for settings in used:
        origin = settings.source, settings.unknown
        topics.setdefault(origin, []).append(settings.topic)
    for (source, unknown), names in topics.items():
        if unknown == PASS_PROPERTIES:
            unknown = "without retention.ms; it may be in --server-properties"
        reason = "" if unknown is None else f" ({unknown})"
        text = f"settings of {', '.join(names)}: {SOURCES[source]}{reason}"
        click.echo(terminal.escape(text), err=True)

"""``kafkalog why``: print the rules that keep a segment."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kafkalog.cli import command_output, terminal
from kafkalog.cli.command_options import (
    LocalPath,
    examples,
    format_options,
    quiet_option,
    read_older_broker,
    retention_options,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.commands.whatif import report_settings
from kafkalog.reports import ReportRow

FIELDS: Final = (
    TableField("segment", "segment"),
    TableField("kept", "kept"),
    TableField("rule", "rule"),
    TableField("setting", "setting"),
    TableField("value", "value"),
    TableField("until", "until, UTC", terminal.in_seconds),
)


@click.command(
    "why",
    epilog=examples(
        "kafkalog why /var/lib/kafka/data/orders.zstd-0/00000000000000000000.log",
        "kafkalog why /var/lib/kafka/data/state.none-0/00000000000000000000.log "
        "--format table",
    ),
)
@click.argument("segment", type=LocalPath())
@retention_options
@quiet_option
@format_options
def command(
    segment: Path,
    settings: tuple[tuple[str, str], ...],
    at: int | None,
    server_properties: Path | None,
    quiet: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print which rules keep a segment, or remove it.

    SEGMENT is a .log file, or one marked .log.deleted, in its partition's directory.
    Nothing is changed. --set changes a setting, such as retention.ms=3600000. The
    other settings are those of the topic in the cluster's metadata log, or Kafka's
    defaults. In a broker's directory without that log, they are those of
    --server-properties. The origin is printed on standard error.

    The rules that keep a segment: retention.ms, retention.bytes, cleanup.policy
    (without delete), high_watermark (not yet replicated), active (the segment is
    appended to), older_segment (an older one is kept), file.delete.delay.ms; and with
    compaction, transaction (one is open), min.compaction.lag.ms,
    min.cleanable.dirty.ratio (too few bytes are dirty), cleaner_checkpoint (compacted
    already) and uncleanable (an error, such as a corrupt batch). The rules that remove
    it: log_start_offset, retention.bytes, retention.ms.
    """
    from kafkalog.cleaner.segment_keeping import why

    report = why(
        segment,
        dict(settings),
        at=at,
        broker=read_older_broker(server_properties),
    )
    if not quiet:
        report_settings([report.settings])
    form = command_output.chosen_format(form)
    whole = [ReportRow.as_dict(report)] if form in ("json", "jsonl") else None
    command_output.print_report(
        report,
        FIELDS,
        form,
        no_color=no_color,
        rows=whole,
        as_list=True,
        summary=False,
    )

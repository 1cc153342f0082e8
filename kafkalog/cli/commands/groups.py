"""``kafkalog groups``: print the committed offsets of consumer groups."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import (
    TopicSelection,
    commit_options,
    examples,
    format_options,
    sources_argument,
)
from kafkalog.cli.command_output import TableField

if TYPE_CHECKING:
    from kafkalog.storage.location import Location

COMMIT: Final = (
    TableField("group", "group", cut="name"),
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("offset", "offset", right=True),
)
MARKS: Final = (
    TableField("is_share_group", "share group"),
    TableField("is_beyond_log_end", "beyond end"),
)
COMMITTED: Final = TableField("commit_timestamp", "committed, UTC", terminal.in_seconds)
FIELDS: Final = (
    *COMMIT,
    TableField("leader_epoch", "leader epoch", right=True),
    COMMITTED,
    *MARKS,
    TableField("metadata", "metadata", cut="value"),
)


@click.command(
    "groups",
    epilog=examples(
        "kafkalog groups /var/lib/kafka/data",
        "kafkalog groups /var/lib/kafka/data --group readers-txn --format table",
        "kafkalog groups /var/lib/kafka/data --at 2026-11-21T14:42:00Z",
    ),
)
@sources_argument
@commit_options
@format_options
def command(
    paths: tuple[Location, ...],
    names: tuple[str, ...],
    selection: TopicSelection,
    at: int | None,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the committed offset of each partition of each consumer group.

    PATH is a log directory that has partitions of __consumer_offsets. All offsets of a
    group are in one of them. Give the directories of several brokers to have all.

    A share group has no committed offsets; its offsets are those below which all
    records are done. Marked are share groups, and offsets beyond the end of the log, if
    a PATH has it.

    With --at, a group has the offset of its last commit up to that time. If compaction
    has removed what it may have committed by then, the offset is null.

    The exit code is 1 if a batch or a record is corrupt. It is skipped, and a group
    has the offset that it had committed before.
    """
    from kafkalog.analysis.group_lag import (
        BY_IMPORTANCE,
        absent,
        readable_groups,
        selected,
    )
    from kafkalog.query.scan import scan

    found = scan(list(paths), on_corruption="skip")
    table, problems = readable_groups(found, at)
    rows = command_output.rows_of(selected(table, names or None, **selection))
    form = command_output.chosen_format(form)
    command_output.print_rows(
        rows, FIELDS, form, importance=BY_IMPORTANCE, no_color=no_color
    )
    sys.stdout.flush()
    for line in absent(table, names, selection.get("topics")):
        exits.print_error(line)
    exits.report_problems(problems)

"""``kafkalog lag``: print how far consumer groups are from the log ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, exits
from kafkalog.cli.command_options import (
    TopicSelection,
    commit_options,
    examples,
    format_options,
    sources_argument,
)
from kafkalog.cli.command_output import TableField
from kafkalog.cli.commands.groups import COMMIT, COMMITTED, MARKS

if TYPE_CHECKING:
    from kafkalog.storage.location import Location

FIELDS: Final = (
    *COMMIT,
    TableField("log_start_offset", "start", right=True),
    TableField("log_end_offset", "end", right=True),
    TableField("lag", "lag", right=True),
    COMMITTED,
    *MARKS,
)


@click.command(
    "lag",
    epilog=examples(
        "kafkalog lag /var/lib/kafka/data --format table",
        "kafkalog lag /var/lib/kafka/data --group readers-classic",
        "kafkalog lag /var/lib/kafka/data --at 2026-11-21T14:42:00Z",
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
    """Print the lag of each partition of each consumer group.

    PATH is a log directory that has partitions of __consumer_offsets. Logs are read
    from it as well: give the directories of several brokers to have all. The lag is the
    log end offset minus the committed offset; null if no PATH has the partition. The
    log end offset includes records that are not yet replicated. Marked are share
    groups, whose lag does not count records that are done, and offsets beyond the log
    end.

    With --at, a group has the offset of its last commit up to that time, and a log ends
    before its first record with a later timestamp. What retention or compaction has
    removed is unknown: null are an offset, if only later commits of the group are left,
    a log end offset, if the record before it is removed, and a log start offset other
    than 0. Timestamps of records are set by producers, unless
    message.timestamp.type is LogAppendTime.

    The exit code is 1 if a batch or a record is corrupt. It is skipped, and a group
    has the offset that it had committed before. If a log cannot be read, its offsets
    are null.
    """
    from kafkalog.analysis.group_lag import (
        BY_IMPORTANCE,
        absent,
        readable_lag,
        selected,
    )
    from kafkalog.query.scan import scan

    found = scan(list(paths), on_corruption="skip")
    table, problems = readable_lag(found, at)
    rows = command_output.rows_of(selected(table, names or None, **selection))
    form = command_output.chosen_format(form)
    command_output.print_rows(
        rows, FIELDS, form, importance=BY_IMPORTANCE, no_color=no_color
    )
    sys.stdout.flush()
    for line in absent(table, names, selection.get("topics")):
        exits.print_error(line)
    exits.report_problems(problems)

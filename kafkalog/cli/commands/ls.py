"""``kafkalog ls``: list partitions, or the segments of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from kafkalog.cli import command_output, terminal
from kafkalog.cli.command_options import (
    Selection,
    examples,
    format_options,
    selection_options,
    sources_argument,
)
from kafkalog.cli.command_output import TableField
from kafkalog.reports import counted

TIMES: Final = (
    TableField("first_timestamp", "first time, UTC", terminal.in_seconds),
    TableField("max_timestamp", "latest time, UTC", terminal.in_seconds),
    TableField("state", "state"),
)
if TYPE_CHECKING:
    from kafkalog.query.listing import PartitionSummary, SegmentSummary
    from kafkalog.storage.location import Location

    Summary: TypeAlias = PartitionSummary | SegmentSummary

SIZES: Final = (
    TableField("size_in_bytes", "size", terminal.in_units, right=True),
    TableField("all_files_bytes", "all files", terminal.in_units, right=True),
)
PARTITION: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("segments", "segments", right=True),
    *SIZES,
    TableField("log_start_offset", "start", right=True),
    TableField("log_end_offset", "end", right=True),
    *TIMES,
)
SEGMENT: Final = (
    TableField("file", "segment"),
    TableField("base_offset", "base offset", right=True),
    TableField("next_offset", "next offset", right=True),
    *SIZES,
    TableField("index_entries", "index", right=True),
    TableField("time_index_entries", "timeindex", right=True),
    TableField("txn_index_entries", "txnindex", right=True),
    *TIMES,
)


@click.command(
    "ls",
    epilog=examples(
        "kafkalog ls /var/lib/kafka/data",
        "kafkalog ls /var/lib/kafka/data/orders.zstd-0",
        "kafkalog ls /var/lib/kafka/data --topic ledger --format jsonl",
    ),
)
@sources_argument
@selection_options
@click.option(
    "--sort",
    type=click.Choice(["name", "size"]),
    default="name",
    show_default=True,
    help="Sort by name, or by the size of all files, largest first.",
)
@format_options
def command(
    paths: tuple[Location, ...],
    selection: Selection,
    sort: str,
    form: str | None,
    no_color: bool,
) -> None:
    """List the partitions of a log directory, or the segments of a partition.

    For a partition: its segments, the size of its .log files and of all its files, log
    start offset and log end offset, and the times of the first batch and of the latest
    record. Directories marked -delete, -future or -stray are listed with their state.
    For a segment: the size of its .log file and of all its files, the number of entries
    of its indexes (- if one is missing), times, and its state: .deleted, .cleaned or
    .swap.

    Segments and sizes include files marked .deleted, .cleaned or .swap, which take
    space until they are removed. The unused space of a preallocated index is not
    counted.
    """
    from kafkalog.query.listing import list_path
    from kafkalog.storage.log_directory import PartitionSelection

    form = command_output.chosen_format(form)
    chosen = PartitionSelection.of(**selection)
    listed = ((path, _sorted(list_path(path, chosen), sort)) for path in paths)
    if form != "table":
        rows = (row for _, some in listed for row in some)
        command_output.print_rows(rows, (), form)
        return
    for path, some in listed:
        command_output.emit(f"{_title(path, some)}\n")
        columns = PARTITION if _are_partitions(some) else SEGMENT
        command_output.print_rows(some, columns, form, no_color=no_color)


def _sorted(summaries: Iterable[Summary], sort: str) -> list[command_output.Row]:
    rows = [_row(summary) for summary in summaries]
    if sort == "size":
        rows.sort(key=itemgetter("all_files_bytes"), reverse=True)
    return rows


def _row(summary: Summary) -> command_output.Row:
    return {field.name: getattr(summary, field.name) for field in fields(summary)}


def _are_partitions(rows: Sequence[command_output.Row]) -> bool:
    return bool(rows) and "topic" in rows[0]


def _title(path: Location, rows: Sequence[command_output.Row]) -> str:
    """Return a heading: path, number and size of the rows, kind of shutdown."""
    size = terminal.in_units(sum(row["size_in_bytes"] for row in rows))
    of_partitions = _are_partitions(rows)
    count = counted(len(rows), "partition" if of_partitions else "segment")
    title = f"{terminal.escape(str(path))}: {count}, {size}"
    if not of_partitions:
        return title
    return f"{title}, {'' if rows[0]['clean_shutdown'] else 'not '}shut down cleanly"

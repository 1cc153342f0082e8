"""``kafkalog ls``: list partitions, or the segments of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import (
    Selection,
    examples,
    format_options,
    selection_options,
    sources_argument,
)
from kafkalog.cli.command_output import TableField
from kafkalog.text.binary_units import in_units

TIMES: Final = (
    TableField("first_timestamp", "first time, UTC", terminal.in_seconds),
    TableField("max_timestamp", "latest time, UTC", terminal.in_seconds),
    TableField("state", "state"),
)
if TYPE_CHECKING:
    from kafkalog.query.listing import Sort
    from kafkalog.query.listing_report import PartitionList, SegmentList
    from kafkalog.storage.location import Location

SIZES: Final = (
    TableField("size_in_bytes", "size", in_units, right=True),
    TableField("all_files_bytes", "all files", in_units, right=True),
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
    sort: Sort,
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
    from kafkalog.query.listing import ls

    form = command_output.chosen_format(form)
    listed = ((path, ls(path, **selection, sort=sort)) for path in paths)
    if form != "table":
        rows = chain.from_iterable(_rows(path, report) for path, report in listed)
        command_output.print_rows(rows, (), form)
        return
    dropped: dict[str, None] = {}
    for path, report in listed:
        command_output.emit(f"{terminal.escape(f'{path}: {report}')}\n")
        fields = PARTITION if report.NOUN == "partition" else SEGMENT
        dropped |= dict.fromkeys(
            command_output.print_table(
                report.rows(), fields, report.importance(), no_color=no_color
            )
        )
    command_output.report_dropped([*dropped])


def _rows(
    path: Location, report: PartitionList | SegmentList
) -> Iterator[command_output.Row]:
    """Yield the rows; report on standard error that there are none."""
    number = 0
    for row in report.rows():
        number += 1
        yield row
    if not number:
        exits.print_error(f"{path}: {report}")

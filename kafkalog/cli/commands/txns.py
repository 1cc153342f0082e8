"""``kafkalog txns``: print transactions, and which are hanging."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from kafkalog.storage.location import Location

STATES: Final = ("open", "hanging", "committed", "aborted", "unknown")
FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("producer_id", "producer", right=True),
    TableField("producer_epoch", "epoch", right=True),
    TableField("transactional_id", "transactional id", cut="name"),
    TableField("state", "state"),
    TableField("first_offset", "first offset", right=True),
    TableField("last_timestamp", "latest time, UTC", terminal.in_seconds),
)


@click.command(
    "txns",
    epilog=examples(
        "kafkalog txns /var/lib/kafka/data --state open --state hanging --format table",
        "kafkalog txns /var/lib/kafka/data --topic ledger",
    ),
)
@sources_argument
@selection_options
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="Only transactions in this state; may be repeated. Without committed and "
    "aborted, less of each log is read.",
)
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Age of the last batch up to which an open transaction is not hanging.",
)
@click.option(
    "--bootstrap-server",
    default="localhost:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="The server in the commands.",
)
@format_options
def command(
    paths: tuple[Location, ...],
    selection: Selection,
    states: tuple[str, ...],
    max_transaction_timeout: int,
    bootstrap_server: str,
    form: str | None,
    no_color: bool,
) -> None:
    """Print the transactions of each partition, and for hanging ones how to end them.

    PATH is a log directory. Give the directories of several brokers to have all
    partitions of __transaction_state.

    An open transaction is hanging by the rule of kafka-transactions.sh find-hanging:
    its last batch is older than --max-transaction-timeout, and its coordinator has no
    transaction of the producer that includes the partition. Consumers with
    read_committed do not get past its first offset. The command that ends it is printed
    below a table, and is a member of the row in the other formats.

    The state is unknown if the coordinator's partition of __transaction_state is in no
    PATH, or may not be. The first offset is null if retention or compaction removed the
    records. The states are those of the files: a broker that runs may be ahead.

    The exit code is 1 if a batch or a record is corrupt. It is skipped, and reported
    with its file and byte: a transaction whose marker was in it is printed as open.
    """
    from kafkalog.analysis.transaction_report import BY_IMPORTANCE, readable_txns

    table, problems = readable_txns(
        list(paths),
        **selection,
        states=states,
        max_transaction_timeout_ms=max_transaction_timeout * 60_000,
        bootstrap_server=bootstrap_server,
    )
    form = command_output.chosen_format(form)
    rows = command_output.rows_of(table)
    command_output.print_rows(
        rows, FIELDS, form, importance=BY_IMPORTANCE, no_color=no_color
    )
    if form == "table":
        for line in table["command"].drop_null().to_pylist():
            command_output.emit(f"{terminal.escape(line)}\n")
    if not len(table):
        exits.print_error(f"no transaction found{states and ': '}{', '.join(states)}")
    exits.report_problems(problems)

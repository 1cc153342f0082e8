"""``kafkalog info``: describe a file, a partition or a log directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import examples, format_options, sources_argument
from kafkalog.cli.command_output import TableField
from kafkalog.reports import counted
from kafkalog.text.binary_units import in_units

TIMES: Final = ("first_timestamp", "max_timestamp")
SEGMENT: Final = (
    TableField("file", "segment"),
    TableField("base_offset", "base offset", right=True),
    TableField("next_offset", "next offset", right=True),
    TableField("size_in_bytes", "size", in_units, right=True),
    TableField("batches", "batches", right=True),
    TableField("records", "records", right=True),
    TableField("max_timestamp", "latest time, UTC", terminal.in_seconds),
    TableField("tail", "tail"),
)
OTHER_FILES: Final = (
    TableField("file", "other files"),
    TableField("kind", "kind"),
    TableField("size_in_bytes", "size", in_units, right=True),
    TableField("entries", "entries", right=True),
    TableField("producers", "producers", right=True),
    TableField("state", "state"),
)

SCHEMA: Final = 1

if TYPE_CHECKING:
    from kafkalog.storage.location import Location


@click.command(
    "info",
    epilog=examples(
        "kafkalog info /var/lib/kafka/data",
        "kafkalog info /var/lib/kafka/data/ledger-0 --format json",
        "kafkalog info /var/lib/kafka/data/ledger-0/00000000000000000005.txnindex",
    ),
)
@sources_argument
@format_options
def command(paths: tuple[Location, ...], form: str | None, no_color: bool) -> None:
    """Describe each PATH: what it is and what it contains.

    PATH is a log directory, a partition's directory, or any file that Kafka writes
    there. Of logs only batch headers are read; checksums are not verified, use verify
    for that. Indexes, snapshots and checkpoints are listed with their state: sound
    (valid), missing, preallocated (open in a broker, or left so by a crash), or
    damaged. At most 100,000 producers of a log are counted; if there are more, the
    output states so.

    The exit code is 1 if corrupt data was found.
    """
    from kafkalog.query.description import damages, describe

    form, damaged = command_output.chosen_format(form), 0
    facts = []
    for path in paths:
        facts.append(describe(path))
        damaged += len(damages(facts[-1]))
    if form == "table":
        for number, described in enumerate(facts):
            command_output.emit("\n" if number else "")
            _print_description(described, no_color=no_color)
    elif form == "csv":
        command_output.print_rows(_flat(facts), (), form)
    else:
        command_output.print_rows(facts, (), form, schema=SCHEMA)
    if damaged:
        raise exits.Damaged(f"corrupt data in {counted(damaged, 'place')}")


def _flat(facts: list[command_output.Row]) -> Iterator[command_output.Row]:
    """Yield each member as a row of its own; lists and objects as JSON text."""
    for described in facts:
        for name, value in described.items():
            nested = isinstance(value, (dict, list))
            shown = json.dumps(value, ensure_ascii=False) if nested else value
            yield {"path": described["path"], "name": name, "value": shown}


def _print_description(facts: command_output.Row, *, no_color: bool) -> None:
    """Print scalar members a line each, then segments and the other files as tables."""
    segments, others = facts.get("segments"), list(facts.get("beside", []))
    scalars = {name: value for name, value in facts.items() if name != "beside"}
    if isinstance(segments, list):
        scalars["segments"] = len(segments)
        others = [file for row in segments for file in row["beside"]] + others
    if scalars.pop("more_producers", False):
        scalars["producers"] = f"at least {scalars['producers']}"
    width = max(map(len, scalars))
    for name, value in scalars.items():
        words = name.replace("_", " ")
        command_output.emit(
            f"{words:<{width}}  {terminal.escape(_spell(name, value))}\n"
        )
    if isinstance(segments, list) and segments:
        command_output.emit("\n")
        command_output.print_rows(segments, SEGMENT, "table", no_color=no_color)
    if others:
        command_output.emit("\n")
        command_output.print_rows(others, OTHER_FILES, "table", no_color=no_color)


def _spell(name: str, value: Any) -> str:
    if value is None or value in ({}, []):
        return "-"
    if name in TIMES:
        return terminal.in_utc(value)
    if name.endswith("_bytes"):
        return f"{in_units(value)} ({value})" if value >= 1024 else f"{value} B"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items())
    if name == "leader_epochs":
        return _spell_epochs(value)
    return str(value)


def _spell_epochs(epochs: list[Any]) -> str:
    """Return the first and last epoch; or each epoch with its start offset.

    >>> _spell_epochs([3, 5]), _spell_epochs([[0, 0], [2, 41]])
    ('3 to 5', '0 from 0, 2 from 41')
    """
    if isinstance(epochs[0], list):
        return ", ".join(f"{epoch} from {offset}" for epoch, offset in epochs)
    first, last = epochs
    return str(first) if first == last else f"{first} to {last}"

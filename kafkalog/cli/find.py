"""``kafkalog find``: where records lie, by what is in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import (
    ScanOptions,
    examples,
    find_options,
    format_options,
    paths_argument,
    read_time,
)
from kafkalog.cli.command_output import TableField

if TYPE_CHECKING:
    from kafkalog.query.finding import Condition, Place

FIELDS: Final = (
    TableField("topic", "topic"),
    TableField("partition", "partition", right=True),
    TableField("offset", "offset", right=True),
    TableField("timestamp", "timestamp", terminal.in_utc),
    TableField("path", "path"),
    TableField("position", "position", right=True),
    TableField("record_index", "record", right=True),
)

Pattern = re.Pattern[bytes]
Header = tuple[bytes, Pattern | None]


def read_pattern(text: str) -> Pattern:
    r"""Read a pattern of Python's ``re``, for bytes.

    >>> read_pattern("^order-[0-9]+\\xff")
    re.compile(b'^order-[0-9]+\\xff')
    """
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no pattern: {error}") from None


def read_header(text: str) -> Header:
    """Read NAME, or NAME=PATTERN.

    >>> read_header("trace=^a")
    (b'trace', re.compile(b'^a'))
    """
    name, equals, pattern = text.partition("=")
    return os.fsencode(name), read_pattern(pattern) if equals else None


@click.command(
    "find",
    epilog=examples(
        "kafkalog find /var/lib/kafka/data/orders.zstd-0 --offset 100",
        "kafkalog find /var/lib/kafka/data --timestamp 2023-11-14T22:13:20Z",
        "kafkalog find /var/lib/kafka/data --topic orders.none --key '^key-1' "
        "--format jsonl",
    ),
)
@paths_argument
@click.option("--offset", type=click.IntRange(min=0), help="The record's offset.")
@click.option(
    "--timestamp",
    type=read_time,
    metavar="TIME",
    help="The first record of each partition at that time or later: ms since 1970, or "
    "ISO 8601 with a zone.",
)
@click.option(
    "--key", type=read_pattern, metavar="PATTERN", help="What occurs in the key."
)
@click.option(
    "--value", type=read_pattern, metavar="PATTERN", help="What occurs in the value."
)
@click.option(
    "--header",
    "headers",
    type=read_header,
    metavar="NAME[=PATTERN]",
    multiple=True,
    help="A header of that name, with the pattern in its value; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(min=0),
    multiple=True,
    help="Who wrote it; may be repeated, for any of them.",
)
@find_options
@click.option("-n", "limit", type=click.IntRange(min=0), help="At most so many.")
@format_options
def command(
    paths: tuple[Path, ...],
    offset: int | None,
    timestamp: int | datetime | None,
    options: ScanOptions,
    limit: int | None,
    form: str | None,
    no_color: bool,
    **asked: Any,
) -> None:
    r"""Find records, and print where they lie: file, byte of the batch, place in it.

    All that is asked for must hold. A PATTERN is a regular expression over bytes, and
    may occur anywhere in them: ^ and $ tie it to the ends, \xff is a byte. Offsets and
    times are looked up in the indexes.

    Ends with 0 even if nothing was found, and says so on standard error; also that a
    control record lies at the offset.
    """
    from kafkalog.query.finding import find_places

    if offset is None and timestamp is None and not any(asked.values()):
        raise click.UsageError("say what to find: --offset, --timestamp, --key, ...")
    options = _narrowed(options, offset, timestamp)
    scan = options.scan(paths)
    first = timestamp is not None
    places = find_places(scan, _condition(**asked), first=first)
    found = 0

    def counted() -> Iterator[command_output.Row]:
        nonlocal found
        for place in islice(places, limit):
            found += 1
            yield _row(place)

    command_output.print_rows(
        counted(), FIELDS, command_output.chosen_format(form), no_color=no_color
    )
    if not found:
        exits.complain(f"nothing found, partitions and files: {len(scan.parts)}")
        if offset is not None and not any(asked.values()):
            _tell_of_control_records(options, paths, offset)
    exits.report_problems(scan.problems)


def _tell_of_control_records(
    options: ScanOptions, paths: Sequence[Path], offset: int
) -> None:
    """Say whether a control record lies at the offset, within the reading's bounds."""
    if options.control_records:
        return
    whole = replace(options, columns=("is_control",), control_records=True)
    if any(records.is_control.any() for records in whole.scan(paths).chunks()):
        where = f"at offset {offset} a control record lies"
        exits.complain(f"{where}: --control-records shows it")


def _narrowed(
    options: ScanOptions, offset: int | None, timestamp: int | datetime | None
) -> ScanOptions:
    """Bound a reading by the offset and time to be found, where that is narrower."""
    if offset is not None:
        start, end = options.start_offset, options.end_offset
        options = replace(
            options,
            start_offset=offset if start is None else max(start, offset),
            end_offset=offset + 1 if end is None else min(end, offset + 1),
        )
    if timestamp is not None:
        if options.start_timestamp is not None:
            raise click.UsageError("--timestamp is a --start-timestamp by itself")
        options = replace(options, start_timestamp=timestamp)
    return options


def _condition(
    key: Pattern | None,
    value: Pattern | None,
    headers: Sequence[Header],
    producer_ids: Sequence[int],
) -> Condition:
    from kafkalog.query.finding import Condition

    return Condition(
        key=key,
        value=value,
        headers=tuple(headers),
        producer_ids=tuple(producer_ids),
    )


def _row(place: Place) -> command_output.Row:
    return {**place._asdict(), "path": str(place.path)}

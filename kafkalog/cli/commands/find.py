"""``kafkalog find``: search for records by their content."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import (
    ScanOptions,
    examples,
    find_options,
    format_options,
    limit_option,
    read_time,
    sources_argument,
)
from kafkalog.cli.command_output import TableField

if TYPE_CHECKING:
    from kafkalog.query.record_search import Condition, RecordLocation
    from kafkalog.storage.location import Location

FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("offset", "offset", right=True),
    TableField("timestamp", "timestamp", terminal.in_utc),
    TableField("path", "path", cut="path"),
    TableField("position", "position", right=True),
    TableField("record_index", "record", right=True),
)

Pattern = re.Pattern[bytes]
Header = tuple[bytes, Pattern | None]


def read_pattern(text: str) -> Pattern:
    r"""Read a regular expression of Python's ``re``, for bytes.

    >>> read_pattern("^order-[0-9]+\\xff")
    re.compile(b'^order-[0-9]+\\xff')
    """
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is not a regular expression: {error}"
        ) from None


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
        "kafkalog find /var/lib/kafka/data --topic orders.none "
        "--key-pattern '^key-1' --format jsonl",
    ),
)
@sources_argument
@click.option("--offset", type=click.IntRange(min=0), help="The record's offset.")
@click.option(
    "--timestamp",
    type=read_time,
    metavar="TIME",
    help="The first record of each partition at this time or later: milliseconds since "
    "1970, or ISO 8601 with a time zone.",
)
@click.option(
    "--key-pattern",
    "key",
    type=read_pattern,
    metavar="PATTERN",
    help="Pattern to find in the key.",
)
@click.option(
    "--value-pattern",
    "value",
    type=read_pattern,
    metavar="PATTERN",
    help="Pattern to find in the value.",
)
@click.option(
    "--header-pattern",
    "headers",
    type=read_header,
    metavar="NAME[=PATTERN]",
    multiple=True,
    help="Header with this name, and the pattern in its value; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(min=-1),
    multiple=True,
    help="Producer id; may be repeated, to match any of them.",
)
@find_options
@limit_option("Print at most this many records.")
@format_options
def command(
    paths: tuple[Location, ...],
    offset: int | None,
    timestamp: int | datetime | None,
    options: ScanOptions,
    limit: int | None,
    form: str | None,
    no_color: bool,
    **filters: Any,
) -> None:
    r"""Find records, and print their location.

    The location is a file, the byte position of the batch in it, and the index of the
    record in the batch. A record must match all filters. A PATTERN is a regular
    expression over bytes that may match anywhere: ^ and $ anchor it, \xff is a byte.
    Offsets and times are looked up in the indexes.

    The exit code is 0 even if nothing was found; a message on standard error states
    that, and whether a control record is at the offset.
    """
    from kafkalog.query.record_search import BY_IMPORTANCE, locate_records

    if offset is None and timestamp is None and not any(filters.values()):
        raise click.UsageError(
            "no filter, expected --offset, --timestamp, --key-pattern, ..."
        )
    options = _narrowed(options, offset, timestamp)
    scan = options.scan(paths)
    first = timestamp is not None
    places = locate_records(scan, _condition(**filters), first=first)
    count = 0

    def counted() -> Iterator[command_output.Row]:
        nonlocal count
        for place in islice(places, limit):
            count += 1
            yield _row(place)

    command_output.print_rows(
        counted(),
        FIELDS,
        command_output.chosen_format(form),
        importance=BY_IMPORTANCE,
        no_color=no_color,
    )
    if not count:
        exits.print_error(
            f"no record found, partitions and files searched: {len(scan.sources)}"
        )
        if offset is not None and not any(filters.values()):
            _report_control_record(options, paths, offset)
    exits.report_problems(scan.problems)


def _report_control_record(
    options: ScanOptions, paths: Sequence[Location], offset: int
) -> None:
    """Report on standard error whether a control record is at the offset."""
    if options.control_records:
        return
    whole = replace(options, columns=("is_control",), control_records=True)
    if any(records.is_control.any() for records in whole.scan(paths).chunks()):
        message = f"the record at offset {offset} is a control record"
        exits.print_error(f"{message}: --control-records includes it")


def _narrowed(
    options: ScanOptions, offset: int | None, timestamp: int | datetime | None
) -> ScanOptions:
    """Return the options narrowed to the offset and the time to find."""
    if offset is not None:
        start, end = options.start_offset, options.end_offset
        options = replace(
            options,
            start_offset=offset if start is None else max(start, offset),
            end_offset=offset + 1 if end is None else min(end, offset + 1),
        )
    if timestamp is not None:
        if options.start_timestamp is not None:
            raise click.UsageError(
                "expected either --timestamp or --start-timestamp, found both"
            )
        options = replace(options, start_timestamp=timestamp)
    return options


def _condition(
    key: Pattern | None,
    value: Pattern | None,
    headers: Sequence[Header],
    producer_ids: Sequence[int],
) -> Condition:
    from kafkalog.query.record_search import Condition

    return Condition(
        key=key,
        value=value,
        headers=tuple(headers),
        producer_ids=tuple(producer_ids),
    )


def _row(place: RecordLocation) -> command_output.Row:
    return {**place._asdict(), "path": str(place.path)}

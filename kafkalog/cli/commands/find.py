"""``kafkalog find``: search for records by their content."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import (
    TIME_HELP,
    ScanOptions,
    examples,
    find_options,
    format_options,
    limit_option,
    read_time,
    sources_argument,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.reports import as_cell
from kafkalog.text.bytes_text import AsData, bytes_as_data
from kafkalog.text.close_matches import with_close_matches

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


def _in_pairs(headers: list[list[AsData | None]]) -> str:
    return ", ".join(f"{as_cell(key)}={as_cell(value)}" for key, value in headers)


CONTENTS: Final = (
    TableField("key", "key", cut="key"),
    TableField("value", "value", cut="value"),
    TableField("headers", "headers", _in_pairs, cut="text"),
)
COLUMNS: Final = {field.name: field for field in (*FIELDS, *CONTENTS)}

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


def read_header_pattern(text: str) -> Header:
    """Read NAME, or NAME=PATTERN.

    >>> read_header_pattern("trace=^a")
    (b'trace', re.compile(b'^a'))
    """
    name, equals, pattern = text.partition("=")
    return os.fsencode(name), read_pattern(pattern) if equals else None


def read_columns(text: str) -> tuple[str, ...]:
    """Read names of columns, separated by commas.

    >>> read_columns("offset, value")
    ('offset', 'value')
    """
    names = tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in COLUMNS]:
        named = ", ".join(with_close_matches(name, COLUMNS) for name in unknown)
        raise click.BadParameter(
            f"no such columns: {named}; expected {', '.join(COLUMNS)}"
        )
    return tuple(dict.fromkeys(names))


@click.command(
    "find",
    epilog=examples(
        "kafkalog find /var/lib/kafka/data/orders.zstd-0 --offset 100",
        "kafkalog find /var/lib/kafka/data --timestamp 2023-11-14T22:13:20Z",
        "kafkalog find /var/lib/kafka/data --topic orders.none "
        "--key-pattern '^key-1' --format jsonl",
        "kafkalog find /var/lib/kafka/data --key key-16 --columns offset,value,path",
    ),
)
@sources_argument
@click.option("--offset", type=click.IntRange(min=0), help="The record's offset.")
@click.option(
    "--timestamp",
    type=read_time,
    metavar="TIME",
    help=f"The first record of each partition at this time or later: {TIME_HELP}",
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
    "headers_with",
    type=read_header_pattern,
    metavar="NAME[=PATTERN]",
    multiple=True,
    help="Header with this name, and the pattern in its value; may be repeated.",
)
@find_options
@click.option(
    "--columns",
    type=read_columns,
    metavar="NAMES",
    help="Columns to print, in this order, separated by commas: topic, partition, "
    "offset, timestamp, path, position, record_index (the default), key, value, "
    "headers.",
)
@limit_option("Print at most this many records.")
@verbose_option
@format_options
def command(
    paths: tuple[Location, ...],
    offset: int | None,
    timestamp: int | None,
    options: ScanOptions,
    limit: int | None,
    form: str | None,
    no_color: bool,
    **filters: Any,
) -> None:
    r"""Find records, and print their location, or --columns of them.

    The location is a file, the byte position of the batch in it, and the index of the
    record in the batch. A record must match all filters. A PATTERN is a regular
    expression over bytes that may match anywhere: ^ and $ anchor it, \xff is a byte.
    Offsets and times are looked up in the indexes.

    The exit code is 0 even if nothing was found; a message on standard error states
    that, and whether a control record is at the offset.
    """
    from kafkalog.query.record_search import BY_IMPORTANCE, locate_records

    selects = options.has_filters or any(filters.values())
    if offset is None and timestamp is None and not selects:
        raise click.UsageError("no filter, expected --offset, --timestamp, --key, ...")
    options = _narrowed(options, offset, timestamp)
    columns = options.columns or tuple(field.name for field in FIELDS)
    contents = tuple(field.name for field in CONTENTS if field.name in columns)
    scan = replace(options, columns=contents).scan(paths)
    first = timestamp is not None
    places = locate_records(scan, _condition(**filters), first=first)
    count = 0

    def counted() -> Iterator[command_output.Row]:
        nonlocal count
        for place in islice(places, limit):
            count += 1
            yield _row(place, columns)

    command_output.print_rows(
        counted(),
        [COLUMNS[name] for name in columns],
        command_output.chosen_format(form),
        importance=(*contents, *BY_IMPORTANCE),
        no_color=no_color,
    )
    if not count:
        command_output.report_none(scan)
        if offset is not None and not selects:
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
    options: ScanOptions, offset: int | None, timestamp: int | None
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
    headers_with: Sequence[Header],
) -> Condition:
    from kafkalog.query.record_search import Condition

    return Condition(key=key, value=value, headers=tuple(headers_with))


def _row(place: RecordLocation, columns: Sequence[str]) -> command_output.Row:
    """Return the columns of a record, as they are in JSON."""
    row = {
        **place._asdict(),
        "path": str(place.path),
        "key": _as_data(place.key),
        "value": _as_data(place.value),
        "headers": [[_as_data(part) for part in header] for header in place.headers],
    }
    return {name: row[name] for name in columns}


def _as_data(value: bytes | None) -> AsData | None:
    return None if value is None else bytes_as_data(value)

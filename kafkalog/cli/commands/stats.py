"""``kafkalog stats``: print records and bytes by topic, producer, key, hour, ..."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import (
    ScanOptions,
    examples,
    format_options,
    limit_option,
    quiet_option,
    sources_argument,
    stats_options,
    verbose_option,
)
from kafkalog.cli.command_output import TableField
from kafkalog.text.binary_units import in_units

if TYPE_CHECKING:
    from kafkalog.analysis.stats_report import StatsReport
    from kafkalog.storage.location import Location


def _key(value: Any) -> str:
    """Return a key as text, or as a JSON object with base64."""
    return value if isinstance(value, str) else json.dumps(value)


def _csv_key(row: command_output.Row) -> command_output.Row:
    """Return the key of a row as a cell of CSV, if it has one."""
    return {"key": _key(row["key"])} if row.get("key") is not None else {}


def _size(value: int | str) -> str:
    return value if isinstance(value, str) else in_units(value)


def _time(value: int | str) -> str:
    return value if isinstance(value, str) else terminal.in_seconds(value)


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _ratio(value: float) -> str:
    return f"{value:.1f}"


FIELDS: Final = (
    TableField("topic", "topic", cut="name"),
    TableField("partition", "partition", right=True),
    TableField("segment", "segment", cut="path"),
    TableField("producer", "producer", right=True),
    TableField("codec", "codec"),
    TableField("batch_size", "batch size", _size, right=True),
    TableField("key", "key", _key, cut="value"),
    TableField("size", "size", _size, right=True),
    TableField("hour", "hour, UTC", _time),
    TableField("day", "day, UTC", _time),
    TableField("bytes", "bytes", in_units, right=True),
    TableField("share", "share", _percent, right=True),
    TableField("records", "records", right=True),
    TableField("batches", "batches", right=True),
    TableField("records_per_batch", "records/batch", _ratio, right=True),
    TableField("uncompressed_bytes", "uncompressed", in_units, right=True),
    TableField("compression_ratio", "ratio", _ratio, right=True),
    TableField("key_bytes", "keys", in_units, right=True),
    TableField("value_bytes", "values", in_units, right=True),
    TableField("header_bytes", "headers", in_units, right=True),
    TableField("null_values", "null values", right=True),
    TableField("first_timestamp", "first time, UTC", terminal.in_seconds),
    TableField("max_timestamp", "latest time, UTC", terminal.in_seconds),
)
"""The columns of a table, of which a report has some. Offsets are left to JSON."""


@click.command(
    "stats",
    epilog=examples(
        "kafkalog stats /var/lib/kafka/data --format table",
        "kafkalog stats /var/lib/kafka/data --by topic,key --limit 20",
        "kafkalog stats /var/lib/kafka/data --by codec --sizes --format table",
        "kafkalog stats /var/lib/kafka/data --by hour --plot hours.svg",
    ),
)
@sources_argument
@click.option(
    "--by",
    default="topic",
    show_default=True,
    metavar="NAMES",
    help="Groups, separated by commas: topic, partition, segment, producer, codec, "
    "batch_size, for which only headers of batches are read; key, size, hour, day.",
)
@limit_option("Print the groups with the most bytes, at most this many.", least=1)
@click.option(
    "--sizes",
    is_flag=True,
    help="Decode records even if headers suffice, for the uncompressed size, the bytes "
    "of keys, values and headers, and null values.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write a picture too: .png, .svg or .pdf. Needs matplotlib.",
)
@click.option(
    "--max-groups",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Number of groups that bounds the memory.",
)
@stats_options
@quiet_option
@verbose_option
@format_options
def command(
    paths: tuple[Location, ...],
    by: str,
    limit: int | None,
    sizes: bool,
    plot: Path | None,
    max_groups: int,
    options: ScanOptions,
    quiet: bool,
    form: str | None,
    no_color: bool,
) -> None:
    """Print how many records and bytes there are by topic, producer, key, hour, ...

    Groups are printed in the order of their bytes, those by size, hour or day in their
    own order. Sizes are powers of two: 64 stands for 64 to 127 bytes; size is that of a
    record's key, value and headers, batch_size that of a batch in its file.

    The bytes are those of batches in .log files. By key, size, hour or day, the bytes
    of a batch are divided among its records in proportion to their sizes. Index files,
    and batches without records, are not counted.

    If there are more than twice --max-groups groups, those with the least bytes are
    dropped, and error_bytes in JSON is the number of bytes that a row may lack.
    """
    from kafkalog.analysis.log_stats import choose_groups, stats_of

    try:
        groups = choose_groups(name.strip() for name in by.split(","))
    except ValueError as error:
        raise click.UsageError(f"--by: {error}") from None
    if plot is not None:
        _check_plot(plot)
    with terminal.progress_bar("stats", quiet=quiet) as progress:
        report = stats_of(
            options.scan(paths, progress),
            groups,
            sizes=sizes,
            limit=limit,
            max_groups=max_groups,
        )
    form = command_output.chosen_format(form)
    columns = {*report.to_arrow().column_names, "share"}
    command_output.print_report(
        report,
        [field for field in FIELDS if field.name in columns],
        form,
        no_color=no_color,
        rows=_rows(report, form),
        summary=False,
        quiet=quiet,
    )
    if report.error_bytes and form == "table":
        lacking = f"a row may lack up to {in_units(report.error_bytes)}"
        exits.print_error(f"too many groups for --max-groups: {lacking}")
    if plot is not None:
        report.plot(plot)
    exits.report_problems(report.problems)


def _check_plot(path: Path) -> None:
    """Raise an error, before anything is read, if a picture cannot be written."""
    from kafkalog.analysis.stats_plot import check_format
    from kafkalog.export.file_export import check_parent

    try:
        check_format(path)
    except ValueError as error:
        raise click.UsageError(f"--plot: {error}") from None
    check_parent(path)


def _rows(report: StatsReport, form: str) -> Iterator[command_output.Row]:
    """Return the groups; for a table with their shares, the others and the total."""
    if form == "table":
        return _table_rows(report)
    if form == "csv":
        return ({**row, **_csv_key(row)} for row in report.rows())
    return report.rows()


def _table_rows(report: StatsReport) -> Iterator[command_output.Row]:
    """Yield the groups, then the others, then the total."""
    total = report.total["bytes"]
    rows: list[tuple[str, command_output.Row | None]] = [
        ("other", report.other),
        ("total", report.total),
    ]
    for row in report.rows():
        yield {**row, "share": row["bytes"] / total}
    for label, values in rows:
        if values is not None:
            share = values["bytes"] / max(total, 1)
            yield {report.by[0]: label, **values, "share": share}

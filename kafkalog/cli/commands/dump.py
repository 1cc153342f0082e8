"""``kafkalog dump``: the output of kafka-dump-log, with its flags."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli.command_options import FORMATS, LocalPath, examples, refuse_url
from kafkalog.cli.exits import Exit
from kafkalog.cli.row_printer import RowPrinter
from kafkalog.dump.dump_columns import columns_of
from kafkalog.dump.dump_options import (
    KEY_DECODER,
    MAX_BYTES,
    MAX_MESSAGE_BYTES,
    VALUE_DECODER,
    Argument,
    DumpOptions,
    spell_out,
)
from kafkalog.dump.java_exceptions import ToolEnded
from kafkalog.errors import NotALogDirectoryError

if TYPE_CHECKING:
    from kafkalog.dump.streams import Streams

DUMPED: Final = frozenset(
    (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")
)
TOOL_VERSION: Final = "4.3.1"
NO_VALUE: Final = "\0"
"""Placeholder for a missing value: no argument contains this character."""


class DumpCommand(click.Command):
    """A command that reads its arguments as kafka-dump-log does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; exit with 1 where the tool ends with an exception.

        The tool takes no URLs. They are rejected before they could be printed.
        """
        for part in re.split("[=,]", ",".join(args)):
            refuse_url(part)
        try:
            args = list(spell_out(args))
        except ToolEnded as ended:
            click.echo(ended.report(), nl=False, err=True)
            ctx.exit(Exit.DAMAGE)
        return super().parse_args(ctx, args)


@click.command(
    "dump",
    cls=DumpCommand,
    epilog=examples(
        "kafkalog dump --print-data-log "
        "/var/lib/kafka/data/orders.none-0/00000000000000000000.log",
        "kafkalog dump --index-sanity-check "
        "--files /var/lib/kafka/data/orders.none-0/00000000000000000000.index",
        "kafkalog dump --offsets-decoder "
        "--files /var/lib/kafka/data/__consumer_offsets-0/00000000000000000000.log",
    ),
)
@click.argument(
    "paths",
    nargs=-1,
    metavar="[PATH]...",
    type=LocalPath(),
)
@click.option(
    "--files", multiple=True, metavar="FILE,...", help="Files to dump, in this order."
)
@click.option("--print-data-log", is_flag=True, help="Print keys and values.")
@click.option("--deep-iteration", is_flag=True, help="Print a line for each record.")
@click.option(
    "--verify-index-only", is_flag=True, help="Check indexes, print no entries."
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Only run the check that a broker runs on the index when it starts.",
)
@click.option(
    "--max-message-size",
    multiple=True,
    metavar="BYTES",
    help="Maximum bytes read from where an index entry points; default: 5242880.",
)
@click.option(
    "--max-bytes",
    multiple=True,
    metavar="BYTES",
    help="Maximum bytes read of a log; default: 2147483647, which is all.",
)
@click.option(
    "--key-decoder-class",
    multiple=True,
    is_flag=False,
    flag_value=NO_VALUE,
    metavar="[CLASS]",
    help="Kafka's decoder class for keys; implies --print-data-log.",
)
@click.option(
    "--value-decoder-class",
    multiple=True,
    is_flag=False,
    flag_value=NO_VALUE,
    metavar="[CLASS]",
    help="Kafka's decoder class for values; implies --print-data-log.",
)
@click.option("--offsets-decoder", is_flag=True, help="Decode __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", is_flag=True, help="Decode __transaction_state."
)
@click.option(
    "--cluster-metadata-decoder", is_flag=True, help="Decode __cluster_metadata."
)
@click.option(
    "--remote-log-metadata-decoder",
    is_flag=True,
    help="Decode __remote_log_metadata.",
)
@click.option(
    "--share-group-state-decoder", is_flag=True, help="Decode __share_group_state."
)
@click.option(
    "--skip-record-metadata",
    is_flag=True,
    help="Print only keys and values of records.",
)
@click.option(
    "--version",
    is_flag=True,
    help="Print the version of Kafka whose tool this reproduces.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the same content as data, instead of kafka-dump-log's lines.",
)
def command(
    paths: tuple[Path, ...], form: str | None, version: bool, **flags: Any
) -> None:
    """Print batches, records and indexes as kafka-dump-log does, line for line.

    For a directory, its files are dumped in the order of their names. The flags are
    those of Kafka 4.3, and so are both output streams. The exit code is 1 where Kafka's
    tool ends with an exception. Keys and values go to a terminal unescaped, except with
    --format.
    """
    from kafkalog.dump.tool import dump_files

    named: Iterable[str]
    context = click.get_current_context()
    if version:
        click.echo(TOOL_VERSION)
        return
    if not flags["files"] and not paths:
        click.echo('Missing required argument "[files]"', err=True)
        click.echo(context.get_help(), err=True)
        context.exit(Exit.DAMAGE)
    options, files = _options(flags), Argument("files", "", flags["files"])
    if form or paths:
        named = [*_checked(options, files), *_within(paths)]
        printer = RowPrinter(form, columns_of(named, options)) if form else None
    else:
        named, printer = _named(files), None
    with printer or nullcontext() as rows:
        whole = dump_files(named, options, _streams(rows))
    if not whole:
        context.exit(Exit.DAMAGE)


def _named(files: Argument) -> Iterator[str]:
    """Split names at commas as Java does: empty ones at the end are dropped."""
    if not files.values:
        return
    text = files.text()
    named = text.rstrip(",")
    if named or not text:
        yield from named.split(",")


def _checked(options: DumpOptions, files: Argument) -> list[str]:
    """Return the files of ``--files``; raise faults that Kafka's tool would find later.

    Raises `OSError` for a file that does not exist or may not be read.
    """
    try:
        options.max_bytes.number()
        options.max_message_bytes.number()
        named = list(_named(files))
    except ToolEnded as fault:
        raise click.UsageError(str(fault.reason)) from None
    for name in named:
        _expect(Path(name))
    return named


def _expect(path: Path) -> None:
    """Raise `OSError` if `path` does not exist or may not be read."""
    path.stat()
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _within(paths: tuple[Path, ...]) -> Iterator[str]:
    """Yield paths, and for a directory its files that can be dumped.

    Symbolic links and anything but regular files are skipped. Raises `OSError` for a
    path that does not exist or may not be read.
    """
    for path in paths:
        _expect(path)
        if path.is_dir():
            from kafkalog.storage.location import is_file

            with os.scandir(path) as listing:
                names = [entry.name for entry in listing if is_file(entry)]
            files = [path / name for name in names if Path(name).suffix in DUMPED]
            if not files:
                known = ", ".join(sorted(DUMPED))
                raise NotALogDirectoryError(
                    f"no file to dump, expected one of {known}: {path}"
                )
            yield from map(str, sorted(files))
        else:
            yield str(path)


def _options(flags: dict[str, Any]) -> DumpOptions:
    from kafkalog.messages.message_parsers import KINDS

    kinds = [kind for kind in KINDS if flags[f"{kind.replace('-', '_')}_decoder"]]
    return DumpOptions(
        print_contents=bool(
            flags["print_data_log"]
            or kinds
            or flags["key_decoder_class"]
            or flags["value_decoder_class"]
        ),
        deep=flags["deep_iteration"],
        skip_metadata=flags["skip_record_metadata"],
        verify_only=flags["verify_index_only"],
        sanity_only=flags["index_sanity_check"],
        decoder=kinds[0] if kinds else None,
        max_bytes=_with_value(MAX_BYTES, flags),
        max_message_bytes=_with_value(MAX_MESSAGE_BYTES, flags),
        key_decoder=_with_value(KEY_DECODER, flags),
        value_decoder=_with_value(VALUE_DECODER, flags),
    )


def _with_value(argument: Argument, flags: dict[str, Any]) -> Argument:
    """Return an argument with the values given for it; a class's flag may have none."""
    values = flags[argument.flag.replace("-", "_")]
    return replace(
        argument, values=tuple(value for value in values if value != NO_VALUE)
    )


def _streams(rows: RowPrinter | None) -> Streams:
    from kafkalog.dump.streams import Streams

    def write_error(text: str) -> None:
        click.echo(text, nl=False, err=True)

    return Streams(sys.stdout.buffer.write, write_error, rows.print if rows else None)

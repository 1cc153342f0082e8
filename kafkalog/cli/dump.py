"""``kafkalog dump``: what kafka-dump-log prints, from its own flags.

Knows: what those flags ask for. Does not know: what a file holds.
"""

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
from kafkalog.codecs.java_exceptions import ToolEnded
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
from kafkalog.errors import NotALogDirectoryError

if TYPE_CHECKING:
    from kafkalog.dump.streams import Streams

DUMPED: Final = frozenset(
    (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")
)
TOOL_VERSION: Final = "4.3.1"
NO_VALUE: Final = "\0"
"""Stands for a value that was not given: no argument can hold it."""


class DumpCommand(click.Command):
    """A command that takes the tool's flags as the tool does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; ends with 1 where the tool ends by an exception.

        No argument of the tool's is a URL: one is refused before anything prints it.
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
@click.option("--print-data-log", is_flag=True, help="Print keys and values, too.")
@click.option("--deep-iteration", is_flag=True, help="Print a line for each record.")
@click.option(
    "--verify-index-only", is_flag=True, help="Check indexes, print no entries."
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Only look whether a broker would take the index when it starts.",
)
@click.option(
    "--max-message-size",
    multiple=True,
    metavar="BYTES",
    help="How many bytes to look at from where an index points: 5242880 by default.",
)
@click.option(
    "--max-bytes",
    multiple=True,
    metavar="BYTES",
    help="How many bytes of a log to read: 2147483647, or all, by default.",
)
@click.option(
    "--key-decoder-class",
    multiple=True,
    is_flag=False,
    flag_value=NO_VALUE,
    metavar="[CLASS]",
    help="Kafka's class that decodes keys; prints them.",
)
@click.option(
    "--value-decoder-class",
    multiple=True,
    is_flag=False,
    flag_value=NO_VALUE,
    metavar="[CLASS]",
    help="Kafka's class that decodes values; prints them.",
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
    help="Print of records only keys and values.",
)
@click.option("--version", is_flag=True, help="Print which Kafka's tool this is like.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Give the same as data, instead of in the lines of kafka-dump-log.",
)
def command(
    paths: tuple[Path, ...], form: str | None, version: bool, **asked: Any
) -> None:
    """Print batches, records and indexes as kafka-dump-log does, line for line.

    Of a directory, the files in it by name. The flags are those of Kafka 4.3, and so is
    all that is printed, on both streams. Ends with 1 where Kafka's tool ends by an
    exception. Key and value go to a terminal as they are, but for --format.
    """
    from kafkalog.dump.tool import dump_files

    named: Iterable[str]
    context = click.get_current_context()
    if version:
        click.echo(TOOL_VERSION)
        return
    if not asked["files"] and not paths:
        click.echo('Missing required argument "[files]"', err=True)
        click.echo(context.get_help(), err=True)
        context.exit(Exit.DAMAGE)
    options, files = _options(asked), Argument("files", "", asked["files"])
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
    """Split names at commas as Java does: empty ones at the end are none."""
    if not files.given:
        return
    text = files.text()
    named = text.rstrip(",")
    if named or not text:
        yield from named.split(",")


def _checked(options: DumpOptions, files: Argument) -> list[str]:
    """Name the files of ``--files``; what Kafka's tool would find later comes first.

    Raises `OSError` for a file that is not there, or may not be read.
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
    """Raise `OSError` where `path` is not there, or may not be read."""
    path.stat()
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _within(paths: tuple[Path, ...]) -> Iterator[str]:
    """Give paths, and in place of a directory its files that can be dumped.

    Links, and what is no file, are none of these. Raises `OSError` for a path that is
    not there, or may not be read.
    """
    for path in paths:
        _expect(path)
        if path.is_dir():
            with os.scandir(path) as listing:
                plain = [
                    one.name for one in listing if one.is_file(follow_symlinks=False)
                ]
            files = [path / name for name in plain if Path(name).suffix in DUMPED]
            if not files:
                raise NotALogDirectoryError(f"nothing in it can be dumped: {path}")
            yield from map(str, sorted(files))
        else:
            yield str(path)


def _options(asked: dict[str, Any]) -> DumpOptions:
    from kafkalog.messages.internal_topics import KINDS

    kinds = [kind for kind in KINDS if asked[f"{kind.replace('-', '_')}_decoder"]]
    return DumpOptions(
        print_contents=bool(
            asked["print_data_log"]
            or kinds
            or asked["key_decoder_class"]
            or asked["value_decoder_class"]
        ),
        deep=asked["deep_iteration"],
        skip_metadata=asked["skip_record_metadata"],
        verify_only=asked["verify_index_only"],
        sanity_only=asked["index_sanity_check"],
        decoder=kinds[0] if kinds else None,
        max_bytes=_given(MAX_BYTES, asked),
        max_message_bytes=_given(MAX_MESSAGE_BYTES, asked),
        key_decoder=_given(KEY_DECODER, asked),
        value_decoder=_given(VALUE_DECODER, asked),
    )


def _given(argument: Argument, asked: dict[str, Any]) -> Argument:
    """Fill in what was given; a class's flag may have come without one."""
    values = asked[argument.flag.replace("-", "_")]
    return replace(argument, given=tuple(one for one in values if one != NO_VALUE))


def _streams(rows: RowPrinter | None) -> Streams:
    from kafkalog.dump.streams import Streams

    def complain(text: str) -> None:
        click.echo(text, nl=False, err=True)

    return Streams(sys.stdout.buffer.write, complain, rows.print if rows else None)

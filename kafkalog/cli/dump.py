"""``kafkalog dump``: what kafka-dump-log prints, from its own flags.

Knows: those flags. Does not know: what a file holds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalog.cli.exits import Exit
from kafkalog.cli.options import FORMATS, examples
from kafkalog.cli.row_printer import RowPrinter
from kafkalog.dump.options import STRING_DECODER, DumpOptions

if TYPE_CHECKING:
    from kafkalog.dump.streams import Streams

DUMPED: Final = frozenset(
    (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")
)


@click.command(
    "dump",
    epilog=examples(
        "kafkalog dump --print-data-log "
        "/var/lib/kafka/data/orders.none-0/00000000000000000000.log",
        "kafkalog dump --index-sanity-check "
        "--files /var/lib/kafka/data/orders.none-0/00000000000000000000.index",
        "kafkalog dump --offsets-decoder "
        "--files /var/lib/kafka/data/__consumer_offsets-0/00000000000000000000.log",
    ),
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option("--files", metavar="FILE,...", help="Files to dump, in this order.")
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
    type=click.IntRange(-(2**31), 2**31 - 1),
    default=5 << 20,
    show_default=True,
    help="How many bytes to look at from where an index points.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(-(2**31), 2**31 - 1),
    default=2**31 - 1,
    show_default=True,
    help="How many bytes of a log to read.",
)
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value=STRING_DECODER,
    metavar="[CLASS]",
    help="Kafka's class that decodes keys; prints them.",
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value=STRING_DECODER,
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
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Give the same as data, instead of in the lines of kafka-dump-log.",
)
def command(
    paths: tuple[Path, ...], files: str | None, form: str | None, **asked: Any
) -> None:
    """Print batches, records and indexes as kafka-dump-log does, line for line.

    Of a directory, the files in it by name. The flags are those of Kafka 4.3, and so is
    all that is printed, on both streams. Ends with 1 where Kafka's tool ends by an
    exception. Key and value go to a terminal as they are, but for --format.
    """
    from kafkalog.dump.tool import dump_files

    context = click.get_current_context()
    named = [*_named(files or ""), *_within(paths)]
    if not named:
        click.echo('Missing required argument "[files]"', err=True)
        click.echo(context.get_help(), err=True)
        context.exit(Exit.DAMAGE)
    with RowPrinter(form) if form else nullcontext() as rows:
        whole = dump_files(named, _options(asked), _streams(rows))
    if not whole:
        context.exit(Exit.DAMAGE)


def _named(files: str) -> list[str]:
    """Split names at commas as Java does: empty ones at the end are none."""
    named = files.rstrip(",")
    return named.split(",") if named else []


def _within(paths: tuple[Path, ...]) -> Iterator[str]:
    """Give paths, and in place of a directory its files that can be dumped.

    Links, and what is no file, are none of these.
    """
    for path in paths:
        if path.is_dir():
            with os.scandir(path) as listing:
                plain = [
                    one.name for one in listing if one.is_file(follow_symlinks=False)
                ]
            files = (path / name for name in plain if Path(name).suffix in DUMPED)
            yield from map(str, sorted(files))
        else:
            yield str(path)


def _options(asked: dict[str, Any]) -> DumpOptions:
    from kafkalog.formats.internal_topics import KINDS

    kinds = [kind for kind in KINDS if asked[f"{kind.replace('-', '_')}_decoder"]]
    key, value = asked["key_decoder_class"], asked["value_decoder_class"]
    return DumpOptions(
        print_contents=bool(asked["print_data_log"] or kinds or key or value),
        deep=asked["deep_iteration"],
        skip_metadata=asked["skip_record_metadata"],
        verify_only=asked["verify_index_only"],
        sanity_only=asked["index_sanity_check"],
        max_bytes=asked["max_bytes"],
        max_message_bytes=asked["max_message_size"],
        decoder=kinds[0] if kinds else None,
        key_decoder=key or STRING_DECODER,
        value_decoder=value or STRING_DECODER,
    )


def _streams(rows: RowPrinter | None) -> Streams:
    from kafkalog.dump.streams import Streams

    def complain(text: str) -> None:
        click.echo(text, nl=False, err=True)

    return Streams(sys.stdout.buffer.write, complain, rows.print if rows else None)

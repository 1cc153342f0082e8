"""``kafkalog serve``: let any Kafka client consume log directories."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from kafkalog.cli import exits
from kafkalog.cli.command_options import (
    LocalPath,
    examples,
    topic_options,
    verbose_option,
)


@click.command(
    "serve",
    epilog=examples(
        "kafkalog serve /backup/kafka --listen 127.0.0.1:9092",
        "kafkalog serve /var/lib/kafka/data --topic 'orders*' --verbose",
    ),
)
@click.argument("paths", metavar="LOGDIR...", nargs=-1, required=True, type=LocalPath())
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:9092",
    show_default=True,
    help="Address to listen on; port 0 is a free one. Whoever reaches it can read all.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="Address that clients are told to connect to; by default that of --listen.",
)
@topic_options
@verbose_option
def command(
    paths: tuple[Path, ...],
    listen: str,
    advertise: str | None,
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
) -> None:
    """Serve log directories over Kafka's protocol, for reading.

    Any Kafka client consumes what lies in the directories, without a broker and without
    a cluster. It is one node that serves nothing but reading, and no production broker.
    No lock is taken and nothing in LOGDIR changes: a backup, a snapshot or the
    directory of a running broker may be served. What consumer groups commit is kept in
    memory.

    When clients can connect, a line that ends in the address is printed. Ctrl-C and
    SIGTERM end the server.
    """
    from kafkalog.server.server import is_loopback, serve

    if not is_loopback(listen):
        exits.print_error(f"whoever reaches {listen} can read everything")
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with serve(
        list(paths),
        topics=topics or None,
        exclude_topics=exclude_topics,
        listen=listen,
        advertise=advertise,
    ) as server:
        click.echo(f"listening on {server.address}")
        sys.stdout.flush()
        ended.wait()

"""What a shell offers behind ``--topic``, ``--partition`` and ``--columns``.

Only names are looked at: those of the directories below the paths that stand on the
line already. The rest a shell is told by click: commands, options, choices, paths.

Knows: names of directories. Does not know: shells, what is in a log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kafkalog.storage.file_names import PartitionDir


def complete_topics(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Offer the topics below the paths given so far."""
    topics = {name.topic for name in _partitions(context)}
    return sorted(topic for topic in topics if topic.startswith(incomplete))


def complete_partitions(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Offer the numbers of their partitions."""
    numbers = sorted({name.partition for name in _partitions(context)})
    return [str(one) for one in numbers if str(one).startswith(incomplete)]


def complete_columns(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Offer a column more, behind those that stand before the last comma."""
    from kafkalog.query.scan_columns import COLUMNS

    before, comma, begun = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        f"{before}{comma}{name}"
        for name in COLUMNS
        if name.startswith(begun) and name not in taken
    ]


def _partitions(context: click.Context) -> Iterator[PartitionDir]:
    """Yield what the live directories at and below the paths are named for.

    The option that is being completed has no value yet, so that click has not come to
    tell arguments from one another: they are what is left over.
    """
    from kafkalog.storage.file_names import parse_partition_dir

    for path in map(Path, context.args):
        names = [path.absolute().name]
        with suppress(OSError), os.scandir(path) as listing:
            names += [entry.name for entry in listing]
        for name in map(parse_partition_dir, names):
            if name is not None and name.state is None:
                yield name

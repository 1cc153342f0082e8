"""A bar on standard error: bytes done, bytes a second, time left; only on a terminal.

Knows: rich. Does not know: what takes so long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkalog.cli.terminal import harmless

Tell = Callable[[int, int], None]


@contextmanager
def bar(label: str, *, quiet: bool = False) -> Iterator[Tell | None]:
    """Give what is told (bytes done, bytes in all); None where no one would see it."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    parts = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*parts, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(harmless(label), total=None)

        def tell(done: int, in_all: int) -> None:
            shown.update(task, completed=done, total=in_all)

        yield tell

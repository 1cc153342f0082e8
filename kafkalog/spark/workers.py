"""What a Python of Spark's does between two tasks, made short.

After each task it looks through all its objects for garbage: 70 to 120 ms, nearly all
for those of the modules it has imported, pandas and pyarrow among them, while Spark
waits to give it the next one. And what Spark sends then goes out in several small
pieces, of which TCP holds one back until the one before is acknowledged: that Linux
puts off for 40 ms, as this process has nothing to say meanwhile. So it is the other way
with what a task sends last.

Knows: the processes in which Spark runs Python. Does not know: what is done there.
Source: ``pyspark/daemon.py``, ``PythonRunner.scala``.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

KEPT: Final = "SPARK_REUSE_WORKER"
"""Set where Spark keeps a process for further tasks."""

DESCRIPTORS: Final = Path("/proc/self/fd")
LOOPBACK: Final = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
OLDEST: Final = 2
"""The generation of objects that is looked through after a task."""


@cache
def make_ready() -> None:
    """Let Spark's tasks begin sooner in this process, from the next one on.

    The collector leaves alone what there is now; what is made later it looks through as
    ever. Does nothing in a process that is not one of Spark's that it keeps, such as
    the driver's own.
    """
    if os.environ.get(KEPT):
        gc.freeze()
        if sys.platform == "linux" and DESCRIPTORS.is_dir():
            gc.callbacks.append(_between_tasks)


def _between_tasks(phase: str, info: dict[str, Any]) -> None:
    """Once a task is over, have nothing held back of what the next one sends and gets.

    To acknowledge at once Linux forgets when data goes the other way, so each time it
    is asked anew.
    """
    if phase == "stop" and info["generation"] == OLDEST:
        for entry in DESCRIPTORS.iterdir():
            with suppress(OSError):  # no socket, or closed since
                _hold_nothing_back(int(entry.name))


def _hold_nothing_back(descriptor: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        is_tcp = connection.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and connection.getpeername()[0] in LOOPBACK:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    finally:
        connection.detach()  # it is not ours to close

"""Streams of record batches that end before the interpreter does.

Arrow reads a stream ahead in threads of its own, and also after a query with a limit
has its rows. If such a thread is in Python while the interpreter finalizes, the process
aborts or hangs. So streams are ended at the exit, before that.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Generator, Iterator
from inspect import GEN_RUNNING, getgeneratorstate
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

IDLE_SECONDS: Final = 0.05
"""Time at the exit in which no stream is read, after which none will be."""

PAUSE_SECONDS: Final = 0.002

_streams: Final = WeakSet[Generator[pa.RecordBatch]]()
_has_ended: Final = threading.Event()


def stream_of(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> pa.RecordBatchReader:
    """Return a ``RecordBatchReader`` of batches, for any thread to read."""
    stream = _until_exit(batches)
    _streams.add(stream)
    return pa.RecordBatchReader.from_batches(schema, stream)


def _until_exit(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    for batch in batches:
        if _has_ended.is_set():
            return
        yield batch


def _end_streams() -> None:
    """End all streams, and return once no thread reads or releases one.

    A thread that reads ahead gets the end, and releases the stream and its batches. A
    stream that is still there after `IDLE_SECONDS` has a reader that does not read.
    """
    _has_ended.set()
    if not _streams:
        return
    streams, idle_since = list(_streams), time.monotonic()
    while time.monotonic() - idle_since < IDLE_SECONDS:
        before = len(streams)
        del streams  # no reference while the other threads run
        time.sleep(PAUSE_SECONDS)
        streams = list(_streams)
        if len(streams) != before or GEN_RUNNING in map(getgeneratorstate, streams):
            idle_since = time.monotonic()


atexit.register(_end_streams)
os.register_at_fork(after_in_child=_streams.clear)  # its threads are in the parent

"""Streams of record batches and frames that end before the interpreter does.

Arrow and Polars read a stream ahead in threads of their own, and also after a query
with a limit has its rows. If such a thread is in Python while the interpreter
finalizes, the process aborts or hangs. So streams are ended at the exit, before that.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Generator, Iterator
from inspect import GEN_RUNNING, getgeneratorstate
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

T = TypeVar("T")

PAUSE_SECONDS: Final = 0.002

IDLE_PAUSES: Final = 50
"""Pauses at the exit in which no stream is read, after which none will be.

They are counted, not timed: on a busy machine a pause lasts longer, as do the readers.
"""

RELEASE_PAUSES: Final = 10
"""Pauses after the last stream is released, in which its batches are released, too."""

_streams: Final = WeakSet[Generator[Any]]()
_were_made: Final = threading.Event()
_has_ended: Final = threading.Event()


def stream_of(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> pa.RecordBatchReader:
    """Return a ``RecordBatchReader`` of batches, for any thread to read."""
    return pa.RecordBatchReader.from_batches(schema, until_exit(batches))


def until_exit(batches: Iterator[T]) -> Generator[T]:
    """Return a stream of batches, for any thread to read, that ends at the exit."""
    stream = _until_exit(batches)
    _streams.add(stream)
    _were_made.set()
    return stream


def _until_exit(batches: Iterator[T]) -> Generator[T]:
    for batch in batches:
        if _has_ended.is_set():
            return
        yield batch


def _end_streams() -> None:
    """End all streams, and return once no thread reads or releases one.

    A thread that reads ahead gets the end, and releases the stream and its batches. A
    stream that is still there after `IDLE_PAUSES` has a reader that does not read.
    """
    _has_ended.set()
    if not _were_made.is_set():
        return
    streams, idle = list(_streams), 0
    while idle < (IDLE_PAUSES if streams else RELEASE_PAUSES):
        before = len(streams)
        del streams  # no reference while the other threads run
        time.sleep(PAUSE_SECONDS)
        streams = list(_streams)
        is_read = GEN_RUNNING in map(getgeneratorstate, streams)
        idle = 0 if is_read or len(streams) != before else idle + 1


atexit.register(_end_streams)
os.register_at_fork(after_in_child=_streams.clear)  # its threads are in the parent

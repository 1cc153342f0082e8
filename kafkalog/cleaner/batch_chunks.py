"""The batches of a segment's file, a chunk of them at a time, in one buffer.

A batch larger than the buffer is read into a larger one, which is kept for the segment.
CRCs are not checked: what a broker has appended it compacts.

Source: ``Cleaner.cleanInto``, ``Cleaner.growBuffersOrFail``,
``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kafkalog._speedups import Status
from kafkalog.errors import CorruptRecordError, LogStateError
from kafkalog.formats.batch_headers import (
    Bytes,
    find_invalid_size_or_magic,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from kafkalog.segment.file_batches import Window
from kafkalog.storage.durable_file import DurableFile

Pace = Callable[[int], None]
"""Called with a number of bytes read; it may wait, and raises to end the reading."""


class ChunkReader:
    """A buffer of `size` bytes, in which the batches of files are read.

    `pace` is called before each chunk, with 0, and after it with its bytes.
    """

    def __init__(self, size: int, pace: Pace) -> None:
        self._size = size
        self._pace = pace
        self._buffer = np.empty(size, np.uint8)

    def read(self, file: DurableFile, start: int, end: int) -> Iterator[Window]:
        """Yield the batches from position `start` to `end`, all of which are complete.

        A chunk is valid until the next one is read. Raises `CorruptRecordError`, and
        `LogStateError` where the file ends before the size of a batch is known.
        """
        position = start
        while position < end:
            self._pace(0)
            data = self._buffer[: min(len(self._buffer), end - position)]
            data = data[: file.read_into(data, position)]
            self._pace(len(data))
            rows, status, place = scan_headers(data, 0, position)
            if len(rows):
                yield Window(rows, data, position)
            elif status == Status.OK:
                raise _truncated(file, position)
            if status not in (Status.OK, Status.ENTRY_INCOMPLETE):
                raise _invalid(file, position + place, data[place:])
            if not place:
                size = _next_size(file, position, data, end)
                self._buffer = np.empty(size, np.uint8)
            position += place
        if len(self._buffer) > self._size:
            self._buffer = np.empty(self._size, np.uint8)


def _next_size(file: DurableFile, position: int, data: Bytes, end: int) -> int:
    """Return the size of the batch that `data` has the start of."""
    if len(data) < HEADER_SIZE_UP_TO_MAGIC:
        reason = f"{len(data)} bytes of a batch, expected at least 17"
        raise LogStateError(f"{reason}: {file.path} at byte {position}")
    if find_invalid_size_or_magic(data) is not None:
        raise _invalid(file, position, data)
    size = LOG_OVERHEAD + size_field(data)
    if size > end - position:
        reason = f"batch of {size} bytes, expected at most {end - position}"
        raise CorruptRecordError(reason, position=position, cause="size").located(
            file.path
        )
    return size


def _invalid(file: DurableFile, position: int, data: Bytes) -> CorruptRecordError:
    found = find_invalid_size_or_magic(data[:HEADER_SIZE_UP_TO_MAGIC])
    if found is not None:
        return found.at(position).located(file.path)
    error = CorruptRecordError("invalid batch header", position=position, cause="size")
    return error.located(file.path)


def _truncated(file: DurableFile, position: int) -> CorruptRecordError:
    reason = "file truncated since it was opened"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)

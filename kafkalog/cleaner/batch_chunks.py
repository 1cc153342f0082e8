"""Read the batches of a segment's file in chunks, into one buffer.

A batch larger than the buffer is read into a larger one, which is kept until the end of
the segment. CRCs are not checked, as in Kafka: they were checked by the append.

Source: ``Cleaner.cleanInto``, ``Cleaner.growBuffersOrFail``,
``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np

from kafkalog._speedups import Status
from kafkalog.decoding.batch_decoder import RecordViews, decode
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    CorruptRecordError,
    LocatedError,
    LogArgumentError,
    LogStateError,
)
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    Bytes,
    find_invalid_size_or_magic,
    magic_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAX_FILE_BYTES,
    MIN_SIZE,
    MIN_SIZES,
)
from kafkalog.segment.file_batches import Window
from kafkalog.storage.durable_file import DurableFile

MAX_BATCH_BYTES: Final = 2**31 - 1
"""Maximum size of a decompressed batch: the cleaner has no smaller limit."""

Records: TypeAlias = Iterator[RecordViews]
Pace = Callable[[int], None]
"""Called with the number of bytes read; it may sleep, or raise to stop reading."""


class ChunkReader:
    """A reader of batches with a buffer of `size` bytes.

    `pace` is called with 0 before each chunk, and with its number of bytes after it. If
    a batch extends past the end of the range, its size counts as corrupt above
    `usual_bytes`; else the batch counts as incomplete.
    """

    def __init__(self, size: int, pace: Pace, usual_bytes: int = 0) -> None:
        self._usual_bytes = usual_bytes
        self._size = size
        self._pace = pace
        self._buffer = np.empty(size, np.uint8)

    def read(self, file: DurableFile, start: int, end: int) -> Iterator[Window]:
        """Yield the batches between two positions, in chunks of complete batches.

        A chunk is valid until the next one is read. Raises `CorruptRecordError`,
        `LogStateError` for an incomplete batch, and `LogArgumentError` for a batch that
        is larger than a segment's file can be.
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
                _check_start(file, position + place, data[place:])
            if not place:
                size = _next_size(file, position, data, end, self._usual_bytes)
                self._buffer = np.empty(size, np.uint8)
            position += place
        if len(self._buffer) > self._size:
            self._buffer = np.empty(self._size, np.uint8)


def read_records(window: Window, rows: BatchHeaders, workspace: Workspace) -> Records:
    """Yield the records of some batches of a chunk, in order.

    Each result is valid until the next one. Raises `InvalidRecordError` at a corrupt
    record, `CompressionError`, and `LogArgumentError` for an unknown compression type.
    """
    codecs = rows["attributes"] & CODEC_MASK
    if codecs.max(initial=0) >= len(CODECS):
        raise LogArgumentError(f"compression type {codecs.max()}, expected 0 to 4")
    for views in decode(
        window.data,
        window.origin,
        rows,
        bounds=Bounds(),
        limit=MAX_BATCH_BYTES,
        workspace=workspace,
    ):
        if isinstance(views, LocatedError):
            raise views.as_rejection() from views
        yield views


def _next_size(
    file: DurableFile, position: int, data: Bytes, end: int, usual_bytes: int
) -> int:
    """Return the size of the batch that `data` begins with."""
    if len(data) < HEADER_SIZE_UP_TO_MAGIC:
        reason = f"{len(data)} bytes of a batch, expected at least 17"
        raise LogStateError(f"{reason}: {file.path} at byte {position}")
    _check_start(file, position, data)
    size = LOG_OVERHEAD + size_field(data)
    if size > MAX_FILE_BYTES:
        reason = f"batch of {size} bytes, expected at most {MAX_FILE_BYTES}"
        raise LogArgumentError(f"{reason}: {file.path} at byte {position}")
    if end - position < size <= usual_bytes:
        reason = f"{end - position} bytes of a batch of {size}"
        raise LogStateError(f"{reason}: {file.path} at byte {position}")
    if size > end - position:
        reason = f"batch of {size} bytes, expected at most {end - position}"
        raise CorruptRecordError(reason, position=position, cause="size").located(
            file.path
        )
    return size


def _check_start(file: DurableFile, position: int, data: Bytes) -> None:
    """Raise `CorruptRecordError` if Kafka rejects the batch that `data` begins with.

    A size that is too small for the magic is rejected only if the batch is complete.
    """
    size, magic = size_field(data), magic_field(data)
    is_complete = LOG_OVERHEAD + size <= len(data)
    if size < MIN_SIZE or not 0 <= magic < len(MIN_SIZES) or is_complete:
        raise _invalid(file, position, data)


def _invalid(file: DurableFile, position: int, data: Bytes) -> CorruptRecordError:
    invalid = find_invalid_size_or_magic(data[:HEADER_SIZE_UP_TO_MAGIC])
    if invalid is not None:
        return invalid.at(position).located(file.path)
    error = CorruptRecordError("invalid batch header", position=position, cause="size")
    return error.located(file.path)


def _truncated(file: DurableFile, position: int) -> CorruptRecordError:
    reason = "file truncated since it was opened"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)

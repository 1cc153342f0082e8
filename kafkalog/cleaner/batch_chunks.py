"""Read the batches of a segment's file in chunks, into one buffer.

A batch larger than the buffer is read into a larger one, which is kept until the end of
the segment. The CRC of each batch is checked: a batch that is written anew gets a valid
CRC, which would hide that its records are corrupt. Kafka does not check it.

Source: ``Cleaner.cleanInto``, ``Cleaner.growBuffersOrFail``,
``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog._speedups import Status
from kafkalog.array_types import Bools, Bytes
from kafkalog.cleaner.corrupt_batches import CorruptBatches
from kafkalog.decoding.batch_decoder import RecordViews, decode
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    LocatedError,
    LogArgumentError,
    LogStateError,
)
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    crc_error,
    find_crc_mismatches,
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
    MIN_SIZE,
    MIN_SIZES,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.segment.entry_search import (
    find_valid_entry,
    is_size_confirmed,
    read_valid_entry,
)
from kafkalog.storage.durable_file import DurableFile
from kafkalog.storage.file_names import MAX_OFFSET

Rows = npt.NDArray[np.intp]
Pace = Callable[[int], None]
"""Called with the number of bytes read; it may sleep, or raise to stop reading."""

NONE: Final = np.empty(0, np.intp)


class Chunk(NamedTuple):
    """Complete batches of a file, in `data`, which begins at `origin` in the file.

    `is_corrupt` has the batches that are known to be corrupt.
    """

    rows: BatchHeaders
    data: Bytes
    origin: int
    is_corrupt: Bools
    file: DurableFile


class _Following(NamedTuple):
    """A valid batch after damage, or the end; its first offset, if it is known."""

    position: int
    first_offset: int | None


class ChunkReader:
    """A reader of batches with a buffer of `size` bytes.

    `pace` is called with 0 before each chunk, and with its number of bytes after it.
    `corrupt` decides about corrupt batches. A batch of more than `max_batch_bytes` is
    refused before memory is allocated for it. If a batch extends past the end of the
    range, it counts as incomplete up to `usual_bytes`, else as corrupt.
    """

    def __init__(
        self,
        size: int,
        pace: Pace,
        corrupt: CorruptBatches,
        max_batch_bytes: int,
        usual_bytes: int = 0,
    ) -> None:
        self._usual_bytes = usual_bytes if corrupt.raises else 0
        self._size = size
        self._pace = pace
        self._corrupt = corrupt
        self._max_batch_bytes = max_batch_bytes
        self._buffer = np.empty(size, np.uint8)

    def read(
        self,
        file: DurableFile,
        start: int,
        end: int,
        base_offset: int = 0,
        end_offset: int = MAX_OFFSET,
    ) -> Iterator[Chunk]:
        """Yield the batches between two positions, in chunks of complete batches.

        A chunk is valid until the next one is read. Its offsets are from `base_offset`
        to below `end_offset`.

        Raises `CorruptRecordError` for a corrupt batch that is not to be skipped or
        kept, `LogStateError` for an incomplete batch, and `BatchTooLargeError`.
        """
        position, before = start, base_offset - 1
        while position < end:
            self._pace(0)
            data = self._buffer[: min(len(self._buffer), end - position)]
            data = data[: file.read_into(data, position)]
            self._pace(len(data))
            rows, status, place = scan_headers(data, 0, position)
            error = None
            corrupt = NONE
            if self._corrupt.check_crcs:
                corrupt = find_crc_mismatches(data, position, rows)
            if len(corrupt):
                stop = self._find_wrong_size(file, rows, corrupt, end)
                if stop < len(rows):
                    error = crc_error(data, position, rows[stop]).located(file.path)
                    place = int(rows["position"][stop]) - position
                    rows, corrupt = rows[:stop], corrupt[corrupt < stop]
            if len(rows):
                chunk = Chunk(rows, data, position, _marked(rows, corrupt), file)
                self._add_mismatches(chunk, before, end_offset)
                yield chunk
                valid = chunk.rows["last_offset"][~chunk.is_corrupt]
                before = int(valid.max(initial=before))
            try:
                if error is not None:
                    raise error
                self._check_rest(file, position, data, end, status, place)
            except CorruptRecordError as damage:
                self._corrupt.check_skipped(damage)
                following = self._find_following(file, position + place, end)
                self._corrupt.add_skipped(damage, before + 1, following.first_offset)
                position = following.position
            else:
                position += place
        if len(self._buffer) > self._size:
            self._buffer = np.empty(self._size, np.uint8)

    def _find_wrong_size(
        self, file: DurableFile, rows: BatchHeaders, corrupt: Rows, end: int
    ) -> int:
        """Return the number of the first corrupt batch whose size may be wrong, too.

        A size is right if a valid batch, or the end, follows it or the corrupt batches
        after it.
        """
        if self._corrupt.raises:
            return len(rows)
        valid = np.flatnonzero(~_marked(rows, corrupt))
        last = int(valid[-1]) + 1 if len(valid) else 0
        if last == len(rows):
            return last
        source = _FileBytes(file, end)
        stop = int(rows["position"][-1] + rows["size_in_bytes"][-1])
        position = int(rows["position"][last])
        return len(rows) if is_size_confirmed(source, position, stop) else last

    def _add_mismatches(self, chunk: Chunk, before: int, end_offset: int) -> None:
        """Report the batches of a chunk whose CRC does not match, or raise an error."""
        last_offsets = chunk.rows["last_offset"].tolist()
        for number in np.flatnonzero(chunk.is_corrupt).tolist():
            row = chunk.rows[number]
            error = crc_error(chunk.data, chunk.origin, row).located(chunk.file.path)
            least = last_offsets[number - 1] if number else before
            most = [*last_offsets[number + 1 : number + 2], end_offset][0]
            in_order = least < last_offsets[number] < most
            self._corrupt.add(error, row, can_be_kept=in_order)

    def _check_rest(
        self,
        file: DurableFile,
        position: int,
        data: Bytes,
        end: int,
        status: int,
        place: int,
    ) -> None:
        """Check what follows the complete batches of `data`; enlarge the buffer for it.

        Raises `CorruptRecordError` if no batch follows, and errors of `_next_size`.
        """
        if status == Status.OK and not place:
            raise _truncated(file, position)
        if status not in (Status.OK, Status.ENTRY_INCOMPLETE):
            _check_start(file, position + place, data[place:])
        if not place:
            size = self._next_size(file, position, data, end)
            self._buffer = np.empty(size, np.uint8)

    def _find_following(self, file: DurableFile, position: int, end: int) -> _Following:
        """Return the first valid batch after bytes that are none."""
        source = _FileBytes(file, end)
        found = find_valid_entry(source, position + 1)
        if found is None:
            return _Following(end, None)
        rows = read_valid_entry(source, found)
        first = -1 if rows is None else int(rows["base_offset"][0])
        return _Following(found, first if first >= 0 else None)

    def _next_size(
        self, file: DurableFile, position: int, data: Bytes, end: int
    ) -> int:
        """Return the size of the batch that `data` begins with."""
        if file.size() < end:
            raise _truncated(file, position)
        left, place = end - position, f"{file.path} at byte {position}"
        if len(data) < HEADER_SIZE_UP_TO_MAGIC:
            reason = f"{left} bytes of a batch, expected at least 17"
            if self._usual_bytes:
                raise LogStateError(f"{reason}: {place}")
            raise _incomplete(file, position, reason)
        _check_start(file, position, data)
        size = LOG_OVERHEAD + size_field(data)
        if left < size <= self._usual_bytes:
            raise LogStateError(f"{left} bytes of a batch of {size}: {place}")
        if size > left:
            reason = f"batch of {size} bytes, expected at most {left}"
            raise _incomplete(file, position, reason)
        if size > self._max_batch_bytes + RECORD_BATCH_OVERHEAD:
            reason = f"batch of {size} bytes, expected at most {self._max_batch_bytes}"
            too_large = BatchTooLargeError(reason, position=position)
            raise too_large.located(file.path)
        return size

    def read_records(
        self, chunk: Chunk, rows: BatchHeaders, workspace: Workspace
    ) -> Iterator[RecordViews]:
        """Yield the records of some batches of a chunk, in order.

        Each result is valid until the next one. A batch whose records cannot be read is
        marked as corrupt in the chunk, if it is to be skipped or kept.

        Raises `InvalidRecordError` at a corrupt record, `CompressionError`,
        `BatchTooLargeError`, and `LogArgumentError` for an unknown compression type.
        """
        codecs = rows["attributes"] & CODEC_MASK
        if codecs.max(initial=0) >= len(CODECS):
            raise LogArgumentError(f"compression type {codecs.max()}, expected 0 to 4")
        for views in decode(
            chunk.data,
            chunk.origin,
            rows,
            bounds=Bounds(),
            limit=self._max_batch_bytes,
            workspace=workspace,
        ):
            if not isinstance(views, LocatedError):
                yield views
                continue
            if isinstance(views, BatchTooLargeError):
                raise views.located(chunk.file.path) from None
            assert views.position is not None  # every batch has one
            number = int((chunk.rows["position"] <= views.position).sum()) - 1
            located = views.located(chunk.file.path)
            self._corrupt.add_unreadable(located, chunk.rows[number])
            chunk.is_corrupt[number] = True


def _marked(rows: BatchHeaders, corrupt: Rows) -> Bools:
    """Return which of some rows have one of the numbers `corrupt`."""
    marked = np.zeros(len(rows), np.bool_)
    marked[corrupt] = True
    return marked


class _FileBytes:
    """The first bytes of a file, up to `size`, for the search after damage."""

    path = None

    def __init__(self, file: DurableFile, size: int) -> None:
        self._file = file
        self.size = min(size, file.size())

    def read(self, position: int, length: int, take: object = None) -> Bytes:
        """Return up to `length` bytes from `position` on."""
        length = max(0, min(length, self.size - position))
        return np.frombuffer(self._file.read(position, length), np.uint8)

    def read_headers(self, position: int, length: int, take: object) -> None:
        """Return None: all bytes are to be read."""

    def discard_read_ahead(self) -> None:
        """Do nothing: nothing is read ahead."""

    def close(self) -> None:
        """Do nothing: the file is the caller's."""


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


def _incomplete(file: DurableFile, position: int, reason: str) -> CorruptRecordError:
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)


def _truncated(file: DurableFile, position: int) -> CorruptRecordError:
    reason = "file truncated since it was opened"
    error = CorruptRecordError(reason, position=position, cause="size")
    return error.located(file.path)

"""One record batch, or one message of magic 0 or 1, with its records.

To read many batches use `batch_decoder`, which decodes a segment's batches at once;
`RecordBatch` is a view of one of them.

Source: ``RecordBatch.java``, ``DefaultRecordBatch.java``,
``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.decoding.batch_decoder import RecordViews, decode, find_headers
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    BytesLike,
    decode_error,
    find_crc_mismatches,
    find_invalid_size_or_magic,
    increment_sequences,
    magic_field,
    scan_headers,
)
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    MAX_BATCH_BYTES,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from kafkalog.text.bytes_text import repair_utf8


class Record(NamedTuple):
    """One record.

    Attributes
    ----------
    offset : int
        Offset in the partition.
    timestamp : int
        Milliseconds since 1970, -1 for none.
    timestamp_type : TimestampType
        The clock that the timestamp is from.
    key, value : bytes or None
        None for null.
    headers : tuple of (str, bytes or None)
        Keys and values in their order; a key may occur several times.
    """

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class RecordBatch:
    """One record batch or message: its header as attributes, and its records.

    Iteration yields a `Record` at a time, and does not verify the CRC; `is_valid` does.
    ``bytes(batch)`` is the batch as stored.

    Parameters
    ----------
    data : bytes-like
        Bytes that contain the complete batch.
    position : int
        Index in `data` of its first byte.
    max_bytes : int
        Greatest size of its records after decompression, in bytes.
    any_magic : bool
        Whether to read a magic above 2 as 2, and one below 0 as 1, as Kafka's storage
        engine does. By default such a magic is an error.

    Raises
    ------
    CorruptRecordError
        If there is no complete batch at `position`. Iteration raises it for corrupt
        records, and `BatchTooLargeError` for a batch above `max_bytes`.

    Examples
    --------
    >>> data = bytes.fromhex(
    ...     "0000000000000064000000520000000302"
    ...     "9a2ffa45000000000001"
    ...     "0000018bcfe568000000018bcfe56805"
    ...     "ffffffffffffffffffffffffffff"
    ...     "0000000228000000046b310a68656c6c6f0402680276026e01"
    ...     "16000a02010a776f726c6400"
    ... )
    >>> batch = RecordBatch(data)
    >>> batch.base_offset, batch.last_offset, batch.codec, batch.is_valid
    (100, 101, 'none', True)
    >>> [record.value for record in batch]
    [b'hello', b'world']
    """

    __slots__ = ("_data", "_max_bytes", "_row")

    def __init__(
        self,
        data: BytesLike,
        position: int = 0,
        *,
        max_bytes: int = MAX_BATCH_BYTES,
        any_magic: bool = False,
    ) -> None:
        whole = _as_bytes(data)
        rows, status, _ = scan_headers(whole, position, 0, 1, any_magic=any_magic)
        if not len(rows):
            invalid = find_invalid_size_or_magic(whole[position:])
            reason = "" if any_magic or invalid is None else invalid.reason
            raise decode_error(status or Status.ENTRY_INCOMPLETE, position, reason)
        self._row: BatchHeaders = rows
        self._data = whole[position : position + int(rows["size_in_bytes"][0])]
        self._row["position"] = 0
        self._max_bytes = max_bytes

    def _field(self, name: str) -> int:
        return int(self._row[name][0])

    @property
    def magic(self) -> int:
        """The magic as stored: 0, 1 or 2, or any if `any_magic` was set."""
        return magic_field(self._data)

    @property
    def _layout(self) -> int:
        """The magic whose layout the batch is read by."""
        return self._field("magic")

    @property
    def size_in_bytes(self) -> int:
        """Size of the whole batch, in bytes."""
        return self._field("size_in_bytes")

    @property
    def base_offset(self) -> int:
        """Offset of the first record. A wrapper message is decompressed for it."""
        if self._layout == 2 or self._field("base_offset") >= 0:
            return self._field("base_offset")
        return next(iter(self)).offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch was written with."""
        return self._field("last_offset")

    @property
    def leader_epoch(self) -> int:
        """Partition leader epoch of the broker that appended it; -1 if unknown."""
        return self._field("leader_epoch")

    @property
    def crc(self) -> int:
        """The stored CRC, unsigned."""
        return self._field("crc")

    @property
    def is_valid(self) -> bool:
        """Whether the batch matches its CRC."""
        return not len(find_crc_mismatches(self._data, 0, self._row))

    @property
    def attributes(self) -> int:
        """All bits of the attributes."""
        return self._field("attributes")

    @property
    def codec(self) -> str:
        """Name of the compression type; ``"unknown(5)"`` for an id without a name."""
        codec = self.attributes & CODEC_MASK
        return CODECS[codec] if codec < len(CODECS) else f"unknown({codec})"

    @property
    def timestamp_type(self) -> TimestampType:
        """The clock that the timestamps are from."""
        if self._layout == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME_FLAG))

    @property
    def base_timestamp(self) -> int:
        """Timestamp that records hold deltas to, ms; a message's own timestamp."""
        return self._field("base_timestamp")

    @property
    def max_timestamp(self) -> int:
        """Greatest timestamp of the records, or log append time, ms; -1 for none."""
        return self._field("max_timestamp")

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which compaction may remove tombstones, ms; None if not set."""
        has = self._layout == 2 and self.attributes & DELETE_HORIZON_FLAG
        return self.base_timestamp if has else None

    @property
    def producer_id(self) -> int:
        """Id of the idempotent producer, or -1."""
        return self._field("producer_id")

    @property
    def producer_epoch(self) -> int:
        """Epoch of the idempotent producer, or -1."""
        return self._field("producer_epoch")

    @property
    def base_sequence(self) -> int:
        """Sequence of the first record, or -1."""
        return self._field("base_sequence")

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record it was written with, or -1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        span = self._row["last_offset"] - self._row["base_offset"]
        base = self._row["base_sequence"]
        return int(increment_sequences(base, span.astype(np.int32))[0])

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self._layout == 2 and bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records."""
        return self._layout == 2 and bool(self.attributes & CONTROL_FLAG)

    @property
    def count(self) -> int | None:
        """Number of records; None for a wrapper message, whose header lacks it."""
        count = self._field("count")
        return None if self._layout < 2 and count < 0 else count

    def __bytes__(self) -> bytes:
        return self._data.tobytes()

    def __repr__(self) -> str:
        return (
            f"<RecordBatch magic {self.magic}, last offset {self.last_offset}, "
            f"{self.size_in_bytes} bytes, {self.codec}>"
        )

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records. The CRC is not verified."""
        results = decode(
            self._data,
            0,
            self._row.copy(),
            bounds=Bounds(),
            limit=self._max_bytes,
            workspace=Workspace(),
            split_large=True,
        )
        for views in results:
            if isinstance(views, LocatedError):
                raise views
            yield from _records(views, self.timestamp_type)


def _records(views: RecordViews, timestamp_type: TimestampType) -> Iterator[Record]:
    data = views.data.data

    def part(start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(data[start : start + length])

    headers = _headers(views, data)
    columns = [*views.records.longs.tolist(), *views.records.ints.tolist()]
    for (
        offset,
        timestamp,
        key_start,
        key_length,
        value_start,
        value_length,
        _,
        header_count,
    ) in zip(*columns, strict=True):
        yield Record(
            offset,
            timestamp,
            timestamp_type,
            part(key_start, key_length),
            part(value_start, value_length),
            tuple(next(headers) for _ in range(header_count)),
        )


def _headers(
    views: RecordViews, data: memoryview
) -> Iterator[tuple[str, bytes | None]]:
    """Yield key and value of each header, record after record."""
    _, places = find_headers(views)
    for key, key_length, value, length in zip(*places.tolist(), strict=True):
        text = repair_utf8(bytes(data[key : key + key_length]))
        yield text, None if length < 0 else bytes(data[value : value + length])


def _as_bytes(data: BytesLike) -> Bytes:
    """Return a contiguous buffer as an array of its bytes, without a copy."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(memoryview(data), np.uint8)

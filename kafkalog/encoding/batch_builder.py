"""Builders of record batches: from single records, or from columns of records.

`BatchSettings` has the header fields that do not follow from the records.
`RecordBatchBuilder` builds one batch of records appended one by one. `encode_batches`
splits columns of records into batches. Both write the same bytes as Kafka's builder; a
compressed batch may differ in the stream of its codec.

The base timestamp of a batch is that of the first record, or the delete horizon. The
max timestamp is the greatest, or the log append time. With log append time, records of
magic 2 keep their own timestamps, and messages of magic 0 and 1 do not.

Source: ``MemoryRecordsBuilder.java``, ``DefaultRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from kafkalog.array_types import Bytes, Int64s
from kafkalog.codecs.compression import Codec, find_magic_fault
from kafkalog.encoding.batch_encoder import (
    DEFAULT_BATCH_BYTES,
    batch_rows,
    encode,
    encode_measured,
    split_into_batches,
)
from kafkalog.encoding.message_sets import encode_messages
from kafkalog.encoding.record_columns import (
    ByteColumn,
    Header,
    RecordColumns,
    header_columns,
)
from kafkalog.errors import InvalidRecordError
from kafkalog.formats import layout
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import TimestampType


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Header fields of a batch that do not follow from its records.

    `codec` is a name of `layout.CODECS` or an id. `level` is its
    ``compression.*.level``, None for Kafka's default. If `base_offset` is None, it is
    the offset of the first record. `last_offset` is set if records after the last one
    were removed. Times are ms since the epoch.

    Raises `InvalidRecordError` for fields that no batch can have.
    """

    _: KW_ONLY
    magic: int = 2
    codec: layout.CodecName | int = Codec.NONE
    level: int | None = None
    base_offset: int | None = None
    last_offset: int | None = None
    leader_epoch: int = layout.NO_LEADER_EPOCH
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    log_append_time: int | None = None
    producer_id: int = layout.NO_PRODUCER_ID
    producer_epoch: int = layout.NO_PRODUCER_EPOCH
    base_sequence: int = layout.NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.codec, str):
            if self.codec not in layout.CODECS:
                raise InvalidRecordError(
                    f"codec {self.codec!r}, expected {', '.join(layout.CODECS)}"
                )
            object.__setattr__(self, "codec", layout.CODECS.index(self.codec))
        if reason := self._find_fault():
            raise InvalidRecordError(reason)

    def _find_fault(self) -> str | None:
        """Return why no batch can have these fields, None if one can."""
        stamped = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        if stamped != (self.log_append_time is not None):
            return "log_append_time must be set with timestamp type LogAppendTime only"
        if self.timestamp_type < 0 and self.magic > 0:
            return f"no timestamp type in magic {self.magic}, expected magic 0"
        if self.magic not in (0, 1, 2):
            return f"magic {self.magic}, expected 0, 1 or 2"
        if self.magic < 2:
            return self._find_fault_of_messages()
        # MemoryRecordsBuilder: of the negative ids and epochs only -1 is none.
        if self.producer_id == layout.NO_PRODUCER_ID:
            if self.is_transactional:
                return "transactional batch without a producer id"
            return None
        if self.producer_epoch == layout.NO_PRODUCER_EPOCH:
            return f"producer epoch {self.producer_epoch}, expected at least 0"
        if self.base_sequence < 0 and not self.is_control:
            return f"sequence {self.base_sequence}, expected at least 0"
        return None

    def _find_fault_of_messages(self) -> str | None:
        """Return why no messages of magic 0 or 1 can have these fields."""
        if reason := find_magic_fault(int(self.codec), self.magic):
            return reason
        only_magic_2 = (
            self.producer_id != layout.NO_PRODUCER_ID,
            self.is_transactional or self.is_control,
            self.delete_horizon_ms is not None or self.last_offset is not None,
        )
        if any(only_magic_2):
            return f"fields of a batch in magic {self.magic}, expected magic 2"
        return None

    @property
    def attributes(self) -> int:
        """Attributes of a batch of magic 2."""
        stamped = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        return (
            int(self.codec)
            | layout.LOG_APPEND_TIME_FLAG * stamped
            | layout.TRANSACTIONAL_FLAG * self.is_transactional
            | layout.CONTROL_FLAG * self.is_control
            | layout.DELETE_HORIZON_FLAG * (self.delete_horizon_ms is not None)
        )


class BatchFields(TypedDict, total=False):
    """Keyword arguments with the fields of `BatchSettings`."""

    magic: int
    codec: layout.CodecName | int
    level: int | None
    base_offset: int | None
    last_offset: int | None
    leader_epoch: int
    timestamp_type: TimestampType
    log_append_time: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None


class RecordBatchBuilder:
    """Builder of one batch, or of a message set below magic 2, from single records.

    Parameters
    ----------
    **settings : optional
        Fields of the batch: ``magic``, ``codec``, ``level``, ``base_offset``,
        ``last_offset``, ``leader_epoch``, ``timestamp_type``, ``log_append_time``,
        ``producer_id``, ``producer_epoch``, ``base_sequence``, ``is_transactional``,
        ``is_control``, ``delete_horizon_ms``. Times are ms since the epoch.

    Raises
    ------
    InvalidRecordError
        For fields that no batch can have.

    Examples
    --------
    >>> builder = RecordBatchBuilder(base_offset=100, leader_epoch=3)
    >>> builder.append(b"k1", b"hello", timestamp=1_700_000_000_000)
    >>> builder.append(None, b"world", timestamp=1_700_000_000_005)
    >>> len(builder.build())
    87
    """

    def __init__(self, **settings: Unpack[BatchFields]) -> None:
        self.settings = BatchSettings(**settings)
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._timestamps: list[int] = []
        self._offsets: list[int] = []
        self._headers: list[Sequence[Header]] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp: int = layout.NO_TIMESTAMP,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> None:
        """Append a record.

        Parameters
        ----------
        key : bytes or None
            Key of the record.
        value : bytes or None
            Value of the record.
        timestamp : int, default -1
            Milliseconds since the epoch, -1 for none.
        headers : sequence of (str or bytes, bytes or None), optional
            Names and values of the record headers.
        offset : int, optional
            Offset of the record, by default the one after the last record.

        Raises
        ------
        InvalidRecordError
            If the offset is not above the last one, or 2**31 or more above the base
            offset, if the timestamp is below -1, or if a header has no name.

        Examples
        --------
        >>> builder = RecordBatchBuilder(codec="zstd")
        >>> builder.append(b"key", b"value", headers=[("trace", b"17")])
        >>> len(builder)
        1
        """
        if offset is None:
            offset = self._offsets[-1] + 1 if self._offsets else self._base_offset(0)
        elif self._offsets and offset <= self._offsets[-1]:
            reason = f"offset {offset} after {self._offsets[-1]}"
            raise InvalidRecordError(f"{reason}, expected ascending offsets")
        _check_delta(self._base_offset(offset), offset)
        if timestamp < layout.NO_TIMESTAMP:
            raise InvalidRecordError(f"timestamp {timestamp}, expected at least -1")
        if any(name is None for name, _ in headers):
            raise InvalidRecordError("record header without a key")
        self._keys.append(key)
        self._values.append(value)
        self._timestamps.append(timestamp)
        self._offsets.append(offset)
        self._headers.append(headers)

    def build(self) -> bytes:
        """Return the batch of the records appended so far.

        Returns
        -------
        bytes
            The encoded batch.

        Raises
        ------
        InvalidRecordError
            If there are no records, or the settings do not fit them.

        Examples
        --------
        >>> import kafkalog
        >>> builder = RecordBatchBuilder()
        >>> builder.append(b"key", b"value")
        >>> [record.value for record in kafkalog.RecordBatch(builder.build())]
        [b'value']
        """
        if not self._offsets:
            raise InvalidRecordError("record count 0, expected at least 1")
        return bytes(encode_batches(self._columns(), None, settings=self.settings))

    def _base_offset(self, first: int) -> int:
        if self.settings.base_offset is not None:
            return self.settings.base_offset
        return self._offsets[0] if self._offsets else first

    def _columns(self) -> RecordColumns:
        return RecordColumns(
            np.array(self._offsets, np.int64),
            np.array(self._timestamps, np.int64),
            ByteColumn.of(self._keys),
            ByteColumn.of(self._values),
            header_columns(self._headers),
        )


def encode_batches(
    columns: RecordColumns,
    batch_bytes: int | None = DEFAULT_BATCH_BYTES,
    *,
    rows_per_batch: int | None = None,
    settings: BatchSettings | None = None,
    out: Bytes | None = None,
) -> memoryview:
    """Return columns of records as encoded batches, one after another.

    Each batch has as many records as its limits allow, at least one. Below magic 2 all
    records are in one message set.

    Parameters
    ----------
    columns : RecordColumns
        The records, with ascending offsets.
    batch_bytes : int or None, default 16384
        Greatest size of a batch with its header, before compression; None for no limit.
    rows_per_batch : int, optional
        Greatest number of records of a batch.
    settings : BatchSettings, optional
        Header fields of all batches. With more than one batch, `base_offset` and
        `last_offset` must be None. Sequences continue from batch to batch.
    out : ndarray of uint8, optional
        Buffer to write uncompressed batches to, if it is large enough.

    Returns
    -------
    memoryview
        The bytes of the batches, in `out` or in a new buffer; ``bytes(...)`` copies it.

    Raises
    ------
    InvalidRecordError
        For a record or a batch that cannot be encoded, as in `RecordBatchBuilder`.
    ValueError
        If the columns have different lengths.

    Examples
    --------
    >>> rows = RecordColumns(
    ...     np.arange(3), np.full(3, -1), ByteColumn.nulls(3), ByteColumn.of([b"v"] * 3)
    ... )
    >>> len(encode_batches(rows, rows_per_batch=2))
    146
    """
    settings = BatchSettings() if settings is None else settings
    if settings.magic < 2:
        messages = encode_messages(
            columns,
            magic=settings.magic,
            codec=int(settings.codec),
            level=settings.level,
            base_offset=settings.base_offset,
            log_append_time=settings.log_append_time,
        )
        return memoryview(messages)
    split = split_into_batches(
        columns, batch_bytes=batch_bytes, rows_per_batch=rows_per_batch
    )
    rows = header_rows(columns, split.bounds, settings)
    if settings.base_offset is None and settings.delete_horizon_ms is None:
        return encode_measured(columns, rows, split, level=settings.level, out=out)
    return encode(columns, rows, split.bounds, level=settings.level)


def empty_batch(
    *,
    base_offset: int,
    last_offset: int,
    max_timestamp: int = layout.NO_TIMESTAMP,
    **settings: Any,
) -> bytes:
    """Return a batch without records, as compaction keeps for a producer's sequence.

    Further arguments are the fields of `BatchSettings`. Codec and delete horizon are
    cleared, and the base timestamp is -1.

    >>> len(empty_batch(base_offset=100, last_offset=101))
    61
    """
    settings |= {"codec": Codec.NONE, "level": None, "delete_horizon_ms": None}
    if settings.get("timestamp_type") == TimestampType.LOG_APPEND_TIME:
        settings["log_append_time"] = max_timestamp
    fields = BatchSettings(base_offset=base_offset, last_offset=last_offset, **settings)
    rows = np.zeros(1, layout.BATCH)
    rows["magic"] = fields.magic
    bounds = np.zeros(2, np.int64)
    _apply(fields, rows, bounds)
    rows["base_timestamp"] = layout.NO_TIMESTAMP
    rows["max_timestamp"] = max_timestamp
    none = np.empty(0, np.int64)
    nulls = ByteColumn.nulls(0)
    return bytes(encode(RecordColumns(none, none, nulls, nulls), rows, bounds))


def header_rows(
    columns: RecordColumns, bounds: Int64s, settings: BatchSettings
) -> BatchHeaders:
    """Return the headers of batches of magic 2, from their records and `settings`.

    Batch i has the records ``bounds[i]`` to ``bounds[i + 1]``.
    """
    rows = batch_rows(columns, bounds)
    _apply(settings, rows, bounds)
    return rows


def _apply(settings: BatchSettings, rows: BatchHeaders, bounds: Int64s) -> None:
    """Set the header fields of `settings` in `rows`."""
    _apply_offsets(settings, rows)
    rows["attributes"] = settings.attributes
    for name in ("leader_epoch", "producer_id", "producer_epoch"):
        rows[name] = getattr(settings, name)
    rows["base_sequence"] = settings.base_sequence
    if settings.base_sequence >= 0:
        rows["base_sequence"] = (
            settings.base_sequence + bounds[:-1]
        ) & layout.SEQUENCE_MASK
    if settings.delete_horizon_ms is not None:
        rows["base_timestamp"] = settings.delete_horizon_ms
    if settings.log_append_time is not None:
        rows["max_timestamp"] = settings.log_append_time


def _apply_offsets(settings: BatchSettings, rows: BatchHeaders) -> None:
    """Set the base offset and the last offset of a batch, if `settings` have them."""
    offsets = {
        name: offset
        for name in ("base_offset", "last_offset")
        if (offset := getattr(settings, name)) is not None
    }
    if offsets and len(rows) > 1:
        reason = f"{' and '.join(offsets)} of {len(rows)} batches, expected 1 batch"
        raise InvalidRecordError(reason)
    last_offset = offsets.get("last_offset")
    if last_offset is not None and (rows["last_offset"] > last_offset).any():
        least = rows["last_offset"].max()
        reason = f"last offset {last_offset}, expected at least {least}"
        raise InvalidRecordError(reason)
    for name, offset in offsets.items():
        rows[name] = offset
    if len(rows):
        widest = (rows["last_offset"] - rows["base_offset"]).argmax()
        row = rows[widest]
        _check_delta(int(row["base_offset"]), int(row["last_offset"]))


def _check_delta(base_offset: int, offset: int) -> None:
    if not 0 <= offset - base_offset <= layout.MAX_OFFSET_DELTA:
        greatest = base_offset + layout.MAX_OFFSET_DELTA
        reason = f"offset {offset}, expected {base_offset} to {greatest}"
        raise InvalidRecordError(reason)

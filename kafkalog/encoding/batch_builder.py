"""Records in, batches out: one at a time, or columns of them at once.

What a batch says besides its records is a `BatchSettings`; `RecordBatchBuilder` takes
records singly, `encode_batches` cuts columns of them into many batches. Both write the
bytes that Kafka's own builder writes; uncompressed, every one of them.

The base timestamp is the first record's, or the delete horizon; the max timestamp the
greatest, or the log append time. Records keep their own timestamps under log append
time in magic 2, and lose them below.

Knows: Kafka's rules for what may be written. Does not know: what a log accepts.
Source: ``MemoryRecordsBuilder.java``, ``DefaultRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from kafkalog.codecs.compression import Codec
from kafkalog.encoding.batch_encoder import (
    DEFAULT_BATCH_BYTES,
    BatchHeaders,
    Bytes,
    batch_rows,
    encode,
    encode_measured,
    split_into_batches,
)
from kafkalog.encoding.message_sets import encode_messages
from kafkalog.encoding.record_columns import (
    ByteColumn,
    Header,
    Int64s,
    RecordColumns,
    header_columns,
)
from kafkalog.errors import InvalidRecordError
from kafkalog.formats import layout
from kafkalog.formats.layout import TimestampType


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What a batch says of itself; the rest follows from its records.

    `codec` is a name of `layout.CODECS` or an id, `level` its ``compression.*.level``,
    None for Kafka's default. `base_offset` None is the first record's. `last_offset` is
    given where records behind the last one were removed. Times are ms since the epoch.

    Raises `InvalidRecordError` where no batch can be so.
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
                raise InvalidRecordError(f"there is no codec {self.codec!r}")
            object.__setattr__(self, "codec", layout.CODECS.index(self.codec))
        if reason := self._objection():
            raise InvalidRecordError(reason)

    def _objection(self) -> str | None:
        """Say why there can be no such batch."""
        stamped = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        if stamped != (self.log_append_time is not None):
            return "log append time, and only it, needs log_append_time"
        if self.timestamp_type < 0 and self.magic > 0:
            return f"magic {self.magic} needs a timestamp type"
        if self.magic not in (0, 1, 2):
            return f"there is no magic {self.magic}"
        if self.magic < 2:
            return self._objection_below_magic_2()
        if self.is_transactional and self.producer_id < 0:
            return "a transactional batch needs a producer id"
        if self.producer_id < 0:
            return None
        if self.producer_epoch < 0:
            return f"producer epoch {self.producer_epoch} is negative"
        if self.base_sequence < 0 and not self.is_control:
            return f"sequence {self.base_sequence} is negative"
        return None

    def _objection_below_magic_2(self) -> str | None:
        if self.codec == Codec.ZSTD:
            return f"zstd cannot be used with magic {self.magic}"
        late = (
            self.producer_id >= 0 or self.is_transactional or self.is_control,
            self.delete_horizon_ms is not None or self.last_offset is not None,
        )
        if any(late):
            return f"magic {self.magic} has messages, and nothing to say of a batch"
        return None

    @property
    def attributes(self) -> int:
        """The attributes of a batch of magic 2."""
        stamped = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        return (
            int(self.codec)
            | layout.LOG_APPEND_TIME_FLAG * stamped
            | layout.TRANSACTIONAL_FLAG * self.is_transactional
            | layout.CONTROL_FLAG * self.is_control
            | layout.DELETE_HORIZON_FLAG * (self.delete_horizon_ms is not None)
        )


class BatchFields(TypedDict, total=False):
    """The fields of `BatchSettings`, as keywords."""

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
    """Collect records and build one batch of them (below magic 2, a message set).

    Takes the fields of `BatchSettings` as keywords.

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
        """Add a record; `offset` None is the one behind the last.

        Raises `InvalidRecordError` for an offset that does not rise or that is 2^31 or
        more above the base, a negative timestamp other than -1, a header without a key.
        """
        if offset is None:
            offset = self._offsets[-1] + 1 if self._offsets else self._base_offset(0)
        elif self._offsets and offset <= self._offsets[-1]:
            reason = f"offset {offset} does not rise above {self._offsets[-1]}"
            raise InvalidRecordError(reason)
        _check_delta(self._base_offset(offset), offset)
        if timestamp < layout.NO_TIMESTAMP:
            raise InvalidRecordError(f"timestamp {timestamp} is negative")
        if any(name is None for name, _ in headers):
            raise InvalidRecordError("a header needs a key")
        self._keys.append(key)
        self._values.append(value)
        self._timestamps.append(timestamp)
        self._offsets.append(offset)
        self._headers.append(headers)

    def build(self) -> bytes:
        """Build the batch of the records so far."""
        if not self._offsets:
            raise InvalidRecordError("a batch needs a record, or empty_batch")
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
    """Encode `columns` as batches one behind another, each as full as it may be.

    `batch_bytes` bounds a batch before compression, header included, `rows_per_batch`
    its records; None is no bound. Where more than one batch comes out, `settings` may
    give neither `base_offset` nor `last_offset`; sequences run on from batch to batch.
    Below magic 2 all records go into one message set. What comes out is the memory it
    was written to, `out` if that is large enough: ``bytes(...)`` copies it.

    Raises `InvalidRecordError` as `RecordBatchBuilder` does.

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
    cut = split_into_batches(
        columns, batch_bytes=batch_bytes, rows_per_batch=rows_per_batch
    )
    rows = head_batches(columns, cut.bounds, settings)
    if settings.base_offset is None and settings.delete_horizon_ms is None:
        return encode_measured(columns, rows, cut, level=settings.level, out=out)
    return encode(columns, rows, cut.bounds, level=settings.level)


def empty_batch(
    *,
    base_offset: int,
    last_offset: int,
    max_timestamp: int = layout.NO_TIMESTAMP,
    **settings: Any,
) -> bytes:
    """Build a batch without records, as compaction leaves one to keep what it says.

    Takes the fields of `BatchSettings` too. Codec and delete horizon are cleared, the
    base timestamp is -1.

    >>> len(empty_batch(base_offset=100, last_offset=101))
    61
    """
    settings |= {"codec": Codec.NONE, "level": None, "delete_horizon_ms": None}
    if settings.get("timestamp_type") == TimestampType.LOG_APPEND_TIME:
        settings["log_append_time"] = max_timestamp
    kept = BatchSettings(base_offset=base_offset, last_offset=last_offset, **settings)
    rows = np.zeros(1, layout.BATCH)
    rows["magic"] = kept.magic
    bounds = np.zeros(2, np.int64)
    _apply(kept, rows, bounds)
    rows["base_timestamp"] = layout.NO_TIMESTAMP
    rows["max_timestamp"] = max_timestamp
    none = np.empty(0, np.int64)
    nulls = ByteColumn.nulls(0)
    return bytes(encode(RecordColumns(none, none, nulls, nulls), rows, bounds))


def head_batches(
    columns: RecordColumns, bounds: Int64s, settings: BatchSettings
) -> BatchHeaders:
    """Head batches of magic 2: what their records say, and what `settings` do.

    Batch i has the records ``bounds[i]`` to ``bounds[i + 1]``.
    """
    rows = batch_rows(columns, bounds)
    _apply(settings, rows, bounds)
    return rows


def _apply(settings: BatchSettings, rows: BatchHeaders, bounds: Int64s) -> None:
    """Write into `rows` what `settings` say of their batches."""
    _place_offsets(settings, rows)
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


def _place_offsets(settings: BatchSettings, rows: BatchHeaders) -> None:
    """Let the settings' first and last offsets stand for those of the records."""
    given = {
        name: offset
        for name in ("base_offset", "last_offset")
        if (offset := getattr(settings, name)) is not None
    }
    if given and len(rows) > 1:
        reason = f"{' and '.join(given)} cannot be those of {len(rows)} batches"
        raise InvalidRecordError(reason)
    if "last_offset" in given and (rows["last_offset"] > given["last_offset"]).any():
        reason = f"last offset {given['last_offset']} lies below the last record's"
        raise InvalidRecordError(reason)
    for name, offset in given.items():
        rows[name] = offset
    if len(rows):
        widest = (rows["last_offset"] - rows["base_offset"]).argmax()
        row = rows[widest]
        _check_delta(int(row["base_offset"]), int(row["last_offset"]))


def _check_delta(base_offset: int, offset: int) -> None:
    if not 0 <= offset - base_offset <= layout.MAX_OFFSET_DELTA:
        reason = f"offset {offset} is no int32 above the base offset {base_offset}"
        raise InvalidRecordError(reason)

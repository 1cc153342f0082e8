"""Positions and sizes of the fields of record batches and messages, in bytes.

A segment file is a sequence of entries, with no header, footer or padding. An entry is
a *record batch* (magic 2) or a *message* (magic 0 and 1); Kafka's ``RecordBatch``
interface covers both. All integers of fixed width are big-endian. The first 17 bytes
have the same layout in both, so that a reader can read the magic first:

    0             8      12        16      17
    | offset      | size | ...     | magic |

``offset``  int64  magic 2: the base offset. Magic 0 and 1: the offset of the message,
                   or of the last message in a compressed set.
``size``    int32  number of bytes after this field: the entry has 12 + size bytes.

Record batch, magic 2 (``DefaultRecordBatch.java``):

    0             8        12                       16      17    21           23
    | base_offset | length | partition_leader_epoch | magic | crc | attributes | ...
    23                  27               35              43            51
    | last_offset_delta | base_timestamp | max_timestamp | producer_id | ...
    51               53              57              61
    | producer_epoch | base_sequence | records_count | records

``partition_leader_epoch``  int32  of the leader that appended the batch; -1 before.
``crc``                uint32 CRC-32C of the bytes from ``attributes`` to the end. The
                       fields before it may change without a new checksum.
``attributes``         int16  bits 0-2 compression type, 3 timestamp type,
                       4 transactional, 5 control, 6 delete horizon; the rest unused.
``last_offset_delta``  int32  of the last record the batch was written with. Compaction
                       keeps it, so no record may have this offset any more.
``base_timestamp``     int64  ms; of the first record, or, with bit 6, the delete
                       horizon. Records hold deltas to it in both cases.
``max_timestamp``      int64  ms; with LogAppendTime, the timestamp of every record.
``producer_id``        int64  -1 without an idempotent producer; ``producer_epoch``
                       (int16) and ``base_sequence`` (int32) are -1 then.
``base_sequence``      int32  sequence of the first record; -1 in control batches.
``records_count``      int32  number of records; 0 where compaction removed them all.
``records``            the records, or one compressed stream of them.

Message, magic 0 and 1 (``LegacyRecord.java``):

    0        8      12    16      17           18 (magic 1 only)   18 / 26
    | offset | size | crc | magic | attributes | timestamp         | key, value

``crc``         uint32  CRC-32 (that of zlib) of the bytes from ``magic`` to the end.
``attributes``  int8    bits 0-2 compression type, 3 timestamp type (magic 1).
``timestamp``   int64   ms, -1 for none.
``key, value``  int32   length, -1 for null, then the bytes. With a compression type
                the message is a *wrapper* message: its key is null, and its value is
                a compressed set of messages.

Source: ``Records.java``, ``DefaultRecordBatch.java``, ``LegacyRecord.java``,
``RecordBatch.java``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

SIZE_OFFSET: Final = 8
"""Position of the size field."""

LOG_OVERHEAD: Final = 12
"""Bytes up to the end of the size field."""

HEADER_SIZE_UP_TO_MAGIC: Final = 17
"""Bytes that a reader needs before it can interpret an entry."""

MAGIC_OFFSET: Final = 16
"""Position of the magic."""

MIN_SIZES: Final = (14, 22, 49)
"""The least value of the size field, by magic: a batch without records, or a message
without key and value (``RECORD_OVERHEAD_V0`` and ``_V1`` of ``LegacyRecord``)."""

MIN_SIZE: Final = MIN_SIZES[0]
"""The least value of the size field whatever the magic."""

RECORD_BATCH_OVERHEAD: Final = 61
"""Bytes of a batch before its records."""

BATCH_CRC_FROM: Final = 21
"""The first byte that the CRC of a batch covers: ``ATTRIBUTES_OFFSET`` in Kafka."""

MESSAGE_CRC_FROM: Final = 16
"""The first byte that the CRC of a message covers: ``MAGIC_OFFSET`` in Kafka."""

MIN_RECORD_BYTES: Final = 7
"""The size of the smallest record of magic 2, which bounds a batch's record count."""

MIN_MESSAGE_BYTES: Final = 26
"""The size of the smallest message: magic 0, without key and value."""

MAX_FILE_BYTES: Final = 2**31 - 1
"""The largest segment file: positions in an index are int32."""

MAX_OFFSET_DELTA: Final = 2**31 - 1
"""The greatest offset in a batch or segment, relative to its base offset."""

MAX_BATCH_BYTES: Final = 64 << 20
"""Default limit of a decompressed batch. (Kafka bounds batches when they are appended:
``max.message.bytes``, 1 MiB by default.)"""

SEQUENCE_MASK: Final = 2**31 - 1
"""The greatest sequence number; the next one is 0."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07  # COMPRESSION_CODEC_MASK in Kafka
LOG_APPEND_TIME_FLAG: Final = 0x08  # TIMESTAMP_TYPE_MASK
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40


class TimestampType(IntEnum):
    """The clock that a timestamp is from: the producer's, or that of the broker."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


CodecName: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]

CODECS: Final[tuple[CodecName, ...]] = get_args(CodecName)
"""Kafka's compression types; the index of a name is its id in the attributes."""

BATCH: Final = np.dtype(
    [
        ("position", np.int64),
        ("size_in_bytes", np.int64),
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("crc", np.uint32),
        ("leader_epoch", np.int32),
        ("base_sequence", np.int32),
        ("count", np.int32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
        ("magic", np.int8),
        ("_unused", np.int8, 3),
    ]
)
"""The header of one batch or message, decoded to native integers.

For magic 0 and 1, `base_offset` is the message's offset and `count` is 1; both are -1
in a wrapper message, where only the inner messages have them. Fields that a message
lacks are -1. The struct `Batch` of ``_speedups/_batch.pxd`` has the same fields.
"""

"""Where every field of Kafka's record formats lies: the only place it is written down.

A segment is entries one after another; no header, no footer, no padding. An entry is a
*batch* (magic 2) or a *message* (magic 0 and 1). All fixed-width integers are
big-endian. The first 17 bytes are common, so that the magic is read before anything
else is interpreted:

    0             8      12        16      17
    | offset      | size | ...     | magic |

``offset``  int64  magic 2: of the first record the batch ever held; magic 0 and 1: of
            the last (or only) message of the entry. Assigned by the broker.
``size``    int32  bytes behind this field: a whole entry is 12 + size.

Batch, magic 2 (``DefaultRecordBatch.java``):

    0             8        12             16      17    21           23
    | base_offset | length | leader_epoch | magic | crc | attributes | ...
    23                  27               35              43            51
    | last_offset_delta | base_timestamp | max_timestamp | producer_id | ...
    51               53              57      61
    | producer_epoch | base_sequence | count | records, plain or one compressed stream

``leader_epoch``       int32  of the leader that appended it; -1 until then.
``crc``                uint32 CRC-32C of bytes 21 to the end: what stands before it,
                       the magic included, may be patched without touching it.
``attributes``         int16  bits 0-2 codec, 3 timestamp type, 4 transactional,
                       5 control, 6 delete horizon; the rest unused.
``last_offset_delta``  int32  of the last record the batch ever held; compaction leaves
                       it, so it may exceed the last record present.
``base_timestamp``     int64  ms; of the first record written, or, with bit 6, the
                       delete horizon. Records hold deltas to it either way.
``max_timestamp``      int64  ms; with LogAppendTime every record's timestamp.
``producer_id``        int64  -1: no idempotent producer; then the next two mean
``producer_epoch``     int16  nothing.
``base_sequence``      int32  of the first record; -1 in control batches.
``count``              int32  records present; 0 in batches that compaction emptied.

Message, magic 0 and 1 (``LegacyRecord.java``):

    0        8      12    16      17           18 (magic 1 only)   18 / 26
    | offset | size | crc | magic | attributes | timestamp         | key, value

``crc``         uint32  CRC-32 (zlib's) of bytes 16 to the end.
``attributes``  int8    bits 0-2 codec, 3 timestamp type (magic 1).
``timestamp``   int64   ms, -1 none.
``key, value``  int32 length, -1 null, and the bytes. Where the codec is not 0 the
                message is a *wrapper*: no key, and its value is compressed messages.

Knows: layouts. Does not know: files, compression, what a record is for.
Source: ``DefaultRecordBatch.java``, ``LegacyRecord.java``, ``Records.java``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

SIZE_OFFSET: Final = 8
"""First byte of the size field, and how many the offset before it has."""

LOG_OVERHEAD: Final = 12
"""Bytes before and with the size field."""

HEADER_SIZE_UP_TO_MAGIC: Final = 17
"""What must be there before an entry can be told from a tail."""

MIN_SIZES: Final = (14, 22, 49)
"""The smallest value of the size field of each magic: what comes before the records, or
before key and value."""

MIN_SIZE: Final = MIN_SIZES[0]
"""The smallest value of the size field that any reader accepts: magic 0's overhead."""

RECORD_BATCH_OVERHEAD: Final = 61
"""Bytes of a magic 2 batch before its records."""

BATCH_CRC_FROM: Final = 21
"""First byte that a magic 2 batch's CRC covers."""

MESSAGE_CRC_FROM: Final = 16
"""First byte that the CRC of a magic 0 or 1 message covers."""

MIN_RECORD_BYTES: Final = 7
"""The smallest record of magic 2: bounds a batch's count before anything is made."""

MIN_MESSAGE_BYTES: Final = 26
"""The smallest message, of magic 0 without key and value."""

MAX_FILE_BYTES: Final = 2**31 - 1
"""Kafka opens no larger segment; positions in an index are int32."""

MAX_OFFSET_DELTA: Final = 2**31 - 1
"""The greatest offset a batch or segment can hold, relative to its base."""

MAX_BATCH_BYTES: Final = 64 << 20
"""How large a batch may be, unpacked, where nobody says else; Kafka says 1 MiB."""

SEQUENCE_MASK: Final = 2**31 - 1
"""The greatest sequence; 0 follows it."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40


class TimestampType(IntEnum):
    """Whose clock a record's timestamp is from; as in the ``timestamp_type`` column."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


CodecName: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]

CODECS: Final[tuple[CodecName, ...]] = get_args(CodecName)
"""Kafka's compression types; the place of a name is its id in the attributes."""

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
"""One entry's header, decoded: native integers, one row a batch or message.

Of magic 0 and 1, `base_offset` is that of the only message, or -1 in a wrapper (it is
inside); `count` is 1, or -1 in a wrapper; what they do not have is -1.
The compiled `Batch` of ``_speedups/_batch.pxd`` is this, field by field.
"""

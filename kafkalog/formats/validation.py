"""What a leader does to an append before it is written: judged, stamped, or rebuilt.

Knows: Kafka's rules for what a leader takes. Does not know: the log, producers' states.
Source: ``LogValidator.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from kafkalog.codecs.compression import Codec
from kafkalog.formats.appends import AppendOrigin, Appends
from kafkalog.formats.layout import MAX_BATCH_BYTES, TimestampType
from kafkalog.formats.workspace import Workspace


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What a topic's configuration asks of an append; times in ms, sizes in bytes.

    `codec` None is ``compression.type=producer``: each batch keeps its own; `level` is
    that of `codec`, None for Kafka's default. `compacted` topics need keys.
    `max_unpacked_bytes` bounds a batch, unpacked.
    """

    _: KW_ONLY
    max_message_bytes: int = 1048588
    codec: Codec | None = None
    level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    max_unpacked_bytes: int = MAX_BATCH_BYTES


def validate_appends(
    appends: Appends,
    rules: AppendRules,
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    now_ms: int,
    workspace: Workspace,
) -> Appends:
    """Judge what `analyze_appends` has found, and make of it what is to be written.

    What comes out has the leader's epoch, timestamps and codec, and may have `data` of
    its own; offsets count from 0 in each append until `Appends.place`.

    Errors, in `Appends.errors`: `InvalidRecordError`, `RecordValidationError`,
    `CorruptRecordError`, `RecordTooLargeError` where a rebuilt batch is too large,
    `LogArgumentError` where Kafka's builder refuses, `CompressionError`.
    """
    raise NotImplementedError

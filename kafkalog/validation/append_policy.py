"""What a topic asks of an append, and who takes it.

Knows: settings. Does not know: what they are applied to.
Source: ``LogConfig.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from kafkalog.codecs.compression import Codec
from kafkalog.config import LogConfig
from kafkalog.formats.layout import MAX_BATCH_BYTES, TimestampType
from kafkalog.validation.appends import AppendOrigin

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What a topic's configuration asks of an append; times in ms, sizes in bytes.

    `codec` None is ``compression.type=producer``: each batch keeps its own; `level` is
    that of `codec`, None for Kafka's default. `compacted` topics need keys.
    `max_unpacked_bytes` bounds a batch, unpacked; Kafka has no such bound.
    """

    _: KW_ONLY
    max_message_bytes: int = 1048588
    codec: Codec | None = None
    level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = _MOST
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    max_unpacked_bytes: int = MAX_BATCH_BYTES

    def target(self, source: Codec) -> tuple[Codec, int | None]:
        """Return codec and level of what is written, `source` being what came.

        >>> AppendRules().target(Codec.LZ4)
        (<Codec.LZ4: 3>, None)
        """
        return (source, None) if self.codec is None else (self.codec, self.level)


def rules_of(config: LogConfig) -> AppendRules:
    """Say what a topic's settings ask of an append."""
    kind = config.compression_type
    codec = None
    if kind != "producer":
        codec = Codec.NONE if kind == "uncompressed" else Codec[kind.upper()]
    stamped = config.log_append_time
    return AppendRules(
        max_message_bytes=config.max_message_bytes,
        codec=codec,
        level=config.compression_level,
        timestamp_type=TimestampType.LOG_APPEND_TIME
        if stamped
        else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted=config.compact,
    )


class Leadership(NamedTuple):
    """How a leader takes an append: the rules, from whom, in which epoch, and when."""

    rules: AppendRules
    origin: AppendOrigin
    leader_epoch: int
    now_ms: int

    @property
    def at_append(self) -> bool:
        """Whether timestamps are those of the append."""
        return self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    def as_tuple(self) -> tuple[bool, bool, int, int, int]:
        """Return the rules as kernels take them; the last two say what time is plain.

        Below the least timestamp are some that Kafka takes, its arithmetic wrapping.
        """
        rules, least, greatest = self.rules, _LEAST, _MOST
        if not self.at_append:
            least = max(self.now_ms - rules.timestamp_before_max_ms, _LEAST)
            greatest = min(self.now_ms + rules.timestamp_after_max_ms, _MOST)
        codec = -1 if rules.codec is None else int(rules.codec)
        client = self.origin is AppendOrigin.CLIENT
        return client, rules.compacted, codec, least, greatest

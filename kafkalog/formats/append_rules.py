"""What a topic asks of an append, and who takes it.

Knows: settings. Does not know: how they are looked up, or what they are applied to.
Source: ``LogConfig.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from kafkalog.codecs.compression import Codec
from kafkalog.formats.appends import AppendOrigin
from kafkalog.formats.layout import MAX_BATCH_BYTES, TimestampType

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


@dataclass(frozen=True, slots=True)
class Leadership:
    """How a leader takes an append: the rules, from whom, in which epoch, and when."""

    rules: AppendRules
    origin: AppendOrigin
    leader_epoch: int
    now_ms: int

    @property
    def at_append(self) -> bool:
        """Whether timestamps are those of the append."""
        return self.rules.timestamp_type == TimestampType.LOG_APPEND_TIME

    def timestamp_range(self) -> tuple[int, int]:
        """Return the least and greatest timestamp that is plainly right.

        Below the range are some that Kafka takes, its arithmetic having wrapped.
        """
        if self.at_append:
            return _LEAST, _MOST
        least = self.now_ms - self.rules.timestamp_before_max_ms
        greatest = self.now_ms + self.rules.timestamp_after_max_ms
        return max(least, _LEAST), min(greatest, _MOST)

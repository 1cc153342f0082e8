"""Rules of a topic for appends, and what a call of an append states beside them.

Source: ``LogConfig.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Self

from kafkalog.codecs.compression import Codec
from kafkalog.config import LogConfig
from kafkalog.formats.layout import MAX_BATCH_BYTES, TimestampType
from kafkalog.integer_limits import MAX_INT64
from kafkalog.validation.appends import AppendOrigin


@dataclass(frozen=True, slots=True)
class AppendRules:
    """Settings of a topic that apply to an append; times in ms, sizes in bytes.

    `codec` None is ``compression.type=producer``: each batch keeps its own codec.
    `level` is the compression level of `codec`, None for Kafka's default. `compacted`
    topics require keys. `max_decompressed_bytes` limits the decompressed size of a
    batch; Kafka has no such limit.
    """

    _: KW_ONLY
    max_message_bytes: int = 1048588
    codec: Codec | None = None
    level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = MAX_INT64
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    max_decompressed_bytes: int = MAX_BATCH_BYTES

    def target(self, source: Codec) -> tuple[Codec, int | None]:
        """Return codec and level to write a batch with that came in codec `source`.

        >>> AppendRules().target(Codec.LZ4)
        (<Codec.LZ4: 3>, None)
        """
        return (source, None) if self.codec is None else (self.codec, self.level)


def rules_of(config: LogConfig) -> AppendRules:
    """Return the rules for appends in a topic's settings."""
    name = config.compression_type
    codec = None
    if name != "producer":
        codec = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    append_time = config.log_append_time
    return AppendRules(
        max_message_bytes=config.max_message_bytes,
        codec=codec,
        level=config.compression_level,
        timestamp_type=TimestampType.LOG_APPEND_TIME
        if append_time
        else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted=config.compact,
    )


class HeaderRequirements(NamedTuple):
    """Requirements on the batches of an append, as the kernels take them.

    `same_epoch` is whether each batch must have `leader_epoch`, `from_zero` whether it
    must have base offset 0, `until_newer` whether batches above `leader_epoch` are
    dropped, and `ascending` whether last offsets must ascend.
    """

    same_epoch: bool
    from_zero: bool
    until_newer: bool
    ascending: bool
    leader_epoch: int
    max_bytes: int


class RecordRequirements(NamedTuple):
    """Requirements on a batch that a leader appends, as the kernels take them.

    `codec` is -1 for any. `at_append` is whether the topic replaces timestamps.
    """

    from_client: bool
    keyed: bool
    codec: int
    at_append: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    leader_epoch: int


class AppendPolicy(NamedTuple):
    """All that a call of an append depends on, but its bytes and the log's state.

    `rules` are those of the topic. `assigns_offsets` is whether the batches get their
    offsets here; otherwise they have them. `guard` is the verification guard of a
    transaction, 0 for none; `transaction_version` that of a marker, -1 if unknown.
    `now_ms` is the time of the call. The requirements follow from the rest.
    """

    rules: AppendRules
    origin: AppendOrigin
    leader_epoch: int
    assigns_offsets: bool
    guard: int
    transaction_version: int
    header_requirements: HeaderRequirements
    record_requirements: RecordRequirements
    now_ms: int

    @classmethod
    def of(
        cls,
        rules: AppendRules,
        origin: AppendOrigin,
        leader_epoch: int,
        now_ms: int,
        *,
        as_follower: bool = False,
        guard: int = 0,
        transaction_version: int = -1,
    ) -> Self:
        """Return the policy of a call; a follower accepts batches of any size."""
        assigns_offsets = not as_follower and origin is not AppendOrigin.RAFT_LEADER
        return cls(
            rules,
            origin,
            leader_epoch,
            assigns_offsets,
            guard,
            transaction_version,
            HeaderRequirements(
                origin is AppendOrigin.RAFT_LEADER,
                origin is AppendOrigin.CLIENT,
                origin is AppendOrigin.REPLICATION,
                not assigns_offsets,
                leader_epoch,
                MAX_INT64 if as_follower else rules.max_message_bytes,
            ),
            RecordRequirements(
                origin is AppendOrigin.CLIENT,
                rules.compacted,
                -1 if rules.codec is None else int(rules.codec),
                rules.timestamp_type is TimestampType.LOG_APPEND_TIME,
                rules.timestamp_before_max_ms,
                rules.timestamp_after_max_ms,
                leader_epoch,
            ),
            now_ms,
        )

    @property
    def at_append(self) -> bool:
        """Whether records get the time of the append as their timestamp."""
        return self.record_requirements.at_append

    def at(self, now_ms: int) -> Self:
        """Return the policy at another time."""
        return type(self)(*self[:-1], now_ms)

"""Rules of a topic for appends, and what a call of an append states beside them.

Source: ``LogConfig.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, TypeAlias

from kafkalog.codecs.compression import Codec
from kafkalog.config import LogConfig
from kafkalog.formats.layout import MAX_BATCH_BYTES, TimestampType
from kafkalog.integer_limits import MAX_INT64
from kafkalog.validation.appends import AppendOrigin

KernelRules: TypeAlias = tuple[bool, bool, int, bool, int, int, int, int]
"""The requirements of an `AppendPolicy` on records, as the kernels take them."""


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


class AppendPolicy(NamedTuple):
    """All that one call of an append depends on, but its bytes and the log's state.

    `rules` are those of the topic, `now_ms` is the time of the call. `as_follower` is
    whether the batches are those of a leader's log. `guard` is the verification guard
    of a transaction, 0 for none; `transaction_version` that of a marker, -1 if unknown.
    """

    rules: AppendRules
    origin: AppendOrigin
    leader_epoch: int
    now_ms: int
    as_follower: bool = False
    guard: int = 0
    transaction_version: int = -1

    @property
    def assigns_offsets(self) -> bool:
        """Whether the batches get their offsets here; otherwise they have them."""
        return not self.as_follower and self.origin is not AppendOrigin.RAFT_LEADER

    @property
    def at_append(self) -> bool:
        """Whether records get the time of the append as their timestamp."""
        return self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME

    @property
    def header_requirements(self) -> HeaderRequirements:
        """The requirements on batch headers. A follower accepts batches of any size."""
        origin = self.origin
        return HeaderRequirements(
            origin is AppendOrigin.RAFT_LEADER,
            origin is AppendOrigin.CLIENT,
            origin is AppendOrigin.REPLICATION,
            not self.assigns_offsets,
            self.leader_epoch,
            MAX_INT64 if self.as_follower else self.rules.max_message_bytes,
        )

    def as_tuple(self) -> KernelRules:
        """Return the requirements on records as the kernels take them."""
        rules = self.rules
        return (
            self.origin is AppendOrigin.CLIENT,
            rules.compacted,
            -1 if rules.codec is None else int(rules.codec),
            self.at_append,
            self.now_ms,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            self.leader_epoch,
        )

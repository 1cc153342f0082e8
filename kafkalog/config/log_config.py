"""`LogConfig`: the settings of one partition's log.

The settings are those of a topic, with the defaults and checks of Kafka 4.3. Their
meaning is described in ``docs/config.md``.

Source: ``LogConfig.java``, ``TopicConfig.java``, ``ServerLogConfigs.java``,
``QuotaConfig.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import getrandbits
from typing import ClassVar, Final, Literal, Self, TypeAlias, get_args

from kafkalog.config.setting_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Elements,
    OneOf,
    Range,
    ThrottledReplicas,
)
from kafkalog.config.settings import Conflict, Settings, setting
from kafkalog.errors import ConfigError
from kafkalog.integer_limits import MAX_INT64

HOUR_MS: Final = 60 * 60 * 1000
DAY_MS: Final = 24 * HOUR_MS
AS_RETENTION: Final = -2
"""``local.retention.*`` with this value are equal to ``retention.*``."""

CleanupPolicy: TypeAlias = Literal["compact", "delete"]
CompressionType: TypeAlias = Literal[
    "uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"
]
MessageTimestampType: TypeAlias = Literal["CreateTime", "LogAppendTime"]

POLICIES: Final = Elements(get_args(CleanupPolicy))
COMPRESSION_TYPES: Final = OneOf(get_args(CompressionType))
GZIP_LEVELS: Final = Range(1, 9, apart=-1)
LZ4_LEVELS: Final = Range(1, 17)
ZSTD_LEVELS: Final = Range(-131072, 22)
TIMESTAMP_TYPES: Final = OneOf(get_args(MessageTimestampType))


LEAST_SEGMENT_BYTES: Final = 1 << 20
OLD_LEAST_SEGMENT_BYTES: Final = 14


def is_older_segment_size(size: int) -> bool:
    """Return whether only brokers before 4.0 allowed a value of ``segment.bytes``.

    Its minimum was 14 then, and is 1 MiB since.

    >>> is_older_segment_size(14), is_older_segment_size(1 << 20)
    (True, False)
    """
    return OLD_LEAST_SEGMENT_BYTES <= size < LEAST_SEGMENT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig(Settings):
    """The settings of one partition's log, which are those of its topic.

    Every setting is a keyword argument and an attribute: Kafka's name with underscores
    for dots. ``docs/config.md`` lists them with their defaults.

    Parameters
    ----------
    **settings : int, float, bool, str or sequence of str
        Values as Python values or in Kafka's text form. A missing setting has Kafka's
        default.

    Raises
    ------
    ConfigError
        If any setting is invalid; the message lists all faults.

    See Also
    --------
    LogConfig.from_properties : Read the settings by Kafka's names.

    Examples
    --------
    >>> LogConfig(segment_ms=3600000, cleanup_policy="compact").compact
    True
    >>> config = LogConfig.from_properties(
    ...     {"retention.ms": "-1", "preallocate": "true"}
    ... )
    >>> config.retention_ms, config.initial_file_size
    (-1, 1073741824)
    >>> LogConfig(segment_ms=0, flush_messages="many")
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: Invalid value 0 for configuration segment.ms: Value must be at least 1; Invalid value 'many' for configuration flush.messages: Not a number of type LONG
    """  # noqa: E501

    owner: ClassVar[str] = "topic"

    segment_bytes: int = setting(INT, 1 << 30, Range(LEAST_SEGMENT_BYTES))
    internal_segment_bytes: int | None = setting(INT, None, internal=True)
    segment_ms: int = setting(LONG, 7 * DAY_MS, Range(1))
    segment_jitter_ms: int = setting(LONG, 0, Range(0))
    segment_index_bytes: int = setting(INT, 10 << 20, Range(4))
    index_interval_bytes: int = setting(INT, 4096, Range(0))
    preallocate: bool = setting(BOOLEAN, False)
    flush_messages: int = setting(LONG, MAX_INT64, Range(1))
    flush_ms: int = setting(LONG, MAX_INT64, Range(0))
    cleanup_policy: tuple[CleanupPolicy, ...] = setting(LIST, ("delete",), POLICIES)
    retention_bytes: int = setting(LONG, -1)
    retention_ms: int = setting(LONG, 7 * DAY_MS, Range(-1))
    file_delete_delay_ms: int = setting(LONG, 60_000, Range(0))
    delete_retention_ms: int = setting(LONG, DAY_MS, Range(0))
    min_compaction_lag_ms: int = setting(LONG, 0, Range(0))
    max_compaction_lag_ms: int = setting(LONG, MAX_INT64, Range(1))
    min_cleanable_dirty_ratio: float = setting(DOUBLE, 0.5, Range(0, 1))
    max_message_bytes: int = setting(INT, (1 << 20) + 12, Range(0))
    message_timestamp_type: MessageTimestampType = setting(
        STRING, "CreateTime", TIMESTAMP_TYPES
    )
    message_timestamp_before_max_ms: int = setting(LONG, MAX_INT64, Range(0))
    message_timestamp_after_max_ms: int = setting(LONG, HOUR_MS, Range(0))
    compression_type: CompressionType = setting(STRING, "producer", COMPRESSION_TYPES)
    compression_gzip_level: int = setting(INT, -1, GZIP_LEVELS)
    compression_lz4_level: int = setting(INT, 9, LZ4_LEVELS)
    compression_zstd_level: int = setting(INT, 3, ZSTD_LEVELS)
    min_insync_replicas: int = setting(INT, 1, Range(1))
    unclean_leader_election_enable: bool = setting(BOOLEAN, False)
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), ThrottledReplicas()
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), ThrottledReplicas()
    )
    remote_storage_enable: bool = setting(BOOLEAN, False)
    local_retention_ms: int = setting(LONG, AS_RETENTION, Range(-2))
    local_retention_bytes: int = setting(LONG, AS_RETENTION, Range(-2))
    remote_log_copy_disable: bool = setting(BOOLEAN, False)
    remote_log_delete_on_disable: bool = setting(BOOLEAN, False)

    @property
    def segment_size(self) -> int:
        """Maximum size of a segment: ``internal.segment.bytes`` if it is set."""
        if self.internal_segment_bytes is None:
            return self.segment_bytes
        return self.internal_segment_bytes

    @property
    def initial_file_size(self) -> int:
        """Size with which a new segment's file is created; 0 unless preallocated."""
        return self.segment_size if self.preallocate else 0

    @property
    def compact(self) -> bool:
        """Whether ``cleanup.policy`` includes compaction."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether ``cleanup.policy`` includes deletion."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment is rolled, at most ``max.compaction.lag.ms``."""
        if self.compact:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def log_append_time(self) -> bool:
        """Whether records have the broker's time instead of the producer's."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def compression_level(self) -> int | None:
        """Level for ``compression.type``; None for a type without levels."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    def random_segment_jitter_ms(self) -> int:
        """Return a random time by which to shorten one segment's ``segment.ms``.

        Returns
        -------
        int
            At least 0, and less than ``segment.jitter.ms``, in ms.

        Examples
        --------
        >>> LogConfig(segment_jitter_ms=0).random_segment_jitter_ms()
        0
        """
        if not self.segment_jitter_ms:
            return 0
        return getrandbits(31) % min(self.segment_jitter_ms, self.segment_ms)

    def with_changes(
        self, changes: Mapping[str, object], *, ignore_unknown: bool = False
    ) -> Self:
        """Return these settings with some of them changed.

        Parameters
        ----------
        changes : mapping of str to object
            New values by Kafka's names, as text or Python values.
        ignore_unknown : bool, default False
            Ignore unknown names instead of raising.

        Returns
        -------
        LogConfig

        Raises
        ------
        ConfigError
            If a setting is invalid, or remote storage is disabled without deleting its
            data.

        Examples
        --------
        >>> LogConfig().with_changes({"segment.ms": "1000"}).segment_ms
        1000
        """
        changed = Settings.with_changes(self, changes, ignore_unknown=ignore_unknown)
        disabled = self.remote_storage_enable and not changed.remote_storage_enable
        if disabled and not changed.remote_log_delete_on_disable:
            raise ConfigError(
                "It is invalid to disable remote storage without deleting remote data: "
                "expected remote.log.delete.on.disable=true, found false"
            )
        return changed

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts between settings that are each valid.

        Yields
        ------
        Conflict
            The reason, and the names of the settings that exclude each other.

        Examples
        --------
        >>> list(LogConfig().conflicts())
        []
        """
        least, most = self.min_compaction_lag_ms, self.max_compaction_lag_ms
        if least > most:
            names = ("min.compaction.lag.ms", "max.compaction.lag.ms")
            reason = f"{names[0]} ({least}) > {names[1]} ({most})"
            yield Conflict(f"conflict topic config setting {reason}", names)
        if self.remote_storage_enable:
            yield from self._tiering_conflicts()

    def _tiering_conflicts(self) -> Iterator[Conflict]:
        if self.cleanup_policy not in ((), ("delete",)):
            yield Conflict(
                "Remote log storage only supports topics with cleanup.policy=delete or "
                "cleanup.policy being an empty list, "
                f"found {','.join(self.cleanup_policy)}",
                ("remote.storage.enable", "cleanup.policy"),
            )
        for unit, retention, local in (
            ("ms", self.retention_ms, self.local_retention_ms),
            ("bytes", self.retention_bytes, self.local_retention_bytes),
        ):
            yield from local_retention_conflicts(unit, retention, local)
            if self.remote_log_copy_disable and local not in (AS_RETENTION, retention):
                names = (f"local.retention.{unit}", f"retention.{unit}")
                yield Conflict(
                    f"When remote.log.copy.disable is true, {names[0]} ({local}) and "
                    f"{names[1]} ({retention}) must be identical",
                    ("remote.log.copy.disable", *names),
                )


def local_retention_conflicts(
    unit: str, retention: int, local: int
) -> Iterator[Conflict]:
    """Yield why a tiered log's local retention conflicts with its retention."""
    names = (f"local.retention.{unit}", f"retention.{unit}")
    if retention < 0 or local == AS_RETENTION:
        return
    prefix = f"Invalid value {local} for configuration {names[0]}"
    if local == -1:
        reason = f"Value must not be -1 as {names[1]} value is set as {retention}"
        yield Conflict(f"{prefix}: {reason}", names)
    if local > retention:
        reason = f"Value must not be more than {names[1]} property value: {retention}"
        yield Conflict(f"{prefix}: {reason}", names)

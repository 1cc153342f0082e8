"""`BrokerConfig`: the settings of a broker that its logs use.

These are the settings of ``server.properties`` that storage reads: log directories,
background tasks, the cleaner, producers and transactions, and the defaults of topic
settings under the broker's names for them.

Source: ``LogConfig.SERVER_CONFIG_DEF``, ``CleanerConfig.java``, ``KafkaConfig.scala``,
``AbstractKafkaConfig.java``, ``ServerConfigs.java``, ``ReplicationConfigs.java``,
``QuotaConfig.java``, ``TransactionLogConfig.java``,
``TransactionStateManagerConfig.java``,
``RemoteLogManagerConfig.java``, ``ServerTopicConfigSynonyms.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kafkalog.config.log_config import (
    COMPRESSION_TYPES,
    DAY_MS,
    GZIP_LEVELS,
    HOUR_MS,
    LZ4_LEVELS,
    POLICIES,
    TIMESTAMP_TYPES,
    ZSTD_LEVELS,
    CleanupPolicy,
    CompressionType,
    LogConfig,
    MessageTimestampType,
    local_retention_conflicts,
)
from kafkalog.config.setting_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Elements,
    Range,
)
from kafkalog.config.settings import Conflict, Settings, attribute_of, setting
from kafkalog.errors import ConfigError
from kafkalog.integer_limits import MAX_INT64

MINUTE_MS: Final = 60_000
DOUBLE_MAX: Final = 1.7976931348623157e308
ALL_DIRECTORIES: Final = "*"
LEAST_DEDUPE_BYTES: Final = 1 << 20
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

SYNONYMS: Final = {
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "preallocate": ("log.preallocate",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "cleanup.policy": ("log.cleanup.policy",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "compression.type": ("compression.type",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.zstd.level": ("compression.zstd.level",),
    "min.insync.replicas": ("min.insync.replicas",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "local.retention.ms": ("log.local.retention.ms",),
    "local.retention.bytes": ("log.local.retention.bytes",),
}
"""The broker's names for each topic setting, by descending precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(Settings):
    """The settings of a broker that its logs use, by Kafka's names.

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
    BrokerConfig.from_properties : Read the settings from ``server.properties``.

    Examples
    --------
    >>> broker = BrokerConfig.from_properties({"log.retention.hours": "1"})
    >>> broker.log_config({"segment.ms": "1000"}).retention_ms
    3600000
    """

    owner: ClassVar[str] = "broker"

    log_dir: tuple[str, ...] = setting(
        LIST, ("/tmp/kafka-logs",), Elements(may_be_empty=False)
    )
    log_dirs: tuple[str, ...] | None = setting(LIST, None, Elements(may_be_empty=False))
    cordoned_log_dirs: tuple[str, ...] = setting(LIST, (), Elements())
    log_dir_failure_timeout_ms: int = setting(LONG, 30_000, Range(1))
    num_recovery_threads_per_data_dir: int = setting(INT, 2, Range(1))
    background_threads: int = setting(INT, 10, Range(1))
    log_initial_task_delay_ms: int = setting(LONG, 30_000, Range(0), internal=True)
    log_retention_check_interval_ms: int = setting(LONG, 5 * MINUTE_MS, Range(1))
    log_flush_offset_checkpoint_interval_ms: int = setting(INT, MINUTE_MS, Range(0))
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        INT, MINUTE_MS, Range(0)
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(LONG, 5_000)
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        LONG, MAX_INT64, Range(0)
    )
    alter_log_dirs_replication_quota_window_num: int = setting(INT, 11, Range(1))
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        INT, 1, Range(1)
    )

    log_segment_bytes: int = setting(INT, 1 << 30, Range(1 << 20))
    log_roll_ms: int | None = setting(LONG, None)
    log_roll_hours: int = setting(INT, 7 * 24, Range(1))
    log_roll_jitter_ms: int | None = setting(LONG, None)
    log_roll_jitter_hours: int = setting(INT, 0, Range(0))
    log_index_size_max_bytes: int = setting(INT, 10 << 20, Range(4))
    log_index_interval_bytes: int = setting(INT, 4096, Range(0))
    log_preallocate: bool = setting(BOOLEAN, False)
    log_flush_interval_messages: int = setting(LONG, MAX_INT64, Range(1))
    log_flush_interval_ms: int | None = setting(LONG, None)
    log_flush_scheduler_interval_ms: int = setting(LONG, MAX_INT64)
    log_cleanup_policy: tuple[CleanupPolicy, ...] = setting(LIST, ("delete",), POLICIES)
    log_retention_bytes: int = setting(LONG, -1)
    log_retention_ms: int | None = setting(LONG, None)
    log_retention_minutes: int | None = setting(INT, None)
    log_retention_hours: int = setting(INT, 7 * 24)
    log_segment_delete_delay_ms: int = setting(LONG, MINUTE_MS, Range(0))
    message_max_bytes: int = setting(INT, (1 << 20) + 12, Range(0))
    log_message_timestamp_type: MessageTimestampType = setting(
        STRING, "CreateTime", TIMESTAMP_TYPES
    )
    log_message_timestamp_before_max_ms: int = setting(LONG, MAX_INT64, Range(0))
    log_message_timestamp_after_max_ms: int = setting(LONG, HOUR_MS, Range(0))
    compression_type: CompressionType = setting(STRING, "producer", COMPRESSION_TYPES)
    compression_gzip_level: int = setting(INT, -1, GZIP_LEVELS)
    compression_lz4_level: int = setting(INT, 9, LZ4_LEVELS)
    compression_zstd_level: int = setting(INT, 3, ZSTD_LEVELS)
    min_insync_replicas: int = setting(INT, 1, Range(1))
    unclean_leader_election_enable: bool = setting(BOOLEAN, False)
    remote_log_storage_system_enable: bool = setting(BOOLEAN, False)
    log_local_retention_ms: int = setting(LONG, -2, Range(-2))
    log_local_retention_bytes: int = setting(LONG, -2, Range(-2))

    log_cleaner_enable: bool = setting(BOOLEAN, True)
    log_cleaner_threads: int = setting(INT, 1, Range(0))
    log_cleaner_dedupe_buffer_size: int = setting(LONG, 128 << 20)
    log_cleaner_io_buffer_load_factor: float = setting(DOUBLE, 0.9)
    log_cleaner_io_buffer_size: int = setting(INT, 512 << 10, Range(0))
    log_cleaner_io_max_bytes_per_second: float = setting(DOUBLE, DOUBLE_MAX)
    log_cleaner_backoff_ms: int = setting(LONG, 15_000, Range(0))
    log_cleaner_min_cleanable_ratio: float = setting(DOUBLE, 0.5, Range(0, 1))
    log_cleaner_delete_retention_ms: int = setting(LONG, DAY_MS, Range(0))
    log_cleaner_min_compaction_lag_ms: int = setting(LONG, 0, Range(0))
    log_cleaner_max_compaction_lag_ms: int = setting(LONG, MAX_INT64, Range(1))

    producer_id_expiration_ms: int = setting(INT, DAY_MS, Range(1))
    producer_id_expiration_check_interval_ms: int = setting(
        INT, 10 * MINUTE_MS, Range(1), internal=True
    )
    transaction_partition_verification_enable: bool = setting(BOOLEAN, True)
    transaction_max_timeout_ms: int = setting(INT, 15 * MINUTE_MS, Range(1))

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The log directories: ``log.dirs``, or ``log.dir`` if it is not set."""
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def cordoned_log_directories(self) -> tuple[str, ...]:
        """The log directories in which no new partition is created."""
        if ALL_DIRECTORIES in self.cordoned_log_dirs:
            return self.log_directories
        return self.cordoned_log_dirs

    def log_config(
        self,
        topic_overrides: Mapping[str, object] | None = None,
        *,
        ignore_unknown: bool = False,
    ) -> LogConfig:
        """Return the settings of a topic: its own, else the broker's defaults.

        Parameters
        ----------
        topic_overrides : mapping of str to object, optional
            The topic's own settings by Kafka's names, as text or Python values.
        ignore_unknown : bool, default False
            Ignore unknown names instead of raising.

        Returns
        -------
        LogConfig

        Raises
        ------
        ConfigError
            If a setting is invalid, or the topic has remote storage and the broker does
            not.

        Examples
        --------
        >>> BrokerConfig(log_retention_ms=60_000).log_config().retention_ms
        60000
        """
        defaults = {name: self._default_of(name) for name in SYNONYMS}
        config = LogConfig.from_properties(
            {**defaults, **(topic_overrides or {})}, ignore_unknown=ignore_unknown
        )
        if config.remote_storage_enable and not self.remote_log_storage_system_enable:
            raise ConfigError(
                "Tiered Storage functionality is disabled in the broker. Topic cannot "
                "be configured with remote log storage: expected "
                "remote.log.storage.system.enable=true, found false"
            )
        return config

    def with_dynamic(self, *layers: Mapping[str, str]) -> BrokerConfig:
        """Return these settings changed by layers of dynamic settings.

        Parameters
        ----------
        *layers : mapping of str to str
            Settings that were changed while brokers were running, by Kafka's names; the
            last layer has precedence. Only the broker's names for topic settings, and
            ``replica.alter.log.dirs.io.max.bytes.per.second``, are read. A setting
            replaces all its synonyms in the layers below.

        Returns
        -------
        BrokerConfig

        Raises
        ------
        ConfigError
            If a setting is invalid.

        Examples
        --------
        >>> broker = BrokerConfig(log_retention_ms=-1)
        >>> dynamic = broker.with_dynamic({"log.retention.hours": "1"})
        >>> dynamic.log_config().retention_ms
        3600000
        """
        values = self.values()
        defaults = BrokerConfig().values()
        for layer in layers:
            for names in (*SYNONYMS.values(), (MOVE_RATE,)):
                if settings_in_layer := {
                    name: layer[name] for name in names if name in layer
                }:
                    values |= {
                        name: defaults[name] for name in names
                    } | settings_in_layer
        return self.from_properties(values)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts between settings that are each valid.

        Yields
        ------
        Conflict
            The reason, and the names of the settings that exclude each other.

        Examples
        --------
        >>> list(BrokerConfig().conflicts())
        []
        """
        yield from self._time_conflicts()
        yield from self._directory_conflicts()
        least = self.log_cleaner_min_compaction_lag_ms
        most = self.log_cleaner_max_compaction_lag_ms
        if least > most:
            names = (
                *SYNONYMS["min.compaction.lag.ms"],
                *SYNONYMS["max.compaction.lag.ms"],
            )
            yield Conflict(f"{names[0]} ({least}) > {names[1]} ({most})", names)
        size, threads = self.log_cleaner_dedupe_buffer_size, self.log_cleaner_threads
        if size // max(threads, 1) <= LEAST_DEDUPE_BYTES or not threads:
            yield Conflict(
                "log.cleaner.dedupe.buffer.size must be more than 1MB per cleaner "
                f"thread, found {size} bytes for log.cleaner.threads={threads}",
                ("log.cleaner.dedupe.buffer.size", "log.cleaner.threads"),
            )
        if self.remote_log_storage_system_enable:
            for unit in ("ms", "bytes"):
                name = f"retention.{unit}"
                yield from local_retention_conflicts(
                    unit, self._default_of(name), self._default_of(f"local.{name}")
                )

    def _time_conflicts(self) -> Iterator[Conflict]:
        for topic_name, least, expected in (
            ("segment.ms", 1, "must be greater than or equal to 1"),
            ("segment.jitter.ms", 0, "must be greater than or equal to 0"),
            ("flush.ms", 0, "must be greater than or equal to 0"),
        ):
            name, value = self._synonym_of(topic_name)
            if value < least:
                yield Conflict(
                    f"{name} {expected}, found {value}", SYNONYMS[topic_name]
                )
        name, value = self._synonym_of("retention.ms")
        if value == 0:
            expected = "must be unlimited (-1) or, greater than or equal to 1"
            yield Conflict(f"{name} {expected}, found 0", SYNONYMS["retention.ms"])

    def _directory_conflicts(self) -> Iterator[Conflict]:
        names = ("cordoned.log.dirs", "log.dirs", "log.dir")
        cordoned = self.cordoned_log_dirs
        if ALL_DIRECTORIES in cordoned:
            if len(cordoned) > 1:
                reason = "must not contain other values when it contains *"
                yield Conflict(f"{names[0]} {reason}: {','.join(cordoned)}", names)
        elif missing := [
            directory for directory in cordoned if directory not in self.log_directories
        ]:
            reason = "must be present in log.dirs or log.dir. Missing entries"
            yield Conflict(
                f"All entries in {names[0]} {reason}: {', '.join(missing)}", names
            )

    def _default_of(self, topic_name: str) -> Any:
        """Return the value of a topic setting for topics that do not set it."""
        return self._synonym_of(topic_name)[1]

    def _synonym_of(self, topic_name: str) -> tuple[str, Any]:
        """Return the broker's name that determines a topic setting, and its value."""
        *names, last = SYNONYMS[topic_name]
        is_set = (
            synonym
            for synonym in names
            if getattr(self, attribute_of(synonym)) is not None
        )
        name = next(is_set, last)  # the last has a default
        value = getattr(self, attribute_of(name))
        if name.endswith(".hours"):
            value *= HOUR_MS
        elif name.endswith(".minutes"):
            value *= MINUTE_MS
        return name, max(value, -1) if topic_name == "retention.ms" else value

"""The settings of a partition: passed by the caller, of its cluster, or defaults.

The first of these that applies:

    case                                         settings
    passed for the topic, or for all topics      those
    not a broker's log directory                 the passed broker settings, or defaults
    a broker's, with ``__cluster_metadata-0``    the topic's in it, then the broker's,
                                                 then the cluster's default, then the
                                                 passed broker settings
    a broker's, without it, or of another topic  unknown: nothing is deleted

A directory is a broker's if it has a ``meta.properties`` or a
``__cluster_metadata-0``. A partition with a ``partition.metadata``, which has the id of
its topic in the cluster, is a broker's in any directory.

A broker's ``server.properties`` is not in its log directory. If it is not passed, it
may contain any retention limit that is set nowhere else. Such a limit is unknown, and
nothing is deleted by it.

Source: ``LogManager.fetchLogConfig``, ``DynamicBrokerConfig.scala``,
``ServerTopicConfigSynonyms.java``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.config.broker_config import SYNONYMS
from kafkalog.errors import (
    ConfigError,
    KafkaLogError,
    LogArgumentError,
    UnknownSettingsWarning,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.reading.cluster_metadata import (
    CLUSTER_DEFAULT,
    METADATA_PARTITION,
    ClusterSettings,
    is_tiered_by,
    read_cluster_settings,
)
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.file_names import META_PROPERTIES, METADATA_TOPIC
from kafkalog.storage.location import is_directory

UNLIMITED: Final = {"retention.ms": -1, "retention.bytes": -1}
KEEP_ALL: Final = {**UNLIMITED, "cleanup.policy": "delete"}
"""Settings of the metadata log: a broker deletes it by its snapshots alone."""

UNKNOWN: Final = {**KEEP_ALL, "segment.ms": MAX_INT64}
"""Settings of a partition whose own are unknown: nothing is deleted."""


PASS_PROPERTIES: Final = (
    "no retention.ms is set in __cluster_metadata-0, and the broker's "
    "server.properties, where it may be set, was not passed. Pass it: "
    "broker=BrokerConfig.from_properties(read_properties(PATH), ignore_unknown=True)"
)
PASS_SETTINGS: Final = (
    "Pass them: config=LogConfig(...), or to a LogManager topics={NAME: LogConfig(...)}"
)


SettingsSource = Literal["passed", "cluster", "broker", "defaults", "unknown"]


def require_settings(name: str, passed: object, kind: type) -> None:
    """Raise `LogArgumentError` for settings of another type."""
    if not isinstance(passed, kind):
        found, expected = type(passed).__name__, kind.__name__
        raise LogArgumentError(f"{name} of type {found}, expected a {expected}")


class PartitionSettings(NamedTuple):
    """A partition's settings, and the reason if they are unknown, else None.

    If only the retention time is unknown, `source` is that of the other settings.
    `is_tiered` is whether the topic has remote storage, or None if that is not known.
    """

    config: LogConfig
    unknown: str | None = None
    source: SettingsSource = "passed"
    is_tiered: bool | None = None


class UnknownError(Exception):
    """Settings are unknown; the message has the reason."""


class TopicSettings:
    """The settings of the topics in some log directories.

    The caller may pass `config` for all topics, `topics` for single ones, and `broker`,
    the settings in a broker's ``server.properties``. Raises `LogArgumentError` for
    settings of another type.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        config: LogConfig | None,
        topics: Mapping[str, LogConfig] | None,
        broker: BrokerConfig | None,
    ) -> None:
        for passed in (config, *(topics or {}).values()):
            if passed is not None:
                require_settings("config", passed, LogConfig)
        if broker is not None:
            require_settings("broker", broker, BrokerConfig)
        self._directories = directories
        self._config = config
        self._topics = dict(topics or {})
        self._static = broker
        self._broker = BrokerConfig() if broker is None else broker
        self._cached: dict[str, PartitionSettings] = {}

    def explicit(self, topic: str) -> LogConfig | None:
        """Return the settings passed for a topic, or for all topics, or None."""
        return self._topics.get(topic, self._config)

    def is_of_broker(self, topic_id: str | None) -> bool:
        """Return whether a partition is a broker's, which may have other replicas."""
        return topic_id is not None or self._is_of_broker

    def set_topic(self, topic: str, config: LogConfig) -> None:
        """Set the settings of a topic from now on."""
        require_settings("config", config, LogConfig)
        self._topics[topic] = config

    def of(self, topic: str, topic_id: str | None = None) -> PartitionSettings:
        """Return the settings of a topic's partitions.

        `topic_id` is the id in a partition's ``partition.metadata``, if it has one.
        """
        passed = self.explicit(topic)
        if topic == METADATA_TOPIC:
            if passed is None:
                unknown = self._unknown
                return PartitionSettings(unknown, source="defaults", is_tiered=False)
            passed = passed.with_changes(KEEP_ALL)
            return PartitionSettings(passed, is_tiered=False)
        if passed is not None:
            is_tiered = True if passed.remote_storage_enable else None
            return PartitionSettings(passed, is_tiered=is_tiered)
        if topic_id is None and not self._is_of_broker:
            return PartitionSettings(self._defaults, source="defaults")
        is_tiered = None
        try:
            cluster = self._known_cluster(topic, topic_id)
            is_tiered = is_tiered_by(cluster, topic)
            if topic not in self._cached:  # a topic may have many partitions
                self._cached[topic] = self._of_cluster(topic, cluster)
            return self._cached[topic]
        except UnknownError as error:
            reason = str(error)
            return PartitionSettings(self._unknown, reason, "unknown", is_tiered)

    def assumed(self, topic: str, topic_id: str | None = None) -> PartitionSettings:
        """Return the settings of a topic's partitions, for a prediction.

        Where the cluster's metadata is missing, they are those in the passed
        ``server.properties``: overrides of the topic are unknown. A log that is opened
        does not use them, as it would delete what an override keeps.
        """
        found = self.of(topic, topic_id)
        if found.source != "unknown" or self._static is None:
            return found
        try:
            self._known_cluster(topic, topic_id)
        except UnknownError as error:
            reason = f"overrides of topics are unknown: {error}"
            return PartitionSettings(self._defaults, reason, "broker")
        return found

    @cached_property
    def broker(self) -> BrokerConfig:
        """The broker's settings, changed by those in the cluster's metadata."""
        if not self._is_of_broker or isinstance(self._cluster, str):
            return self._broker
        with suppress(UnknownError, ConfigError):
            return self._broker.with_dynamic(*self._dynamic(self._cluster))
        return self._broker

    @cached_property
    def _defaults(self) -> LogConfig:
        """The settings of a topic that sets none itself."""
        return self._broker.log_config()

    @cached_property
    def _unknown(self) -> LogConfig:
        """The settings of a topic whose own are unknown."""
        return self._broker.log_config(UNKNOWN)

    @cached_property
    def _is_of_broker(self) -> bool:
        """Whether one of the directories is a broker's."""
        return any(
            (directory / name).exists()
            for directory in self._directories
            for name in (META_PROPERTIES, METADATA_PARTITION)
        )

    @cached_property
    def _cluster(self) -> ClusterSettings | str:
        """The cluster's settings, or the reason why they are unknown."""
        for directory in self._directories:
            partition = directory / METADATA_PARTITION
            if is_directory(partition):
                try:
                    return read_cluster_settings(partition)
                except (KafkaLogError, OSError) as error:
                    return f"{METADATA_PARTITION} cannot be read: {error}"
        return f"the log directory has no {METADATA_PARTITION}"

    @cached_property
    def _node_id(self) -> str | None:
        """The broker's id, by which the cluster lists its settings."""
        for directory in self._directories:
            with suppress(KafkaLogError, OSError):
                content = read_regular(directory / META_PROPERTIES)
                node_id = MetaProperties.parse(content).node_id
                return None if node_id is None else str(node_id)
        return None

    def _known_cluster(self, topic: str, topic_id: str | None) -> ClusterSettings:
        """Return the cluster's settings; raise `UnknownError` for an unknown topic."""
        cluster = self._cluster
        if isinstance(cluster, str):
            raise UnknownError(cluster)
        stored = cluster.topic_ids.get(topic)
        if stored is None:
            raise UnknownError(f"{METADATA_PARTITION} has no such topic")
        if topic_id not in (None, stored):
            raise UnknownError(
                f"topic id {topic_id}, expected {stored} by {METADATA_PARTITION}"
            )
        return cluster

    def _of_cluster(self, topic: str, cluster: ClusterSettings) -> PartitionSettings:
        """Return a topic's settings from the cluster, or raise `UnknownError`."""
        own, dynamic = cluster.topics.get(topic, {}), self._dynamic(cluster)
        if is_tiered_by(cluster, topic):
            raise UnknownError("which segments are in remote storage is not recorded")
        unset_limits = self._unset_limits([own, *dynamic])
        try:
            broker = self._broker.with_dynamic(*dynamic)
            config = broker.log_config({**own, **unset_limits}, ignore_unknown=True)
        except ConfigError as error:
            raise UnknownError(str(error)) from None
        by_age = config.delete and "retention.ms" in unset_limits
        unknown = PASS_PROPERTIES if by_age else None
        return PartitionSettings(config, unknown, "cluster", is_tiered=False)

    def _dynamic(self, cluster: ClusterSettings) -> list[Mapping[str, str]]:
        """Return the cluster's default settings of brokers, and this broker's own."""
        brokers = cluster.brokers
        if self._node_id is None and brokers.keys() - {CLUSTER_DEFAULT}:
            raise UnknownError(f"no {META_PROPERTIES} has the broker's node.id")
        names = (CLUSTER_DEFAULT, self._node_id or CLUSTER_DEFAULT)
        return [brokers.get(name, {}) for name in names]

    def _unset_limits(self, layers: Iterable[Mapping[str, str]]) -> dict[str, int]:
        """Return -1 for each limit that only a ``server.properties`` could have set."""
        if self._static is not None:
            return {}
        known = {name for layer in layers for name in layer}
        return {
            name: limit
            for name, limit in UNLIMITED.items()
            if not known.intersection((name, *SYNONYMS[name]))
        }


def warn_of_settings(
    found: Mapping[str, PartitionSettings], *, stacklevel: int = 3
) -> None:
    """Warn of partitions whose settings are unknown.

    `found` has the settings by directory name. `stacklevel` is that of the user's call,
    as for `warnings.warn`.
    """
    by_reason: dict[str, list[str]] = {}
    for name, settings in found.items():
        if settings.unknown is not None:
            by_reason.setdefault(settings.unknown, []).append(name)
    for reason, names in by_reason.items():
        listed = ", ".join(names)
        text = (
            f"nothing of {listed} is deleted by age: {PASS_PROPERTIES}"
            if reason == PASS_PROPERTIES
            else f"nothing of {listed} is deleted, compacted or rolled by time, as the "
            f"settings are unknown: {reason}. {PASS_SETTINGS}"
        )
        warnings.warn(text, UnknownSettingsWarning, stacklevel=stacklevel)

"""Which settings a partition has: those given, its cluster's, or the defaults.

The first of these that applies:

    given for the topic, or for all topics         what the caller says counts
    a directory that no broker kept                the defaults, or the given broker's
    a broker's, with ``__cluster_metadata-0``      the topic's own there, then the
                                                   broker's, the cluster's default, the
                                                   given broker's
    a broker's, without it, or of another topic    unknown: nothing is deleted

A broker kept a directory that has a ``meta.properties`` or a ``__cluster_metadata-0``,
and a partition in any directory that has a ``partition.metadata``, its topic's id in
the cluster.

A broker's ``server.properties`` does not lie in its log directory. Where it is not
given, a limit that stands nowhere else may stand there: it is unknown, too, and nothing
is deleted by it.

Knows: where settings stand. Does not know: what is deleted by them.
Source: ``LogManager.fetchTopicConfig``, ``DynamicBrokerConfig.scala``,
``ServerTopicConfigSynonyms.java``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.config.broker_config import SYNONYMS
from kafkalog.config.log_config import LONG_MAX
from kafkalog.errors import (
    ConfigError,
    KafkaLogError,
    UnknownSettingsWarning,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.cluster_metadata import (
    CLUSTER_DEFAULT,
    METADATA_PARTITION,
    ClusterSettings,
    read_cluster_settings,
)
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.file_names import META_PROPERTIES, METADATA_TOPIC

UNLIMITED: Final = {"retention.ms": -1, "retention.bytes": -1}
KEEP_ALL: Final = {**UNLIMITED, "cleanup.policy": "delete"}
"""What the metadata log has: no broker retains it, its snapshots do."""

UNKNOWN: Final = {**KEEP_ALL, "segment.ms": LONG_MAX}
"""What a partition has whose settings are unknown: nothing goes, nothing gets old."""


NO_PROPERTIES: Final = (
    "no retention.ms is set in __cluster_metadata-0, and the broker's "
    "server.properties, where it may be set, are not given. Give them: "
    "broker=BrokerConfig.from_properties(read_properties(PATH), ignore_unknown=True)"
)
GIVE_SETTINGS: Final = (
    "Give them: config=LogConfig(...), or to a LogManager topics={NAME: LogConfig(...)}"
)


class PartitionSettings(NamedTuple):
    """A partition's settings, and why they are not all known, if they are not."""

    config: LogConfig
    unknown: str | None = None


class UnknownError(Exception):
    """Settings are not known, for the reason that is its text."""


class TopicSettings:
    """The settings of the topics in some log directories.

    `config` is given for all topics, `topics` for single ones, `broker` as a broker's
    ``server.properties``.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        config: LogConfig | None,
        topics: Mapping[str, LogConfig] | None,
        broker: BrokerConfig | None,
    ) -> None:
        self._directories = directories
        self._config = config
        self._topics = dict(topics or {})
        self._static = broker
        self._broker = BrokerConfig() if broker is None else broker
        self._of_topics: dict[str, PartitionSettings] = {}

    def given(self, topic: str) -> LogConfig | None:
        """Return the settings that were given for a topic, or for all; None if none."""
        return self._topics.get(topic, self._config)

    def give(self, topic: str, config: LogConfig) -> None:
        """Let a topic have these settings from now on."""
        self._topics[topic] = config

    def of(self, topic: str, topic_id: str | None = None) -> PartitionSettings:
        """Return the settings of a topic's partitions.

        `topic_id` is that in a partition's ``partition.metadata``, if it has one.
        """
        given = self.given(topic)
        if topic == METADATA_TOPIC:
            if given is None:
                return PartitionSettings(self._unknown)
            return PartitionSettings(given.with_changes(KEEP_ALL))
        if given is not None:
            return PartitionSettings(given)
        if topic_id is None and not self._broker_was_here:
            return PartitionSettings(self._defaults)
        try:
            cluster = self._known_cluster(topic, topic_id)
            if topic not in self._of_topics:  # a topic may have many partitions
                self._of_topics[topic] = self._of_cluster(topic, cluster)
            return self._of_topics[topic]
        except UnknownError as error:
            return PartitionSettings(self._unknown, str(error))

    @cached_property
    def _defaults(self) -> LogConfig:
        """What a topic has that sets nothing itself."""
        return self._broker.log_config()

    @cached_property
    def _unknown(self) -> LogConfig:
        """What a topic has of which nothing is known."""
        return self._broker.log_config(UNKNOWN)

    @cached_property
    def _broker_was_here(self) -> bool:
        """Whether a broker kept one of the directories."""
        return any(
            (directory / name).exists()
            for directory in self._directories
            for name in (META_PROPERTIES, METADATA_PARTITION)
        )

    @cached_property
    def _cluster(self) -> ClusterSettings | str:
        """The cluster's settings, or why they are not known."""
        for directory in self._directories:
            found = directory / METADATA_PARTITION
            if found.is_dir():
                try:
                    return read_cluster_settings(found)
                except (KafkaLogError, OSError) as error:
                    return f"{METADATA_PARTITION} cannot be read: {error}"
        return f"no {METADATA_PARTITION} lies in the log directory"

    @cached_property
    def _node_id(self) -> str | None:
        """The broker's number, as its settings are named in the cluster."""
        for directory in self._directories:
            with suppress(KafkaLogError, OSError):
                found = MetaProperties.parse(read_regular(directory / META_PROPERTIES))
                return None if found.node_id is None else str(found.node_id)
        return None

    def _known_cluster(self, topic: str, topic_id: str | None) -> ClusterSettings:
        """Return the cluster's settings; `UnknownError` where it has no such topic."""
        cluster = self._cluster
        if isinstance(cluster, str):
            raise UnknownError(cluster)
        stored = cluster.topic_ids.get(topic)
        if stored is None:
            raise UnknownError(f"{METADATA_PARTITION} has no such topic")
        if topic_id not in (None, stored):
            found = f"topic id {topic_id}, expected {stored} by {METADATA_PARTITION}"
            raise UnknownError(found)
        return cluster

    def _of_cluster(self, topic: str, cluster: ClusterSettings) -> PartitionSettings:
        """Return a topic's settings from the cluster; raise `UnknownError`."""
        own, dynamic = cluster.topics.get(topic, {}), self._dynamic(cluster)
        if own.get("remote.storage.enable", "").strip().lower() == "true":
            raise UnknownError("which segments are in remote storage is not recorded")
        open_limits = self._open_limits([own, *dynamic])
        try:
            broker = self._broker.with_dynamic(*dynamic)
            config = broker.log_config({**own, **open_limits}, ignore_unknown=True)
        except ConfigError as error:
            raise UnknownError(str(error)) from None
        by_age = config.delete and "retention.ms" in open_limits
        return PartitionSettings(config, NO_PROPERTIES if by_age else None)

    def _dynamic(self, cluster: ClusterSettings) -> list[Mapping[str, str]]:
        """List the settings of brokers that apply here, the broker's own last."""
        brokers = cluster.brokers
        if self._node_id is None and brokers.keys() - {CLUSTER_DEFAULT}:
            raise UnknownError(f"no {META_PROPERTIES} has the broker's node.id")
        names = (CLUSTER_DEFAULT, self._node_id or CLUSTER_DEFAULT)
        return [brokers.get(name, {}) for name in names]

    def _open_limits(self, layers: Iterable[Mapping[str, str]]) -> dict[str, int]:
        """Return no limit for each that only a ``server.properties`` could have set."""
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

    `found` has their settings by directory name. `stacklevel`, as for `warnings.warn`,
    leads from here to the user's call.
    """
    by_reason: dict[str, list[str]] = {}
    for name, settings in found.items():
        if settings.unknown is not None:
            by_reason.setdefault(settings.unknown, []).append(name)
    for reason, names in by_reason.items():
        listed = ", ".join(names)
        text = (
            f"nothing of {listed} is deleted by age: {NO_PROPERTIES}"
            if reason == NO_PROPERTIES
            else f"nothing of {listed} is deleted, compacted or rolled by time, as the "
            f"settings are unknown: {reason}. {GIVE_SETTINGS}"
        )
        warnings.warn(text, UnknownSettingsWarning, stacklevel=stacklevel)

"""DescribeConfigs and ListConfigResources: the settings of topics and of the node.

They are those in ``__cluster_metadata``, else Kafka's defaults: what the broker had in
its ``server.properties`` is not in its log directories.

Source: ``ConfigHelper.scala``, ``ConfigHelperUtils.java``,
``DynamicBrokerConfig.java``, ``KafkaApis.handleListConfigResources``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue
from kafkalog.broker.topic_names import topic_name_fault
from kafkalog.config.broker_config import MOVE_RATE, SYNONYMS, BrokerConfig
from kafkalog.config.log_config import LogConfig
from kafkalog.config.setting_types import Kind
from kafkalog.config.settings import Setting, settings_of
from kafkalog.errors import ConfigError, KafkaLogError
from kafkalog.log.reading.cluster_metadata import CLUSTER_DEFAULT, ClusterSettings
from kafkalog.messages.message_json import java_double
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import MALFORMED, ErrorCode
from kafkalog.protocol.frames import Request

UNKNOWN, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
RESOURCES: Final = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})
"""Kafka's numbers of the resources that have settings."""

TOPIC_CONFIG, DYNAMIC_BROKER, DYNAMIC_DEFAULT, DEFAULT_CONFIG = 1, 2, 3, 5
"""Kafka's numbers of where a value is from."""

TYPES: Final = {
    Kind.BOOLEAN: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.LONG: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: 7,
}
READ_ONLY: Final = frozenset(
    {
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "log.cleaner.enable",
        "log.dir",
        "log.dir.failure.timeout.ms",
        "log.dirs",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.retention.check.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "remote.log.storage.system.enable",
        "replica.high.watermark.checkpoint.interval.ms",
        "transaction.max.timeout.ms",
    }
)
"""Settings of a broker that do not change while it runs."""

Settings = Mapping[str, str]


class Configs:
    """The settings in the cluster's metadata, with Kafka's defaults."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def describe(self, request: Request) -> Message:
        """Answer settings with their sources, as ``ConfigHelper`` does."""
        message = request.message
        self._catalogue.refresh()
        resources = message["resources"]
        for resource in resources:
            if resource["resourceType"] not in RESOURCES:
                error = _invalid(MALFORMED)
                return {"results": [{**_named(each), **error} for each in resources]}
        try:
            cluster = self._catalogue.cluster_settings()
        except (KafkaLogError, OSError) as unread:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            failed = {"errorCode": code, "errorMessage": str(unread)}
            return {"results": [{**_named(each), **failed} for each in resources]}
        results = []
        for resource in resources:
            found = self._described(resource, cluster)
            wanted = resource["configurationKeys"]
            if "configs" in found:
                found["configs"] = [
                    entry if message["includeSynonyms"] else {**entry, "synonyms": []}
                    for entry in found["configs"]
                    if not wanted or entry["name"] in wanted
                ]
            results.append({**_named(resource), **found})
        return {"results": results}

    def list(self, request: Request) -> Message:
        """Answer which resources have settings, as ``KafkaApis`` does."""
        self._catalogue.refresh()
        supported = {CLIENT_METRICS} if request.version == 0 else RESOURCES
        asked = set(request.message.get("resourceTypes", ())) or supported
        if not asked <= supported:
            return {"errorCode": ErrorCode.UNSUPPORTED_VERSION}
        node = [str(self._catalogue.node_id)]
        try:
            cluster = self._catalogue.cluster_settings()
        except (KafkaLogError, OSError):
            return {"errorCode": ErrorCode.KAFKA_STORAGE_ERROR}
        names = {
            TOPIC: [*self._catalogue.topics],
            BROKER: node,
            BROKER_LOGGER: node,
            CLIENT_METRICS: [*cluster.client_metrics],
            GROUP: [*cluster.groups],
        }
        return {
            "configResources": [
                {"resourceName": name, "resourceType": kind}
                for kind in sorted(asked, reverse=True)
                for name in names.get(kind, ())
            ]
        }

    def _described(self, resource: Message, cluster: ClusterSettings) -> dict[str, Any]:
        kind, name = resource["resourceType"], resource["resourceName"]
        default = cluster.brokers.get(CLUSTER_DEFAULT, {})
        own = cluster.brokers.get(str(self._catalogue.node_id), {})
        if kind == TOPIC:
            fault = topic_name_fault(name)
            if fault is not None:
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
                return {"errorCode": error, "errorMessage": fault}
            if name not in self._catalogue.topics:
                return {"errorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            try:
                broker = BrokerConfig().with_dynamic(default, own)
            except ConfigError as error:
                code = ErrorCode.INVALID_CONFIG
                return {"errorCode": code, "errorMessage": str(error)}
            of_topic = cluster.topics.get(name, {})
            return {"configs": [*_topic(of_topic, own, default, broker)]}
        if kind == BROKER:
            return self._broker(name, own, default)
        return _invalid(f"Settings of resource type {kind} are not served")

    def _broker(self, name: str, own: Settings, default: Settings) -> dict[str, Any]:
        declared = settings_of(BrokerConfig)
        if not name:
            return {
                "configs": [
                    _entry(each, declared.get(each), value, _sources(each, {}, default))
                    for each, value in default.items()
                ]
            }
        node_id = self._catalogue.node_id
        if not name.removeprefix("-").isdecimal():
            return _invalid(f"Broker id must be an integer, but it is: {name}")
        if int(name) != node_id:
            return _invalid(
                f"Unexpected broker id, expected {node_id} or empty string, but "
                f"received {name}"
            )
        return {
            "configs": [
                _entry(
                    each,
                    setting,
                    own.get(each, default.get(each, _text(setting, setting.default))),
                    _sources(each, own, default, _defaults(each)),
                )
                for each, setting in declared.items()
                if not (setting.internal or each == MOVE_RATE)
            ]
        }


def _topic(
    of_topic: Settings, own: Settings, default: Settings, broker: BrokerConfig
) -> Iterator[dict[str, Any]]:
    """Yield the settings of a topic, those of Kafka's own tests only if it has them."""
    declared, inherited = settings_of(LogConfig), broker.log_config().values()
    names = [name for name, setting in declared.items() if not setting.internal]
    names += [name for name in of_topic if name not in names]
    for name in names:
        setting = declared.get(name)
        value = of_topic.get(name)
        if setting is not None:
            value = _text(setting, inherited[name] if value is None else value)
        sources = []
        if name in of_topic:
            sources.append(_synonym(name, value, TOPIC_CONFIG))
        if name in SYNONYMS:
            first = SYNONYMS[name][0]
            sources += _sources(first, own, default, _defaults(first))
        yield _entry(name, setting, value, sources)


def _sources(
    name: str,
    own: Settings,
    default: Settings,
    kafkas: Mapping[str, str | None] | None = None,
) -> list[dict[str, Any]]:
    """Return the values of a broker's setting by precedence, with their sources."""
    alike = next((names for names in SYNONYMS.values() if name in names), (name,))
    found = [
        _synonym(each, layer[each], source)
        for layer, source in (
            (own, DYNAMIC_BROKER),
            (default, DYNAMIC_DEFAULT),
            (kafkas or {}, DEFAULT_CONFIG),
        )
        for each in alike
        if each in layer
    ]
    # Those before the setting itself are of others that have precedence.
    while found and found[0]["name"] != name:
        del found[0]
    return found


def _defaults(name: str) -> dict[str, str | None]:
    """Return Kafka's defaults of a setting of the broker, and of its synonyms."""
    alike = next((names for names in SYNONYMS.values() if name in names), (name,))
    declared = settings_of(BrokerConfig)
    return {
        each: _text(declared[each], declared[each].default)
        for each in alike
        if declared[each].default is not None
    }


def _text(setting: Setting, value: object) -> str | None:
    """Return a value as Kafka writes it; as it is stored if it is invalid."""
    if value is None:
        return None
    try:
        parsed = setting.parse(value)
    except ConfigError:
        return str(value)
    return java_double(parsed) if setting.kind is Kind.DOUBLE else setting.text(parsed)


def _entry(
    name: str, setting: Setting | None, value: str | None, sources: list[dict[str, Any]]
) -> dict[str, Any]:
    # What is unknown may be a password.
    is_sensitive = setting is None
    return {
        "name": name,
        "value": None if is_sensitive else value,
        "readOnly": name in READ_ONLY,
        "configSource": sources[0]["source"] if sources else DEFAULT_CONFIG,
        "isSensitive": is_sensitive,
        "synonyms": [
            {**each, "value": None} if is_sensitive else each for each in sources
        ],
        "configType": UNKNOWN if setting is None else TYPES[setting.kind],
        "documentation": None,
    }


def _synonym(name: str, value: str | None, source: int) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source}


def _named(resource: Message) -> dict[str, Any]:
    names = ("resourceType", "resourceName")
    return {name: resource[name] for name in names}


def _invalid(reason: str) -> dict[str, Any]:
    return {"errorCode": ErrorCode.INVALID_REQUEST, "errorMessage": reason}

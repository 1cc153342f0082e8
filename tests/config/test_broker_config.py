"""A broker's settings, and the topic settings that follow from them."""

import pytest

from kafkalog import BrokerConfig, ConfigError, LogConfig

HOUR_MS = 3_600_000


def test_a_broker_without_settings_has_a_topics_defaults():
    assert BrokerConfig().log_config() == LogConfig()


@pytest.mark.parametrize(
    ("broker", "topic_name", "value"),
    [
        ({"log_retention_hours": 2}, "retention_ms", 2 * HOUR_MS),
        (
            {"log_retention_hours": 2, "log_retention_minutes": 3},
            "retention_ms",
            180_000,
        ),
        ({"log_retention_minutes": 3, "log_retention_ms": 4}, "retention_ms", 4),
        ({"log_retention_hours": -9}, "retention_ms", -1),
        ({"log_roll_hours": 2}, "segment_ms", 2 * HOUR_MS),
        ({"log_roll_hours": 2, "log_roll_ms": 5}, "segment_ms", 5),
        ({"log_roll_jitter_hours": 2}, "segment_jitter_ms", 2 * HOUR_MS),
        ({"log_flush_scheduler_interval_ms": 6}, "flush_ms", 6),
        (
            {"log_flush_scheduler_interval_ms": 6, "log_flush_interval_ms": 7},
            "flush_ms",
            7,
        ),
        ({"message_max_bytes": 8}, "max_message_bytes", 8),
        ({"log_cleanup_policy": "compact"}, "cleanup_policy", ("compact",)),
    ],
)
def test_the_brokers_names_have_kafkas_precedence(broker, topic_name, value):
    assert getattr(BrokerConfig(**broker).log_config(), topic_name) == value


def test_a_topics_own_setting_overrides_the_brokers():
    broker = BrokerConfig(log_retention_ms=5, log_segment_bytes=1 << 20)
    config = broker.log_config({"retention.ms": "6", "internal.segment.bytes": "7"})
    assert (config.retention_ms, config.segment_bytes) == (6, 1 << 20)
    assert config.segment_size == 7


def test_a_topics_settings_are_validated_with_the_brokers():
    broker = BrokerConfig(log_cleaner_max_compaction_lag_ms=5)
    with pytest.raises(ConfigError, match=r"\(6\) > max\.compaction\.lag\.ms \(5\)"):
        broker.log_config({"min.compaction.lag.ms": "6"})
    with pytest.raises(ConfigError, match="Unknown topic config name: 'old'"):
        broker.log_config({"old": "1"})
    assert broker.log_config({"old": "1"}, ignore_unknown=True) == broker.log_config()


def test_remote_storage_needs_a_broker_that_has_it():
    tiered = {"remote.storage.enable": "true"}
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled"):
        BrokerConfig().log_config(tiered)
    broker = BrokerConfig(remote_log_storage_system_enable=True)
    assert broker.log_config(tiered).remote_storage_enable


def test_a_broker_with_remote_storage_validates_its_local_limits():
    limits = {"log.retention.ms": "5", "log.local.retention.ms": "6"}
    assert BrokerConfig.from_properties(limits).log_local_retention_ms == 6
    with pytest.raises(ConfigError, match=r"not be more than retention\.ms"):
        BrokerConfig.from_properties(
            limits | {"remote.log.storage.system.enable": "true"}
        )


def test_directories_are_those_of_log_dirs_or_of_log_dir():
    assert BrokerConfig().log_directories == ("/tmp/kafka-logs",)
    assert BrokerConfig(log_dir="/a").log_directories == ("/a",)
    broker = BrokerConfig(log_dir="/a", log_dirs="/b, /c", cordoned_log_dirs="*")
    assert broker.log_directories == broker.cordoned_log_directories == ("/b", "/c")


def test_one_error_lists_all_faults_of_a_broker():
    wrong = {
        "log.roll.ms": "0",
        "log.retention.minutes": "0",
        "cordoned.log.dirs": "/nowhere",
        "log.cleaner.dedupe.buffer.size": "5",
        "num.recovery.threads.per.data.dir": "0",
    }
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(wrong)
    reasons = str(caught.value).split("; ")
    assert len(reasons) == len(wrong)
    for name in (
        "log.roll.ms",
        "log.retention.minutes",
        "/nowhere",
        "found 5 bytes",
        "num",
    ):
        assert any(name in reason for reason in reasons), name

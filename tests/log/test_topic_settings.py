"""The settings of a partition, and when they are unknown."""

import warnings

import pytest

import kafkalog
from kafkalog import (
    BrokerConfig,
    KafkaLogWarning,
    LogConfig,
    UnknownSettingsWarning,
)
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from tests.log import clusters
from tests.log.clusters import (
    ABORT,
    BEGIN,
    END,
    IDS,
    REMOVE,
    TOPICS,
    mark_as_brokers,
    metadata_log,
    of_broker,
    old_partition,
    record,
    setting,
    snapshot,
    topic,
)
from tests.log.writing import NOW, files_of

STATIC = BrokerConfig(log_retention_ms=5000)
OTHER_ID = "zWjk0PmSTCqJPJyYHdt-BQ"


def of(logs, name="orders", *, config=None, broker=STATIC, topic_id=None):
    return TopicSettings([logs], config, None, broker).of(name, topic_id)


def retention(logs, **options):
    settings = of(logs, **options)
    assert settings.unknown is None
    return settings.config.retention_ms


def why_unknown(logs, **options):
    settings = of(logs, **options)
    config = settings.config
    assert (config.retention_ms, config.retention_bytes) == (-1, -1)
    assert config.max_segment_ms == 2**63 - 1
    assert not config.compact
    return settings.unknown


# Sources of settings


def test_a_topic_has_its_own_settings_before_any_others(tmp_path):
    metadata_log(
        mark_as_brokers(tmp_path),
        [
            *TOPICS,
            setting("orders", "retention.ms", "1000"),
            of_broker("1", "log.retention.ms", "2000"),
            of_broker("", "log.retention.ms", "3000"),
        ],
    )
    assert retention(tmp_path) == 1000
    assert retention(tmp_path, name="state") == 2000


def test_the_rate_of_moves_is_a_dynamic_setting_of_the_broker(tmp_path):
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    passed = BrokerConfig(replica_alter_log_dirs_io_max_bytes_per_second=1)

    def rate():
        broker = TopicSettings([tmp_path], None, None, passed).broker
        return broker.replica_alter_log_dirs_io_max_bytes_per_second

    assert rate() == 1
    mark_as_brokers(tmp_path)
    for values, expected in (
        ([], 1),
        ([of_broker("2", name, "2")], 1),
        ([of_broker("", name, "3")], 3),
        ([of_broker("1", name, "4"), of_broker("", name, "3")], 4),
        ([of_broker("1", name, "fast")], 1),
    ):
        metadata_log(tmp_path, [*TOPICS, *values])
        assert rate() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([of_broker("1", "log.retention.ms", "2000")], 2000),
        ([of_broker("2", "log.retention.ms", "2000")], 5000),
        ([of_broker("", "log.retention.ms", "3000")], 3000),
        ([of_broker("", "log.retention.minutes", "1")], 60_000),
        (
            [
                of_broker("1", "log.retention.hours", "1"),
                of_broker("", "log.retention.ms", "3000"),
            ],
            3_600_000,
        ),
        ([], 5000),
    ],
)
def test_broker_settings_precede_cluster_defaults_and_these_precede_static_ones(
    tmp_path, values, expected
):
    metadata_log(mark_as_brokers(tmp_path), [*TOPICS, *values])
    assert retention(tmp_path) == expected


def test_a_deleted_setting_is_not_applied(tmp_path):
    values = [setting("orders", "retention.ms", text) for text in ("1000", None)]
    metadata_log(mark_as_brokers(tmp_path), [*TOPICS, *values])
    assert retention(tmp_path) == 5000


def test_a_recreated_topic_has_no_settings_of_the_previous_one(tmp_path):
    values = [
        topic("orders"),
        setting("orders", "retention.ms", "1000"),
        record(REMOVE, topicId=IDS["orders"]),
        topic("orders", OTHER_ID),
    ]
    metadata_log(mark_as_brokers(tmp_path), values)
    assert retention(tmp_path, topic_id=OTHER_ID) == 5000
    reason = f"topic id {IDS['orders']}, expected {OTHER_ID}"
    assert reason in why_unknown(tmp_path, topic_id=IDS["orders"])


@pytest.mark.parametrize(
    ("ended", "expected"), [(END, 1000), (ABORT, 5000), (None, 5000)]
)
def test_records_of_a_metadata_transaction_are_applied_when_it_ends(
    tmp_path, ended, expected
):
    values = [
        *TOPICS,
        record(BEGIN, name="t"),
        setting("orders", "retention.ms", "1000"),
    ]
    if ended is not None:
        values.append(record(ended, **({"reason": "r"} if ended == ABORT else {})))
    metadata_log(mark_as_brokers(tmp_path), values)
    assert retention(tmp_path) == expected


def test_the_newest_snapshot_and_the_later_records_of_the_log_are_applied(tmp_path):
    mark_as_brokers(tmp_path)
    early = [*TOPICS, setting("orders", "retention.ms", "1")]
    snapshot(tmp_path, early, 3)
    snapshot(tmp_path, [*early[:2], setting("orders", "retention.ms", "1000")], 10)
    metadata_log(
        tmp_path, [setting("orders", "retention.ms", "9")] * 4, start=8, each=2
    )
    assert retention(tmp_path) == 9
    metadata_log(tmp_path, [setting("orders", "retention.ms", "9")] * 2, start=8)
    assert retention(tmp_path) == 1000


def test_unknown_and_sensitive_settings_are_ignored_silently(tmp_path):
    values = [
        setting("orders", "message.format.version", "3.0"),
        setting("orders", "retention.ms", "1000"),
        of_broker("1", "ssl.keystore.password", "secret"),
        of_broker("1", "log.of.the.future", "x"),
        setting("x", "retention.ms", "7", kind=32),
    ]
    metadata_log(mark_as_brokers(tmp_path), [*TOPICS, *values])
    assert retention(tmp_path) == 1000


# Unknown settings


def test_a_directory_that_is_no_brokers_has_the_defaults(tmp_path):
    assert of(tmp_path, broker=None).config == LogConfig()
    assert retention(tmp_path) == 5000


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(retention_ms=7)])
def test_passed_settings_apply_in_any_directory(tmp_path, config):
    metadata_log(mark_as_brokers(tmp_path), [])
    settings = of(tmp_path, config=config, topic_id=OTHER_ID)
    assert settings == (config, None, "passed", None)


def test_settings_passed_for_a_topic_apply_to_that_topic_only(tmp_path):
    topics = TopicSettings(
        [mark_as_brokers(tmp_path)], None, {"orders": LogConfig()}, None
    )
    assert topics.of("orders") == (LogConfig(), None, "passed", None)
    assert topics.of("state").unknown


@pytest.mark.parametrize("sign", ["meta.properties", "__cluster_metadata-0"])
def test_nothing_is_deleted_from_a_brokers_directory_without_settings(tmp_path, sign):
    if sign == "meta.properties":
        mark_as_brokers(tmp_path)
        assert "has no __cluster_metadata-0" in why_unknown(tmp_path)
    else:
        (tmp_path / sign).mkdir()
        assert "no segment and no snapshot" in why_unknown(tmp_path)


def test_a_partition_with_a_topic_id_is_of_a_cluster_in_any_directory(tmp_path):
    assert "no __cluster_metadata-0" in why_unknown(tmp_path, topic_id=OTHER_ID)


def test_a_topic_that_the_cluster_does_not_have_has_unknown_settings(tmp_path):
    metadata_log(mark_as_brokers(tmp_path))
    assert "no such topic" in why_unknown(tmp_path, name="clicks")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (setting("orders", "segment.bytes", "14"), "segment.bytes"),
        (setting("orders", "retention.ms", "soon"), "Not a number"),
        (of_broker("", "log.retention.ms", "soon"), "Not a number"),
        (setting("orders", "remote.storage.enable", "TRUE"), "remote storage"),
    ],
)
def test_an_invalid_value_makes_settings_unknown_and_is_the_reason(
    tmp_path, value, reason
):
    metadata_log(mark_as_brokers(tmp_path), [*TOPICS, value])
    assert reason in why_unknown(tmp_path)


def test_without_the_node_id_settings_of_single_brokers_are_unknown(tmp_path):
    metadata_log(tmp_path, [*TOPICS, of_broker("1", "log.retention.ms", "2000")])
    assert "node.id" in why_unknown(tmp_path)


def flip(path):
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)


def test_a_corrupt_metadata_log_makes_settings_unknown(tmp_path):
    flip(metadata_log(mark_as_brokers(tmp_path)))
    reason = why_unknown(tmp_path)
    assert reason.startswith("__cluster_metadata-0 cannot be read: ")
    assert reason.endswith(f"{0:020d}.log at byte 0")


def test_a_metadata_log_with_a_partial_last_batch_is_read_up_to_it(tmp_path):
    path = metadata_log(
        mark_as_brokers(tmp_path), [*TOPICS, setting("orders", "retention.ms", "1")]
    )
    more = metadata_log(tmp_path, [setting("orders", "retention.ms", "2")], start=3)
    path.write_bytes(path.read_bytes() + more.read_bytes()[:-3])
    more.unlink()
    assert retention(tmp_path) == 1


def test_a_metadata_log_with_a_gap_makes_settings_unknown(tmp_path):
    metadata_log(mark_as_brokers(tmp_path), start=5)
    assert "base offset 5, expected 0" in why_unknown(tmp_path)
    snapshot(tmp_path, TOPICS, 4)
    assert "base offset 5, expected 4" in why_unknown(tmp_path)
    snapshot(tmp_path, TOPICS, 5)
    assert retention(tmp_path) == 5000


@pytest.mark.parametrize("damage", ["flipped", "no footer"])
def test_a_corrupt_metadata_snapshot_makes_settings_unknown(tmp_path, damage):
    path = snapshot(
        mark_as_brokers(tmp_path),
        TOPICS,
        5,
        finished=None if damage == "no footer" else NOW,
    )
    if damage == "flipped":
        flip(path)
    assert path.name in why_unknown(tmp_path)


def test_limits_that_server_properties_may_have_set_are_unknown(tmp_path):
    values = [setting("state", "cleanup.policy", "compact")]
    metadata_log(mark_as_brokers(tmp_path), [*TOPICS, *values])
    settings = of(tmp_path, broker=None)
    assert settings.config.retention_ms == -1
    assert settings.config.max_segment_ms == LogConfig().segment_ms
    assert "server.properties" in settings.unknown
    compacted = of(tmp_path, "state", broker=None)
    assert compacted.unknown is None  # it is not deleted by age anyway
    assert compacted.config.compact
    metadata_log(tmp_path, [*TOPICS, setting("orders", "retention.ms", "1000")])
    assert retention(tmp_path, broker=None) == 1000
    metadata_log(tmp_path, [*TOPICS, of_broker("", "log.retention.hours", "1")])
    assert retention(tmp_path, broker=None) == 3_600_000


@pytest.mark.parametrize("config", [None, LogConfig(retention_ms=1, retention_bytes=1)])
def test_nothing_is_deleted_from_the_metadata_log(tmp_path, config):
    metadata_log(mark_as_brokers(tmp_path))
    settings = of(tmp_path, "__cluster_metadata", config=config)
    assert settings.unknown is None
    assert (settings.config.retention_ms, settings.config.retention_bytes) == (-1, -1)


# A log opened with settings


def opened(directory, *arguments, **options):
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    return open_log(directory, *arguments, clock=clock, scheduler=scheduler, **options)


def deleted(log):
    """Delete old segments; return whether there were any."""
    with log:
        log.update_high_watermark(log.log_end_offset)
        return log.delete_old_segments() > 0


def test_a_brokers_log_opened_without_settings_keeps_all_records(tmp_path):
    directory = old_partition(mark_as_brokers(tmp_path))
    with pytest.warns(UnknownSettingsWarning, match=r"orders-0.*config=LogConfig"):
        log = opened(directory)
    assert not deleted(log)
    assert len(list(directory.glob("*.log"))) == 3


def test_a_log_in_the_directory_of_the_metadata_log_has_the_settings_of_its_topic(
    tmp_path,
):
    values = [*TOPICS, setting("orders", "retention.ms", "1000")]
    metadata_log(
        mark_as_brokers(tmp_path), [*values, setting("state", "retention.ms", "-1")]
    )
    assert deleted(opened(old_partition(tmp_path)))
    assert not deleted(opened(old_partition(tmp_path, "state-0")))


def test_a_log_opened_with_settings_has_those_settings(tmp_path):
    metadata_log(
        mark_as_brokers(tmp_path), [*TOPICS, setting("orders", "retention.ms", "-1")]
    )
    assert deleted(opened(old_partition(tmp_path), LogConfig()))


def test_a_log_in_a_directory_of_no_broker_has_the_defaults(tmp_path):
    assert deleted(opened(old_partition(tmp_path, topic_id=False)))


def test_a_warning_names_the_line_that_opened_the_log(tmp_path):
    directory = old_partition(mark_as_brokers(tmp_path))
    with pytest.warns(UnknownSettingsWarning) as caught:
        kafkalog.open(directory, "a").close()
    assert [warning.filename for warning in caught] == [__file__]


def test_a_warning_raised_as_an_error_leaves_the_directory_unchanged(tmp_path):
    old_partition(mark_as_brokers(tmp_path))
    (tmp_path / ".kafka_cleanshutdown").touch()
    before = files_of(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KafkaLogWarning)
        with pytest.raises(UnknownSettingsWarning):
            opened(tmp_path / "orders-0")
    assert files_of(tmp_path) == before


# Compaction


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_retention_applies_to_a_compacted_log_if_its_policy_includes_delete(
    tmp_path, policy
):
    config = LogConfig(cleanup_policy=policy)
    log = opened(old_partition(tmp_path, topic_id=False), config)
    assert deleted(log) == (policy == "compact,delete")


def test_checkpoints_written_for_tests_are_read_by_a_broker(tmp_path):
    """The metadata log written here is read by kafkalog's own reader of such logs."""
    metadata_log(mark_as_brokers(tmp_path))
    found = kafkalog.scan(tmp_path / f"{clusters.METADATA}-0").to_arrow()
    decoded = [
        kafkalog.InternalRecord.decode(clusters.METADATA, None, value.as_py())
        for value in found["value"]
    ]
    assert [one.value["name"] for one in decoded] == ["orders", "state"]

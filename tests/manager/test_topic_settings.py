"""Settings of topics in directories of brokers: from metadata, broker and caller."""

import shutil
import warnings

import pytest

from kafkalog import (
    BrokerConfig,
    LogConfig,
    UnknownSettingsWarning,
)
from kafkalog.storage.properties_file import read_properties
from kafkalog.testing import ManualClock, ManualScheduler, open_manager
from tests import golden_data
from tests.log.clusters import (
    TOPICS,
    mark_as_brokers,
    metadata_log,
    old_partition,
    setting,
)
from tests.log.writing import files_of

LATER_MS = 2_000_000_000_000  # 2033: all records of the brokers are old
SET = "k431-clean"
STATIC = golden_data.logs(SET).parent / "server.properties"


def manager_of(*logs, config=None, **options):
    clock = ManualClock(LATER_MS)
    scheduler = ManualScheduler(clock)
    return open_manager(logs, config, clock=clock, scheduler=scheduler, **options)


@pytest.fixture
def logs(tmp_path):
    return shutil.copytree(golden_data.logs(SET), tmp_path / "logs")


def bases(manager):
    return {
        f"{topic}-{number}": [segment.base_offset for segment in log.growing_segments]
        for (topic, number), log in manager.items()
    }


def retained(manager):
    """Retain all logs as if all were replicated; return which have lost segments."""
    with manager:
        for log in manager.values():
            log.update_high_watermark(log.log_end_offset)
        before = bases(manager)
        manager.retain()
        after = bases(manager)
        return {name for name in before if before[name] != after[name]}


def broker():
    return BrokerConfig.from_properties(read_properties(STATIC), ignore_unknown=True)


# Directories of a broker, ten years later


def test_a_brokers_directory_is_retained_by_the_settings_of_its_topics(logs):
    manager = manager_of(logs, broker=broker())
    settings = {topic: manager.config_of(topic) for topic, _ in manager}
    assert settings["orders.none"].internal_segment_bytes == 6000
    assert settings["orders.none"].retention_ms == -1
    assert settings["expired"].retention_bytes == 4000
    assert settings["spare-1"].retention_ms == 123_456_789
    assert settings["state.and-delete"].cleanup_policy == ("compact", "delete")
    assert settings["__consumer_offsets"].compact
    assert not settings["__consumer_offsets"].delete
    assert settings["__share_group_state"].retention_ms == -1
    assert settings["clock.gzip"].log_append_time
    assert retained(manager) == {"state.and-delete-0"}  # of ten days


def test_without_server_properties_no_limit_is_taken_from_the_defaults(logs):
    with pytest.warns(UnknownSettingsWarning, match=r"server\.properties") as caught:
        manager = manager_of(logs)
    [message] = [
        str(warning.message)
        for warning in caught
        if warning.category is UnknownSettingsWarning
    ]
    assert "orders.none-0" in message
    assert "state.none-0" not in message  # compaction alone deletes nothing by age
    assert "spare-1-0" not in message  # it has a limit of its own
    assert retained(manager) == {"state.and-delete-0"}


@pytest.mark.parametrize("broker_config", [None, BrokerConfig()])
def test_without_a_metadata_log_nothing_is_deleted_and_all_topics_are_warned_of(
    logs, broker_config
):
    shutil.rmtree(logs / "__cluster_metadata-0")
    records = {
        name: data
        for name, data in files_of(logs).items()
        if name.endswith(".log") and "-delete/" not in name
    }
    with pytest.warns(UnknownSettingsWarning, match="no __cluster_metadata") as caught:
        manager = manager_of(logs, broker=broker_config)
    assert [warning.category for warning in caught] == [UnknownSettingsWarning]
    assert all(f"{name[0]}-{name[1]}" in str(caught[0].message) for name in manager)
    assert retained(manager) == set()
    assert {name: files_of(logs).get(name) for name in records} == records


def test_the_callers_settings_are_used_without_a_warning(logs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        manager = manager_of(logs, config=LogConfig())
    assert "orders.none-0" in retained(manager)


def test_the_log_of_the_controller_is_not_changed(logs):
    before = files_of(logs / "__cluster_metadata-0")
    retained(manager_of(logs, config=LogConfig(retention_ms=1)))
    assert files_of(logs / "__cluster_metadata-0") == before


def test_a_zookeeper_brokers_directory_has_unknown_settings(tmp_path):
    logs = shutil.copytree(golden_data.logs("k282-clean"), tmp_path / "logs")
    with pytest.warns(UnknownSettingsWarning, match="legacy"):
        manager = manager_of(logs)
    assert retained(manager) == set()


def test_a_partition_marked_deleted_is_removed_after_the_delay(logs):
    clock = ManualClock(LATER_MS)
    scheduler = ManualScheduler(clock)
    [marked] = logs.glob("*-delete")
    with open_manager(
        logs, broker=broker(), clock=clock, scheduler=scheduler
    ) as manager:
        assert manager.remove_deleted() == 0
        clock.time_ms += broker().log_segment_delete_delay_ms
        assert manager.remove_deleted() == 1
    assert not marked.exists()


# Directories made for the test


def test_only_topics_with_known_settings_are_retained(tmp_path):
    logs = mark_as_brokers(tmp_path / "logs")
    values = [*TOPICS, setting("orders", "retention.ms", "1000")]
    metadata_log(logs, [*values, setting("state", "retention.ms", "-1")])
    for name in ("orders-0", "state-0"):
        old_partition(logs, name)
    assert retained(manager_of(logs)) == {"orders-0"}


def test_settings_of_one_topic_leave_those_of_others_unknown(tmp_path):
    logs = mark_as_brokers(tmp_path / "logs")
    for name in ("orders-0", "state-0"):
        old_partition(logs, name)
    with pytest.warns(UnknownSettingsWarning, match="nothing of state-0 is"):
        manager = manager_of(logs, topics={"orders": LogConfig()})
    assert retained(manager) == {"orders-0"}


def test_the_metadata_log_may_be_in_another_log_directory(tmp_path):
    first, second = mark_as_brokers(tmp_path / "a"), mark_as_brokers(tmp_path / "b")
    metadata_log(first, [*TOPICS, setting("orders", "retention.ms", "1000")])
    old_partition(second)
    assert retained(manager_of(second, first)) == {"orders-0"}


def test_updated_settings_are_known(tmp_path):
    logs = mark_as_brokers(tmp_path / "logs")
    old_partition(logs)
    with pytest.warns(UnknownSettingsWarning):
        manager = manager_of(logs)
    manager.update_config("orders", LogConfig())
    manager["orders", 0].close()
    assert manager.open("orders", 0).config == LogConfig()
    assert retained(manager) == {"orders-0"}


def test_creating_a_partition_in_a_brokers_directory_warns(tmp_path):
    logs = mark_as_brokers(tmp_path / "logs")
    metadata_log(logs)
    with manager_of(logs) as manager:
        with pytest.warns(UnknownSettingsWarning, match="clicks-0.*no such") as caught:
            log = manager.open("clicks", 0)
        assert caught[0].filename == __file__
        assert log.config.retention_ms == -1


def test_a_directory_without_metadata_has_the_default_settings(tmp_path):
    for _ in range(2):
        with manager_of(tmp_path / "logs") as manager:
            log = manager.open("orders", 0)
            assert log.config == BrokerConfig().log_config()


def test_a_partition_with_a_topic_id_is_reopened_with_the_settings_it_was_made_with(
    tmp_path,
):
    with manager_of(tmp_path / "logs") as manager:
        log = manager.open("orders", 0, topic_id="wgPZZe6wRgSsxbpNzQVtow")
        log.close()
        assert manager.open("orders", 0).config == log.config
    with pytest.warns(UnknownSettingsWarning, match="orders-0"):
        manager_of(tmp_path / "logs").close()


@pytest.mark.parametrize("cleans", [True, False])
def test_compacted_logs_are_retained_on_demand_only_with_a_cleaner(tmp_path, cleans):
    old_partition(tmp_path, topic_id=False)
    both = LogConfig(cleanup_policy=("compact", "delete"))
    broker_config = BrokerConfig(log_cleaner_enable=cleans)
    manager = manager_of(tmp_path, config=both, broker=broker_config)
    assert retained(manager) == ({"orders-0"} if cleans else set())

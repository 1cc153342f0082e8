"""Parsing and validation of settings: as in Kafka, with all faults listed."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import BrokerConfig, ConfigError, LogConfig
from kafkalog.config.setting_types import Kind
from kafkalog.config.settings import settings_of
from kafkalog.storage.properties_file import read_properties
from tests.config import recorded

FAULTY = {"segment.ms": "0", "flush.ms": "x", "preallocate": "1", "nonsense": "7"}


def made(validated):
    """Return the settings for a mapping: a topic's, or a broker's."""
    if validated["of"] == "topic":
        return LogConfig.from_properties(validated["given"])
    return BrokerConfig.from_properties(validated["given"], ignore_unknown=True)


def parsed(name, text):
    """Return Kafka's text parsed, where it differs from ours for the same value."""
    setting = settings_of(LogConfig).get(name)
    if setting is None or setting.kind is not Kind.DOUBLE:
        return text
    return repr(float(text))


@pytest.mark.parametrize(
    "validated",
    recorded.VALIDATED,
    ids=lambda validated: " ".join(f"{k}={v!r}" for k, v in validated["given"].items()),
)
def test_settings_are_parsed_and_validated_as_in_kafka(validated):
    values = recorded.values_of(validated)
    if values is None:
        with pytest.raises(ConfigError) as caught:
            made(validated)
        assert "\n" not in str(caught.value)
        assert any(name in str(caught.value) for name in validated["given"])
        return
    settings = made(validated)
    config = settings.log_config() if validated["of"] == "broker" else settings
    texts = config.to_properties()
    for name, value in values.items():
        if name in settings_of(LogConfig):
            assert texts[name] == parsed(name, value), name
        else:
            ours = getattr(settings if "director" in name else config, name)
            assert (list(ours) if isinstance(ours, tuple) else ours) == value


def test_one_error_lists_all_faults():
    with pytest.raises(ConfigError) as caught:
        LogConfig.from_properties(FAULTY)
    assert str(caught.value).split("; ") == [
        "Unknown topic config name: 'nonsense'",
        "Invalid value '0' for configuration segment.ms: Value must be at least 1",
        "Invalid value '1' for configuration preallocate: "
        "Expected value to be either true or false",
        "Invalid value 'x' for configuration flush.ms: Not a number of type LONG",
    ]


def test_a_conflict_is_listed_with_other_faults():
    lags = {"min.compaction.lag.ms": 10, "max.compaction.lag.ms": 9}
    with pytest.raises(ConfigError) as caught:
        LogConfig.from_properties(lags | {"segment.ms": 0})
    assert str(caught.value).split("; ") == [
        "Invalid value 0 for configuration segment.ms: Value must be at least 1",
        "conflict topic config setting min.compaction.lag.ms (10) > "
        "max.compaction.lag.ms (9)",
    ]


def test_the_default_of_an_invalid_setting_causes_no_conflict():
    tiered = {"remote.storage.enable": True, "local.retention.ms": 700_000_000}
    with pytest.raises(ConfigError, match=r"retention\.ms: Not a number") as caught:
        LogConfig.from_properties(tiered | {"retention.ms": "a year"})
    assert ";" not in str(caught.value)


def test_unknown_names_are_ignored_only_on_request():
    stored = {"message.format.version": "3.0", "segment.ms": "5"}
    with pytest.raises(ConfigError, match=r"config name: \'message\.format\.version\'"):
        LogConfig.from_properties(stored)
    assert LogConfig.from_properties(stored, ignore_unknown=True).segment_ms == 5
    with pytest.raises(ConfigError, match="at least 1048576"):
        LogConfig.from_properties({"segment.bytes": "14"}, ignore_unknown=True)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"segment_ms": True}, "a 64-bit integer, but it was a bool"),
        ({"segment_ms": 1.0}, "a 64-bit integer, but it was a float"),
        ({"segment_ms": None}, "a 64-bit integer, but it was null"),
        ({"segment_bytes": 1 << 31}, "Not a number of type INT"),
        ({"preallocate": 1}, "true or false, but it was a int"),
        ({"compression_type": 4}, "a string, but it was a int"),
        ({"min_cleanable_dirty_ratio": "half"}, "Not a number of type DOUBLE"),
        ({"cleanup_policy": {"compact"}}, "a list of strings, but it was a set"),
        ({"cleanup_policy": [1]}, "a list of strings, but it was a list"),
        ({"cleanup_policy": ["Compact"]}, "must be one of: compact, delete"),
    ],
)
def test_python_values_must_have_the_settings_type(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        LogConfig(**settings)


def test_values_and_texts_give_the_same_settings():
    texts = LogConfig(cleanup_policy="compact, delete", min_cleanable_dirty_ratio="1")
    values = LogConfig(
        cleanup_policy=["compact", "delete"], min_cleanable_dirty_ratio=1
    )
    assert texts == values
    assert hash(texts) == hash(values)
    assert texts.cleanup_policy == ("compact", "delete")
    assert isinstance(values.min_cleanable_dirty_ratio, float)


def test_a_long_value_is_shortened_to_one_line():
    with pytest.raises(ConfigError) as caught:
        LogConfig.from_properties({"segment.ms": "7\n" * 5000, "\n" * 5000: "1"})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_settings_are_immutable_and_copied_with_changes():
    config = LogConfig(segment_ms=5)
    with pytest.raises(FrozenInstanceError):
        config.segment_ms = 6
    changed = config.with_changes({"retention.ms": "7"})
    assert changed == LogConfig(segment_ms=5, retention_ms=7)
    assert changed == replace(config, retention_ms=7)
    assert copy.deepcopy(config) == config == pickle.loads(pickle.dumps(config))
    with pytest.raises(ConfigError, match="at least 1"):
        replace(config, segment_ms=0)
    with pytest.raises(ConfigError, match="Unknown topic config name: 'a'"):
        config.with_changes({"a": "1"})


def test_remote_storage_is_not_disabled_over_remaining_data():
    tiered = LogConfig(remote_storage_enable=True)
    off = {"remote.storage.enable": "false"}
    with pytest.raises(ConfigError, match=r"remote\.log\.delete\.on\.disable=true"):
        tiered.with_changes(off)
    gone = tiered.with_changes(off | {"remote.log.delete.on.disable": "true"})
    assert not gone.remote_storage_enable


@given(
    st.builds(
        LogConfig,
        segment_ms=st.integers(1, 2**63 - 1),
        retention_bytes=st.integers(-(2**63), 2**63 - 1),
        internal_segment_bytes=st.none() | st.integers(-(2**31), 2**31 - 1),
        min_cleanable_dirty_ratio=st.floats(0, 1),
        preallocate=st.booleans(),
        cleanup_policy=st.lists(st.sampled_from(["compact", "delete"]), unique=True),
        leader_replication_throttled_replicas=st.lists(st.just("0:1")),
    )
)
def test_properties_read_back_are_the_same_settings(config):
    assert LogConfig.from_properties(config.to_properties()) == config
    assert LogConfig.from_properties(config.values()) == config


def test_settings_come_from_a_file(tmp_path):
    path = tmp_path / "topic.properties"
    path.write_text(
        "# kept a day\nretention.ms: 86400000\ncleanup.policy=\\\n  compact\n"
    )
    properties = read_properties(path)
    assert properties == {"retention.ms": "86400000", "cleanup.policy": "compact"}
    assert LogConfig.from_properties(properties).compact
    with pytest.raises(FileNotFoundError):
        read_properties(tmp_path / "none.properties")


def test_a_file_with_an_invalid_escape_is_reported(tmp_path):
    from kafkalog import CorruptCheckpointError

    path = tmp_path / "topic.properties"
    path.write_text("a=1\nb=\\u12\n")
    with pytest.raises(CorruptCheckpointError, match=r"topic\.properties at byte 4"):
        read_properties(str(path))

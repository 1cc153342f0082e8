"""Values derived from a topic's settings."""

import pytest

from kafkalog import LogConfig
from kafkalog.config import log_config


@pytest.mark.parametrize(
    ("settings", "size", "initial"),
    [
        ({}, 1 << 30, 0),
        ({"segment_bytes": 1 << 20, "preallocate": True}, 1 << 20, 1 << 20),
        ({"internal_segment_bytes": 100}, 100, 0),
        ({"internal_segment_bytes": 0, "preallocate": True}, 0, 0),
        ({"internal_segment_bytes": 100, "preallocate": True}, 100, 100),
    ],
)
def test_the_size_of_a_segment(settings, size, initial):
    config = LogConfig(**settings)
    assert (config.segment_size, config.initial_file_size) == (size, initial)


@pytest.mark.parametrize(
    ("policy", "lag", "age"),
    [
        ("delete", 5, 100),
        ("compact", 5, 5),
        ("compact,delete", 5, 5),
        ("compact", 500, 100),
        ("", 5, 100),
    ],
)
def test_compaction_bounds_the_age_of_a_segment(policy, lag, age):
    config = LogConfig(segment_ms=100, cleanup_policy=policy, max_compaction_lag_ms=lag)
    assert config.max_segment_ms == age
    assert (config.compact, config.delete) == ("compact" in policy, "delete" in policy)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        ("producer", None),
        ("uncompressed", None),
        ("snappy", None),
        ("gzip", -1),
        ("lz4", 9),
        ("zstd", 3),
    ],
)
def test_the_level_is_that_of_the_codec(codec, level):
    assert LogConfig(compression_type=codec).compression_level == level


def test_the_timestamp_type_determines_whose_time_is_stored():
    assert not LogConfig().log_append_time
    assert LogConfig(message_timestamp_type="LogAppendTime").log_append_time


@pytest.mark.parametrize(
    ("jitter", "age", "bound"), [(10, 100, 10), (100, 10, 10), (7, 7, 7), (1, 5, 1)]
)
def test_jitter_is_below_its_setting_and_below_segment_ms(jitter, age, bound):
    config = LogConfig(segment_jitter_ms=jitter, segment_ms=age)
    drawn = {config.random_segment_jitter_ms() for _ in range(500)}
    assert drawn == set(range(bound))


def test_without_jitter_no_random_number_is_drawn(monkeypatch):
    monkeypatch.setattr(log_config, "getrandbits", None)
    assert LogConfig().random_segment_jitter_ms() == 0

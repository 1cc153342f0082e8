"""A restore that leaves nothing out states why, by setting."""

import pytest

import kafkalog

MARK = [("a", b"1")]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Return a log directory with one topic, all of whose records are alike."""
    directory = tmp_path_factory.mktemp("unchanged") / "logs"
    columns = {"key": [b"k"] * 3, "value": [b"v"] * 3, "headers": [MARK] * 3}
    columns["timestamp"] = [1000, 1001, 1002]
    with kafkalog.open(directory / "orders-0", "a") as log:
        log.append_records(columns)
        log.update_high_watermark(log.log_end_offset)
    return directory


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("topics", "orders", "it matches every topic"),
        ("exclude_topics", "other", "it matches no topic"),
        ("start_offset", 0, "no record is below it"),
        ("end_offset", 3, "no record is at or above it"),
        ("start_timestamp", 1000, "no record is earlier"),
        ("end_timestamp", 1003, "no record is at that time or later"),
        ("keys", ["k"], "every record has the key"),
        ("exclude_keys", ["x", "y"], "no record has one of the 2 keys"),
        ("producer_ids", [-1], "every record has the producer id"),
        ("exclude_producer_ids", [7], "no record has the producer id"),
        ("headers", ["a"], "every record has the 1 header"),
        ("exclude_headers", ["b"], "no record has the header"),
        ("where", lambda records: records.offset >= 0, "it returns true for every"),
    ],
)
def test_a_setting_that_leaves_out_nothing_is_named(
    setting, value, reason, logs, tmp_path
):
    options = {setting: value}
    for dry_run in (True, False):
        report = kafkalog.restore(logs, tmp_path / "copy", dry_run=dry_run, **options)
        [found] = report.unchanged_because
        assert found.startswith(f"{setting}: {reason}")
        assert report.as_dict()["unchanged_because"] == [found]


@pytest.mark.parametrize(
    "options",
    [
        {"start_offset": 1},
        {"end_offset": 2},
        {"exclude_keys": ["k"]},
        {"start_timestamp": 1001, "exclude_keys": ["x"]},
        {"where": lambda records: records.offset > 0},
    ],
)
def test_a_copy_that_leaves_out_records_has_no_reason(options, logs, tmp_path):
    assert kafkalog.restore(logs, tmp_path / "copy", **options).unchanged_because == ()


def test_no_setting_is_a_reason_too(logs, tmp_path):
    [reason] = kafkalog.restore(logs, tmp_path / "copy").unchanged_because
    assert reason == "no setting selects records: all are copied"


def test_a_copy_without_a_topic_states_why(logs, tmp_path):
    [reason] = kafkalog.restore(
        logs, tmp_path / "c", exclude_topics="*"
    ).unchanged_because
    assert reason == "exclude_topics: 1 topic left out, and none to copy"


def test_a_source_without_records_is_a_reason(tmp_path):
    with kafkalog.open(tmp_path / "logs" / "orders-0", "a"):
        pass
    report = kafkalog.restore(tmp_path / "logs", tmp_path / "copy", exclude_keys=["x"])
    assert report.unchanged_because == (
        "the source has no records",
        "exclude_keys: no record has the key",
    )

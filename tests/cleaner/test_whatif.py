"""`whatif` and `why`: what they report is what a round of a `LogManager` does."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cleaner import removal_report
from kafkalog.errors import ConfigError, LogArgumentError, NotALogDirectoryError
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.storage.log_directory import list_partitions
from kafkalog.testing import ManualClock, ManualScheduler, open_log, open_manager
from tests import golden_data
from tests.cleaner.test_properties import Compacted
from tests.cli.shell import call, objects

DAY_MS = 24 * 3600 * 1000
MEMBERS = ["topic", "partition", "segment", "records", "bytes", "removed_by", "at"]
SETS = (
    "k431-clean",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("k431-crash", "k282-clean", "k431-repl-broker1")
    ),
)
CHANGES = (
    {"retention.ms": 3600_000},
    {"retention.ms": -1, "retention.bytes": 6000},
    {"retention.ms": -1, "cleanup.policy": "delete"},
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0},
    {
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": 0,
        "retention.ms": -1,
        "retention.bytes": 5000,
        "delete.retention.ms": 0,
    },
)


def files_of(directory):
    return {
        path.relative_to(directory): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def segments_of_offsets(partition):
    """Return the segment of each offset on disk, control records included."""
    records = kafkalog.scan(
        partition, columns=["offset", "segment"], control_records=True, start_offset=0
    ).to_arrow()
    return dict(
        zip(records["offset"].to_pylist(), records["segment"].to_pylist(), strict=True)
    )


def bytes_of(partition):
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def removed_by_round(logs, name, config, now_ms, scratch):
    """Run a round of a manager on a copy: return records by segment, and bytes."""
    directory = f"{name[0]}-{name[1]}"
    copy = scratch / "logs"
    shutil.copytree(logs / directory, copy / directory)
    for path in logs.iterdir():
        if path.is_file():
            shutil.copy2(path, copy / path.name)
    clock = ManualClock(now_ms)
    with open_manager(
        copy, topics={name[0]: config}, clock=clock, scheduler=ManualScheduler(clock)
    ) as manager:
        log = manager[name]
        before = segments_of_offsets(copy / directory)
        size = bytes_of(copy / directory)
        manager.retain() if not config.compact else manager.cleaner.work()
        after = segments_of_offsets(copy / directory)
        size -= bytes_of(copy / directory)
        del log
    shutil.rmtree(copy)
    return Counter(before[offset] for offset in before.keys() - after), size


@pytest.mark.parametrize("golden_set", SETS)
@pytest.mark.parametrize("changes", CHANGES, ids=lambda each: str(list(each)))
def test_a_round_over_a_copy_removes_what_was_reported(golden_set, changes, tmp_path):
    logs = golden_data.logs(golden_set)
    topics = TopicSettings([logs], None, None, None)
    checked = 0
    for name, path in list_partitions(logs):
        if name.topic == "__cluster_metadata" or not any(path.glob("*.log")):
            continue
        latest = kafkalog.scan(path, columns=["timestamp"]).to_arrow()["timestamp"]
        times = [time for time in latest.cast("int64").to_pylist() if time is not None]
        now_ms = max(times, default=0) + 3600_000 - 50
        report = kafkalog.whatif(path, changes, at=now_ms)
        config = topics.of(name.topic, topic_id(path)).config.with_changes(changes)
        place = name.topic, name.partition
        records, size = removed_by_round(logs, place, config, now_ms, tmp_path)
        reported = Counter()
        for removal in report.due:
            reported[removal.segment] += removal.records
        assert +reported == records, path
        assert sum(removal.bytes for removal in report.due) == size, path
        checked += bool(records)
    assert checked or golden_set != "k431-clean" or changes["retention.ms"] == -1


def topic_id(path):
    return kafkalog.errors and _topic_id(path / "partition.metadata")


def _topic_id(path):
    if not path.exists():
        return None
    return path.read_text().split("topic_id:")[1].split()[0]

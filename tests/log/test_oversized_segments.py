"""Segments above 2**31 - 1 bytes, which Kafka does not open."""

import os

import pytest

import kafkalog
from kafkalog import LogManager
from kafkalog.errors import OversizedSegmentError
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.segment.segment_files import checked_size
from kafkalog.storage.file_names import file_name
from tests.log.writing import SMALL, batch

MOST = 2**31 - 1


@pytest.fixture
def logs(tmp_path):
    with kafkalog.open(tmp_path / "logs" / "t-0", "a", SMALL) as log:
        for _ in range(12):
            log.append(batch(5))
    return tmp_path / "logs"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [0, -1])
def test_a_log_with_an_oversized_segment_is_not_opened_for_writing(logs, clean, number):
    path = sorted((logs / "t-0").glob("*.log"))[number]
    os.truncate(path, MOST + 1)
    if not clean:
        (logs / ".kafka_cleanshutdown").unlink()
    before = sorted((each.name, each.stat()) for each in logs.rglob("*"))
    for opening in (
        lambda: kafkalog.open(logs / "t-0", "a", SMALL),
        lambda: LogManager(logs, SMALL),
    ):
        with pytest.raises(
            OversizedSegmentError,
            match=f"{MOST + 1} bytes, expected at most {MOST}: {path}",
        ) as caught:
            opening()
        assert caught.value.kafka_name == "KafkaException"
    after = sorted((each.name, each.stat()) for each in logs.rglob("*"))
    assert [name for name, _ in before] == [name for name, _ in after]
    assert [stat.st_mtime_ns for _, stat in before[1:]] == [
        stat.st_mtime_ns for _, stat in after[1:]
    ]


def test_an_oversized_segment_is_not_recovered(logs):
    path = sorted((logs / "t-0").glob("*.log"))[-1]
    os.truncate(path, MOST + 1)
    with pytest.raises(OversizedSegmentError):
        load_log(logs / "t-0", SMALL, clean=False)
    assert path.stat().st_size == MOST + 1


def test_preflight_says_that_an_oversized_segment_stops_a_broker(logs):
    os.truncate(logs / "t-0" / file_name(0, "log"), MOST + 1)
    report = kafkalog.preflight(logs)
    [partition] = report.partitions
    assert partition.state == "offline"
    assert str(MOST) in partition.notes[0]


def test_the_greatest_size_is_accepted(tmp_path):
    path = tmp_path / file_name(0, "log")
    path.touch()
    os.truncate(path, MOST)
    assert checked_size(path) == MOST

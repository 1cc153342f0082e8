"""A rehearsal finds what the loading finds, at each opening of each scenario.

The scenarios are those of Kafka's engine: crashes, damage, leftovers of compaction. A
rehearsal runs before each opening, and must not change a byte.
"""

import pytest

from kafkalog import KafkaLogError, LogConfig, testing
from kafkalog.config import BrokerConfig
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.log.topic_settings import PartitionSettings
from kafkalog.rehearsal.log_rehearsal import (
    CheckpointedOffsets,
    LogStartError,
    rehearse,
)
from tests import oracle_data
from tests.oracle.playing import played

RECOVERIES = [
    name
    for name in oracle_data.NAMES
    if [step.get("op") for step in oracle_data.steps(name)].count("open") > 1
]


def contents(directory):
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.iterdir()
        if path.is_file()
    }


class Rehearsing:
    """`load_log`, with a rehearsal before; `count` is the number of calls."""

    def __init__(self):
        self.count = 0

    def __call__(self, directory, config=None, **options):
        if not directory.is_dir():
            return load_log(directory, config, **options)
        self.count += 1
        offsets = CheckpointedOffsets(
            clean=options["clean"],
            log_start_offset=options["log_start_offset"],
            recovery_point=options["recovery_point"],
        )
        broker = options.get("broker") or BrokerConfig()
        settings = PartitionSettings(config or LogConfig(), is_tiered=False)
        before, failure = contents(directory), None
        try:
            with rehearse(directory, offsets, settings, broker) as rehearsal:
                report, end = rehearsal.report, rehearsal.log.log_end_offset
                rehearsal.count_losses()
        except LogStartError as error:
            failure = error
        assert contents(directory) == before
        if failure is not None:
            with pytest.raises((KafkaLogError, OSError)) as caught:
                load_log(directory, config, **options)
            raise caught.value
        log = load_log(directory, config, **options)
        assert log.report == report
        assert log.log_end_offset == end
        return log


@pytest.mark.parametrize("name", RECOVERIES)
def test_a_rehearsal_of_each_opening_of_a_scenario_is_exact(
    name, tmp_path, monkeypatch
):
    loading = Rehearsing()
    monkeypatch.setattr(testing, "load_log", loading)
    played(name, tmp_path)
    assert loading.count

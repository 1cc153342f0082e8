"""New random scenarios end as in Kafka's own engine.

Maven builds Kafka's player in ``build/oracle``. The seed is the date, so that a failure
can be reproduced, and another day has other scenarios.
"""

import datetime
import json
from argparse import Namespace

import pytest

import kafkalog
from kafkalog.codecs.compression import decompress
from kafkalog.formats.checkpoint import format_offsets, parse_offsets
from tests.oracle import make_scenarios, play
from tests.oracle.compare_dirs import compare_dirs
from tests.oracle.compare_results import compare_appends, compare_results
from tests.oracle.kafka_player import kafka
from tests.oracle.report import Report

pytestmark = pytest.mark.interop

COUNT = 200
COMPACTIONS = 80
STEPS = 50
LIMIT = 1 << 30
THEMES = [theme for theme in make_scenarios.WEIGHTS if theme != "compaction"]


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    """Draw the scenarios of the day, and play them with Kafka's engine."""
    root = tmp_path_factory.mktemp("today")
    drawn, prepared = root / "drawn", root / "prepared"
    seed = datetime.date.today().toordinal()
    make_scenarios.write(seed, COUNT, THEMES, STEPS, drawn)
    make_scenarios.write(seed, COMPACTIONS, ["compaction"], STEPS, drawn)
    kafka("prepare-all", drawn, prepared)
    kafka("play-all", prepared, root / "expected")
    return root


def options_of(scenario):
    """Return options that compare everything but the output of compressors."""
    heading = json.loads(scenario.read_text().split("\n", 1)[0])
    is_content = heading["compare"] == "content"
    return Namespace(
        content=is_content, strict=not is_content, tasks=True, mtimes=not is_content,
        decompress=lambda codec, data: b"".join(decompress(codec, data, limit=LIMIT)),
    )  # fmt: skip


def limit_checkpoint(directory):
    """Lower the recovery points to the log ends, see `limit_recovery_point`."""
    path = directory / "recovery-point-offset-checkpoint"
    if path.exists():
        limited = {}
        for (topic, partition), offset in parse_offsets(path.read_bytes()).items():
            with kafkalog.open(directory / f"{topic}-{partition}") as log:
                limited[topic, partition] = min(offset, log.log_end_offset)
        path.write_bytes(format_offsets(limited))


def differing(root, tmp_path, compare_lines, **how):
    """Play the scenarios; return the names of those that differ from Kafka."""
    scenarios = sorted((root / "prepared").glob("*.jsonl"))
    assert len(scenarios) == COUNT + COMPACTIONS
    names = []
    for scenario in scenarios:
        name, report, options = scenario.stem, Report(5), options_of(scenario)
        lines = play.play(scenario, tmp_path / name, **how)
        results = tmp_path / f"{name}.results.jsonl"
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
        compare_lines(root / "expected" / results.name, results, options, report)
        limit_checkpoint(root / "expected" / name)
        limit_checkpoint(tmp_path / name)
        compare_dirs(root / "expected" / name, tmp_path / name, options, report)
        if report.count:
            names.append(name)
    return names


def test_new_scenarios_end_as_in_kafka(today, tmp_path):
    assert differing(today, tmp_path, compare_results) == []


def test_new_scenarios_end_the_same_with_appends_in_one_call(today, tmp_path):
    def compare_lines(expected, results, options, report):
        compare_appends(expected, results, report)

    assert differing(today, tmp_path, compare_lines, chunked=True) == []

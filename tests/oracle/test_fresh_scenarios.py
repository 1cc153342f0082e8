"""New random scenarios end as in Kafka's own engine.

Maven builds Kafka's player in ``build/oracle``. The seed is the date, so that a failure
can be reproduced, and another day has other scenarios.
"""

import datetime
import json
import os
import shutil
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from tests.oracle import make_scenarios, play
from tests.oracle.compare import compare_all
from tests.oracle.compare_dirs import compare_dirs
from tests.oracle.compare_results import compare_appends
from tests.oracle.report import Report

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "oracle"
COUNT = 200
COMPACTIONS = 80
STEPS = 50
THEMES = [theme for theme in make_scenarios.WEIGHTS if theme != "compaction"]


def kafka(*arguments):
    """Run the player over Kafka's engine."""
    if lacks := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.fail(f"Kafka's own player cannot be built: {lacks}", pytrace=False)
    BUILD.mkdir(parents=True, exist_ok=True)
    command = ["sh", str(HERE / "player" / "run.sh"), *map(str, arguments)]
    environment = os.environ | {"BUILD": str(BUILD)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    """Draw the scenarios of the day, and play them with Kafka's engine."""
    root = tmp_path_factory.mktemp("today")
    drawn, prepared = root / "drawn", root / "prepared"
    seed = datetime.date.today().toordinal()
    make_scenarios.write(seed, COUNT, THEMES, STEPS, drawn)
    make_scenarios.write(seed, COMPACTIONS, ["compaction"], STEPS, drawn)
    for path in drawn.glob("*.jsonl"):
        # Compressors of other libraries make other bytes.
        if json.loads(path.read_text().split("\n", 1)[0])["compare"] == "content":
            path.unlink()
    kafka("prepare-all", drawn, prepared)
    kafka("play-all", prepared, root / "expected")
    return root


def options():
    return Namespace(
        scenarios=None, content=False, strict=True, tasks=True, mtimes=True,
        max=5, decompress=None,
    )  # fmt: skip


def test_new_scenarios_end_as_in_kafka(today, tmp_path):
    play.main(today / "prepared", tmp_path)
    assert not compare_all(today / "expected", tmp_path, [], options())


def test_new_scenarios_end_the_same_with_appends_in_one_call(today, tmp_path):
    scenarios = sorted((today / "prepared").glob("*.jsonl"))
    assert len(scenarios) > COUNT
    differing = []
    for scenario in scenarios:
        name, report = scenario.stem, Report(5)
        lines = play.play(scenario, tmp_path / name, chunked=True)
        results = tmp_path / f"{name}.results.jsonl"
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
        compare_appends(today / "expected" / results.name, results, report)
        compare_dirs(today / "expected" / name, tmp_path / name, options(), report)
        if report.count:
            differing.append(name)
    assert differing == []

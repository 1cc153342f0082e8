"""Scenarios drawn anew, played by Kafka's own engine and here.

Kafka's player is built by Maven, into ``build/oracle``. The seed is that of the day, so
that a failure can be had again, and another day brings other scenarios.
"""

import datetime
import os
import shutil
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from tests.oracle import make_scenarios, play
from tests.oracle.compare import compare_all

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "oracle"
COUNT = 200
STEPS = 50
THEMES = [theme for theme in make_scenarios.WEIGHTS if theme != "compaction"]


def kafka(*arguments):
    """Have Kafka's engine do something."""
    if lacks := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.fail(f"Kafka's own player cannot be built: {lacks}", pytrace=False)
    BUILD.mkdir(parents=True, exist_ok=True)
    command = ["sh", str(HERE / "player" / "run.sh"), *map(str, arguments)]
    environment = os.environ | {"BUILD": str(BUILD)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def test_scenarios_of_today_end_as_in_kafka(tmp_path):
    seed = datetime.date.today().toordinal()
    asked, prepared = tmp_path / "asked", tmp_path / "prepared"
    make_scenarios.write(seed, COUNT, THEMES, STEPS, asked)
    kafka("prepare-all", asked, prepared)
    kafka("play-all", prepared, tmp_path / "expected")
    play.main(prepared, tmp_path / "actual")
    options = Namespace(
        scenarios=prepared, content=False, strict=True, tasks=True, mtimes=True,
        max=5, decompress=None,
    )  # fmt: skip
    assert not compare_all(tmp_path / "expected", tmp_path / "actual", [], options)

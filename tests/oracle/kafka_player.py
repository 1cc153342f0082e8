"""Run the player over Kafka's engine; Maven builds it in ``build/oracle``."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "oracle"


def kafka(*arguments):
    """Run the player over Kafka's engine."""
    if lacks := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.fail(f"Kafka's own player cannot be built: {lacks}", pytrace=False)
    BUILD.mkdir(parents=True, exist_ok=True)
    command = ["sh", str(HERE / "player" / "run.sh"), *map(str, arguments)]
    environment = os.environ | {"BUILD": str(BUILD)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

"""Run the player over Kafka's engine; Maven builds it in ``build/oracle``."""

import fcntl
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
    environment = os.environ | {"BUILD": str(BUILD)}

    def run(*given):
        command = ["sh", str(HERE / "player" / "run.sh"), *map(str, given)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of pytest wait
        run("build")
    run(*arguments)

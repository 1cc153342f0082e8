"""The Spark session of the tests: on loopback, two cores, three attempts of a task.

PySpark is imported when a session is started, and not with this module.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MASTER = "local[2,3]"  # two tasks at a time, and a task may fail twice
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options with which a Java machine starts quickly; in the long run it is slower."""

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
}


def missing() -> str | None:
    """Return what is missing for a session, or None."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "no PySpark"
    found = subprocess.run(
        [Path(__file__).with_name("java.sh")],
        check=False,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip() or None


def environment() -> dict[str, str]:
    """Return the variables with which drivers and workers run this Python and code."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, paths)])),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",  # the timezone of timestamps that `collect` returns
    }


def start(folder, java_options=QUICK_START, **settings):
    """Start a session with its files in `folder`; setting a.b is argument a_b."""
    os.environ |= environment()
    from pyspark.sql import SparkSession

    chosen = SETTINGS | {
        "spark.master": MASTER,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"{java_options} -Djava.io.tmpdir={folder}",
    }
    chosen |= {name.replace("_", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.appName("kafkalog")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()

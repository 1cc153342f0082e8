"""Segments that the benchmarks read, and Spark with a broker beside it."""

import pytest
from segments import write_repeated
from spark_rounds import SETTINGS

from tests.interop.broker import JARS, Broker
from tests.spark import session

TIMES = 4
"""64 MB of values are read, so that the fixed cost of a scan is negligible."""


@pytest.fixture(scope="session")
def segment(tmp_path_factory):
    """Write a segment; return its path, and its number of records."""
    made = {}

    def make(shape, codec, size):
        case = (shape, codec, size)
        if case not in made:
            path = tmp_path_factory.mktemp("scan") / f"{20 * '0'}.log"
            made[case] = (
                path,
                write_repeated(path, *case, lambda times, _: times < TIMES),
            )
        return made[case]

    return make


@pytest.fixture(scope="module")
def spark_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark_with_kafka(spark_folder):
    """Start Spark with its own Kafka source and sink."""
    if lacks := session.missing():
        pytest.skip(f"spark-kafka cannot be measured: {lacks}")
    jars = ",".join(map(str, sorted((JARS / "connector").glob("*.jar"))))
    running = session.start(spark_folder, java_options="", spark_jars=jars, **SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def broker(spark_folder):
    running = Broker(spark_folder, java_options="").start()
    yield running
    running.stop()

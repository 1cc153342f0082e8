"""A live broker with topics of every kind, and Spark with its own Kafka source."""

from __future__ import annotations

import time

import pytest

from tests.interop import fill
from tests.interop.broker import JARS, Broker
from tests.spark import session


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """Start a broker, or fail with a message about the missing files."""
    if not list(JARS.glob("*/done")):
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    running = Broker(tmp_path_factory.mktemp("broker")).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def topics(broker):
    """Fill the topics that tests only read."""
    with fill.Topics(broker) as topics:
        topics.fill()
        yield topics


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start Spark with its Kafka source."""
    if missing := session.missing():
        pytest.fail(f"the tests with Spark cannot run: {missing}", pytrace=False)
    jars = ",".join(map(str, sorted((JARS / "connector").glob("*.jar"))))
    running = session.start(tmp_path_factory.mktemp("spark"), spark_jars=jars)
    time.tzset()
    yield running
    running.stop()

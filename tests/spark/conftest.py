"""A Spark session for the tests, one in each process."""

from __future__ import annotations

import time

import pytest

from tests.spark import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start Spark, or fail with what is missing."""
    if lacks := session.missing():
        pytest.fail(f"the tests with Spark cannot run: {lacks}", pytrace=False)
    running = session.start(tmp_path_factory.mktemp("spark"))
    time.tzset()  # PySpark makes datetimes in the process's zone
    yield running
    running.stop()

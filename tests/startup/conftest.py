"""Log directories of a broker, for the tests of its start."""

import shutil

import pytest

from tests.manager.managing import fill, manage
from tests.startup.prepared import CONFIG, ORDERS, RECORDS, write_cluster, write_ids


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a log directory with two partitions of several segments, closed cleanly."""
    logs = tmp_path_factory.mktemp("written") / "logs"
    with manage(logs, config=CONFIG) as manager:
        for number in (0, 1):
            fill(manager.open("orders", number, topic_id=ORDERS), RECORDS // 10)
    write_ids(logs)
    write_cluster(logs)
    assert len(list((logs / "orders-0").glob("*.log"))) >= 4
    return logs


@pytest.fixture
def logs(written, tmp_path):
    return shutil.copytree(written, tmp_path / "logs")

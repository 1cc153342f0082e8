"""A server of a broker's log directory, and what each partition of it holds."""

from __future__ import annotations

import warnings

import pytest

import kafkalog
from kafkalog.server.server import serve
from tests import golden_data

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of theirs, when they are imported
    import aiokafka  # noqa: F401
    import kafka  # noqa: F401

SET = "k431-clean"


@pytest.fixture(scope="module")
def server():
    with serve(golden_data.logs(SET)) as opened:
        yield opened


def rows_of(isolation):
    """Return offset, time, key, value and headers of each record, by partition."""
    rows = {}
    for chunk in kafkalog.scan(golden_data.logs(SET), isolation=isolation).chunks():
        place = chunk.topic, int(chunk.partition[0])
        if place[0] == "__cluster_metadata":
            continue
        headers = (
            [(key.decode(errors="replace"), value) for key, value in row]
            for row in chunk.headers.to_list()
        )
        columns = (chunk.offset.tolist(), chunk.timestamp.tolist())
        texts = (chunk.key.to_list(), chunk.value.to_list())
        rows.setdefault(place, []).extend(zip(*columns, *texts, headers, strict=True))
    return rows


@pytest.fixture(scope="module", params=["read_uncommitted", "read_committed"])
def isolation(request):
    return request.param


@pytest.fixture(scope="module")
def expected(isolation):
    rows = rows_of(isolation)
    assert sum(map(len, rows.values())) > 2000
    return rows

"""Functions and commands take times as people write them."""

from __future__ import annotations

import pytest

import kafkalog
from kafkalog.formats import timestamps
from tests import golden_data
from tests.cli.shell import call, objects

LOGS = golden_data.logs("k431-clean")
ORDERS = LOGS / "orders.zstd-0"
MIDDLE = 1_700_000_050_000
NOW = MIDDLE + 3_600_000


@pytest.fixture
def hour_after_the_middle(monkeypatch):
    """Set the clock to an hour after a record of the golden data."""
    monkeypatch.setattr(timestamps, "now_ms", lambda: NOW)


@pytest.mark.usefixtures("hour_after_the_middle")
@pytest.mark.parametrize("bound", ["start_timestamp", "end_timestamp"])
def test_every_function_reads_the_same_times(bound, tmp_path):
    expected = kafkalog.scan(ORDERS, **{bound: MIDDLE}).count()
    assert 0 < expected < kafkalog.scan(ORDERS).count()
    for text in ("-1h", "2023-11-14T22:14:10Z", str(MIDDLE)):
        bounds = {bound: text}
        assert kafkalog.scan(ORDERS, **bounds).count() == expected
        assert kafkalog.dataset(ORDERS, **bounds).count_rows() == expected
        parts = kafkalog.splits(ORDERS, **bounds)
        assert sum(part.scan().count() for part in parts) == expected
        assert kafkalog.stats(ORDERS, **bounds).total["records"] == expected
        report = kafkalog.restore(ORDERS, tmp_path / "dry", dry_run=True, **bounds)
        assert sum(part.records for part in report.partitions) == expected
        option = f"--{bound.replace('_', '-')}"
        for arguments in ([option, text], [f"{option}={text}"]):
            ran = call("cat", ORDERS, *arguments)
            assert ran.exit_code == 0, ran.output
            assert len(objects(ran.stdout)) == expected
        ran = call(
            "export", ORDERS, tmp_path / "one.jsonl", "--overwrite", option, text
        )
        assert ran.exit_code == 0, ran.output
        lines = (tmp_path / "one.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(lines) == expected


@pytest.mark.usefixtures("hour_after_the_middle")
def test_a_state_is_that_of_a_time():
    log = kafkalog.open(ORDERS)
    [offset] = log.offsets_for_times([MIDDLE])
    assert log.offsets_for_times(["-1h", "now"]).tolist() == [offset, -1]
    ran = call("find", ORDERS, "--timestamp", "-1h")
    assert [row["offset"] for row in objects(ran.stdout)] == [offset]
    for function, command in ((kafkalog.groups, "groups"), (kafkalog.lag, "lag")):
        table = function(LOGS, at="-1h")
        assert table == function(LOGS, at=MIDDLE)
        assert call(command, LOGS, "--at", "-1h").exit_code == 0
    assert kafkalog.whatif(LOGS, at="-1h").at == MIDDLE

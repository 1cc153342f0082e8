"""The job reports data that was deleted since its last run."""

from __future__ import annotations

import shutil

import pytest

from tests.spark import lakes
from tests.spark.lakes import FORM, call, ended, printed_by, spans

pytestmark = pytest.mark.spark


@pytest.fixture
def logs(tmp_path):
    return lakes.orders_and_audit(tmp_path / "logs")


def test_offsets_deleted_between_runs_fail_the_run_or_are_reported(
    spark, logs, tmp_path
):
    out = tmp_path / "out"
    call(logs, out)
    lakes.add_segment(logs, "orders-0", 300, 100)
    lakes.add_segment(logs, "orders-0", 400, 100)
    for base in (0, 300):
        (logs / "orders-0" / f"{base:020d}.log").unlink()
    lost = ended(call(logs, out), 3)
    assert "offsets [300, 500) of orders-0" in lost
    assert lakes.manifest(out, 1)["offsets"]["orders"]["0"] == 300
    ran = call(logs, out, "--fail-on-data-loss", "false", *FORM)
    assert "some data may have been lost" in ended(ran, 1)
    assert spans(printed_by(ran)) == [("orders", 0, 400, 500, 100)]
    assert len(printed_by(ran)["left_out"]) == 1


def test_deleted_partitions_fail_the_run_or_are_reported_once(spark, logs, tmp_path):
    out, lenient = tmp_path / "out", ("--fail-on-data-loss", "false", *FORM)
    call(logs, out)
    shutil.rmtree(logs / "orders-1")
    lost = ended(call(logs, out), 3)
    assert "partitions [orders-1] have been deleted" in lost
    assert printed_by(call(logs, out, "--subscribe", "audit", *FORM)) == {
        "manifest": None
    }
    ran = call(logs, out, *lenient)
    assert "partitions [orders-1] have been deleted" in ended(ran, 1)
    message = printed_by(ran)
    assert (message["run"], message["rows"], message["files"]) == (2, 0, [])
    assert len(message["left_out"]) == 1
    assert message["offsets"] == {"audit": {"0": 50}, "orders": {"0": 300}}
    assert printed_by(call(logs, out, *FORM)) == {"manifest": None}
    lakes.add_segment(logs, "orders-1", 0, 20)
    assert spans(printed_by(call(logs, out, *FORM))) == [("orders", 1, 0, 20, 20)]


@pytest.mark.parametrize("end", ["latest", '{"audit":{"0":-1}}', '{"audit":{"0":10}}'])
def test_a_log_that_became_shorter_is_reported(spark, logs, tmp_path, end):
    out, some = tmp_path / "out", ("--assign", '{"audit":[0]}')
    call(logs, out, *some)
    (logs / "audit-0" / f"{0:020d}.log").unlink()
    lakes.add_segment(logs, "audit-0", 0, 20)
    lost = ended(call(logs, out, *some, "--ending-offsets", end), 3)
    assert "audit-0 decreased from 50 to 20" in lost
    lenient = ("--fail-on-data-loss", "false", *FORM)
    ran = call(logs, out, *some, "--ending-offsets", end, *lenient)
    assert "decreased from" in ended(ran, 1)
    assert printed_by(ran)["offsets"]["audit"] == {"0": 20}
    lakes.add_segment(logs, "audit-0", 20, 5)
    assert spans(printed_by(call(logs, out, *some, *FORM))) == [("audit", 0, 20, 25, 5)]

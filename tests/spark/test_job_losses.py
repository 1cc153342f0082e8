"""What the job tells of data that is gone since its last run."""

from __future__ import annotations

import shutil

import pytest

from tests.spark import lakes
from tests.spark.lakes import FORM, call, ended, spans, told_by

pytestmark = pytest.mark.spark


@pytest.fixture
def logs(tmp_path):
    return lakes.orders_and_audit(tmp_path / "logs")


def test_offsets_that_aged_out_between_runs_end_it_or_are_told(spark, logs, tmp_path):
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
    assert spans(told_by(ran)) == [("orders", 0, 400, 500, 100)]
    assert len(told_by(ran)["left_out"]) == 1


def test_partitions_that_were_deleted_end_a_run_or_are_told_once(spark, logs, tmp_path):
    out, lenient = tmp_path / "out", ("--fail-on-data-loss", "false", *FORM)
    call(logs, out)
    shutil.rmtree(logs / "orders-1")
    lost = ended(call(logs, out), 3)
    assert "partitions [orders-1] have been deleted" in lost
    assert told_by(call(logs, out, "--subscribe", "audit", *FORM)) == {"manifest": None}
    ran = call(logs, out, *lenient)
    assert "partitions [orders-1] have been deleted" in ended(ran, 1)
    told = told_by(ran)
    assert (told["run"], told["rows"], told["files"]) == (2, 0, [])
    assert len(told["left_out"]) == 1
    assert told["offsets"] == {"audit": {"0": 50}, "orders": {"0": 300}}
    assert told_by(call(logs, out, *FORM)) == {"manifest": None}
    lakes.add_segment(logs, "orders-1", 0, 20)
    assert spans(told_by(call(logs, out, *FORM))) == [("orders", 1, 0, 20, 20)]


@pytest.mark.parametrize("end", ["latest", '{"audit":{"0":-1}}', '{"audit":{"0":10}}'])
def test_a_log_that_is_shorter_than_what_was_read_is_told_of(
    spark, logs, tmp_path, end
):
    out, some = tmp_path / "out", ("--assign", '{"audit":[0]}')
    call(logs, out, *some)
    (logs / "audit-0" / f"{0:020d}.log").unlink()
    lakes.add_segment(logs, "audit-0", 0, 20)
    lost = ended(call(logs, out, *some, "--ending-offsets", end), 3)
    assert "audit-0 went back from 50 to 20" in lost
    lenient = ("--fail-on-data-loss", "false", *FORM)
    ran = call(logs, out, *some, "--ending-offsets", end, *lenient)
    assert "went back" in ended(ran, 1)
    assert told_by(ran)["offsets"]["audit"] == {"0": 20}
    lakes.add_segment(logs, "audit-0", 20, 5)
    assert spans(told_by(call(logs, out, *some, *FORM))) == [("audit", 0, 20, 25, 5)]

"""``heal`` on the command line: formats and exit codes."""

import json
import shutil

import pytest

import kafkalog
from tests.copies.log_truth import batches_of, write_log

from .shell import call, objects


@pytest.fixture
def replicas(tmp_path):
    """Return two log directories that are damaged at different batches, and a batch."""
    write_log(tmp_path / "a" / "orders-0")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    sides = [tmp_path / "a", tmp_path / "b"]
    for number, side in enumerate(sides):
        damage(side, 2 + 3 * number)
    return sides


def damage(side, number):
    path = min((side / "orders-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    batch = batches_of(content)[number]
    content[batch.end - 1] ^= 1
    path.write_bytes(content)
    return batch


def test_json_has_the_replica_of_each_range(replicas, tmp_path):
    ran = call("heal", *replicas, tmp_path / "out", "--format", "json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert report["schema"] == 1
    [row] = report["partitions"]
    a, b = (str(side / "orders-0") for side in replicas)
    assert list(row["sources"].values()) == [a, b, a]
    assert next(iter(row["sources"])) == "0"
    assert row["missing"] == []
    assert kafkalog.verify(tmp_path / "out").ok


def test_a_clear_no_ends_with_1_and_writes_nothing(replicas, tmp_path):
    lost = damage(replicas[0], 5)
    ran = call("heal", *replicas, tmp_path / "out")
    assert ran.exit_code == 1
    [row] = objects(ran.stdout)
    assert row["missing"] == [[lost.first, lost.last]]
    assert f"for offsets {lost.first} to {lost.last}" in row["why"]
    assert not (tmp_path / "out").exists()
    ran = call("heal", *replicas, tmp_path / "out", "--format", "table")
    assert ran.stdout.endswith("1 partition, 1 cannot be healed: nothing written\n")


def test_a_destination_that_is_not_empty_ends_with_4(replicas, tmp_path):
    ran = call("heal", *replicas, tmp_path)
    assert ran.exit_code == 4
    assert "destination in a source" not in ran.stderr
    assert "the directory is not empty" in ran.stderr


def test_other_sources_end_with_2_or_3(replicas, tmp_path):
    other = write_log(tmp_path / "c" / "other-1", batches=1)
    ran = call("heal", replicas[0], other, tmp_path / "out")
    assert ran.exit_code == 2
    assert call("heal", replicas[0]).exit_code == 2
    ran = call("heal", tmp_path / "none", tmp_path / "out")
    assert ran.exit_code == 3

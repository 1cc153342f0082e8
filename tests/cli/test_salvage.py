"""``salvage`` on the command line: formats and exit codes."""

import json

import pytest

import kafkalog
from tests.copies.log_truth import batches_of, write_log

from .shell import call, objects


@pytest.fixture
def logs(tmp_path):
    write_log(tmp_path / "data" / "orders-0")
    return tmp_path / "data"


def damage(logs):
    """Change a byte of the second batch; return the batch."""
    path = min((logs / "orders-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    batch = batches_of(content)[1]
    content[batch.end - 1] ^= 1
    path.write_bytes(content)
    return batch


def test_all_that_is_readable_comes_over_with_0(logs, tmp_path):
    ran = call("salvage", logs, tmp_path / "out", "--format", "json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert report["schema"] == 1
    [row] = report["partitions"]
    assert row["records"] == kafkalog.scan(logs).count()
    assert (row["missing"], row["bytes_unreadable"]) == ([], 0)
    assert kafkalog.diff(logs, tmp_path / "out", compare_bytes=True).ok


def test_a_loss_ends_with_1_and_is_shown(logs, tmp_path):
    batch = damage(logs)
    ran = call("salvage", logs, tmp_path / "out")
    assert ran.exit_code == 1
    [row] = objects(ran.stdout)
    assert row["missing"] == [[batch.first, batch.last]]
    assert row["bytes_unreadable"] == batch.end - batch.position
    ran = call("salvage", logs, tmp_path / "again", "--format", "table")
    assert ran.exit_code == 1
    assert f"{batch.first}-{batch.last} " in ran.stdout
    count = batch.last - batch.first + 1
    assert ran.stdout.endswith(f"{count} offsets missing\n")


def test_a_file_is_a_fragment_by_its_name_or_by_the_option(logs, tmp_path):
    [path, *_] = sorted((logs / "orders-0").glob("*.log"))
    by_name = call("salvage", path, tmp_path / "1")
    assert objects(by_name.stdout)[0]["topic"] == "orders"
    part = tmp_path / "part"
    part.write_bytes(path.read_bytes()[1:])
    fragment = call(
        "salvage", part, tmp_path / "2", "--fragment", "--output-topic", "x"
    )
    assert (tmp_path / "2" / "x-0").is_dir()
    assert fragment.exit_code == 1
    image = call("salvage", part, tmp_path / "3", "--output-partition", "4")
    assert image.exit_code == 0
    [row] = objects(image.stdout)
    assert (row["topic"], row["partition"]) == ("salvaged", 4)
    [[first, end]] = row["source_ranges"]
    assert end == part.stat().st_size > first


def test_a_destination_that_is_not_empty_ends_with_4(logs, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    ran = call("salvage", logs, tmp_path / "out")
    assert (ran.exit_code, ran.stdout) == (4, "")
    assert "the directory is not empty" in ran.stderr


def test_other_bytes_end_with_3(tmp_path):
    (tmp_path / "image").write_bytes(b"no batch" * 100)
    ran = call("salvage", tmp_path / "image", tmp_path / "out")
    assert ran.exit_code == 3
    assert "no valid batch of magic 2" in ran.stderr
    assert call("salvage", tmp_path / "none", tmp_path / "out").exit_code == 3

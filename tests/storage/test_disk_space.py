"""Free space, compared with what commands are to write, before they write it."""

import pickle
import shutil
from collections import namedtuple

import pytest

import kafkalog
from kafkalog.cli.exits import Exit, code_of
from kafkalog.errors import DiskSpaceError
from kafkalog.storage.disk_space import check_space, free_bytes
from tests import golden_data
from tests.cli.shell import call
from tests.repairs.damaged_logs import copy_log, tree
from tests.startup import damages

CLEAN = golden_data.logs("k431-clean")
Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.fixture
def disk(monkeypatch):
    """Return a function that sets the free bytes of all file systems."""

    def set_free(free):
        usage = Usage(1 << 40, (1 << 40) - free, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    return set_free


def bytes_of_logs(directory):
    return sum(path.stat().st_size for path in directory.rglob("*.log"))


def needed_by(write, disk):
    """Return the bytes that a call states to need, and check that it is exact."""
    disk(0)
    with pytest.raises(DiskSpaceError, match="expected at most 0 free: ") as caught:
        write()
    needed = caught.value.needed
    assert str(caught.value).startswith(f"{needed} bytes to write, ")
    disk(needed - 1)
    with pytest.raises(DiskSpaceError):
        write()
    return needed


def test_the_needs_of_one_file_system_are_added_up(tmp_path, disk):
    (tmp_path / "a").mkdir()
    disk(100)
    assert free_bytes(tmp_path) == 100
    check_space([(tmp_path, 60), (tmp_path / "a", 40)])
    with pytest.raises(DiskSpaceError) as caught:
        check_space([(tmp_path, 60), (tmp_path / "a", 41)])
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.path, error.needed, error.free) == (tmp_path, 101, 100)
    assert code_of(error) == Exit.REFUSED


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("k431-clean", {}),
        ("k431-crash", {}),
        ("k431-clean", {"topics": "orders.*"}),
        ("k431-clean", {"leader_epoch": 3}),
    ],
)
def test_a_whole_copy_needs_the_bytes_of_its_segments(source, options, tmp_path, disk):
    copy = tmp_path / "copy"

    def write():
        kafkalog.restore(golden_data.logs(source), copy, **options)

    needed = needed_by(write, disk)
    assert not list(tmp_path.iterdir())
    disk(needed)
    write()
    assert needed == bytes_of_logs(copy)


def test_only_segments_within_the_bounds_are_known_to_be_needed(tmp_path, disk):
    def write():
        bounds = {"start_offset": 60, "end_offset": 110}
        kafkalog.restore(CLEAN, tmp_path / "copy", **bounds)

    needed = needed_by(write, disk)
    disk(needed)
    write()
    assert 0 < needed <= bytes_of_logs(tmp_path / "copy")


def test_a_copy_whose_size_is_not_known_is_written(tmp_path, disk):
    disk(0)
    kafkalog.restore(CLEAN, tmp_path / "a", exclude_keys=["key-1"])
    kafkalog.restore(CLEAN, tmp_path / "b", on_corruption="skip")
    old = golden_data.logs("k282-clean") / "legacy.m0.gzip-0"
    kafkalog.restore(old, tmp_path / "c")
    assert all(bytes_of_logs(tmp_path / name) for name in ("a", "b", "c"))


def test_the_command_is_refused(tmp_path, disk):
    disk(10)
    ran = call("restore", CLEAN, tmp_path / "copy")
    assert ran.exit_code == Exit.REFUSED
    assert "bytes to write, expected at most 10 free" in ran.stderr


def test_a_repair_needs_the_originals_and_the_results(tmp_path, disk):
    log = copy_log(("k431-crash", "torn.none-0"), tmp_path / "logs", clean=False)
    damages.flip_payload_in_first(log)
    before = tree(tmp_path)

    def write():
        kafkalog.repair(log.parent, apply=True, allow_data_loss=True)

    needed = needed_by(write, disk)
    assert tree(tmp_path) == before
    changed = {
        action.path
        for action in kafkalog.repair(log.parent, allow_data_loss=True).actions
    }
    originals = sum(
        path.stat().st_size for name in changed if (path := log.parent / name).exists()
    )
    largest = max(path.stat().st_size for path in log.glob("*.log"))
    assert originals < needed <= originals + largest
    ran = call("repair", log.parent, "--apply", "--allow-data-loss")
    assert ran.exit_code == Exit.REFUSED
    disk(needed)
    write()
    assert tree(tmp_path) != before


def test_healing_needs_the_batches_that_are_taken(tmp_path, disk):
    source = shutil.copytree(CLEAN / "orders.none-0", tmp_path / "orders.none-0")
    copy = tmp_path / "copy"

    def write():
        kafkalog.heal([source], copy)

    needed = needed_by(write, disk)
    assert not copy.exists()
    assert not copy.with_name("copy.incomplete").exists()
    disk(needed)
    write()
    assert needed == bytes_of_logs(copy) == bytes_of_logs(source)


def test_batches_of_an_image_are_needed(tmp_path, disk):
    image, copy = tmp_path / "image", tmp_path / "copy"
    logs = sorted((CLEAN / "orders.none-0").glob("*.log"))
    image.write_bytes(b"".join(log.read_bytes() for log in logs))

    def write():
        kafkalog.salvage(image, copy)

    needed = needed_by(write, disk)
    assert [path.name for path in tmp_path.iterdir()] == ["image"]
    disk(needed)
    write()
    assert needed == bytes_of_logs(copy)

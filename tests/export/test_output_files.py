"""Exports that fail, are interrupted, or lose power at any step."""

import os
from random import Random

import pytest

import kafkalog
from kafkalog.export import file_export
from kafkalog.testing import FailingDisk
from tests.crash.disk_model import DiskModel
from tests.crash.recording import RecordingDisk, read_tree, write_tree

FORMATS = ("parquet", "jsonl", "csv", "arrow")


class InterruptedDisk(FailingDisk):
    """A disk with one call that is interrupted, before or after its change."""

    def __init__(self, at, *, after):
        super().__init__()
        self.at, self.after = at, after

    def fails(self):
        if len(self.calls) - 1 == self.at and not self.after:
            raise KeyboardInterrupt
        if len(self.calls) - 2 == self.at and self.after:
            self.at = -9
            raise KeyboardInterrupt
        return False


@pytest.fixture
def scans(tmp_path):
    """Return two scans, of an earlier and a later state of three partitions."""
    logs = tmp_path / "logs"

    def append(topic, partition, count):
        with kafkalog.open(logs / f"{topic}-{partition}", "a") as log:
            log.append_records({"value": [b"%d" % n for n in range(count)]})

    append("orders", 0, 5)
    append("orders", 1, 5)
    append("gone", 0, 2)
    earlier = kafkalog.scan(logs, end_offset=5, topics=["orders", "gone"])
    append("orders", 0, 3)
    append("new", 0, 4)
    later = kafkalog.scan(logs, topics=["orders", "new"])
    return earlier, later


def visible(tree):
    """Return the content of files that readers see, by path."""
    return {
        path: content
        for path, content in tree.items()
        if content is not None and not os.path.basename(path).startswith(".")  # noqa: PTH119
    }


def written(root, scan, name, form):
    """Return the files of an export to an empty directory."""
    root.mkdir()
    file_export.write_files(scan, root / name, form)
    return visible(read_tree(root))


@pytest.fixture(params=[*((f"out.{form}", form) for form in FORMATS), ("out", "csv")])
def export(request, scans, tmp_path):
    """Return a directory with an export, and what replaces it by what."""
    name, form = request.param
    earlier, later = scans
    old = written(tmp_path / "old", earlier, name, form)
    new = written(tmp_path / "new", later, name, form)
    root = tmp_path / "work"
    root.mkdir()
    before = read_tree(tmp_path / "old")

    def run(disk):
        file_export.write_files(later, root / name, form, disk=disk)

    write_tree(root, before)
    assert old != new
    return root, before, old, new, run


def test_an_export_that_loses_power_leaves_whole_files(export):
    root, _, old, new, run = export
    disk = RecordingDisk(root)
    run(disk)
    renames = [
        number for number, event in enumerate(disk.events) if event.effect == "rename"
    ]
    model, checked = DiskModel(disk.before), 0
    for number, event in enumerate(disk.events):
        model.take(event)
        for _, tree in model.states(Random(number), 4):
            found = visible(tree)
            checked += 1
            if len(new) == 1:
                assert found in (old, new), event
            elif number < renames[0]:
                assert found == old, event
            else:  # each file is of one of the two exports
                assert all(
                    found[path] in (old.get(path), new.get(path)) for path in found
                )
    assert checked > len(disk.events)
    for kind, tree in model.states(Random(-1), 4):
        assert visible(tree) == new, kind


def test_a_disk_that_fails_leaves_the_old_export_or_the_new_one(export):
    root, before, old, new, run = export
    counting = FailingDisk()
    run(counting)
    outcomes = set()
    for number in range(len(counting.calls)):
        write_tree(root, before)
        with pytest.raises(OSError, match="No space left on device"):
            run(FailingDisk(number))
        found = visible(read_tree(root))
        assert found in (old, new), counting.calls[number]
        outcomes.add(found == new)
        if found == old:
            assert read_tree(root) == before, counting.calls[number]
    assert outcomes == {False, True}


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_leaves_the_old_export_or_the_new_one(after, export):
    root, before, old, new, run = export
    counting = FailingDisk()
    run(counting)
    assert len(counting.calls) > after
    for number in range(len(counting.calls) - after):
        write_tree(root, before)
        with pytest.raises(KeyboardInterrupt):
            run(InterruptedDisk(number, after=after))
        assert visible(read_tree(root)) in (old, new), counting.calls[number]


def test_an_error_names_the_file_that_was_to_be_written(export):
    root, before, _, new, run = export
    counting = FailingDisk()
    run(counting)
    steps = [n for n, call in enumerate(counting.calls) if call[0] in ("write", "sync")]
    assert steps
    for number in steps:
        write_tree(root, before)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            run(FailingDisk(number))
        assert caught.value.filename in {str(root / path) for path in new}


def test_files_that_a_killed_export_left_are_removed(scans, tmp_path):
    earlier, later = scans
    out = tmp_path / "out"
    file_export.write_files(earlier, out, "csv")
    folder = out / "topic=orders" / "partition=0"
    folder.joinpath(".part-00000.csv.tmp").write_bytes(b"longer than the file" * 99)
    folder.joinpath(".part-00003.csv.tmp").write_bytes(b"")
    folder.joinpath(".part-00000.csv.old").write_bytes(b"older")
    file_export.write_files(later, out, "csv")
    assert [path.name for path in folder.iterdir()] == ["part-00000.csv"]
    lines = folder.joinpath("part-00000.csv").read_text().splitlines()
    assert len(lines) == 9

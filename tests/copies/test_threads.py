"""Several threads write what one writes, and their reports are equal."""

import shutil
from dataclasses import replace
from threading import enumerate as running

import pytest

import kafkalog
from tests import golden_data

THREADS = 3


def content(root):
    """Return the content of all files but the one with a new directory id.

    The lines of checkpoints are in the order in which logs were closed.
    """

    def read(path):
        data = path.read_bytes()
        in_root = path.parent == root and path.name.endswith("-checkpoint")
        return sorted(data.splitlines()) if in_root else data

    files = {
        path.relative_to(root).as_posix(): read(path)
        for path in root.rglob("*")
        if path.is_file() and path.name != "meta.properties"
    }
    assert files
    return files


def logs(name):
    return golden_data.logs(name)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_salvaged_directory_is_the_same(name, tmp_path):
    one = kafkalog.salvage(logs(name), tmp_path / "1")
    several = kafkalog.salvage(logs(name), tmp_path / "2", threads=THREADS)
    assert len(one.partitions) > 1
    assert several == one
    assert content(tmp_path / "2") == content(tmp_path / "1")


def test_a_healed_directory_is_the_same(tmp_path):
    replicas = [logs("k431-repl-broker1"), logs("k431-repl-broker2")]
    one = kafkalog.heal(replicas, tmp_path / "1")
    several = kafkalog.heal(replicas, tmp_path / "2", threads=THREADS)
    assert len(one.partitions) > 1
    assert several == one
    assert content(tmp_path / "2") == content(tmp_path / "1")


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_restored_directory_is_the_same(dry_run, tmp_path):
    calls = []
    source, reports = logs("k431-clean"), []
    for threads in (1, THREADS):
        report = kafkalog.restore(
            source,
            tmp_path / str(threads),
            dry_run=dry_run,
            threads=threads,
            exclude_keys=["key-1"],
            progress=lambda *counts: calls.append(counts),
        )
        files = [file for file in report.files if "/" in file.path]
        reports.append(
            replace(report, destination="", directory_id="", files=tuple(files))
        )
        assert calls == sorted(calls)
        calls.clear()
    one, several = reports
    assert len(one.partitions) > 1
    assert several == one
    if not dry_run:
        assert content(tmp_path / str(THREADS)) == content(tmp_path / "1")


@pytest.mark.parametrize("way", ["plan", "copy", "apply"])
def test_compacted_logs_have_the_same_records(way, tmp_path):
    reports, records = [], []
    for threads in (1, THREADS):
        source, copy = tmp_path / f"{threads}", tmp_path / f"{threads}-copy"
        shutil.copytree(logs("k431-clean"), source)
        options = {"copy": {"destination": copy}, "apply": {"apply": True}}.get(way, {})
        before = content(source)
        found = kafkalog.compact(source, threads=threads, **options)
        reports.append([replace(each, bytes_after=0) for each in found])
        assert (content(source) == before) == (way != "apply")
        table = kafkalog.scan(copy if way == "copy" else source).to_arrow()
        records.append(table.select(["topic", "partition", "offset", "key", "value"]))
    assert (
        sum(each.bytes_before > 0 and not each.unchanged_because for each in reports[0])
        > 1
    )
    assert reports[1] == reports[0]
    assert records[1] == records[0]


def test_a_damaged_partition_ends_the_call_and_leaves_no_copy(tmp_path):
    source = tmp_path / "logs"
    shutil.copytree(logs("k431-clean"), source)
    path = source / "orders.none-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError):
        kafkalog.restore(source, tmp_path / "copy", threads=THREADS)
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]
    assert [thread for thread in running() if "kafkalog" in thread.name] == []


@pytest.mark.parametrize(
    "call",
    [
        kafkalog.salvage,
        kafkalog.restore,
        lambda source, copy, **options: kafkalog.heal([source], copy, **options),
        lambda source, copy, **options: kafkalog.compact(source, **options),
        lambda source, copy, **options: kafkalog.verify(source, **options),
        lambda source, copy, **options: kafkalog.diff(source, source, **options),
    ],
)
def test_a_number_below_one_is_rejected(call, tmp_path):
    with pytest.raises(ValueError, match="threads 0, expected 1 or more"):
        call(logs("k431-repl-broker1"), tmp_path / "copy", threads=0)
    assert list(tmp_path.iterdir()) == []

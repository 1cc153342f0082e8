"""The golden data is unchanged, and each partition has a truth."""

import hashlib

import pytest

from tests import golden_data

MANIFEST = golden_data.GOLDEN / "SHA256SUMS"


def manifest():
    lines = MANIFEST.read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def test_every_golden_file_has_its_recorded_digest():
    found = {
        path.relative_to(golden_data.GOLDEN).as_posix(): path
        for name in golden_data.SETS
        for path in (golden_data.GOLDEN / name).rglob("*")
        if path.is_file()
    }
    digests = {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in found.items()
    }
    assert digests == manifest()


def test_there_are_seven_sets():
    assert len(golden_data.SETS) == 7


@pytest.mark.parametrize("name", golden_data.SETS)
def test_each_partition_has_a_truth_about_its_files(name):
    names = {path.name for path in golden_data.partitions(name)}
    described = set(golden_data.directories(name)) - {"bootstrap.checkpoint"}
    assert described == names
    for directory in sorted(names):
        batches = golden_data.truth(name, directory, "batches")
        files = {path.name for path in (golden_data.logs(name) / directory).iterdir()}
        assert {batch["file"] for batch in batches} <= files


def test_only_the_second_replica_has_no_runs_of_the_dump_tool():
    without = [name for name in golden_data.SETS if not golden_data.dump_runs(name)]
    assert without == ["k431-repl-broker2"]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_the_files_of_the_runs_of_the_dump_tool_exist(name):
    for run in golden_data.dump_runs(name):
        path = run.arguments[run.arguments.index("--files") + 1]
        assert (golden_data.logs(name).parent / path).exists()


def test_a_missing_truth_is_empty_and_an_unknown_name_is_an_error():
    assert golden_data.truth("oldclients", "bytes-0.8.2.2-gzip-0", "decoded") == []
    assert golden_data.root("oldclients") == []
    with pytest.raises(ValueError, match="expected one of"):
        golden_data.truth("oldclients", "bytes-0.8.2.2-gzip-0", "record")
    with pytest.raises(ValueError, match="expected one of"):
        golden_data.truth("k282", "orders-0", "records")

"""Git LFS pointers and translated line ends in the place of files of a broker."""

import pytest

from kafkalog.query.listing import list_path
from kafkalog.verification.path_verification import verify
from tests.manager.partitions import batch, write_partition, write_segment

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size %d\n"
)
"""A pointer; it is 130 bytes long with a size of two digits."""


@pytest.fixture
def partition(tmp_path):
    return write_partition(tmp_path / "orders-0")


def of_file(path, name):
    return [problem for problem in verify(path).problems if problem.path == name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{0:020d}.log", "batches"),
        (f"{6:020d}.log", "batches"),
        (f"{0:020d}.index", "an index"),
        (f"{0:020d}.timeindex", "an index"),
        (f"{0:020d}.txnindex", "an index"),
        (f"{10:020d}.snapshot", "a producer snapshot"),
        ("leader-epoch-checkpoint", "a file of a broker"),
    ],
)
@pytest.mark.parametrize("size", [9, 42, 1234, 123456])
def test_a_git_lfs_pointer_is_named_in_one_problem(partition, name, expected, size):
    (partition / name).write_bytes(POINTER % size)
    [problem] = of_file(partition, name)
    assert problem.message.startswith(f"a Git LFS pointer, expected {expected}: ")
    assert "git lfs pull" in problem.message
    assert problem.severity == "error"
    [alone] = verify(partition / name).problems
    assert alone.message == problem.message


def test_checkpoints_of_a_log_directory_that_are_pointers_are_named(partition):
    names = ["recovery-point-offset-checkpoint", "meta.properties"]
    for name in names:
        (partition.parent / name).write_bytes(POINTER % 42)
    for name in names:
        [problem] = of_file(partition.parent, name)
        assert problem.message.startswith("a Git LFS pointer")


def translated(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
def test_translated_line_ends_are_named(tmp_path, kind):
    batches = [batch(base) for base in range(0, 2000, 2)]
    write_segment(tmp_path, 0, batches)
    name = f"{0:020d}.{kind}"
    translated(tmp_path / name)
    problems = of_file(tmp_path, name)
    assert "line ends were translated" in problems[0].message
    assert f"`*.{kind} binary`" in problems[0].message
    assert all("line ends" not in problem.message for problem in problems[1:])


def test_other_damage_is_not_called_a_translation(partition):
    log = partition / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[100] = 0x0A
    log.write_bytes(data)
    [problem] = of_file(partition, log.name)
    assert problem.message.startswith("CRC mismatch")
    assert "line ends" not in problem.message


@pytest.mark.parametrize("size", [9, 42, 123, 1234, 12345, 123456])
def test_a_time_index_that_is_text_has_no_time(partition, size):
    times = [segment.max_timestamp for segment in list_path(partition)]
    for index in partition.glob("*.timeindex"):
        index.write_bytes(POINTER % size)
    assert [segment.max_timestamp for segment in list_path(partition)] == times
    [summary] = list_path(partition.parent)
    assert summary.max_timestamp == times[-1]


def test_a_time_index_with_translated_line_ends_has_no_wrong_time(tmp_path):
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for batches in (30, 150, 300):
        write_segment(partition, 0, [batch(base) for base in range(0, 2 * batches, 2)])
        [before] = list_path(partition)
        translated(partition / f"{0:020d}.timeindex")
        [after] = list_path(partition)
        assert after.max_timestamp == before.max_timestamp


def test_a_time_index_with_a_negative_last_timestamp_has_no_time(partition):
    [first, _] = list_path(partition)
    index = partition / f"{0:020d}.timeindex"
    index.write_bytes(index.read_bytes() + b"\xff" * 12 * 200)
    assert next(iter(list_path(partition))).max_timestamp == first.max_timestamp

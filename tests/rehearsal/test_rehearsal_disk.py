"""A stand-in reads and changes as a file of its own would, and its original stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.rehearsal.rehearsal_disk import RehearsalDirectory, RehearsalDisk

SIZES = st.integers(0, 300)
CHANGES = st.one_of(
    st.tuples(st.just("truncate"), SIZES),
    st.tuples(st.just("write"), SIZES, st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("rename")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("map")),
    st.tuples(st.just("content_path")),
)


def make(directory, name, content):
    directory.mkdir(parents=True)
    (directory / name).write_bytes(content)


@given(content=st.binary(max_size=200), changes=st.lists(CHANGES, max_size=12))
def test_a_stand_in_is_a_file_with_the_content_of_its_original(
    content, changes, tmp_path_factory
):
    root = tmp_path_factory.mktemp("disk")
    make(root / "log", "0.index", content)
    disk, model = RehearsalDisk(), bytearray(content)
    (root / "copy").mkdir()
    disk.stand_in(root / "log", root / "copy")
    path = root / "copy" / "0.index"
    file = disk.open(path)
    for number, (change, *arguments) in enumerate(changes):
        if change == "truncate":
            [size] = arguments
            file.truncate(size)
            model = model[:size].ljust(size, b"\0")
        elif change == "write":
            position, data = arguments
            file.write(data, position)
            model = model.ljust(position, b"\0")
            model[position : position + len(data)] = data
        elif change == "rename":
            path = path.with_name(f"{number}.index")
            file.rename(path)
        elif change == "reopen":
            file.close()
            file = disk.open(path)
        elif change == "map" and model:
            with file.map(len(model)) as mapped:
                assert mapped[:] == model
        elif change == "content_path":
            assert disk.content_path(path).read_bytes()[: len(model)] == model
        assert file.size() == len(model)
        assert file.read(0, 1000) == model
        assert file.read(7, 20) == model[7:27]
    file.close()
    assert (root / "log" / "0.index").read_bytes() == content


def test_a_file_in_place_of_a_removed_stand_in_is_empty(tmp_path):
    make(tmp_path / "log", "0.log", b"content")
    disk = RehearsalDisk()
    (tmp_path / "copy").mkdir()
    disk.stand_in(tmp_path / "log", tmp_path / "copy")
    path = tmp_path / "copy" / "0.log"
    disk.remove(path)
    with disk.open(path, create=True) as file:
        assert file.read(0, 100) == b""
    assert disk.original_of(path) is None


def test_a_stand_in_occupies_no_space(tmp_path):
    make(tmp_path / "log", "0.log", bytes(range(256)) * 4096)
    disk = RehearsalDisk()
    (tmp_path / "copy").mkdir()
    disk.stand_in(tmp_path / "log", tmp_path / "copy")
    status = (tmp_path / "copy" / "0.log").stat()
    assert (status.st_size, status.st_blocks) == (1 << 20, 0)
    assert disk.added_bytes(tmp_path / "copy") == 0


def test_a_link_to_a_file_has_its_content_and_others_are_kept_as_they_are(tmp_path):
    make(tmp_path / "log", "0.log", b"content")
    (tmp_path / "log" / "1.log").symlink_to("0.log")
    (tmp_path / "log" / "2.log").mkdir()
    (tmp_path / "log" / "3.log").symlink_to("nowhere")
    disk = RehearsalDisk()
    (tmp_path / "copy").mkdir()
    disk.stand_in(tmp_path / "log", tmp_path / "copy")
    linked = tmp_path / "copy" / "1.log"
    assert not linked.is_symlink()
    assert disk.original_of(linked).path == (tmp_path / "log" / "0.log").resolve()
    assert (tmp_path / "copy" / "2.log").is_dir()
    assert (tmp_path / "copy" / "3.log").is_symlink()


def test_discarded_records_leave_a_log_of_the_right_size(tmp_path):
    disk = RehearsalDisk()
    disk.discards_records = True
    with disk.open(tmp_path / "0.log.cleaned", create=True) as file:
        file.write(b"abc", 0)
        file.write(b"defg", 3)
        assert file.read(0, 10) == bytes(7)
    with disk.open(tmp_path / "0.index.cleaned", create=True) as file:
        file.write(b"abc", 0)
        assert file.read(0, 10) == b"abc"


def test_a_directory_for_stand_ins_is_empty_for_each_log_and_removed_at_the_end(
    tmp_path,
):
    make(tmp_path / "log", "0.log", b"content")
    with RehearsalDirectory() as root:
        with root.of("t-0") as first:
            (first / "0.log").write_bytes(b"of t-0")
            (first / "linked").symlink_to(tmp_path / "log")
            make(first / "folder", "1.log", b"of t-0")
        for name in ("t-1", "t-1", "t-0"):
            with root.of(name) as copy:
                assert copy == first.parent / name
                assert not list(copy.iterdir())
                RehearsalDisk().stand_in(tmp_path / "log", copy)
                assert [path.name for path in copy.parent.iterdir()] == [name]
        with pytest.raises(FileExistsError), root.of("t-2") as copy:
            copy.mkdir()
        assert not list(copy.iterdir())
    assert not first.parent.exists()
    assert (tmp_path / "log" / "0.log").read_bytes() == b"content"

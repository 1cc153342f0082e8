"""Paths that files give: which are refused, and links on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import LogStateError
from kafkalog.storage.contained_path import check_directories, contained_names
from kafkalog.storage.location import is_directory, is_file

OUTSIDE = [
    *("", "/", "/etc/passwd", "..", "../x", "a/../x", "a/..", ".", "./a", "a//b", "a/"),
    *("a/b/c", "a\0b", "\ud800", None, 3, ["a"], b"a", {"a": 1}),
]


@pytest.mark.parametrize("text", OUTSIDE, ids=repr)
def test_a_path_that_may_lead_elsewhere_is_refused(text):
    with pytest.raises(ValueError, match="expected 1 to 2 names of files"):
        contained_names(text, 2)


@given(st.text(max_size=12))
def test_an_accepted_path_is_below_the_directory(tmp_path_factory, text):
    try:
        names = contained_names(text, 2)
    except ValueError:
        return
    root = tmp_path_factory.getbasetemp()
    path = root.joinpath(*names)
    assert path.resolve().is_relative_to(root)
    assert path.resolve() != root


def test_a_link_on_the_way_is_refused_and_a_missing_directory_is_not(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    (tmp_path / "a" / "file").touch()
    check_directories(tmp_path, ["a", "b"])
    check_directories(tmp_path, ["a", "missing", "b"])
    for name in ("link", "file"):
        with pytest.raises(LogStateError, match=f"not a directory.*{name}"):
            check_directories(tmp_path, ["a", name])
    (tmp_path / "root").symlink_to(tmp_path / "a")
    check_directories(tmp_path / "root", ["b"])


def test_links_count_neither_as_files_nor_as_directories(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "to_file").symlink_to("file")
    (tmp_path / "to_directory").symlink_to(tmp_path)
    assert is_file(tmp_path / "file")
    assert is_directory(tmp_path)
    for name in ("to_file", "to_directory", "missing", "file/below"):
        assert not is_file(tmp_path / name)
        assert not is_directory(tmp_path / name)

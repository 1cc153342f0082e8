"""Small files are read whole, and no more than a small file has."""

import errno

import pytest

import kafkalog
from kafkalog.files.naming import META_PROPERTIES
from kafkalog.files.reading import SMALL_BYTES, read_plain
from kafkalog.manager.verification import verify


@pytest.fixture
def large(tmp_path):
    """A file that is called small, and is a hole of 256 MB."""
    path = tmp_path / META_PROPERTIES
    with path.open("wb") as file:
        file.truncate(SMALL_BYTES + 1)
    return path


def test_a_small_file_that_is_large_is_not_read(large):
    with pytest.raises(OSError, match=META_PROPERTIES) as caught:
        read_plain(large)
    assert caught.value.errno == errno.EFBIG


def test_verify_says_of_a_large_one_that_it_cannot_be_read(large):
    [problem] = verify(large.parent).problems
    assert problem.path == META_PROPERTIES
    assert problem.message == "it cannot be read: File too large"


def test_settings_are_read_through_a_link_that_is_named_and_from_no_pipe(tmp_path):
    (tmp_path / "there").write_text("retention.ms = 5\n")
    (tmp_path / "link").symlink_to("there")
    assert kafkalog.read_properties(tmp_path / "link") == {"retention.ms": "5"}
    with pytest.raises(FileNotFoundError, match="No such regular file"):
        kafkalog.read_properties("/dev/null")

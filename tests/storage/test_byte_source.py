"""Small files are read whole, up to a limit."""

import errno

import pytest

import kafkalog
from kafkalog.storage.byte_source import SMALL_BYTES, read_regular
from kafkalog.storage.file_names import META_PROPERTIES
from kafkalog.storage.properties_file import read_properties
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause
from tests.query.batches import build


@pytest.fixture
def large(tmp_path):
    """A file with the name of a small one, and a hole of 256 MB."""
    path = tmp_path / META_PROPERTIES
    with path.open("wb") as file:
        file.truncate(SMALL_BYTES + 1)
    return path


def test_a_small_file_above_the_limit_is_not_read(large):
    with pytest.raises(OSError, match=META_PROPERTIES) as caught:
        read_regular(large)
    assert caught.value.errno == errno.EFBIG


def test_verify_reports_a_file_above_the_limit(large):
    [problem] = verify(large.parent).problems
    assert problem.path == META_PROPERTIES
    assert problem.message == "the file cannot be read: File too large"


def test_settings_are_read_through_a_link_but_not_from_a_pipe(tmp_path):
    (tmp_path / "there").write_text("retention.ms = 5\n")
    (tmp_path / "link").symlink_to("there")
    assert read_properties(tmp_path / "link") == {"retention.ms": "5"}
    with pytest.raises(FileNotFoundError, match="No such regular file"):
        read_properties("/dev/null")


@pytest.fixture
def partition(tmp_path):
    """A log of two batches, with an index of a hole of a tebibyte and a byte."""
    place = tmp_path / "orders-0"
    place.mkdir()
    (place / f"{0:020d}.log").write_bytes(build(2, "none", 0) + build(2, "none", 3))
    with (place / f"{0:020d}.index").open("wb") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 1)
        file.write(b"x")
    return place


def test_an_index_above_the_limit_is_not_read(partition):
    scan = kafkalog.scan(partition, start_offset=4, columns=["offset"])
    assert [one for chunk in scan.chunks() for one in chunk.offset.tolist()] == [4, 5]
    with pytest.raises(kafkalog.CorruptIndexError, match="expected at most"):
        kafkalog.OffsetIndex.read(partition / f"{0:020d}.index")
    [problem] = kafkalog.scan_indexes(partition).problems
    assert problem.path == partition / f"{0:020d}.index"


def test_verify_reports_an_index_above_the_limit(partition):
    causes = {problem.path: problem.cause for problem in verify(partition).problems}
    assert causes[f"{0:020d}.index"] == Cause.TOO_LARGE

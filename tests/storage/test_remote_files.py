"""Remote files: listings, ranges, and files truncated while they are read."""

import os
import traceback

import fsspec
import numpy as np
import pytest

import kafkalog
from kafkalog.storage import stores
from kafkalog.storage.location import entries, open_source
from kafkalog.storage.remote_source import READ_AHEAD_BYTES, as_path
from kafkalog.storage.stores import Version
from tests.storage.remote_stores import (
    KEY,
    SECRET,
    counted,
    fill,
    in_memory,
    s3_server,
    through_arrow,
)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "0.log").write_bytes(bytes(range(256)) * 4096)
    (tmp_path / "orders-0" / "0.index").write_bytes(b"")
    (tmp_path / "checkpoint").write_bytes(b"0\n0\n")
    return tmp_path


@pytest.fixture(params=["memory", "arrow"])
def far(request, directory, monkeypatch, tmp_path):
    if request.param == "arrow":
        return through_arrow(directory, monkeypatch)
    fsspec.filesystem("memory").store.clear()
    return in_memory(directory, "far")


def test_a_listing_distinguishes_files_and_directories(far, directory):
    def seen(path):
        return sorted(
            (one.name, one.is_dir(follow_symlinks=False), one.is_file())
            for one in entries(path)
        )

    assert seen(far) == seen(directory)
    assert seen(far / "orders-0") == seen(directory / "orders-0")
    names = sorted(path.name for path in (far / "orders-0").iterdir())
    assert names == ["0.index", "0.log"]


def test_methods_of_a_remote_path_agree_with_those_of_a_local_path(far, directory):
    for name in ("orders-0", "checkpoint", "orders-0/0.log", "nothing", "orders"):
        one, other = far / name, directory / name
        assert one.exists() == other.exists()
        assert one.is_dir() == other.is_dir()
        assert one.is_file() == other.is_file()
        if other.is_file():
            assert one.stat().st_size == other.stat().st_size
            assert one.stat().st_mtime_ns == 0
            assert one.read_bytes() == other.read_bytes()
    assert far.is_dir()


def test_an_error_of_a_missing_file_has_its_url(far):
    missing = far / "nothing"
    for ask in (
        missing.stat,
        missing.read_bytes,
        missing.open,
        missing.entries,
        lambda: kafkalog.scan(missing),
        lambda: kafkalog.open(missing),
        lambda: kafkalog.scan_indexes(missing),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            ask()
        assert str(missing) in str(caught.value)


def test_any_range_is_read_as_from_a_local_file(far, directory):
    with (
        open_source(far / "orders-0/0.log") as one,
        open_source(directory / "orders-0/0.log") as other,
    ):
        assert one.size == other.size == 1 << 20
        size, ahead = one.size, READ_AHEAD_BYTES
        for position in (0, 8, 61, ahead - 1, 7, ahead, size - 9, size, size + 5, 0):
            for length in (0, 1, 61, ahead + 3, 2 * size):
                found, expected = (
                    one.read(position, length),
                    other.read(position, length),
                )
                assert found.tobytes() == expected.tobytes(), (position, length)


def test_small_reads_make_few_requests_and_none_for_the_same_bytes(
    far, directory, monkeypatch
):
    kinds = {"memory": stores._FsspecFile, "tree": stores._ArrowFile}
    with counted(monkeypatch, kinds[far.scheme]) as ranges:
        with open_source(far / "orders-0/0.log") as source:
            for position in range(0, source.size, 4096):
                source.read(position, 61)
                source.read(position, 4100)
        assert len(ranges) == 4
        assert sum(length for _, length in ranges) == 1 << 20


def test_the_callers_buffer_is_used_and_earlier_reads_stay_valid(far):
    buffer = np.zeros(100, np.uint8)
    with (far / "orders-0/0.log").open() as source:
        found = source.read(10, 20, lambda length: buffer)
        assert np.shares_memory(found, buffer)
        kept = source.read(0, 61)
        source.read(1 << 19, 61)
        assert kept.tobytes() == bytes(range(61))


def test_a_file_truncated_while_it_is_read_ends_there(far, directory):
    if far.scheme == "tree":
        path = directory / "orders-0/0.log"
        cut = path.write_bytes
    else:
        memory = fsspec.filesystem("memory")

        def cut(data):
            memory.pipe_file("/far/orders-0/0.log", data)

    with (far / "orders-0/0.log").open() as source:
        source.read(0, 61)
        cut(bytes(1000 + READ_AHEAD_BYTES))
        assert len(source.read(READ_AHEAD_BYTES, 5000)) == 1000
        assert source.size == READ_AHEAD_BYTES + 1000
        assert len(source.read(READ_AHEAD_BYTES + 999, 61)) == 1
        assert len(source.read(READ_AHEAD_BYTES + 2000, 61)) == 0


def test_discarded_read_ahead_is_read_again(far, directory):
    with (far / "orders-0/0.log").open() as source:
        first = source.read(0, 61).tobytes()
        if far.scheme == "tree":
            with (directory / "orders-0/0.log").open("r+b") as file:
                file.write(b"other")
        else:
            memory = fsspec.filesystem("memory")
            memory.store["/far/orders-0/0.log"].getbuffer()[:5] = b"other"
        assert source.read(0, 61).tobytes() == first
        source.discard_read_ahead()
        assert source.read(0, 61).tobytes() == b"other" + first[5:]


@pytest.mark.parametrize(
    ("attributes", "version"),
    [
        ({"ETag": '"a1"', "LastModified": 5}, Version('"a1"', False)),
        ({"generation": 17, "mtime": 5}, Version("17", False)),
        ({"mtime": 1.5, "created": 1}, Version("1.5", True)),
        ({"last_modified": "today", "ETag": None}, Version("today", True)),
        ({"mode": 33188}, None),
    ],
)
def test_a_version_comes_from_the_attributes_of_fsspec(
    directory, monkeypatch, attributes, version
):
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    far = in_memory(directory, "far")
    bare = {"name": "/far/checkpoint", "size": 4, "type": "file"}
    monkeypatch.setattr(type(memory), "info", lambda *_: bare | attributes)
    with open_source(far / "checkpoint") as source:
        assert source.version == version


def test_a_version_of_pyarrow_is_a_time_if_there_is_no_tag(directory, monkeypatch):
    far = through_arrow(directory, monkeypatch)
    os.utime(directory / "checkpoint", ns=(0, 1_700_000_000_123_456_789))
    with open_source(far / "checkpoint") as source:
        assert source.version == Version("1700000000123456789", True)
        assert source.size == 4
    with open_source(directory / "checkpoint") as local:
        assert local.version is None


# ------------------------------------------------------------------------------ S3


@pytest.fixture(scope="module")
def server():
    with s3_server() as options:
        yield options


def test_ranges_are_read_from_s3_over_the_network(server, directory, monkeypatch):
    fill(server, "ranges", directory)
    path = as_path("s3a://ranges/orders-0/0.log", server)
    with counted(monkeypatch, stores._ArrowFile) as ranges, path.open() as source:
        assert source.size == 1 << 20
        assert source.read(600_000, 3).tolist() == [192, 193, 194]
        assert source.version == Version(source.version.text, False)
    assert ranges == [(600_000, READ_AHEAD_BYTES)]
    found = {entry.name: entry.is_dir() for entry in entries(path.parent.parent)}
    assert found == {"orders-0": True, "checkpoint": False}


def test_an_object_replaced_by_a_shorter_one_ends_there(server, directory):
    fill(server, "shorter", directory)
    path = as_path("s3://shorter/orders-0/0.log", server)
    with path.open() as source, path.open() as other:
        (directory / "orders-0" / "0.log").write_bytes(bytes(1000))
        fill(server, "shorter", directory)
        assert source.read(900, 5000).tolist() == [0] * 100
        assert source.size == 1000
        assert len(other.read(5000, 61)) == 0
        assert other.size == 5000
        assert len(other.read(0, 6000)) == 1000


@pytest.mark.parametrize("fewer", [1, 2, 15, 16, 17])
def test_an_object_that_is_a_few_bytes_shorter_ends_there(server, directory, fewer):
    fill(server, f"fewer-{fewer}", directory)
    path = as_path(f"s3://fewer-{fewer}/orders-0/0.log", server)
    local = directory / "orders-0" / "0.log"
    with path.open() as source:
        size = source.size
        local.write_bytes(local.read_bytes()[:-fewer])
        fill(server, f"fewer-{fewer}", directory)
        assert source.read(0, size).tobytes() == local.read_bytes()
        assert source.size == size - fewer


def test_a_last_byte_equal_to_the_mark_is_read(server, directory, monkeypatch):
    fill(server, "alike", directory)
    monkeypatch.setattr(stores.os, "urandom", lambda count: b"\xff" * count)
    path = as_path("s3://alike/orders-0/0.log", server)
    with path.open() as source:
        assert source.read(0, 1 << 20).tolist()[-2:] == [254, 255]
        assert source.size == 1 << 20


def test_an_error_of_s3_shows_no_credentials(server):
    path = as_path("s3://no-such-bucket/logs", server)
    with pytest.raises(OSError, match="s3://no-such-bucket/logs") as caught:
        path.entries()
    text = "".join(traceback.format_exception(caught.value))
    for secret in server.values():
        assert str(secret) not in text.replace("s3://", "")


def test_an_unreachable_server_is_an_error_with_the_url(directory):
    with s3_server() as options:
        gone = dict(options)
    gone["secret_key"] = SECRET
    path = as_path("s3://bucket/logs", gone)
    with pytest.raises(OSError, match="s3://bucket/logs") as caught:
        path.exists()
    assert KEY not in str(caught.value)

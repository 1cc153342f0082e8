"""Remote file systems for tests: memory, a local directory, an S3 server."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from pathlib import Path

import fsspec
import pyarrow.fs
from moto.server import ThreadedMotoServer

from kafkalog.storage import stores
from kafkalog.storage.remote_source import as_path

NUMBERS = count()
KEY, SECRET = "AKIAWHOEVER", "wJalr/XUtn+FEMI secret"


def in_memory(directory, name):
    """Copy a directory into fsspec's memory; return its path there."""
    memory = fsspec.filesystem("memory")
    for path in Path(directory).rglob("*"):
        below = path.relative_to(directory).as_posix()
        if path.is_dir():
            memory.makedirs(f"/{name}/{below}", exist_ok=True)
        else:
            memory.pipe_file(f"/{name}/{below}", path.read_bytes())
    return as_path(f"memory://{name}", {})


def through_arrow(directory, monkeypatch):
    """Return a path in pyarrow's file system of a local directory."""
    tree = pyarrow.fs.SubTreeFileSystem(str(directory), pyarrow.fs.LocalFileSystem())
    store = stores.ArrowStore(tree, "")
    monkeypatch.setitem(stores.CONNECT, "tree", lambda *_: store)
    return as_path(f"tree://number-{next(NUMBERS)}/", {})


@contextmanager
def s3_server():
    """Serve S3 on loopback; yield the options of its file system."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "access_key": KEY,
            "secret_key": SECRET,
            "endpoint_override": f"{host}:{port}",
            "scheme": "http",
            "region": "us-east-1",
        }
    finally:
        server.stop()


def fill(options, bucket, directory):
    """Copy a directory into a new bucket."""
    system = pyarrow.fs.S3FileSystem(**options, allow_bucket_creation=True)
    system.create_dir(bucket)
    pyarrow.fs.copy_files(str(directory), bucket, destination_filesystem=system)


@contextmanager
def counted(monkeypatch, kind):
    """Record the ranges that are read, as (position, bytes)."""
    ranges, read_at = [], kind.read_at

    def noted(self, position, length):
        data = read_at(self, position, length)
        ranges.append((position, len(data)))
        return data

    with monkeypatch.context() as patch:
        patch.setattr(kind, "read_at", noted)
        yield ranges

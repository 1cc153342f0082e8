"""Where a file lies: in a local directory or behind a URL; and how either is read.

What reads logs asks here for listings and sources, and cannot tell the two apart. Of a
local directory nothing is asked but what `os.scandir` and `os.open` would be.

Knows: which of the two a path is. Does not know: what lies there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from kafkalog.errors import LogArgumentError
from kafkalog.storage.byte_source import FileSource, check_small, read_plain
from kafkalog.storage.remote_source import RemotePath, RemoteSource, as_path, is_url

Location: TypeAlias = Path | RemotePath
AnyPath: TypeAlias = str | os.PathLike[str] | RemotePath
OpenedSource: TypeAlias = FileSource | RemoteSource


class Entry(Protocol):
    """One of what lies in a directory; an `os.DirEntry` is one."""

    @property
    def name(self) -> str:
        """Its name in the directory."""

    @property
    def path(self) -> Any:
        """Where it lies: text, or a `RemotePath`."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""


def locate(path: AnyPath) -> Location:
    """Take a path for what it is; text may be a URL.

    >>> locate("logs/orders-0"), locate("hdfs://namenode:8020/logs")
    (PosixPath('logs/orders-0'), RemotePath('hdfs://namenode:8020/logs'))
    """
    if isinstance(path, (Path, RemotePath)):
        return path
    return as_path(path, {}) if isinstance(path, str) and is_url(path) else Path(path)


def local_path(path: AnyPath) -> Path:
    """Take a path for a local one; text may be a ``file:`` URL.

    Raises `LogArgumentError` for any other URL, of which only the scheme is named: the
    rest may hold a secret.
    """
    text = str(path) if isinstance(path, (str, RemotePath)) else ""
    scheme = text.partition(":")[0]
    if is_url(text) and scheme.lower() != "file":
        raise LogArgumentError(f"expected a local path to write to, got {scheme}:")
    return Path(locate(path))  # type: ignore[arg-type]  # no RemotePath any more


def entries(directory: Location) -> Sequence[Entry]:
    """List what lies directly in a directory, in no order."""
    if isinstance(directory, RemotePath):
        return directory.entries()
    with os.scandir(directory) as listing:
        return list(listing)


def read_small(path: Location, *, links: bool = False) -> bytes:
    """Read a small file whole; `FileNotFoundError` for what is none.

    So for a link, unless `links` are followed. Raises `OSError` for one that is large.
    """
    if isinstance(path, RemotePath):
        with path.open() as source:
            check_small(source.size, str(path))
            return source.read(0, source.size).tobytes()
    return read_plain(path, links=links)


def open_source(path: Location, *, links: bool = True) -> OpenedSource:
    """Open a file for reading, by position; links are followed where asked for."""
    return (
        path.open() if isinstance(path, RemotePath) else FileSource(path, links=links)
    )

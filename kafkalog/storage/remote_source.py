"""Remote paths (``s3://bucket/logs``), and reads of the files there.

A `RemotePath` has the members of `pathlib.Path` that reading needs. It holds no
connection: the process that first reads through it connects, so that paths can be sent
to other processes. It holds the options, credentials among them, and never shows them.

The libraries of file systems are called in `kafkalog.storage.stores`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Self, TypeVar
from urllib.parse import unquote

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.errors import ConfigError
from kafkalog.storage.buffers import Take
from kafkalog.storage.store_options import (
    OPTIONS,
    Hidden,
    Options,
    read_options,
    redacted_error,
)
from kafkalog.storage.stores import OpenFile, Store, connect, scheme_of, store_of

if TYPE_CHECKING:
    from socket import socket

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?:/([^/]*))?(.*)", re.DOTALL)
HOST: Final = re.compile(r"[\w.-]*(:\d+)?", re.ASCII)
BUCKET: Final = re.compile(r"[\w.-]+", re.ASCII)
BUCKETS: Final = frozenset({"s3", "gs", "gcs"})
CONTAINERS: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Schemes with a container, not a user, before ``@``."""

LOCAL: Final = frozenset({"local", "file"})
"""The names of pyarrow and fsspec for the local file system."""

SAME: Final = {"s3a": "s3", "s3n": "s3"}
USERS: Final = {"s3": ("access_key", "secret_key"), "hdfs": ("user", "")}
"""The options that the user and password of a URL set."""

MAX_READ_AHEAD_BYTES: Final = 4 << 20
READ_AHEAD_BYTES: Final = 256 << 10
"""Smallest request, except at the end of a file."""

Result = TypeVar("Result")


def is_url(text: str) -> bool:
    """Return whether text is a URL, and not a local path.

    >>> is_url("s3://bucket/logs"), is_url("file:/logs"), is_url("/logs/a:b")
    (True, True, False)
    """
    return URL.fullmatch(text) is not None


def as_path(text: str, options: Mapping[str, str]) -> Path | RemotePath:
    """Return the path that a URL or a local path names.

    Parameters
    ----------
    text : str
        A URL, or a local path. A user and password in the URL become options.
    options : mapping of str to str
        Options of the file system: for ``s3:`` ``access_key``, ``secret_key``,
        ``region``, ``endpoint_override`` and so on, as pyarrow names them; for schemes
        that pyarrow does not have, those of fsspec.

    Returns
    -------
    pathlib.Path or RemotePath
        A `pathlib.Path` for a ``file:`` URL and a local path.

    Raises
    ------
    ConfigError
        If the URL or an option is invalid. The error does not show an option's value.

    Examples
    --------
    >>> as_path("file:///var/kafka%20logs", {})
    PosixPath('/var/kafka logs')
    >>> logs = as_path("s3a://AKIA7:secret@bucket/logs/", {"region": "eu-west-1"})
    >>> logs / "orders-0"
    RemotePath('s3://bucket/logs/orders-0')
    """
    match = URL.fullmatch(text)
    if match is None:
        return Path(text)
    scheme, authority, below = match[1].lower(), match[2] or "", match[3]
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise ConfigError(f"file: URL of host {authority!r}, expected this host")
        return Path(unquote("/" + below.lstrip("/")))
    scheme = SAME.get(scheme, scheme)
    if "?" in below or "#" in below:
        raise ConfigError(f"{scheme}: URL with options, expected them as options")
    all_options = dict(options)
    if scheme not in CONTAINERS:
        authority = _take_user(scheme, authority, all_options)
    form = BUCKET if scheme in BUCKETS else HOST
    if form.fullmatch(authority.rpartition("@")[2]) is None:
        # Not shown, as it may be a part of credentials that were not quoted.
        raise ConfigError(f"expected a host or bucket after {scheme}://")
    if scheme in OPTIONS:
        read_options(scheme, all_options)
    below = "/".join(part for part in below.split("/") if part)
    return RemotePath(scheme, authority, below).with_options(all_options)


def on_filesystem(text: str, filesystem: object) -> Path | RemotePath:
    """Return the path in a file system object.

    Parameters
    ----------
    text : str
        A path as the file system spells it, such as ``bucket/logs`` in S3.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem
        The file system.

    Returns
    -------
    pathlib.Path or RemotePath
        A `pathlib.Path` in a local file system.

    Raises
    ------
    ConfigError
        If `text` is a URL.
    TypeError
        If `filesystem` is neither pyarrow's nor fsspec's.

    Examples
    --------
    >>> import fsspec
    >>> on_filesystem("/copies/orders-0", fsspec.filesystem("memory"))
    RemotePath('memory:///copies/orders-0')
    """
    store_of(filesystem, "")
    if is_url(text):
        scheme = text.partition(":")[0]
        raise ConfigError(f"{scheme}: URL, expected a path in the given file system")
    scheme = scheme_of(filesystem)
    if scheme in LOCAL:
        return Path(text)
    root, _, below = text.partition("/")
    below = "/".join(part for part in below.split("/") if part)
    return RemotePath(scheme, root, below, filesystem=filesystem)


def _take_user(scheme: str, authority: str, options: dict[str, str]) -> str:
    """Move user and password from the authority into `options`."""
    credentials, _, host = authority.rpartition("@")
    names = USERS.get(scheme, ("username", "password"))
    for name, text in zip(names, credentials.split(":", 1), strict=False):
        if text:
            options.setdefault(name, unquote(text))
    return host


@dataclass(frozen=True, slots=True, order=True, repr=False)
class RemotePath:
    """A remote path, made by `as_path`. ``str`` returns the URL, without options.

    Paths of several file system objects of one kind are not distinguished.

    Its methods raise `FileNotFoundError`, as those of a `pathlib.Path`, and `OSError`
    for other errors of the file system, without the values of options.
    """

    scheme: str
    authority: str
    below: str
    """The part after the authority: names joined by ``/``, none of them empty."""

    options: Options = field(default=())
    filesystem: object = field(default=None, compare=False)
    """The file system object to read with, if the caller passed one."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}/{self.below}".rstrip("/")

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __truediv__(self, name: str) -> RemotePath:
        return replace(self, below=f"{self.below}/{name}".strip("/"))

    @property
    def name(self) -> str:
        """The last name; empty for a root."""
        return self.below.rpartition("/")[2]

    @property
    def parent(self) -> RemotePath:
        """The directory of the path; that of a root is the root."""
        return replace(self, below=self.below.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Return the path of another name in the same directory."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> RemotePath:
        """Return the path with another suffix, as `Path` does."""
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def with_options(self, options: Mapping[str, str]) -> RemotePath:
        """Return the path with these options instead of its own."""
        hidden = tuple((name, Hidden(options[name])) for name in sorted(options))
        return replace(self, options=hidden)

    def absolute(self) -> RemotePath:
        """Return the path itself."""
        return self

    def resolve(self) -> RemotePath:
        """Return the path itself."""
        return self

    def exists(self) -> bool:
        """Return whether there is a file or directory."""
        return self.request(lambda store: store.find(self.below)) is not None

    def is_dir(self) -> bool:
        """Return whether there is a directory."""
        entry = self.request(lambda store: store.find(self.below))
        return entry is not None and entry.is_directory

    def is_file(self) -> bool:
        """Return whether there is a file."""
        entry = self.request(lambda store: store.find(self.below))
        return entry is not None and not entry.is_directory

    def stat(self) -> os.stat_result:
        """Return type and size; the other members are 0."""
        entry = self.request(lambda store: store.find(self.below))
        if entry is None:
            raise FileNotFoundError(2, os.strerror(2), str(self))
        return _status(entry.size, is_directory=entry.is_directory)

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield the paths in a directory."""
        return (entry.path for entry in self.entries())

    def entries(self) -> list[RemoteEntry]:
        """List the entries of a directory."""
        listed = self.request(lambda store: store.list(self.below))
        return [
            RemoteEntry(self / entry.name, entry.is_directory, entry.size)
            for entry in listed
        ]

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        with self.open() as source:
            return source.read(0, source.size).tobytes()

    def open(self) -> RemoteSource:
        """Open the file for reading."""
        return RemoteSource(self)

    def request(self, send: Callable[[Store], Result]) -> Result:
        """Send a request to the file system; errors do not show options."""
        if self.filesystem is None:
            store = connect(self.scheme, self.authority, self.options)
        else:
            store = store_of(self.filesystem, self.authority)
        try:
            return send(store)
        except Exception as error:
            failure = redacted_error(error, str(self), self.scheme, self.options)
        # Outside of `except`, so that the library's error does not become its context.
        raise failure


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """An entry of a directory, like `os.DirEntry`. There are no links."""

    path: RemotePath
    is_directory: bool
    size: int

    @property
    def name(self) -> str:
        """The name in the directory."""
        return self.path.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a directory."""
        del follow_symlinks
        return self.is_directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a file."""
        del follow_symlinks
        return not self.is_directory

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return type and size; the other members are 0."""
        del follow_symlinks
        return _status(self.size, is_directory=self.is_directory)


def _status(size: int, *, is_directory: bool) -> os.stat_result:
    kind = stat.S_IFDIR if is_directory else stat.S_IFREG
    times = dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), 0)
    return os.stat_result((kind, 0, 0, 0, 0, 0, size, 0, 0, 0), times)


def check_sent(sent: int, length: int, path: str) -> None:
    """Raise `OSError` if fewer bytes were sent than were to be sent."""
    if sent < length:
        reason = f"{sent} of {length} bytes sent, as the file was truncated"
        raise OSError(errno.EIO, reason, path)


class RemoteSource:
    """A remote file, read in ranges; small reads read ahead.

    The size is the size at opening, or less if the file turns out to be shorter.
    """

    def __init__(self, path: RemotePath) -> None:
        self.path: RemotePath | None = path
        self._path = path
        self._file: OpenFile = path.request(lambda store: store.open(path.below))
        self.size = self._file.size
        self.version = self._file.version
        self._requested: int
        self.discard_read_ahead()

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Return up to `length` bytes from `position` on, in a buffer from `take`."""
        length = max(0, min(length, self.size - position))
        buffer = np.empty(length, np.uint8) if take is None else take(length)
        begin = position - self._ahead_at
        held = self._ahead[begin:] if begin >= 0 else self._ahead[:0]
        if len(held) < length:
            self._fetch(position, length, held)
            held = self._ahead
        done = min(len(held), length)
        buffer[:done] = held[:done]
        return buffer[:done]

    def _fetch(self, position: int, length: int, held: Bytes) -> None:
        """Request the bytes after those held, and hold both.

        A request is for `READ_AHEAD_BYTES` at least. Sequential large requests double
        in size up to `MAX_READ_AHEAD_BYTES`, because a request to a store has a high
        latency. There are fewer bytes at the end of the file.
        """
        begin, end = position + len(held), position + length
        ahead = READ_AHEAD_BYTES
        if len(held) and self._requested > ahead:
            ahead = min(2 * self._requested, MAX_READ_AHEAD_BYTES)
        end = min(max(end, begin + ahead), self.size)
        try:
            data = self._read_range(begin, end - begin)
        except OSError:
            size = self._path.stat().st_size
            if end <= size:
                raise
            data = self._read_range(begin, size - begin)  # truncated since
        if begin + len(data) < end:
            self.size = begin + len(data)
        self._requested = end - begin
        self._ahead = np.concatenate((held, data)) if len(held) else data
        self._ahead_at = position

    def _read_range(self, position: int, length: int) -> Bytes:
        if length <= 0:
            return np.empty(0, np.uint8)
        return self._path.request(lambda _: self._file.read_at(position, length))

    def read_headers(self, position: int, length: int, take: Take | None) -> None:
        """Return None: one request for all bytes is faster than one for each header."""
        del position, length, take

    def send_to(self, socket: socket, position: int, length: int) -> int:
        """Send `length` bytes from `position` on to a socket; return `length`.

        Raises `OSError` if the socket fails, or the file was truncated meanwhile.
        """
        data = self.read(position, length)
        socket.sendall(data.data)
        check_sent(len(data), length, str(self.path))
        return length

    def discard_read_ahead(self) -> None:
        """Discard the bytes that were read ahead: they may have changed since."""
        self._ahead, self._ahead_at = np.empty(0, np.uint8), 0
        self._requested = 0

    def close(self) -> None:
        """Discard the bytes that were read ahead; there is no connection to close."""
        self.discard_read_ahead()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Paths behind a URL (``s3://bucket/logs``), for reading, with the manners of a `Path`.

A `RemotePath` has those members of `pathlib.Path` that reading needs. It holds no
connection: one is made by the process that asks for something, so that paths can be
sent to other processes. It holds the options, credentials among them, and shows them to
nobody.

Knows: URLs, ranges of bytes. Does not know: how a file system is reached.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, Self, TypeVar
from urllib.parse import unquote

import numpy as np

from kafkalog.errors import ConfigError
from kafkalog.storage.byte_source import Bytes, Take
from kafkalog.storage.store_options import (
    OPTIONS,
    Hidden,
    Options,
    read_options,
    without_options,
)
from kafkalog.storage.stores import OpenFile, Store, connect

URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?:/([^/]*))?(.*)", re.DOTALL)
HOST: Final = re.compile(r"[\w.-]*(:\d+)?", re.ASCII)
BUCKET: Final = re.compile(r"[\w.-]+", re.ASCII)
BUCKETS: Final = frozenset({"s3", "gs", "gcs"})
CONTAINERS: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Schemes where what stands before ``@`` is a place, and no user."""

SAME: Final = {"s3a": "s3", "s3n": "s3"}
USERS: Final = {"s3": ("access_key", "secret_key"), "hdfs": ("user", "")}
"""How the options are called that a URL's user and password stand for."""

READ_ON_BYTES: Final = 4 << 20
READ_AHEAD_BYTES: Final = 256 << 10
"""A request asks for no less, where there is as much."""

Answer = TypeVar("Answer")


def is_url(text: str) -> bool:
    """Whether text is a URL, and not a local path.

    >>> is_url("s3://bucket/logs"), is_url("file:/logs"), is_url("/logs/a:b")
    (True, True, False)
    """
    return URL.fullmatch(text) is not None


def as_path(text: str, options: Mapping[str, str]) -> Path | RemotePath:
    """Make a path of a URL; of a ``file:`` URL, and of what is no URL, a local one.

    `options` are those of the file system: ``access_key``, ``secret_key``, ``region``,
    ``endpoint_override``, ... for ``s3:``, as pyarrow calls them, and for schemes that
    it does not know those of fsspec. A user and password in the URL become options.

    Raises
    ------
    ConfigError
        If the URL is none, or an option is wrong; without its value.

    Examples
    --------
    >>> as_path("file:///var/kafka%20logs", {})
    PosixPath('/var/kafka logs')
    >>> logs = as_path("s3a://AKIA7:secret@bucket/logs/", {"region": "eu-west-1"})
    >>> logs / "orders-0"
    RemotePath('s3://bucket/logs/orders-0')
    """
    found = URL.fullmatch(text)
    if found is None:
        return Path(text)
    scheme, authority, below = found[1].lower(), found[2] or "", found[3]
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise ConfigError(f"a file: URL is of this host, not of {authority!r}")
        return Path(unquote("/" + below.lstrip("/")))
    scheme = SAME.get(scheme, scheme)
    if "?" in below or "#" in below:
        raise ConfigError(f"options of {scheme}: do not belong into the URL")
    given = dict(options)
    if scheme not in CONTAINERS:
        authority = _take_user(scheme, authority, given)
    form = BUCKET if scheme in BUCKETS else HOST
    if form.fullmatch(authority.rpartition("@")[2]) is None:
        # It is not shown: it may be a part of credentials that were not quoted.
        raise ConfigError(f"what follows {scheme}:// is no name of a host or bucket")
    if scheme in OPTIONS:
        read_options(scheme, given)
    below = "/".join(part for part in below.split("/") if part)
    return RemotePath(scheme, authority, below).with_options(given)


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
    """A path behind a URL; made by `as_path`. ``str`` gives the URL, without options.

    Raises as a local path would, `FileNotFoundError` with the URL, and for what else
    its file system complains of, `OSError`, without the values of options.
    """

    scheme: str
    authority: str
    below: str
    """What follows the authority: names with ``/`` between, none empty."""

    options: Options = field(default=())

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
        """The directory it lies in; a root lies in itself."""
        return replace(self, below=self.below.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Give the path of another name in the same directory."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> RemotePath:
        """Give the path with another suffix, as `Path` does."""
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def with_options(self, options: Mapping[str, str]) -> RemotePath:
        """Give the path in a file system with these options instead of its own."""
        hidden = tuple((name, Hidden(options[name])) for name in sorted(options))
        return replace(self, options=hidden)

    def absolute(self) -> RemotePath:
        """Give itself."""
        return self

    def resolve(self) -> RemotePath:
        """Give itself."""
        return self

    def exists(self) -> bool:
        """Whether something lies there."""
        return self.ask(lambda store: store.find(self.below)) is not None

    def is_dir(self) -> bool:
        """Whether a directory lies there."""
        found = self.ask(lambda store: store.find(self.below))
        return found is not None and found.is_directory

    def is_file(self) -> bool:
        """Whether a file lies there."""
        found = self.ask(lambda store: store.find(self.below))
        return found is not None and not found.is_directory

    def stat(self) -> os.stat_result:
        """Tell kind and size; all else in it is 0."""
        found = self.ask(lambda store: store.find(self.below))
        if found is None:
            raise FileNotFoundError(2, os.strerror(2), str(self))
        kind = stat.S_IFDIR if found.is_directory else stat.S_IFREG
        times = dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), 0)
        return os.stat_result((kind, 0, 0, 0, 0, 0, found.size, 0, 0, 0), times)

    def iterdir(self) -> Iterator[RemotePath]:
        """List what lies directly in a directory."""
        return (entry.path for entry in self.entries())

    def entries(self) -> list[RemoteEntry]:
        """List what lies directly in a directory, and of what kind it is."""
        listed = self.ask(lambda store: store.list(self.below))
        return [RemoteEntry(self / one.name, one.is_directory) for one in listed]

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        with self.open() as source:
            return source.read(0, source.size).tobytes()

    def open(self) -> RemoteSource:
        """Open the file for reading."""
        return RemoteSource(self)

    def ask(self, question: Callable[[Store], Answer]) -> Answer:
        """Ask the file system; what it raises comes without the values of options."""
        store = connect(self.scheme, self.authority, self.options)
        try:
            return question(store)
        except Exception as error:
            failure = without_options(error, str(self), self.scheme, self.options)
        # Not inside of `except`: the library's error would come along as its context.
        raise failure


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """One of what lies in a directory; like `os.DirEntry`. There are no links."""

    path: RemotePath
    is_directory: bool

    @property
    def name(self) -> str:
        """Its name in the directory."""
        return self.path.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        del follow_symlinks
        return self.is_directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        del follow_symlinks
        return not self.is_directory


class RemoteSource:
    """A file behind a URL, read in ranges; a small one brings some of what follows.

    The size is that at opening, or less where the file turned out to be shorter since.
    """

    def __init__(self, path: RemotePath) -> None:
        self.path: RemotePath | None = path
        self._path = path
        self._file: OpenFile = path.ask(lambda store: store.open(path.below))
        self.size = self._file.size
        self.version = self._file.version
        self._asked: int
        self.read_anew()

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Read up to `length` bytes from `position` on, into room that `take` gives."""
        length = max(0, min(length, self.size - position))
        room = np.empty(length, np.uint8) if take is None else take(length)
        begin = position - self._ahead_at
        held = self._ahead[begin:] if begin >= 0 else self._ahead[:0]
        if len(held) < length:
            self._fetch(position, length, held)
            held = self._ahead
        done = min(len(held), length)
        room[:done] = held[:done]
        return room[:done]

    def _fetch(self, position: int, length: int, held: Bytes) -> None:
        """Ask for what follows the bytes held, and hold both.

        That is `READ_AHEAD_BYTES` or more, and where large requests go on from one
        another, each is twice the last one, up to `READ_ON_BYTES`: the way to a store
        is long. Fewer come where the file ends.
        """
        begin, end = position + len(held), position + length
        ahead = READ_AHEAD_BYTES
        if len(held) and self._asked > ahead:
            ahead = min(2 * self._asked, READ_ON_BYTES)
        end = min(max(end, begin + ahead), self.size)
        try:
            data = self._ask_for(begin, end - begin)
        except OSError:
            size = self._path.stat().st_size
            if end <= size:
                raise
            data = self._ask_for(begin, size - begin)  # cut since it was opened
        if begin + len(data) < end:
            self.size = begin + len(data)
        self._asked = end - begin
        self._ahead = np.concatenate((held, data)) if len(held) else data
        self._ahead_at = position

    def _ask_for(self, position: int, length: int) -> Bytes:
        if length <= 0:
            return np.empty(0, np.uint8)
        return self._path.ask(lambda _: self._file.read_at(position, length))

    def read_headers(self, position: int, length: int, take: Take | None) -> None:
        """Read nothing: to ask for each header takes longer than to ask for all."""
        del position, length, take

    def read_anew(self) -> None:
        """Let go of what was read ahead: it may have changed since."""
        self._ahead, self._ahead_at = np.empty(0, np.uint8), 0
        self._asked = 0

    def close(self) -> None:
        """Let go of what was read ahead; no connection is held for one file."""
        self.read_anew()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Remote file systems, through pyarrow or fsspec: find, list, and read ranges.

pyarrow has ``s3``, ``gs`` and ``hdfs``; fsspec has other schemes. A library is imported
at the first request to one of its schemes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.errors import ConfigError, MissingDependencyError
from kafkalog.storage.store_options import (
    Options,
    read_options,
    redacted_error,
    redacted_message,
)

ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Environment variables that configure S3 without options.

pyarrow reads the endpoint only from a URL, so it is passed as an option.
"""

TAGS: Final = ("etag", "generation", "versionid", "version_id", "content-md5", "digest")
TIMES: Final = (
    "mtime",
    "modified",
    "lastmodified",
    "last_modified",
    "last-modified",
    "modificationtime",
    "modify",
    "created",
)
"""The names of file attributes that change with the content, in lower case."""


class Version(NamedTuple):
    """The file system's name for the content of a file; a replaced file has another.

    If `is_time`, it is only the modification time, which also changes when the file is
    appended to.
    """

    text: str
    is_time: bool


class StoreEntry(NamedTuple):
    """A file or directory; `size` in bytes, 0 for a directory."""

    name: str
    is_directory: bool
    size: int


class OpenFile(Protocol):
    """A file that is read by position; `version` is None if the store has none."""

    size: int
    version: Version | None

    def read_at(self, position: int, length: int) -> Bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""


class Store(Protocol):
    """A file system; each `below` is a path relative to the root in its URL."""

    def find(self, below: str) -> StoreEntry | None:
        """Return the entry at a path, or None."""

    def list(self, below: str) -> list[StoreEntry]:
        """List a directory. Raises `FileNotFoundError` if there is none."""

    def open(self, below: str) -> OpenFile:
        """Open a file. Raises `FileNotFoundError` if there is none."""


@cache
def _connected(process: int, scheme: str, authority: str, options: Options) -> Store:
    del process  # part of the key: connections do not survive a fork
    connect = CONNECT.get(scheme, _through_fsspec)
    try:
        return connect(scheme, authority, read_options(scheme, dict(options)))
    except (ConfigError, MissingDependencyError) as error:
        failure: Exception = error.with_traceback(None)  # frames refer to the options
    except (TypeError, ValueError, FileNotFoundError) as error:
        failure = ConfigError(f"{scheme}: {redacted_message(error, scheme, options)}")
    except Exception as error:
        failure = redacted_error(error, f"{scheme}://{authority}", scheme, options)
    # Outside of `except`, so that the library's error is not attached as its context.
    raise failure


def connect(scheme: str, authority: str, options: Options) -> Store:
    """Return the file system of a URL's scheme and authority, one per process.

    Raises `ConfigError` for an unknown scheme or option, and `MissingDependencyError`
    for one whose package is not installed.
    """
    return _connected(os.getpid(), scheme, authority, options)


def store_of(filesystem: Any, root: str) -> Store:
    """Return a store in a file system object, below one of its directories.

    Raises `TypeError` for an object that is neither pyarrow's nor fsspec's.
    """
    if hasattr(filesystem, "get_file_info"):
        return ArrowStore(filesystem, root)
    if hasattr(filesystem, "cat_file"):
        return FsspecStore(filesystem, root)
    raise TypeError(
        f"filesystem of type {type(filesystem).__name__}, expected a "
        "pyarrow.fs.FileSystem or a file system of fsspec"
    )


def scheme_of(filesystem: Any) -> str:
    """Return the name of the kind of a file system object, as a URL begins with."""
    if hasattr(filesystem, "type_name"):
        return str(filesystem.type_name).rpartition("+")[2]
    protocol = filesystem.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


class ArrowStore:
    """A ``pyarrow.fs.FileSystem``, relative to one of its directories or buckets."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root
        self._select = import_module("pyarrow.fs").FileSelector
        self._types = import_module("pyarrow.fs").FileType

    def _place(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root or "/"

    def _found(self, info: Any) -> StoreEntry:
        is_directory = info.type == self._types.Directory
        return StoreEntry(info.base_name, is_directory, info.size or 0)

    def find(self, below: str) -> StoreEntry | None:
        """Return the entry at a path, or None."""
        info = self._filesystem.get_file_info(self._place(below))
        return None if info.type == self._types.NotFound else self._found(info)

    def list(self, below: str) -> list[StoreEntry]:
        """List the entries of a directory."""
        selected = self._select(self._place(below))
        return [self._found(info) for info in self._filesystem.get_file_info(selected)]

    def open(self, below: str) -> OpenFile:
        """Open a file, with one request for its size and version."""
        return _ArrowFile(self._filesystem, self._place(below))


class _ArrowFile:
    def __init__(self, filesystem: Any, place: str) -> None:
        self._filesystem, self._place = filesystem, place
        self._file = filesystem.open_input_file(place)
        self.version = _version(self._file.metadata())
        if self.version is None:  # not an object store: one request has both
            info = filesystem.get_file_info(place)
            self.version = _version({"mtime": info.mtime_ns})
            self.size = int(info.size or 0)
        else:
            self.size = int(self._file.size())

    def read_at(self, position: int, length: int) -> Bytes:
        """Read up to `length` bytes.

        If the object was replaced by a shorter one, pyarrow reports a complete read and
        leaves the end of the buffer unchanged. So the last byte is set to a random
        value before; if it is unchanged after, the size is requested.
        """
        buffer = np.empty(length, np.uint8)
        [mark] = os.urandom(1)
        buffer[-1:] = mark
        self._file.seek(position)
        end = position + int(self._file.readinto(buffer))
        if (buffer[-1:] == mark).all():
            end = min(end, self._filesystem.get_file_info(self._place).size or 0)
        return buffer[: max(0, end - position)]


class FsspecStore:
    """A file system of fsspec, relative to the root in its URL."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def _place(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root

    def find(self, below: str) -> StoreEntry | None:
        """Return the entry at a path, or None; cached listings are not used."""
        self._filesystem.invalidate_cache()
        try:
            return _found(self._filesystem.info(self._place(below)))
        except FileNotFoundError:
            return None

    def list(self, below: str) -> list[StoreEntry]:
        """List the entries of a directory."""
        self._filesystem.invalidate_cache()
        listed = self._filesystem.ls(self._place(below), detail=True)
        itself = self._place(below).strip("/")
        return [_found(info) for info in listed if info["name"].strip("/") != itself]

    def open(self, below: str) -> OpenFile:
        """Open a file, with one request for its size and version."""
        self._filesystem.invalidate_cache()
        place = self._place(below)
        return _FsspecFile(self._filesystem, place, self._filesystem.info(place))


class _FsspecFile:
    def __init__(self, filesystem: Any, place: str, info: Mapping[str, Any]) -> None:
        if info["type"] == "directory":
            raise IsADirectoryError(21, os.strerror(21), place)
        if info.get("size") is None:
            raise OSError("the file system does not report the size of the file")
        self._filesystem, self._place = filesystem, place
        self.size = int(info["size"])
        self.version = _version(info)

    def read_at(self, position: int, length: int) -> Bytes:
        """Read up to `length` bytes."""
        end = position + length
        data = self._filesystem.cat_file(self._place, start=position, end=end)
        return np.frombuffer(data, np.uint8)


def _found(info: Mapping[str, Any]) -> StoreEntry:
    name = str(info["name"]).rstrip("/").rpartition("/")[2]
    return StoreEntry(name, info["type"] == "directory", int(info.get("size") or 0))


def _version(attributes: Mapping[str, Any]) -> Version | None:
    """Return the attribute that identifies the content, if there is one."""
    values = {name.lower(): str(value) for name, value in attributes.items() if value}
    for names, is_time in ((TAGS, False), (TIMES, True)):
        for name in names:
            if name in values:
                return Version(values[name], is_time)
    return None


def _arrow() -> Any:
    try:
        return import_module("pyarrow.fs")
    except ModuleNotFoundError:
        raise MissingDependencyError("pyarrow", "remote") from None


def _to_s3(_: str, bucket: str, options: dict[str, Any]) -> Store:
    fs = _arrow()
    endpoint = next(filter(None, map(os.environ.get, ENDPOINTS)), "")
    if endpoint and "endpoint_override" not in options:
        scheme, _, host = endpoint.rpartition("://")
        options = {"scheme": scheme or "https", **options, "endpoint_override": host}
    is_located = {"region", "endpoint_override"}.intersection(options)
    if not is_located and not any(map(os.environ.get, REGIONS)):
        options["region"] = fs.resolve_s3_region(bucket)
    return ArrowStore(fs.S3FileSystem(**options), bucket)


def _to_gcs(_: str, bucket: str, options: dict[str, Any]) -> Store:
    return ArrowStore(_arrow().GcsFileSystem(**options), bucket)


def _to_hdfs(_: str, authority: str, options: dict[str, Any]) -> Store:
    host, _, port = authority.partition(":")
    system = _arrow().HadoopFileSystem(host or "default", int(port or 0), **options)
    return ArrowStore(system, "")


def _through_fsspec(scheme: str, authority: str, options: dict[str, Any]) -> Store:
    try:
        fsspec = import_module("fsspec")
    except ModuleNotFoundError:
        raise MissingDependencyError("fsspec", "remote") from None
    if scheme not in fsspec.available_protocols():
        raise ConfigError(f"scheme {scheme}:, expected one of pyarrow or fsspec")
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        missing = getattr(error.__cause__ or error, "name", None)
        package = missing or fsspec.registry.known_implementations[scheme]["class"]
        raise MissingDependencyError(package.partition(".")[0], None) from None
    url = f"{scheme}://{authority}/"
    filesystem, root = fsspec.url_to_fs(url, **options)
    return FsspecStore(filesystem, root)


Connect = Callable[[str, str, dict[str, Any]], Store]
CONNECT: Final[Mapping[str, Connect]] = {
    "s3": _to_s3,
    "gs": _to_gcs,
    "gcs": _to_gcs,
    "hdfs": _to_hdfs,
}

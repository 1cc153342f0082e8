"""File systems behind a URL, through pyarrow or fsspec: found, listed, read in part.

pyarrow knows ``s3``, ``gs`` and ``hdfs``; whatever else there is, fsspec. Either is
imported when the first path of its schemes is asked for something.

Options hold credentials. No error names their values, and what a library says of its
troubles is given without them.

Knows: two libraries. Does not know: what a path stands for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from kafkalog.errors import ConfigError, MissingDependencyError

Options = tuple[tuple[str, str], ...]
Readers = Mapping[str, Callable[[str], Any]]


class Found(NamedTuple):
    """What lies at a path, or in a directory; `size` in bytes, 0 for a directory."""

    name: str
    is_directory: bool
    size: int


class OpenFile(Protocol):
    """A file, to be read by position."""

    size: int

    def read_at(self, position: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer come where the file ends."""


class Store(Protocol):
    """A file system; each `below` is a path under the root its URL names."""

    def find(self, below: str) -> Found | None:
        """Say what lies at a path; None for nothing."""

    def list(self, below: str) -> list[Found]:
        """List a directory. Raises `FileNotFoundError` where there is none."""

    def open(self, below: str) -> OpenFile:
        """Open a file. Raises `FileNotFoundError` where there is none."""


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=float(text))


S3_OPTIONS: Final[Readers] = {
    "access_key": str,
    "secret_key": str,
    "session_token": str,
    "anonymous": _truth,
    "region": str,
    "scheme": str,
    "endpoint_override": str,
    "force_virtual_addressing": _truth,
    "role_arn": str,
    "session_name": str,
    "external_id": str,
    "load_frequency": int,
    "proxy_options": str,
    "request_timeout": float,
    "connect_timeout": float,
    "tls_ca_file_path": str,
}
GCS_OPTIONS: Final[Readers] = {
    "anonymous": _truth,
    "access_token": str,
    "credential_token_expiration": datetime.fromisoformat,
    "target_service_account": str,
    "scheme": str,
    "endpoint_override": str,
    "project_id": str,
    "retry_time_limit": _seconds,
}
HDFS_OPTIONS: Final[Readers] = {
    "user": str,
    "kerb_ticket": str,
    "buffer_size": int,
    "extra_conf": json.loads,
}
OPTIONS: Final[Mapping[str, Readers]] = {
    "s3": S3_OPTIONS,
    "gs": GCS_OPTIONS,
    "gcs": GCS_OPTIONS,
    "hdfs": HDFS_OPTIONS,
}
"""The options of the schemes that pyarrow knows, as its constructors call them."""

NO_SECRETS: Final = frozenset({_truth, _seconds, int, float, datetime.fromisoformat})
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def read_options(scheme: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Turn text into what the file system of `scheme` takes.

    Raises `ConfigError` that names what is wrong, all at once, without any value.

    >>> read_options("s3", {"region": "eu-west-1", "anonymous": "true"})
    {'region': 'eu-west-1', 'anonymous': True}
    >>> read_options("s3", {"acces_key": "...", "anonymous": "?"})
    Traceback (most recent call last):
        ...
    kafkalog.errors.ConfigError: s3 has no storage option acces_key (it has access_key,
    ...); the storage option anonymous has no such value
    """
    readers = OPTIONS.get(scheme)
    if readers is None:
        return {name: _read_any(text) for name, text in options.items()}
    read, faults = {}, []
    for name, text in options.items():
        if name not in readers:
            known = ", ".join(readers)
            faults.append(f"{scheme} has no storage option {name} (it has {known})")
            continue
        try:
            read[name] = readers[name](text)
        except (ValueError, KeyError):
            faults.append(f"the storage option {name} has no such value")
    if faults:
        raise ConfigError("; ".join(faults))
    return read


def _read_any(text: str) -> Any:
    """Read ``true``, ``false``, JSON objects and lists; all else stays text."""
    if text in ("true", "false") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


@cache
def _connected(process: int, scheme: str, authority: str, options: Options) -> Store:
    del process  # what a parent process holds is of no use behind a fork
    arguments = read_options(scheme, dict(options))
    connect = CONNECT.get(scheme, _through_fsspec)
    try:
        return connect(scheme, authority, arguments)
    except (ConfigError, MissingDependencyError):
        raise
    except (TypeError, ValueError) as error:
        failure: Exception = ConfigError(f"{scheme}: {_told(error, scheme, options)}")
    except Exception as error:
        failure = without_options(error, f"{scheme}://{authority}", scheme, options)
    # Not inside of `except`: what it was raised for would come along as its context.
    raise failure


def connect(scheme: str, authority: str, options: Options) -> Store:
    """Give the file system of a URL's scheme and authority; one is kept a process.

    Raises `ConfigError` for a scheme or an option that nobody knows, and
    `MissingDependencyError` for one whose package is not installed.
    """
    return _connected(os.getpid(), scheme, authority, options)


def without_options(
    error: Exception, url: str, scheme: str, options: Options
) -> OSError:
    """Make of what a library raised an `OSError` that holds no option's value.

    >>> error = OSError("AWS Error ACCESS_DENIED for key AKIA7")
    >>> without_options(error, "s3://b/x", "s3", (("access_key", "AKIA7"),))
    OSError('AWS Error ACCESS_DENIED for key ***: s3://b/x')
    """
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(2, os.strerror(2), url)
    told = _told(error, scheme, options)
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, told, url)
    return OSError(f"{told}: {url}")


def _told(error: Exception, scheme: str, options: Options) -> str:
    """One line of what an error says, the options' values struck out."""
    told = error.strerror if isinstance(error, OSError) else None
    text = told or str(error) or type(error).__name__
    readers = OPTIONS.get(scheme, {})
    hidden = {
        spelled
        for name, value in options
        if readers.get(name, str) not in NO_SECRETS
        for part in _texts(_read_any(value))
        for spelled in (part, quote(part, safe=""), repr(part)[1:-1])
    }
    for spelled in sorted(hidden, key=len, reverse=True):
        text = text.replace(spelled, "***")
    return " ".join(text.split())


def _texts(value: Any) -> list[str]:
    """List the texts in a value, as deep as they lie, and the lines of each."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    if value is None or isinstance(value, bool):
        return []
    return [text for text in (str(value), *str(value).splitlines()) if text.strip()]


class ArrowStore:
    """A ``pyarrow.fs.FileSystem``, below one of its directories or buckets."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root
        self._select = import_module("pyarrow.fs").FileSelector
        self._types = import_module("pyarrow.fs").FileType

    def _place(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root or "/"

    def _found(self, info: Any) -> Found:
        is_directory = info.type == self._types.Directory
        return Found(info.base_name, is_directory, info.size or 0)

    def find(self, below: str) -> Found | None:
        """Ask for one path."""
        info = self._filesystem.get_file_info(self._place(below))
        return None if info.type == self._types.NotFound else self._found(info)

    def list(self, below: str) -> list[Found]:
        """Ask for what lies directly in a directory."""
        selected = self._select(self._place(below))
        return [self._found(info) for info in self._filesystem.get_file_info(selected)]

    def open(self, below: str) -> OpenFile:
        """Open a file: one request, for its size."""
        return _ArrowFile(self._filesystem.open_input_file(self._place(below)))


class _ArrowFile:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = file.size()

    def read_at(self, position: int, length: int) -> bytes:
        """Ask for a range of bytes."""
        read: bytes = self._file.read_at(length, position)
        return read


class FsspecStore:
    """A file system of fsspec's, below what its URL names."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def _place(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root

    def find(self, below: str) -> Found | None:
        """Ask for one path, not for what was listed before: it may have changed."""
        self._filesystem.invalidate_cache()
        try:
            return _found(self._filesystem.info(self._place(below)))
        except FileNotFoundError:
            return None

    def list(self, below: str) -> list[Found]:
        """Ask for what lies directly in a directory."""
        self._filesystem.invalidate_cache()
        listed = self._filesystem.ls(self._place(below), detail=True)
        itself = self._place(below).strip("/")
        return [_found(one) for one in listed if one["name"].strip("/") != itself]

    def open(self, below: str) -> OpenFile:
        """Open a file: one request, for its size."""
        self._filesystem.invalidate_cache()
        place = self._place(below)
        return _FsspecFile(self._filesystem, place, self._filesystem.info(place))


class _FsspecFile:
    def __init__(self, filesystem: Any, place: str, info: Mapping[str, Any]) -> None:
        if info["type"] == "directory":
            raise IsADirectoryError(21, os.strerror(21), place)
        if info.get("size") is None:
            raise OSError("the file's size is not told")
        self._filesystem, self._place = filesystem, place
        self.size = int(info["size"])

    def read_at(self, position: int, length: int) -> bytes:
        """Ask for a range of bytes."""
        end = position + length
        return bytes(self._filesystem.cat_file(self._place, start=position, end=end))


def _found(info: Mapping[str, Any]) -> Found:
    name = str(info["name"]).rstrip("/").rpartition("/")[2]
    return Found(name, info["type"] == "directory", int(info.get("size") or 0))


def _arrow() -> Any:
    try:
        return import_module("pyarrow.fs")
    except ModuleNotFoundError:
        raise MissingDependencyError("pyarrow", "remote") from None


def _to_s3(_: str, bucket: str, options: dict[str, Any]) -> Store:
    fs = _arrow()
    told = {"region", "endpoint_override"}.intersection(options)
    if not told and not any(map(os.environ.get, ENDPOINTS + REGIONS)):
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
        raise ConfigError(f"no such scheme: neither pyarrow nor fsspec knows {scheme}:")
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

"""Paths that are local or remote: list directories, open and read files of either.

Code that reads logs lists and opens files here, and does not distinguish the two. For a
local directory these are `os.scandir` and `os.open`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from kafkalog.errors import ConfigError, LogArgumentError
from kafkalog.storage.byte_source import (
    FileSource,
    check_small,
    open_regular,
    read_regular,
)
from kafkalog.storage.remote_source import (
    RemoteEntry,
    RemotePath,
    RemoteSource,
    as_path,
    is_url,
    on_filesystem,
)
from kafkalog.text.close_matches import close_matches

Location: TypeAlias = Path | RemotePath
AnyPath: TypeAlias = str | os.PathLike[str] | RemotePath
OpenedSource: TypeAlias = FileSource | RemoteSource
Entry: TypeAlias = os.DirEntry[str] | RemoteEntry
"""An entry of a directory: name and path, and whether it is a file or directory."""

STATUS_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, on every file system."""


def locate(path: AnyPath) -> Location:
    """Return `path` as a `Path` or a `RemotePath`; text may be a URL.

    >>> locate("logs/orders-0"), locate("hdfs://namenode:8020/logs")
    (PosixPath('logs/orders-0'), RemotePath('hdfs://namenode:8020/logs'))

    Raises `FileNotFoundError` for empty text, which `Path` takes for the current
    directory.
    """
    if isinstance(path, (Path, RemotePath)):
        return path
    if path == "":
        raise FileNotFoundError(2, os.strerror(2), "")
    return as_path(path, {}) if isinstance(path, str) and is_url(path) else Path(path)


def locate_all(
    source: Any, filesystem: object, storage_options: Mapping[str, str] | None
) -> Any:
    """Return a source with its paths located in a file system, or URLs with options.

    Members of lists are located as well; bytes and located paths stay as they are.

    Raises `ConfigError`, and `TypeError` for a file system of another kind.
    """
    if filesystem is not None and storage_options:
        raise ConfigError("filesystem and storage_options, expected one of them")
    if isinstance(source, (list, tuple)):
        return [locate_all(part, filesystem, storage_options) for part in source]
    if not isinstance(source, (str, os.PathLike)):
        return source
    if filesystem is not None:
        return on_filesystem(os.fspath(source), filesystem)
    if storage_options and isinstance(source, str):
        return as_path(source, storage_options)
    return source


def local_path(path: AnyPath) -> Path:
    """Return `path` as a local `Path`; text may be a ``file:`` URL.

    Raises `LogArgumentError` for any other URL. The error shows only the scheme, as the
    rest may include credentials.
    """
    text = str(path) if isinstance(path, (str, RemotePath)) else ""
    scheme = text.partition(":")[0]
    if is_url(text) and scheme.lower() != "file":
        raise LogArgumentError(f"{scheme}: URL, expected a local path to write to")
    return Path(locate(path))  # type: ignore[arg-type]  # no RemotePath any more


def no_such_path(path: Location) -> FileNotFoundError:
    """Return the error for a path that does not exist; a note has a similar name."""
    error = FileNotFoundError(2, os.strerror(2), str(path))
    with suppress(OSError):  # nor does its directory
        names = [entry.name for entry in entries(path.parent)]
        if question := close_matches(path.name, names):
            error.add_note(question)
    return error


def entries(directory: Location) -> Sequence[Entry]:
    """List the entries of a directory, in no order."""
    if isinstance(directory, RemotePath):
        return directory.entries()
    with os.scandir(directory) as listing:
        return list(listing)


def is_file(path: Location | Entry) -> bool:
    """Return whether a path in a log directory counts as a file.

    This is the rule for all that is listed, opened or written: only a regular file
    counts. A symbolic link counts as missing, wherever it leads, and so do sockets,
    pipes and devices.

    >>> is_file(Path("/dev/null")), is_file(Path("/dev/fd"))
    (False, False)
    """
    if isinstance(path, Path):
        return _is_kind(path, stat.S_ISREG)
    if isinstance(path, RemotePath):
        return path.is_file()
    return path.is_file(follow_symlinks=False)


def is_directory(path: Location | Entry) -> bool:
    """Return whether a path in a log directory counts as a directory.

    Links count as missing, as for `is_file`.
    """
    if isinstance(path, Path):
        return _is_kind(path, stat.S_ISDIR)
    if isinstance(path, RemotePath):
        return path.is_dir()
    return path.is_dir(follow_symlinks=False)


def _is_kind(path: Path, is_kind: Callable[[int], bool]) -> bool:
    try:
        return is_kind(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def regular_files(listed: Iterable[Entry]) -> dict[str, Entry]:
    """Return the regular files of a listed directory by name, without links.

    The status of each is read, so that `file_size` needs no further system call. Files
    that are removed meanwhile are missing.
    """
    files = {}
    for entry in listed:
        if is_file(entry):
            try:
                entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            files[entry.name] = entry
    return files


def file_size(file: Entry) -> int:
    """Return the size of a file in bytes; for a link, its own."""
    return file.stat(follow_symlinks=False).st_size


def allocated_size(file: Entry) -> int:
    """Return the bytes that a file takes on the disk; at a URL, all of its size."""
    if isinstance(file, RemoteEntry):
        return file.size
    return file.stat(follow_symlinks=False).st_blocks * STATUS_BLOCK_BYTES


def read_small(path: Location, *, links: bool = False) -> bytes:
    """Read a small file whole.

    Raises `FileNotFoundError` for anything but a regular file, a symbolic link included
    unless `links` are followed, and `OSError` for a file that is too large.
    """
    if isinstance(path, RemotePath):
        with path.open() as source:
            check_small(source.size, str(path))
            return source.read(0, source.size).tobytes()
    return read_regular(path, links=links)


def read_range(path: str | Location, position: int, length: int) -> bytes:
    """Read up to `length` bytes of a file, fewer at its end.

    Raises `FileNotFoundError` for anything but a regular file.
    """
    if isinstance(path, RemotePath):
        with path.open() as source:
            return source.read(position, length).tobytes()
    file, _ = open_regular(path)
    with file:
        return os.pread(file.fileno(), length, position)


def open_source(path: Location, *, links: bool = True) -> OpenedSource:
    """Open a file for reading by position; with `links` symbolic links are followed."""
    return (
        path.open() if isinstance(path, RemotePath) else FileSource(path, links=links)
    )

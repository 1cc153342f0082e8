"""Where bytes are read from: a local file, by position, or memory.

A file is read into buffers that the caller keeps, never mapped: a broker
may cut a segment or an index at any time, and touching a mapped page behind the new end
would kill the process. A read there just gives fewer bytes.

The size is that at opening, or less where the file turned out to have been cut since:
what is appended later belongs to a later reading.

Knows: bytes and their positions. Does not know: what they are.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from kafkalog.storage.system_calls import read_cached_headers

if TYPE_CHECKING:
    from kafkalog.storage.remote_source import RemotePath

Bytes = npt.NDArray[np.uint8]
Take = Callable[[int], Bytes]
"""Gives room for so many bytes, or more."""

BLOCK_BYTES: Final = 1 << 20

SMALL_BYTES: Final = 1 << 28
"""Most that is read of a small file: the snapshot of five million producers has it."""


@dataclass(slots=True)
class Rooms:
    """Buffers that are used again, each once nobody holds what was read into it."""

    _rooms: list[Bytes] = field(default_factory=list)
    _holders: Counter[int] = field(default_factory=Counter)

    def take(self, length: int) -> Bytes:
        """Give a buffer of `length` or more that is not held."""
        for room in self._rooms:
            if len(room) >= length and not self._holders[id(room)]:
                return room
        self._rooms.append(np.empty(length, np.uint8))
        return self._rooms[-1]

    def hold(self, data: Bytes) -> None:
        """Keep what was read, until it is let go of as often as it was held."""
        self._holders[id(data.base)] += 1

    def let_go(self, data: Bytes) -> None:
        """Let what was held be overwritten."""
        self._holders[id(data.base)] -= 1


class Version(NamedTuple):
    """What a file system calls a file's content: when it is replaced, that changes.

    `is_time` says that it is no more than when the file was written to, which changes
    as well where a file is written on.
    """

    text: str
    is_time: bool


class ByteSource(Protocol):
    """Bytes with positions, 0 to `size`."""

    size: int

    @property
    def path(self) -> Path | RemotePath | None:
        """Where they lie; None for memory."""

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Return up to `length` bytes from `position` on, in room that `take` gives.

        Fewer come only where the bytes end; then `size` says so from there on.
        """

    def read_headers(
        self, position: int, length: int, take: Take | None
    ) -> Bytes | None:
        """Read no more than the headers of the entries from `position` on.

        They lie where they would after `read`; what lies between means nothing. None
        where to read all is no slower, or the only way.
        """

    def read_anew(self) -> None:
        """Let go of what was read ahead: it may have changed since."""

    def close(self) -> None:
        """Let go of what is held."""


class FileSource:
    """A file, opened for reading; holds a descriptor, so a rename does not matter.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"0123456789"), file.flush()
    ...     with FileSource(file.name) as source:
    ...         source.size, bytes(source.read(7, 100))
    (10, b'789')
    """

    version: Version | None = None
    """None: what a broker writes to is known by what is in it."""

    def __init__(self, path: str | os.PathLike[str], *, links: bool = True) -> None:
        self.path: Path | None = Path(path)
        opened = open_plain(path, links=links)
        self._file = io.FileIO(opened)
        self.size = os.fstat(opened).st_size

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Read up to `length` bytes from `position` on, into room that `take` gives."""
        length = max(0, min(length, self.size - position))
        room = np.empty(length, np.uint8) if take is None else take(length)
        view = room.data[:length]
        done = 0
        self._file.seek(position)
        while done < length:
            got = self._file.readinto(view[done:])
            if not got:
                self.size = position + done
                break
            done += got
        return room[:done]

    def read_headers(
        self, position: int, length: int, take: Take | None
    ) -> Bytes | None:
        """Read headers alone, where the operating system has them all in memory."""
        length = max(0, min(length, self.size - position))
        room = np.empty(length, np.uint8) if take is None else take(length)[:length]
        there = read_cached_headers(self._file.fileno(), position, room)
        return room if there else None

    def read_anew(self) -> None:
        """Do nothing: nothing is read ahead."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemorySource:
    """Bytes that are in memory already: nothing is copied."""

    def __init__(self, data: Any, path: Path | None = None) -> None:
        self.path = path
        self._data: Bytes = np.frombuffer(data, np.uint8)
        self.size = len(self._data)

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """See up to `length` bytes from `position` on; no room is needed."""
        del take
        return self._data[position : position + length]

    def read_headers(self, position: int, length: int, take: Take | None) -> Bytes:
        """See all: nothing is read."""
        return self.read(position, length, take)

    def read_anew(self) -> None:
        """Do nothing: memory is what it is."""

    def close(self) -> None:
        """Do nothing: the memory is the caller's."""


def open_plain(path: str | os.PathLike[str], *, links: bool = False) -> int:
    """Open a file of a log directory for reading: its descriptor.

    Raises `FileNotFoundError` also for what is no file, such as a pipe or a device, and
    for a link unless `links` may be followed: what a broker did not put there does not
    count, is not waited for and leads nowhere.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        opened = os.open(path, flags if links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise
    else:
        if stat.S_ISREG(os.fstat(opened).st_mode):
            return opened
        os.close(opened)
    raise FileNotFoundError(errno.ENOENT, "No such regular file", os.fspath(path))


def read_plain(path: str | os.PathLike[str], *, links: bool = False) -> bytes:
    """Read a small file of a log directory whole; errors as of `open_plain`.

    Raises `OSError`, "File too large", beyond `SMALL_BYTES`.
    """
    with io.FileIO(open_plain(path, links=links)) as file:
        check_small(os.fstat(file.fileno()).st_size, os.fspath(path))
        return file.readall()


def check_small(size: int, path: str) -> None:
    """Raise `OSError` for a file that is too large to be read whole."""
    if size > SMALL_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)


def only_zeros(source: ByteSource, position: int) -> bool:
    """Whether nothing but zeros lies from `position` to the end."""
    while position < source.size:
        block = source.read(position, BLOCK_BYTES)
        if block.any():
            return False
        if not len(block):
            return True
        position += len(block)
    return True

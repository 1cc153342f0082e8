"""Reads of bytes by position, from a local file or from memory.

A file is read into the caller's buffers and mapped only on request: a broker may
truncate a segment or an index at any time, and a mapped page past the new end kills the
process when it is touched. A read past the end returns fewer bytes.

The size is the size at opening, or less if the file turns out to have been truncated
since. Bytes appended later are not read.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.storage.buffers import Take
from kafkalog.storage.remote_source import RemotePath, check_sent
from kafkalog.storage.stores import Version
from kafkalog.storage.system_calls import read_cached_headers

if TYPE_CHECKING:
    from socket import socket

BLOCK_BYTES: Final = 1 << 20

SMALL_BYTES: Final = 1 << 28
"""Largest file that is read whole; the snapshot of five million producers has it."""


class ByteSource(Protocol):
    """Bytes at positions 0 to `size`."""

    size: int

    @property
    def path(self) -> Path | RemotePath | None:
        """The file they are read from; None for memory."""

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Return up to `length` bytes from `position` on, in a buffer from `take`.

        The result is shorter only at the end of the bytes, and `size` is then updated.
        """

    def read_headers(
        self, position: int, length: int, take: Take | None
    ) -> Bytes | None:
        """Read only the headers of the entries in `length` bytes from `position` on.

        They are at the positions where `read` would put them; the bytes between them
        are undefined. Returns None if reading all bytes is as fast, or the only way.
        """

    def discard_read_ahead(self) -> None:
        """Discard bytes that were read ahead: they may have changed since."""

    def close(self) -> None:
        """Release what the source holds."""


class FileSource:
    """A local file that is open for reading; renaming it does not matter.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"0123456789"), file.flush()
    ...     with FileSource(file.name) as source:
    ...         source.size, bytes(source.read(7, 100))
    (10, b'789')
    """

    version: Version | None = None
    """None: a file that a broker writes to is identified by its content."""

    def __init__(self, path: str | os.PathLike[str], *, links: bool = True) -> None:
        # A path is not parsed again: a listing opens tens of thousands.
        self.path: Path | None = path if isinstance(path, Path) else Path(path)
        self._file, status = open_regular(path, links=links)
        self.size = status.st_size
        self._mapped: Bytes | None = None

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._file.fileno()

    def map_memory(self) -> None:
        """Map the file: reads return views of the page cache from now on, not copies.

        The views stay valid after `close`. If the file is truncated meanwhile, the
        process is killed by ``SIGBUS`` when it touches a page past the new end.
        """
        if self.size and self._mapped is None:
            mapped = mmap.mmap(self._file.fileno(), self.size, prot=mmap.PROT_READ)
            mapped.madvise(mmap.MADV_SEQUENTIAL)
            self._mapped = np.frombuffer(mapped, np.uint8)

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Return up to `length` bytes from `position` on, in a buffer from `take`."""
        length = max(0, min(length, self.size - position))
        if self._mapped is not None:
            return self._mapped[position : position + length]
        buffer = np.empty(length, np.uint8) if take is None else take(length)
        view = buffer.data[:length]
        done = 0
        while done < length:
            at = position + done
            count = os.preadv(self._file.fileno(), [view[done:]], at)
            if not count:
                self.size = at
                break
            done += count
        return buffer[:done]

    def read_headers(
        self, position: int, length: int, take: Take | None
    ) -> Bytes | None:
        """Read only headers, if the page cache has all of them."""
        if self._mapped is not None:
            return self.read(position, length)
        length = max(0, min(length, self.size - position))
        buffer = np.empty(length, np.uint8) if take is None else take(length)[:length]
        complete = read_cached_headers(self._file.fileno(), position, buffer)
        return buffer if complete else None

    def send_to(self, socket: socket, position: int, length: int) -> int:
        """Send `length` bytes from `position` on by ``sendfile``; return `length`.

        Raises `OSError` if the socket fails, or the file was truncated meanwhile.
        """
        sent = socket.sendfile(self._file, position, length)
        if sent < length:
            # From a file in memory, nothing is sent to a closed socket, with no error.
            rest = self.read(position + sent, length - sent)
            socket.sendall(rest.data)
            sent += len(rest)
        check_sent(sent, length, str(self.path))
        return sent

    def discard_read_ahead(self) -> None:
        """Do nothing: nothing is read ahead."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemorySource:
    """Bytes in memory, read without a copy."""

    def __init__(self, data: Any, path: Path | None = None) -> None:
        self.path = path
        self._data: Bytes = np.frombuffer(data, np.uint8)
        self.size = len(self._data)

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Return a view of up to `length` bytes from `position` on."""
        del take
        return self._data[position : position + length]

    def read_headers(self, position: int, length: int, take: Take | None) -> Bytes:
        """Return a view of all bytes."""
        return self.read(position, length, take)

    def discard_read_ahead(self) -> None:
        """Do nothing: nothing is read ahead."""

    def close(self) -> None:
        """Do nothing: the caller owns the memory."""


def open_regular(
    path: str | os.PathLike[str], *, links: bool = False
) -> tuple[io.FileIO, os.stat_result]:
    """Open a regular file of a log directory for reading; return it and its status.

    Raises `FileNotFoundError` for anything else, such as a pipe or a device, and for a
    symbolic link unless `links` may be followed. A broker creates none of these. They
    are ignored, and opening one does not block.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    flags |= 0 if links else os.O_NOFOLLOW
    try:
        # The file owns its descriptor from the start: an interrupt leaks none.
        file = io.FileIO(path, opener=lambda path, _: os.open(path, flags))
    except OSError as error:
        # A link; a socket; a directory.
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
    else:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            return file, status
        file.close()
    raise FileNotFoundError(errno.ENOENT, "No such regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str], *, links: bool = False) -> bytes:
    """Read a small file of a log directory whole; errors as of `open_regular`.

    Raises `OSError`, "File too large", above `SMALL_BYTES`.
    """
    file, status = open_regular(path, links=links)
    with file:
        check_small(status.st_size, os.fspath(path))
        return file.readall()


def check_small(size: int, path: str) -> None:
    """Raise `OSError` for a file that is too large to be read whole."""
    if size > SMALL_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)


def only_zeros(source: ByteSource, position: int) -> bool:
    """Return whether all bytes from `position` to the end are zero."""
    while position < source.size:
        block = source.read(position, BLOCK_BYTES)
        if block.any():
            return False
        if not len(block):
            return True
        position += len(block)
    return True

"""All changes that kafkalog makes to files: each is one method of `Disk`.

`Disk` has a method for each system call that changes something: create or open, write,
truncate, sync, rename, link, remove. `DurableFile` is an open file, whose methods call
those of the disk that opened it. Code that writes receives a disk; `DISK` is the real
one, and tests pass one that counts, fails or records. `UNSYNCED` is for files in a
temporary directory.

Nothing is buffered, and no error is ignored. When a method returns, the operating
system has the change; after a sync it is on the disk; a failure raises `OSError`.

A small file that is rewritten (a checkpoint, ``meta.properties``) is replaced. The new
content is written to a temporary file, which is synced and renamed over the old one;
then the directory is synced. After a power cut the file has the old content or the new
one, never a part of it.

A path may have one writer at a time: two would share ``<name>.tmp``.
Source: ``CheckpointFile.java``, ``FileRecords.java``, ``Utils.atomicMoveWithFallback``.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog.storage import system_calls
from kafkalog.storage.byte_source import open_regular

Path_ = str | os.PathLike[str]
Data = bytes | bytearray | memoryview
"""Bytes; `len` is their number."""

COPY_BYTES: Final = 1 << 20

TEMPORARY: Final = ".tmp"
"""Suffix of a file's name while its replacement is written, as in Kafka."""


@contextmanager
def _errors_of(path: Path_) -> Iterator[None]:
    """Name the file in errors of calls on a descriptor, which do not name it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


class DurableFile:
    r"""A file open for reading and writing at positions; made by `Disk.open`.

    `path` is its name at opening, which `rename` updates. Like Python's files it is
    closed when it is garbage-collected, for example after an interrupt.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with DISK.open(Path(directory, "0.log"), create=True) as file:
    ...         file.write(b"abcdef", 0)
    ...         file.truncate(4)
    ...         file.sync()
    ...         file.size(), file.read(1, 100)
    (4, b'bcd')
    """

    descriptor = -1  # of a closed file

    def __init__(self, disk: Disk, path: Path, flags: int) -> None:
        self._disk = disk
        self.path = path
        self.descriptor = os.open(path, flags, 0o666)

    def __del__(self) -> None:
        self.close()

    def write(self, data: Data, position: int) -> None:
        """Write all of `data` at `position`; a gap before it is filled with zeros."""
        self._disk.write_each([(self, data, position)])

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, or extend it by a hole of zeros."""
        self._disk.truncate(self, size)

    def sync(self) -> None:
        """Force the file's bytes and size to disk."""
        self._disk.sync(self)

    def rename(self, target: Path_) -> None:
        """Rename the open file, over a file that has the name."""
        self._disk.rename(self.path, target)
        self.path = Path(target)

    def read(self, position: int, length: int) -> bytes:
        """Read `length` bytes at `position`, fewer only at the end of the file."""
        with _errors_of(self.path):
            data = os.pread(self.descriptor, length, position)
            while len(data) < length:
                begin = position + len(data)
                rest = os.pread(self.descriptor, length - len(data), begin)
                if not rest:
                    break
                data += rest
        return data

    def read_into(self, buffer: npt.NDArray[np.uint8], position: int) -> int:
        """Fill `buffer` from `position` on; return how many bytes were read."""
        read = 0
        with _errors_of(self.path):
            while read < len(buffer):
                rest = buffer[read:].data
                count = os.preadv(self.descriptor, [rest], position + read)
                if not count:
                    break
                read += count
        return read

    def map(self, length: int) -> mmap.mmap:
        """Map the first `length` bytes for reading; later writes are visible in it.

        Reading bytes that were truncated since kills the process (SIGBUS).
        """
        return mmap.mmap(self.descriptor, length, prot=mmap.PROT_READ)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self.descriptor).st_size

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self.descriptor >= 0

    def close(self) -> None:
        """Close the file without a sync; a second call does nothing."""
        if self.is_open:  # one expression, which an interrupt cannot divide
            os.close(vars(self).pop("descriptor"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Write: TypeAlias = tuple[DurableFile, Data, int]
"""A file, the data to write, and the position of the first byte."""


class Disk:
    """The changes to the files of a log, one method each.

    The methods of the first part make one system call; a test that counts or fails
    changes overrides these only. Those of the second part are made of them.
    """

    def open(
        self, path: Path_, *, create: bool = False, exclusive: bool = False
    ) -> DurableFile:
        """Open a file, without truncating it.

        With `create` a missing file is created; with `exclusive` it is created, and
        `FileExistsError` is raised if it exists. Raises `OSError` for a symbolic link,
        and for anything but a regular file.
        """
        # Do not write through a link, and do not block on a pipe.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        flags |= os.O_CREAT if create or exclusive else 0
        flags |= os.O_EXCL if exclusive else 0
        file = DurableFile(self, Path(path), flags)
        if not stat.S_ISREG(os.fstat(file.descriptor).st_mode):
            file.close()
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        return file

    def write_each(self, writes: list[Write]) -> None:
        """Write to files at positions, one after another, each time all of the data.

        The first failure raises `OSError`; the writes after it are not done.
        """
        system_calls.write_each(writes)

    def truncate(self, file: DurableFile, size: int) -> None:
        """Set a file's size: truncate it, or extend it with zeros."""
        with _errors_of(file.path):
            os.ftruncate(file.descriptor, size)

    def sync(self, file: DurableFile) -> None:
        """Force a file's bytes and size to disk; `sync_directory` forces its name."""
        with _errors_of(file.path):
            os.fsync(file.descriptor)

    def sync_directory(self, path: Path_) -> None:
        """Force the names in a directory to disk: creations, renames, removals."""
        with (
            DurableFile(self, Path(path), os.O_RDONLY | os.O_DIRECTORY) as names,
            _errors_of(path),
        ):
            os.fsync(names.descriptor)

    def rename(self, source: Path_, target: Path_) -> None:
        """Rename a file or directory atomically, over a file that has the name."""
        Path(source).replace(target)

    def remove(self, path: Path_) -> None:
        """Remove a file; `FileNotFoundError` if there is none."""
        Path(path).unlink()

    def make_directory(self, path: Path_) -> None:
        """Create a directory; `FileExistsError` if it exists."""
        Path(path).mkdir()

    def remove_directory(self, path: Path_) -> None:
        """Remove an empty directory."""
        Path(path).rmdir()

    def make_hard_link(self, path: Path_, target: Path_) -> None:
        """Give the file at `path` a second name, `target`."""
        Path(target).hardlink_to(path)

    def make_symbolic_link(self, path: Path_, target: Path_) -> None:
        """Create a symbolic link to `path` at `target`."""
        Path(target).symlink_to(path)

    def set_modified(self, path: Path_, time_ms: int) -> None:
        """Set a file's modification time, in ms since 1970."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def set_attributes(
        self,
        file: DurableFile,
        *,
        mtime_ns: int,
        mode: int,
        owner: tuple[int, int],
    ) -> None:
        """Set a file's modification time, permissions, and user and group id."""
        with _errors_of(file.path):
            status = os.fstat(file.descriptor)
            if owner != (status.st_uid, status.st_gid):
                os.fchown(file.descriptor, *owner)
            os.fchmod(file.descriptor, mode)
            os.utime(file.descriptor, ns=(mtime_ns, mtime_ns))

    def content_path(self, path: Path_) -> Path:
        """Return the path at which the content of a file can be read: its own.

        A disk that keeps changes elsewhere returns another one.
        """
        return Path(path)

    def replace(self, path: Path_, data: Data) -> None:
        r"""Replace the content of `path` by `data`; the file need not exist.

        Once this returns, a power cut does not undo it. If it raises, `path` has its
        old or its new content, and a ``.tmp`` file may be left, which the next
        replacement overwrites.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     DISK.replace(Path(directory, "checkpoint"), b"0\n0\n")
        ...     os.listdir(directory)
        ['checkpoint']
        """
        target = Path(path)
        with self.open(target.with_name(target.name + TEMPORARY), create=True) as file:
            if file.size():
                file.truncate(0)
            file.write(data, 0)
            file.sync()
            file.rename(target)
        self.sync_directory(target.parent)

    def make_directories(self, path: Path) -> None:
        """Create a directory and its parents, if missing, and force their names."""
        if not path.is_dir():
            self.make_directories(path.parent)
            with suppress(FileExistsError):  # another process has created it since
                self.make_directory(path)
            self.sync_directory(path.parent)

    def remove_tree(self, path: Path_) -> None:
        """Remove a directory and all that is in it; links in it are not followed."""
        with os.scandir(path) as entries:
            content = sorted(entries, key=lambda entry: entry.name)
        for entry in content:
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                self.remove(entry.path)
        self.remove_directory(path)

    def copy_file(self, source: Path_, target: Path_) -> None:
        """Copy a regular file with its modification time, and force it to disk.

        A file at `target` is overwritten. Raises `FileNotFoundError` if `source` is a
        symbolic link, or anything else but a regular file.
        """
        content, status = open_regular(source)
        with content, self.open(target, create=True) as file:
            write_all_of(content, file)
            file.sync()
        self.set_modified(target, status.st_mtime_ns // 1_000_000)

    def write_over(self, path: Path_, data: Data, *, sync: bool) -> None:
        """Write `data` at the start of a file, which is created but not truncated.

        Kafka writes producer snapshots so: bytes of a longer file after `data` stay.
        """
        with self.open(path, create=True) as file:
            file.write(data, 0)
            if sync:
                file.sync()

    def sync_path(self, path: Path_) -> None:
        """Force a file to disk by path; `FileNotFoundError` if there is none."""
        with self.open(path) as file:
            file.sync()

    def create_if_missing(self, path: Path_) -> None:
        """Create an empty file, unless it exists."""
        self.open(path, create=True).close()

    def remove_if_there(self, path: Path_) -> bool:
        """Remove a file; return whether there was one."""
        try:
            self.remove(path)
        except FileNotFoundError:
            return False
        return True


def write_all_of(content: io.FileIO, file: DurableFile) -> None:
    """Replace the bytes of a file by all of another one, which is read from here on."""
    if file.size():
        file.truncate(0)
    position = 0
    while data := content.read(COPY_BYTES):
        file.write(data, position)
        position += len(data)


class UnsyncedDisk(Disk):
    """A disk for temporary files, of which nothing is forced to disk."""

    def sync(self, file: DurableFile) -> None:
        """Do nothing."""

    def sync_directory(self, path: Path_) -> None:
        """Do nothing."""


DISK: Final = Disk()
"""The disk of this machine."""

UNSYNCED: Final = UnsyncedDisk()
"""The disk of this machine, for temporary files."""

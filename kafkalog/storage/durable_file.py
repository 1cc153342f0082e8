"""The one seam through which kafkalog writes: each effect on the disk is one call.

`Disk` has a method for each thing that is asked of the operating system and changes
something: create or open, write, cut, force, rename, remove. `DurableFile` is an open
file, whose methods go through the disk that opened it. Code that writes is given a
disk, `DISK` being the real one; a test gives one that counts, fails or records.

Nothing is buffered, and nothing is swallowed: what has returned is with the operating
system, what was forced is on the disk, and what failed raises `OSError`.

A small file that is rewritten (a checkpoint, ``meta.properties``) is replaced: written
beside its place, forced to disk, renamed over it, and the directory forced to disk, so
that after a power cut either the old content is there or the new, never a part of it.

Knows: calls of the operating system and their order. Does not know: what it stores.
One writer a path at a time: two would share ``<name>.tmp``.
Source: ``CheckpointFile.java``, ``FileRecords.java``, ``Utils.atomicMoveWithFallback``.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path
from typing import Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog.storage import system_calls

Path_ = str | os.PathLike[str]
Data = bytes | bytearray | memoryview
"""Bytes, of which `len` tells how many."""

TEMPORARY: Final = ".tmp"
"""What is added to a file's name while its replacement is written, as Kafka does."""


class DurableFile:
    r"""A file open for reading and writing at positions; made by `Disk.open`.

    `path` is its name as far as this handle was told; `rename` keeps it right. Like a
    file of Python's own it is closed once nobody holds it, as where an interrupt came
    before it was kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with DISK.open(Path(directory, "0.log"), create=True) as file:
    ...         file.write(b"abcdef", 0)
    ...         file.truncate(4)
    ...         file.sync()
    ...         file.size(), file.read(1, 100)
    (4, b'bcd')
    """

    descriptor = -1  # of one that is closed

    def __init__(self, disk: Disk, path: Path, flags: int) -> None:
        self._disk = disk
        self.path = path
        self.descriptor = os.open(path, flags, 0o666)

    def __del__(self) -> None:
        self.close()

    def write(self, data: Data, position: int) -> None:
        """Write all of `data` at `position`; zeros fill what lies before it."""
        self._disk.write_each([(self, data, position)])

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or grow it to them by a hole of zeros."""
        self._disk.truncate(self, size)

    def sync(self) -> None:
        """Force what was written, and the file's size, to disk."""
        self._disk.sync(self)

    def rename(self, target: Path_) -> None:
        """Give the open file another name; what had it is gone."""
        self._disk.rename(self.path, target)
        self.path = Path(target)

    def read(self, position: int, length: int) -> bytes:
        """Read `length` bytes at `position`, fewer only at the end of the file."""
        data = os.pread(self.descriptor, length, position)
        while len(data) < length:
            piece = os.pread(self.descriptor, length - len(data), position + len(data))
            if not piece:
                break
            data += piece
        return data

    def read_into(self, room: npt.NDArray[np.uint8], position: int) -> int:
        """Fill `room` from `position` on; how many bytes, all but at the file's end."""
        read = 0
        while read < len(room):
            got = os.preadv(self.descriptor, [room[read:].data], position + read)
            if not got:
                break
            read += got
        return read

    def map(self, length: int) -> mmap.mmap:
        """Map the first `length` bytes, to be read: later writes show in it.

        Bytes that the file no longer has when they are read kill the process (SIGBUS).
        """
        return mmap.mmap(self.descriptor, length, prot=mmap.PROT_READ)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self.descriptor).st_size

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self.descriptor >= 0

    def close(self) -> None:
        """Give up the handle, without forcing anything; twice is once."""
        if self.is_open:  # at once: between two lines an interrupt would leave it open
            os.close(vars(self).pop("descriptor"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Write: TypeAlias = tuple[DurableFile, Data, int]
"""A file, what is written to it, and the position of the first byte."""


class Disk:
    """What may be done to the files of a log, one method an effect.

    The first part of the class is those effects: to watch or to fail all of them, a
    test overrides these and nothing else. The second is whole files, made of them.
    """

    def open(
        self, path: Path_, *, create: bool = False, exclusive: bool = False
    ) -> DurableFile:
        """Open a file, without cutting it.

        With `create` a missing one is made, empty; with `exclusive` it is made, and
        `FileExistsError` raised if it was there. Raises `OSError` for a link, or what
        is no file.
        """
        # No link is written through, and what is no file keeps no one waiting.
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

        What fails, or makes no headway, raises `OSError`, and what follows is not done.
        """
        system_calls.write_each(writes)

    def truncate(self, file: DurableFile, size: int) -> None:
        """Give a file a size: less cuts it, more adds zeros."""
        os.ftruncate(file.descriptor, size)

    def sync(self, file: DurableFile) -> None:
        """Force a file's bytes and size to disk; its name is `sync_directory`'s."""
        os.fsync(file.descriptor)

    def sync_directory(self, path: Path_) -> None:
        """Force the names in a directory to disk: creations, renames, removals."""
        with DurableFile(self, Path(path), os.O_RDONLY | os.O_DIRECTORY) as names:
            os.fsync(names.descriptor)

    def rename(self, source: Path_, target: Path_) -> None:
        """Rename a file or directory at once, over a file that has the name."""
        Path(source).replace(target)

    def remove(self, path: Path_) -> None:
        """Remove a file's name; `FileNotFoundError` if there is none."""
        Path(path).unlink()

    def make_directory(self, path: Path_) -> None:
        """Make a directory; `FileExistsError` if it is there."""
        Path(path).mkdir()

    def remove_directory(self, path: Path_) -> None:
        """Remove an empty directory."""
        Path(path).rmdir()

    def set_modified(self, path: Path_, time_ms: int) -> None:
        """Set a file's modification time, in ms since 1970."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def replace(self, path: Path_, data: Data) -> None:
        r"""Make `data` the whole content of `path`, whether it exists or not.

        Once this returns, a power cut does not undo it; if it raises, `path` is either
        untouched or already new, and a ``.tmp`` beside it may be left, for the next
        replacement to overwrite.

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

    def write_over(self, path: Path_, data: Data, *, sync: bool) -> None:
        """Write `data` at the start of a file, made if it is missing, never cut.

        As Kafka writes producer snapshots: what a longer file had behind `data` stays.
        """
        with self.open(path, create=True) as file:
            file.write(data, 0)
            if sync:
                file.sync()

    def sync_path(self, path: Path_) -> None:
        """Force a file that nobody here has open; `FileNotFoundError` if not there."""
        with self.open(path) as file:
            file.sync()

    def create_if_missing(self, path: Path_) -> None:
        """Make an empty file, or leave the one there as it is."""
        self.open(path, create=True).close()

    def remove_if_there(self, path: Path_) -> bool:
        """Remove a file; whether there was one."""
        try:
            self.remove(path)
        except FileNotFoundError:
            return False
        return True


DISK: Final = Disk()
"""The machine's own disk."""

"""A disk that keeps all changes to a log in a temporary directory.

A log is loaded there as a broker loads it, and the log itself is only read:

    original    00000000000000000000.log    512 MB, opened for reading
    stand-in    00000000000000000000.log    a hole of 512 MB, with the same time

A stand-in is an empty file of the original's size. Reads return the original's bytes,
up to where the stand-in was truncated; after that they return zeros. Before the first
write, the bytes that are left are copied to the stand-in. Recovery writes only indexes
and snapshots, so no ``.log`` is copied, unless a segment must be split.

A stand-in is known by its inode, so it may be renamed.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kafkalog.storage.durable_file import Disk, DurableFile, Path_, Write

READ_ONLY: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
READ_WRITE: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
CHUNK_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Original:
    """A file whose content is read, of which the first `kept` bytes still count.

    `name` is that of the file in the directory, which may be a link to `path`.
    """

    name: str
    path: Path
    size: int
    kept: int


class FileLeft(NamedTuple):
    """The name and size that a file has now, and its size before."""

    name: str
    size: int
    size_before: int


class FilesLeft(NamedTuple):
    """The files of a log after changes: `kept` ones by their old names, and `new` ones.

    A file that was removed, or replaced by a new one, is not kept.
    """

    kept: dict[str, FileLeft]
    new: frozenset[str]


class StandInFile(DurableFile):
    """An open stand-in, and its original."""

    _source = -1

    def __init__(self, disk: Disk, path: Path, original: Original) -> None:
        super().__init__(disk, path, READ_WRITE)
        self.original = original
        self._source = os.open(original.path, READ_ONLY)

    def read(self, position: int, length: int) -> bytes:
        """Read `length` bytes at `position`, fewer only at the end of the file."""
        data = np.empty(max(0, min(length, self.size() - position)), np.uint8)
        return data[: self.read_into(data, position)].tobytes()

    def read_into(self, buffer: npt.NDArray[np.uint8], position: int) -> int:
        """Fill `buffer` from `position` on; return how many bytes were read."""
        known = max(0, min(len(buffer), self.original.kept - position))
        read = 0
        while read < known:
            into = [buffer[read:known].data]
            count = os.preadv(self._source, into, position + read)
            if not count:  # truncated since
                return read
            read += count
        return read + super().read_into(buffer[read:], position + read)

    def map(self, length: int) -> mmap.mmap:
        """Map the first `length` bytes for reading."""
        if length <= self.original.kept:
            return mmap.mmap(self._source, length, prot=mmap.PROT_READ)
        self.copy_content()
        return super().map(length)

    def copy_content(self) -> None:
        """Copy the bytes that are left of the original, which then no longer counts."""
        position, end = 0, self.original.kept
        while position < end:
            data = os.pread(self._source, min(CHUNK_BYTES, end - position), position)
            if not data:
                break
            position += os.pwrite(self.descriptor, data, position)
        self.original.kept = 0

    def close(self) -> None:
        """Close both files."""
        super().close()
        if self._source >= 0:
            os.close(vars(self).pop("_source"))


class RehearsalDirectory:
    """A temporary directory for the stand-ins of one log after another.

    It is made when it is first used, and removed at the end. File systems remove
    directories far more slowly than files, so one log's is renamed for the next.

    >>> with RehearsalDirectory() as root:
    ...     with root.of("orders-0") as copy:
    ...         _ = (copy / "00000000000000000000.log").write_bytes(b"")
    ...     with root.of("orders-1") as copy:
    ...         copy.name, list(copy.iterdir())
    ('orders-1', [])
    """

    def __init__(self) -> None:
        self._root: TemporaryDirectory[str] | None = None
        self._emptied: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._root is not None:
            self._root.cleanup()

    @contextmanager
    def of(self, name: str) -> Iterator[Path]:
        """Yield an empty directory with a name, which is emptied afterwards."""
        if self._root is None:
            self._root = TemporaryDirectory(prefix="kafkalog-rehearsal-")
        directory = Path(self._root.name).resolve() / name
        if self._emptied is None:
            directory.mkdir()
        else:
            self._emptied.rename(directory)
        self._emptied = directory
        try:
            yield directory
        finally:
            for path in directory.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()


class RehearsalDisk(Disk):
    """A disk on which the files of a log stand in for those of another directory.

    With `discards_records`, bytes written to a ``.log`` are dropped: it has the right
    size, and zeros.
    """

    def __init__(self) -> None:
        self.discards_records = False
        self.bytes_written = 0
        self._originals: dict[int, Original] = {}

    def stand_in(self, directory: Path, target: Path) -> None:
        """Create in `target` a file that stands in for each file of `directory`."""
        with os.scandir(directory) as entries:
            for entry in entries:
                place = target / entry.name
                if _leads_to_file(entry):
                    path = Path(entry.path)
                    path = path.resolve() if entry.is_symlink() else path
                    with suppress(FileNotFoundError):  # a broker has deleted it since
                        self._add(path, entry.stat(), place)
                elif entry.is_symlink():
                    place.symlink_to(entry.path)
                elif entry.is_dir():
                    place.mkdir()

    def _add(self, path: Path, status: os.stat_result, place: Path) -> None:
        with place.open("xb") as file:
            file.truncate(status.st_size)
            inode = os.fstat(file.fileno()).st_ino
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
        self._originals[inode] = Original(
            place.name, path, status.st_size, status.st_size
        )

    def has_lost_original(self) -> bool:
        """Return whether an original was renamed or removed since."""
        return any(not one.path.exists() for one in self._originals.values())

    def original_of(self, path: Path) -> Original | None:
        """Return the original that a file stands in for; None if it is a new file."""
        return self._originals.get(path.lstat().st_ino)

    def files_left(self, directory: Path) -> FilesLeft:
        """Return the files of a directory, by whether they stand in for originals."""
        kept, new = {}, set()
        for path in directory.iterdir():
            original = self.original_of(path)
            if original is None:
                new.add(path.name)
            else:
                size = path.stat().st_size
                kept[original.name] = FileLeft(path.name, size, original.size)
        return FilesLeft(kept, frozenset(new))

    def copy_content(self, path: Path) -> None:
        """Copy to a file the content of its original, if it has one."""
        with self.open(path) as file:
            if isinstance(file, StandInFile):
                file.copy_content()

    def added_bytes(self, directory: Path) -> int:
        """Return the bytes by which files in a directory are larger than before."""
        added = 0
        for path in directory.iterdir():
            if path.is_file() and not path.is_symlink():
                original = self.original_of(path)
                before = 0 if original is None else original.size
                added += max(0, path.stat().st_size - before)
        return added

    def open(
        self, path: Path_, *, create: bool = False, exclusive: bool = False
    ) -> DurableFile:
        """Open a file, or a stand-in together with its original."""
        file = super().open(path, create=create, exclusive=exclusive)
        original = self._originals.get(os.fstat(file.descriptor).st_ino)
        if original is None:
            return file
        with file:
            return StandInFile(self, file.path, original)

    def content_path(self, path: Path_) -> Path:
        """Return the path of the original, if nothing of it was changed."""
        here = Path(path)
        original = self.original_of(here)
        if original is not None and original.kept == here.stat().st_size:
            return original.path
        self.copy_content(here)
        return here

    def write_each(self, writes: list[Write]) -> None:
        """Write to files, after the content of their originals was copied."""
        for file, _, _ in writes:
            if isinstance(file, StandInFile) and file.original.kept:
                file.copy_content()
        if self.discards_records:
            writes = [write for write in writes if not self._is_discarded(write)]
        super().write_each(writes)
        self.bytes_written += sum(len(data) for _, data, _ in writes)

    def _is_discarded(self, write: Write) -> bool:
        """Make a ``.log`` as long as a write would, and return whether it is one."""
        file, data, position = write
        if ".log" not in file.path.suffixes:
            return False
        if (end := position + len(data)) > file.size():
            super().truncate(file, end)
        return True

    def truncate(self, file: DurableFile, size: int) -> None:
        """Set the size of a file; what is cut of an original does not come back."""
        if isinstance(file, StandInFile):
            file.original.kept = min(file.original.kept, size)
        super().truncate(file, size)

    def sync(self, file: DurableFile) -> None:
        """Do nothing: the files are temporary."""

    def sync_directory(self, path: Path_) -> None:
        """Do nothing: the files are temporary."""

    def rename(self, source: Path_, target: Path_) -> None:
        """Rename a file, over a file that has the name."""
        if os.path.lexists(target) and not Path(source).samefile(target):
            self._forget(target)
        super().rename(source, target)

    def remove(self, path: Path_) -> None:
        """Remove a file; its original stays."""
        self._forget(path)
        super().remove(path)

    def _forget(self, path: Path_) -> None:
        self._originals.pop(os.lstat(path).st_ino, None)


def _leads_to_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a file, or a link to one, which a broker opens too.

    A link may lead to itself.
    """
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False

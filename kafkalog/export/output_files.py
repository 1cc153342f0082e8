"""Files of an export: written under temporary names, and published together.

A file is forced to disk before it gets its name, and the directories afterwards. Files
of an earlier export are first renamed to hidden names, and removed at the end. If a
step before that fails or is interrupted, all of them get their names back.

For the file ``part-00000.csv`` the temporary name is ``.part-00000.csv.tmp``, and the
hidden one of the earlier file is ``.part-00000.csv.old``. Readers of such directories
ignore names that begin with a dot.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog.storage.durable_file import TEMPORARY, Disk, DurableFile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

OLD: Final = ".old"
"""Suffix of the hidden name of a file that is being replaced."""
LEFT: Final = ".part-*"
"""The temporary and hidden names in a directory of a partition."""


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Give errors the name that the file is to get."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = str(path), None
        raise


class OutputFile(io.RawIOBase):
    """A file that is written from start to end; made by `OutputFiles.create`.

    pyarrow writes to it as to any file of Python. Writes after `discard` do nothing:
    pyarrow's writers write the end of a file when they are freed.
    """

    def __init__(self, path: Path, file: DurableFile) -> None:
        super().__init__()
        self.path = path
        self._file: DurableFile | None = file
        self._size = 0

    def writable(self) -> bool:
        """Return true."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of `data` at the end; return its size."""
        view = memoryview(data).cast("B")
        if self._file is not None:
            with _errors_of(self.path):
                self._file.write(view, self._size)
            self._size += len(view)
        return len(view)

    def complete(self) -> None:
        """Force the file to disk, and close it."""
        file, self._file = self._file, None
        if file is not None:
            with _errors_of(self.path), file:
                file.sync()

    def discard(self) -> None:
        """Close the file. What is written to it from now on is ignored."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


class OutputFiles:
    """The files of one export, below `root` or `root` itself.

    >>> import tempfile
    >>> from kafkalog.storage.durable_file import DISK
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     out = Path(directory, "out.csv")
    ...     files = OutputFiles(out, DISK)
    ...     file = files.create(out)
    ...     _ = file.write(b"topic,offset")
    ...     before = out.exists()
    ...     file.complete()
    ...     files.publish(old=[])
    ...     before, out.read_text()
    (False, 'topic,offset')
    """

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root, self._disk = root, disk
        self._files: list[OutputFile] = []
        self._folders: dict[Path, None] = {}
        self._renamed: list[tuple[Path, Path]] = []

    def create(self, path: Path) -> OutputFile:
        """Create the file that is to be at `path`, under its temporary name."""
        temporary = _temporary(path)
        self._folders[path.parent] = None  # first, as a part of it may be made
        self._disk.make_directories(path.parent)
        with _errors_of(path):
            opened = self._disk.open(temporary, create=True)
        file = OutputFile(path, opened)
        self._files.append(file)
        if opened.size():  # of an export that was killed
            with _errors_of(path):
                opened.truncate(0)
        return file

    def publish(self, old: Iterable[Path]) -> None:
        """Give all files their names, in place of `old`; all are complete.

        Raises `OSError`; the names are then as before, or the new files have them.
        Hidden files that a killed export left in the same directories are removed.
        """
        paths = [file.path for file in self._files]
        if paths == [self._root]:
            with _errors_of(self._root):
                self._disk.rename(_temporary(self._root), self._root)
                self._disk.sync_directory(self._root.parent)
            return
        self._disk.make_directories(self._root)
        replaced = list(old)
        self._remove_left({path.parent for path in paths + replaced})
        try:
            for path in replaced:
                self._rename(path, _hidden(path))
            for path in paths:
                self._rename(_temporary(path), path)
            self._sync_directories(paths + replaced)
        except BaseException:
            self._restore_names()
            raise
        self._renamed = []
        for path in replaced:
            self._disk.remove(_hidden(path))
        self._sync_directories(replaced)

    def discard(self) -> None:
        """Remove the files that have not got their names, and empty directories."""
        for file in self._files:
            file.discard()
        # The error that ended the export is raised, not that of cleaning up.
        for file in self._files:
            with suppress(OSError):
                self._disk.remove_if_there(_temporary(file.path))
        for folder in self._folders:
            for directory in (folder, *folder.parents):
                if directory.is_relative_to(self._root) and directory.is_dir():
                    with suppress(OSError):
                        self._disk.remove_directory(directory)

    def _remove_left(self, directories: Iterable[Path]) -> None:
        own = {_temporary(file.path) for file in self._files}
        for directory in sorted(directories):
            for path in sorted({*directory.glob(LEFT)} - own):
                self._disk.remove(path)

    def _rename(self, source: Path, target: Path) -> None:
        self._renamed.append((source, target))  # first, as an interrupt may follow
        self._disk.rename(source, target)

    def _restore_names(self) -> None:
        """Undo the renaming, the last one first."""
        for source, target in reversed(self._renamed):
            with suppress(OSError):
                self._disk.rename(target, source)
        with suppress(OSError):
            self._sync_directories([source for source, _ in self._renamed])
        self._renamed = []

    def _sync_directories(self, paths: Iterable[Path]) -> None:
        for directory in sorted({path.parent for path in paths}):
            self._disk.sync_directory(directory)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}{TEMPORARY}")


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}{OLD}")

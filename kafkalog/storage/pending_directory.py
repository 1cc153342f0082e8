"""`PendingDirectory`: a directory that gets its name once it is complete.

It is written under a temporary name next to its own:

    DST.incomplete/    written, and forced to disk
    DST/               renamed from it, at the end

So a destination that exists is complete. After an error or an interrupt at any of these
steps nothing is left; a process that is killed leaves the temporary name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from kafkalog.errors import LogStateError
from kafkalog.storage.disk_space import check_space
from kafkalog.storage.durable_file import DISK

INCOMPLETE: Final = ".incomplete"
"""Suffix of the name of a directory that is being written."""


@contextmanager
def destination_of(
    target: Path, sources: Iterable[Path] = (), *, dry_run: bool
) -> Iterator[Path]:
    """Yield where a copy is written: its target, or in a dry run a temporary directory.

    The target of a dry run has to be fit for the copy, and is not changed.
    """
    if not dry_run:
        yield target
        return
    PendingDirectory(target, sources).check()
    with TemporaryDirectory(prefix="kafkalog-") as root:
        yield Path(root, target.absolute().name)


class PendingDirectory:
    """A directory being written to `path`; a context that renames it to `target`.

    No directory of `sources` may have the target in it.
    """

    def __init__(self, target: Path, sources: Iterable[Path] = ()) -> None:
        self.target = target.absolute()
        self.path = self.target.with_name(self.target.name + INCOMPLETE)
        self.is_discarded = False
        self._sources = tuple(sources)

    def check(self) -> None:
        """Raise an error unless the directory can be written, and renamed then.

        Raises `FileNotFoundError` if the parent of the target is missing, and
        `LogStateError` if the target exists and is not an empty directory, is in a
        source, or if an interrupted copy is in the way.
        """
        target = self.target
        if not target.parent.is_dir():
            raise FileNotFoundError(2, os.strerror(2), str(target.parent))
        for source in self._sources:
            if target.resolve().is_relative_to(source.resolve()):
                raise LogStateError(f"destination in a source: {target}")
        if os.path.lexists(target):
            if target.is_symlink() or not target.is_dir():
                raise LogStateError(f"not a directory: {target}")
            if any(target.iterdir()):
                raise LogStateError(f"the directory is not empty: {target}")
            if target.is_mount():
                reason = f"mount point, expected a directory in it: {target}"
                error = LogStateError(reason)
                error.add_note("A copy gets its name by a rename.")
                raise error
        if os.path.lexists(self.path):
            error = LogStateError(f"copy that is not complete: {self.path}")
            error.add_note("Remove it, unless another process is writing it.")
            raise error

    def check_space(self, needed: int) -> None:
        """Raise `DiskSpaceError` unless `needed` bytes can be written to it."""
        check_space([(self.target.parent, needed)])

    def discard(self) -> None:
        """Remove the directory at the end, instead of giving it its name."""
        self.is_discarded = True

    def make(self) -> None:
        """Create the directory, under its temporary name."""
        DISK.make_directory(self.path)

    def __enter__(self) -> Self:
        self.check()
        try:
            self.make()
        except FileExistsError:  # another process has created it since
            raise
        except BaseException as error:
            self._remove_after(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        if error is not None:
            self._remove_after(error)
        elif self.is_discarded:
            DISK.remove_tree(self.path)
        else:
            self._finish()

    def _finish(self) -> None:
        """Force the directory to disk and give it its name, or remove it."""
        made, was_there = self.path.stat(), self.target.is_dir()
        try:
            DISK.sync_directory(self.path)
            DISK.rename(self.path, self.target)
            DISK.sync_directory(self.target.parent)
        except BaseException as error:
            self._take_name_back(made, was_there=was_there)
            self._remove_after(error)
            raise

    def _take_name_back(self, made: os.stat_result, *, was_there: bool) -> None:
        """Rename the directory back, if it has its name."""
        with suppress(OSError):
            if os.path.samestat(self.target.stat(), made):
                DISK.rename(self.target, self.path)
                if was_there:
                    DISK.make_directory(self.target)

    def _remove_after(self, error: BaseException) -> None:
        """Remove the directory after an error; note on it if that fails, too."""
        try:
            DISK.remove_tree(self.path)
        except FileNotFoundError:
            pass
        except OSError as failure:
            error.add_note(f"The incomplete copy could not be removed: {failure}")

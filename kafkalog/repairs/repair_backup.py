"""The originals of repaired files, and the steps that replace and restore files.

    .kafkalog-repair-20261125T224501Z/
        manifest.json          the state, and for each file its path, size, SHA-256 and
                               time before and after
        originals/...          the originals, by their path in the log directory

The directory is next to the log directory: a broker takes each directory in a log
directory for a partition, and does not start with one of this name.

| state | files of the log directory | what a kill leaves |
|---|---|---|
| ``keeping`` | unchanged | a directory to remove |
| ``applying`` | each is the original or the result | `undo` restores the originals |
| ``applied`` | all are the result | |
| ``undoing`` | each is the original or the result | `undo` continues |
| ``undone`` | all are the originals | a directory to remove |

Originals and the manifest are on the disk before the first file is changed. A file is
replaced by a rename, so it is whole at any time. Meanwhile there is no clean shutdown
marker: a broker that starts verifies the logs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from kafkalog.errors import CorruptCheckpointError, LogStateError
from kafkalog.repairs.partition_repair import FileChange
from kafkalog.repairs.repair_manifest import (
    APPLIED,
    APPLYING,
    KEEPING,
    PATH_NAMES,
    PERMISSIONS,
    UNDOING,
    UNDONE,
    FileState,
    KeptFile,
    Manifest,
    format_manifest,
    parse_manifest,
)
from kafkalog.repairs.repair_report import RepairAction
from kafkalog.storage.byte_source import open_regular, read_regular
from kafkalog.storage.contained_path import check_directories, contained_names
from kafkalog.storage.disk_space import check_space
from kafkalog.storage.durable_file import TEMPORARY, Disk, write_all_of
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.storage.location import is_directory, is_file

PREFIX: Final = ".kafkalog-repair-"
TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
MANIFEST: Final = "manifest.json"
ORIGINALS: Final = "originals"


class RepairBackup:
    """The directory of one repair; `files` are those it changes."""

    def __init__(
        self,
        directory: Path,
        root: Path,
        disk: Disk,
        files: Sequence[KeptFile],
        actions: Sequence[RepairAction],
        marker: FileState | None,
        state: str,
        linked: str | None = None,
    ) -> None:
        self.directory = directory
        self._linked = linked
        self.actions = tuple(actions)
        self._root = root
        self._disk = disk
        self._files = tuple(files)
        self._marker = marker
        self._state = state
        self._results: dict[str, Path] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all files were changed."""
        return self._state == APPLIED

    @classmethod
    def create(
        cls, parent: Path, root: Path, changes: Sequence[FileChange], disk: Disk
    ) -> RepairBackup:
        """Keep the originals of the files that are to be changed.

        Raises `DiskSpaceError`, and writes nothing, if they or the results do not fit.
        """
        results = {each.path: each.result for each in changes if each.result}
        removed = [each.path for each in changes if each.result is None]
        files = [
            KeptFile(
                path,
                FileState.of(root / path),
                None if path not in results else FileState.of(results[path]),
            )
            for path in dict.fromkeys([*removed, *results])
        ]
        marker = FileState.of(root / CLEAN_SHUTDOWN)
        actions = [each.action for each in changes]
        originals = sum(each.original.size for each in files if each.original)
        check_space([(parent, originals), (root, _growth(files))])
        directory = _make_directory(parent, disk)
        kept = cls(directory, root, disk, files, actions, marker, KEEPING)
        kept._results = results
        kept._write_manifest(KEEPING)
        kept._copy_originals()
        kept._write_manifest(APPLYING)
        return kept

    @classmethod
    def newest(
        cls, parent: Path, root: Path, disk: Disk, linked: str | None = None
    ) -> RepairBackup | None:
        """Return the last repair of a log directory; None if there is none.

        `linked` is the name of a partition's directory that may be a symbolic link, as
        the user has named it.
        """
        for directory in sorted(parent.glob(f"{PREFIX}*"), reverse=True):
            if (kept := cls._read(directory, root, disk, linked)) is not None:
                return kept
        return None

    @classmethod
    def _read(
        cls, directory: Path, root: Path, disk: Disk, linked: str | None
    ) -> RepairBackup | None:
        """Return the repair in a directory; None if it is of another log directory."""
        path = directory / MANIFEST
        if not is_directory(directory):
            return None
        try:
            manifest = parse_manifest(read_regular(path))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"manifest of a repair, which cannot be parsed ({error})"
            raise CorruptCheckpointError(reason).located(path) from None
        if manifest.log_directory != os.path.relpath(root, directory.parent):
            return None
        _, state, marker, files, actions = manifest
        return cls(directory, root, disk, files, actions, marker, state, linked)

    # The steps

    def apply(self) -> None:
        """Replace the files by their results."""
        self._remove_marker()
        for each in self._files:
            target = self._root / each.path
            if each.result is None:
                self._disk.remove_if_there(target)
            else:
                attributes = each.original or _attributes_near(target)
                self._replace(target, self._results[each.path], attributes)
        self._sync_directories()
        self._restore_marker()
        self._write_manifest(APPLIED)

    def undo(self) -> None:
        """Restore the originals, and remove the directory of the repair.

        Raises `LogStateError`, before any file is changed, if a file or an original was
        changed since, or if a directory on the way to one is a symbolic link.
        """
        if self._state in (APPLYING, APPLIED, UNDOING):
            self._check_directories()
            self._check_unchanged()
            self._check_originals()
            if self._state == APPLIED:
                self._keep_marker()
                self._write_manifest(UNDOING)
            self._remove_marker()
            self._restore_files()
            self._restore_marker()
            self._write_manifest(UNDONE)
        self._remove()

    def _restore_files(self) -> None:
        for each in self._files:
            target = self._root / each.path
            self._disk.remove_if_there(_temporary(target))
            if each.original is None:
                self._disk.remove_if_there(target)
            elif FileState.of(target) != each.original:
                kept = self._kept(each.path)
                owner = kept.lstat()  # not that in the manifest, which may be any
                attributes = replace(each.original, uid=owner.st_uid, gid=owner.st_gid)
                self._replace(target, kept, attributes)
        self._sync_directories()

    def _keep_marker(self) -> None:
        """Keep the marker as it is now: a broker may have written another one since."""
        marker = FileState.of(self._root / CLEAN_SHUTDOWN)
        if marker is not None and not marker.is_content_of(self._marker):
            directory = self._keep(CLEAN_SHUTDOWN, marker)
            self._disk.sync_directory(directory)
            self._marker = marker
        elif marker is None:
            self._marker = None

    def _check_directories(self) -> None:
        """Raise `LogStateError` if a path of the manifest leads through a link."""
        for each in self._files:
            *parents, _ = contained_names(each.path, PATH_NAMES)
            check_directories(self.directory, [ORIGINALS, *parents])
            if self._linked not in parents:
                check_directories(self._root, parents)

    def _check_originals(self) -> None:
        """Raise `LogStateError` if an original is not what was kept."""
        for each in self._files:
            kept = self._kept(each.path)
            if each.original is not None and not each.original.is_content_of(
                FileState.of(kept)
            ):
                raise LogStateError(f"the original has another content: {kept}")

    def _check_unchanged(self) -> None:
        """Raise `LogStateError` if a file is neither the original nor the result."""
        for each in self._files:
            now = FileState.of(self._root / each.path)
            states = (each.original, each.result)
            if now is None and None in states:
                continue
            if any(state is not None and state.is_content_of(now) for state in states):
                continue
            error = LogStateError(
                "the file was changed after the repair, expected its content then or "
                f"before: {self._root / each.path}"
            )
            error.add_note(f"The originals are in {self.directory}.")
            raise error

    def _copy_originals(self) -> None:
        directories = {
            self._keep(each.path, each.original)
            for each in self._files
            if each.original is not None
        }
        if self._marker is not None:
            directories.add(self._keep(CLEAN_SHUTDOWN, self._marker))
        for directory in sorted(directories):
            self._disk.sync_directory(directory)

    def _keep(self, path: str, original: FileState) -> Path:
        """Copy a file to the originals; return the directory that has to be synced."""
        target = self._kept(path)
        self._disk.make_directories(target.parent)
        self._copy(self._root / path, target, original)
        return target.parent

    def _write_manifest(self, state: str) -> None:
        self._state = state
        manifest = Manifest(
            os.path.relpath(self._root, self.directory.parent),
            state,
            self._marker,
            self._files,
            self.actions,
        )
        self._disk.replace(self.directory / MANIFEST, format_manifest(manifest))

    def _remove_marker(self) -> None:
        if self._disk.remove_if_there(self._root / CLEAN_SHUTDOWN):
            self._disk.sync_directory(self._root)

    def _restore_marker(self) -> None:
        if self._marker is not None:
            target = self._root / CLEAN_SHUTDOWN
            self._replace(target, self._kept(CLEAN_SHUTDOWN), self._marker)
            self._disk.sync_directory(self._root)

    def _replace(self, target: Path, source: Path, attributes: FileState) -> None:
        """Replace a file by a copy of another one, and force it to disk."""
        self._copy(source, _temporary(target), attributes)
        self._disk.rename(_temporary(target), target)

    def _copy(self, source: Path, target: Path, attributes: FileState) -> None:
        """Copy a file, with other attributes, and force it to disk."""
        content, _ = open_regular(source)
        with content, self._disk.open(target, create=True) as file:
            write_all_of(content, file)
            self._disk.set_attributes(
                file,
                mtime_ns=attributes.mtime_ns,
                mode=attributes.mode,
                owner=(attributes.uid, attributes.gid),
            )
            file.sync()

    def _sync_directories(self) -> None:
        for parent in sorted({(self._root / each.path).parent for each in self._files}):
            self._disk.sync_directory(parent)

    def _kept(self, path: str) -> Path:
        return self.directory / ORIGINALS / path

    def _remove(self) -> None:
        """Remove the directory, the manifest last."""
        for path in sorted(self.directory.iterdir()):
            if is_directory(path):
                self._disk.remove_tree(path)
            elif path.name != MANIFEST:
                self._disk.remove(path)
        self._disk.remove_if_there(self.directory / MANIFEST)
        self._disk.remove_directory(self.directory)
        self._disk.sync_directory(self.directory.parent)


def _growth(files: Sequence[KeptFile]) -> int:
    """Return the bytes by which a log directory grows at most while files are replaced.

    A file and its result exist at the same time.
    """
    size = most = 0
    for each in files:
        if each.result is not None:
            size += each.result.size
        most = max(most, size)
        if each.original is not None:
            size -= each.original.size
    return most


def _temporary(target: Path) -> Path:
    return target.with_name(target.name + TEMPORARY)


def _attributes_near(target: Path) -> FileState:
    """Return the owner and permissions of a file next to a new one, and the time."""
    files = sorted(filter(is_file, target.parent.iterdir()))
    status = (files[0] if files else target.parent).stat()
    mode = status.st_mode & (PERMISSIONS if files else 0o666)
    return FileState(0, "", time.time_ns(), mode, status.st_uid, status.st_gid)


def _make_directory(parent: Path, disk: Disk) -> Path:
    """Create the directory of a repair, which is named by the time."""
    now = datetime.now(UTC)
    while True:
        directory = parent / f"{PREFIX}{now.strftime(TIME_FORMAT)}"
        try:
            disk.make_directory(directory)
        except FileExistsError:
            now += timedelta(seconds=1)
            continue
        disk.sync_directory(parent)
        return directory

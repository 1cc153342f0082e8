"""The directory to which the job adds files, run by run, each atomically.

    OUT/topic=orders/date=2026-11-21/run-00002-part-00000.parquet
    OUT/_kafkalog/lock                    held while a run lasts
    OUT/_kafkalog/staging-00002-x1y2z3/   files of the run in progress
    OUT/_kafkalog/pending-00002.json      journal of a committed run, files being moved
    OUT/_kafkalog/manifest-00002.json     a complete run

A run writes to several directories, and no rename is atomic for all of them. The commit
is the rename of the journal to its name. The journal lists every move of a staged file
to its place; when all are done, it is renamed to be the manifest.

The next run begins with recovery: with a journal, it completes the moves; without one,
it removes the staged files. Staged files and journals are in a directory with a leading
underscore and do not end in ``.parquet``, so that readers ignore them.

So a file gets its place only after the commit. While files are moved, a listing of OUT
has some of a committed run. The files named in manifests are complete at any time.

Staged files are forced to disk by the executors that write them, and their names by the
driver, before the journal is.
The lock is held by the operating system, and ends with its process. The file system
must be a local or shared POSIX one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EAGAIN
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.contained_path import check_directories, contained_names
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.location import is_file

FOLDER: Final = "_kafkalog"
LOCK: Final = "lock"
NUMBERED: Final = re.compile(r"(pending|manifest)-(\d{5,})\.json")
STAGING: Final = "staging-"

STAGED_NAMES: Final = 2
"""The staging directory of a run, and a file in it."""

PLACE_NAMES: Final = 3
"""The folders of a topic and a date, and a file in them."""

Manifest = dict[str, Any]
Names = tuple[str, ...]


class StagedParquet(NamedTuple):
    """A staged file: its name, the folder it goes to, its rows and size."""

    name: str
    folder: str
    rows: int
    size_in_bytes: int


class JobOutput:
    """The output directory, held by one job; made by `locked`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / FOLDER

    def recover(self) -> int | None:
        """Complete or remove an interrupted run; return its number if completed."""
        finished = None
        for number in self._numbers("pending"):
            self._finish(number)
            finished = number
        for left in sorted(self.folder.glob(f"{STAGING}*")):
            shutil.rmtree(left, ignore_errors=True)  # a lost task may still write
        return finished

    def last(self) -> Manifest | None:
        """Return the manifest of the last run, or None before the first."""
        numbers = self._numbers("manifest")
        return self._read("manifest", numbers[-1]) if numbers else None

    @contextmanager
    def staged(self, number: int) -> Iterator[Path]:
        """Make the staging directory of a run; remove it if nothing is committed."""
        prefix = f"{STAGING}{number:05d}-"
        staging = Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder.absolute()))
        try:
            yield staging
        finally:
            if not self._path("pending", number).exists():
                shutil.rmtree(staging, ignore_errors=True)

    def commit(
        self,
        number: int,
        staging: Path,
        files: Sequence[StagedParquet],
        about: Manifest,
    ) -> tuple[Path, Manifest]:
        """Commit a run and move its files; return the path and the manifest.

        Raises `FileNotFoundError` if a staged file is missing or has another size;
        nothing is committed then.
        """
        places = [
            {
                "path": f"{file.folder}/run-{number:05d}-part-{i:05d}.parquet",
                "rows": file.rows,
                "size_in_bytes": file.size_in_bytes,
                "staged": f"{staging.name}/{file.name}",
            }
            for i, file in enumerate(files)
        ]
        for place in places:
            self._check_size(place)
        manifest = {"version": 1, "run": number, **about, "files": places}
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        DISK.sync_directory(staging)  # the executors have synced the files in it
        DISK.sync_directory(self.folder)
        DISK.replace(self._path("pending", number), f"{text}\n".encode())
        return self._finish(number), manifest

    def _check_size(self, place: Manifest) -> None:
        path = self.folder / place["staged"]
        size = path.stat().st_size if is_file(path) else "no file"
        if size != place["size_in_bytes"]:
            raise FileNotFoundError(
                f"expected {place['size_in_bytes']} bytes written by an executor, found"
                f" {size}: {path}; all executors and the driver must share {self.path}"
            )

    def _finish(self, number: int) -> Path:
        """Complete the moves of a committed run; return the manifest's path."""
        pending = self._path("pending", number)
        changed = {self.path}
        for staged_names, names in self._moves(pending):
            staged, target = (
                self.folder.joinpath(*staged_names),
                self.path.joinpath(*names),
            )
            if is_file(staged):
                target.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(target)
            elif not is_file(target):
                raise CorruptCheckpointError(
                    f"expected {staged} or {target}, found neither"
                ).located(pending)
            changed |= {target.parent, target.parent.parent}
        for directory in sorted(changed):
            DISK.sync_directory(directory)
        done = pending.replace(self._path("manifest", number))
        DISK.sync_directory(self.folder)
        return done

    def _moves(self, pending: Path) -> list[tuple[Names, Names]]:
        """Return the staged file and the place of each move in a journal.

        Raises `CorruptCheckpointError` for a path that leads out of the directory, and
        `LogStateError` if a directory on the way is a symbolic link.
        """
        try:
            moves = [
                (
                    contained_names(place["staged"], STAGED_NAMES),
                    contained_names(place["path"], PLACE_NAMES),
                )
                for place in self._read_at(pending)["files"]
            ]
        except (ValueError, LookupError, TypeError) as error:
            reason = f"invalid journal of a run: {error}"
            raise CorruptCheckpointError(reason).located(pending) from None
        for staged, place in moves:
            check_directories(self.folder, staged[:-1])
            check_directories(self.path, place[:-1])
        return moves

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:05d}.json"

    def _numbers(self, kind: str) -> list[int]:
        matches = (NUMBERED.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[2]) for match in matches if match and match[1] == kind)

    def _read(self, kind: str, number: int) -> Manifest:
        return self._read_at(self._path(kind, number))

    def _read_at(self, path: Path) -> Manifest:
        try:
            manifest: Any = json.loads(read_regular(path))
        except (ValueError, RecursionError) as error:
            raise CorruptCheckpointError(f"invalid JSON: {error}").located(
                path
            ) from None
        if not isinstance(manifest, dict) or manifest.get("version") != 1:
            raise CorruptCheckpointError("expected a manifest of version 1").located(
                path
            )
        return dict(manifest)


@contextmanager
def locked(path: Path) -> Iterator[JobOutput]:
    """Lock a directory for one job; make it if it is missing.

    Raises `BlockingIOError` while another job has the lock; the message names its
    process.

    >>> with tempfile.TemporaryDirectory() as out, locked(Path(out)) as output:
    ...     print(output.last())
    None
    """
    output = JobOutput(path)
    DISK.make_directories(output.folder)
    check_directories(path, [FOLDER])
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(output.folder / LOCK, flags, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1024, 0).decode(errors="replace").strip()
            reason = f"another job is writing to the directory ({holder})"
            raise BlockingIOError(EAGAIN, reason, str(path)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _holder().encode(), 0)
        yield output
    finally:
        os.close(descriptor)


def _holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}\n"

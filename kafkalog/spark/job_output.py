"""The directory to which the job adds files, run by run, each atomically.

    OUT/topic=orders/date=2026-11-21/run-00002-part-00000.parquet
    OUT/_kafkalog/lock                    held while a run lasts
    OUT/_kafkalog/staging-00002-x1y2z3/   files of the run in progress
    OUT/_kafkalog/committed-00002/        files of a committed run, being moved
    OUT/_kafkalog/manifest-00002.json     a complete run

A run writes to several directories, and no rename is atomic for all of them. Its files
are arranged in the staging directory as they are to be in OUT, and the manifest is
added. The commit is the rename of that directory. Then each file is moved to its place,
and the manifest last.

The next run begins with recovery: it moves what is left of a committed run, and removes
staged files. Until a file is moved, its path has a directory with a leading underscore
and its name does not end in ``.parquet``, so that readers ignore it: some list
``**/*.parquet``, hidden directories too. So Spark's own writers of files, which name
them ``.parquet`` from the beginning, cannot write in OUT.

While files are moved, a listing of OUT has some of a committed run. The files named in
manifests are complete at any time.

Staged files are forced to disk by the executors that write them, and their names by the
driver, before the commit. The lock is held by the operating system, and ends with its
process. The file system must be a local or shared POSIX one.
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

from kafkalog.errors import CorruptCheckpointError, LogStateError
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.contained_path import check_directories
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.location import is_file

FOLDER: Final = "_kafkalog"
LOCK: Final = "lock"
STAGING: Final = "staging-"
COMMITTED: Final = "committed-"
MANIFEST: Final = "manifest.json"
DATA: Final = "data"
STAGED: Final = ".staged"
NUMBERED: Final = re.compile(r"(pending|manifest|committed)-(\d{5,})(?:\.json)?")

Manifest = dict[str, Any]


class StagedParquet(NamedTuple):
    """A file of a task: its name, the folder it goes to, its rows and size."""

    name: str
    folder: str
    rows: int
    size_in_bytes: int


class StagedRun:
    """The staging directory of a run, which `JobFolder.staged` makes and removes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def arrange(self, files: Sequence[StagedParquet], prefix: str) -> list[Manifest]:
        """Arrange the files as they are to be in the output; return their entries.

        Raises `FileNotFoundError` if a file is missing or has another size.
        """
        arranged, folders = [], {self.path}
        for number, (name, folder, rows, size_in_bytes) in enumerate(files):
            file = self.path / name
            size = file.stat().st_size if is_file(file) else "no file"
            if size != size_in_bytes:
                raise FileNotFoundError(
                    f"expected {size_in_bytes} bytes written by an executor, found"
                    f" {size}: {file}; all executors and the driver must share"
                    f" {self.path}"
                )
            place = self.path / DATA / folder
            place.mkdir(parents=True, exist_ok=True)
            final = f"{prefix}-part-{number:05d}"
            DISK.rename(file, place / f"{final}{STAGED}")
            folders |= {place, place.parent, self.path / DATA}
            arranged.append(
                {
                    "path": f"{folder}/{final}.parquet",
                    "rows": rows,
                    "size_in_bytes": size,
                }
            )
        for directory in sorted(folders):
            DISK.sync_directory(directory)
        return arranged

    def move_files(self, out: Path) -> None:
        """Move the arranged files to their places in the output.

        Raises `LogStateError` if a directory on the way is a symbolic link.
        """
        data, changed = self.path / DATA, {out}
        for folder in sorted(data.glob("topic=*/date=*")):
            names = folder.relative_to(data).parts
            check_directories(self.path, [DATA, *names])
            check_directories(out, names)
            place = out.joinpath(*names)
            DISK.make_directories(place)
            for file in sorted(folder.glob(f"*{STAGED}")):
                DISK.rename(file, place / f"{file.stem}.parquet")
            changed |= {place, place.parent}
        for directory in sorted(changed):
            DISK.sync_directory(directory)


class JobFolder:
    """The job's own files in an output directory, held by one job; see `locked`."""

    def __init__(self, out: Path) -> None:
        self.out, self.path = out, out / FOLDER

    def remove_staged(self) -> None:
        """Remove what interrupted runs have staged."""
        for left in sorted(self.path.glob(f"{STAGING}*")):
            shutil.rmtree(left, ignore_errors=True)  # a lost task may still write

    @contextmanager
    def staged(self, run: int) -> Iterator[StagedRun]:
        """Make the staging directory of a run, and remove it in the end."""
        prefix = f"{STAGING}{run:05d}-"
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=self.path.absolute()))
        try:
            yield StagedRun(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)


class ParquetOutput:
    """The runs in an output directory.

    `finished` is the number of a run that was interrupted after its commit, and is
    complete now. Raises `LogStateError` if an earlier version of the job left a run
    that only it can complete.
    """

    def __init__(self, folder: JobFolder) -> None:
        self._folder, self.out = folder, folder.out
        if pending := self._numbers("pending"):
            error = LogStateError(
                f"run {pending[0]} was interrupted while its files were moved:"
                f" {folder.path / f'pending-{pending[0]:05d}.json'}"
            )
            error.add_note(
                "An earlier version of kafkalog wrote it. Run the job once with that"
                " version, which moves the rest; this one continues then."
            )
            raise error
        self.finished: int | None = None
        for number in self._numbers("committed"):
            self._finish(number)
            self.finished = number
        folder.remove_staged()
        numbers = self._numbers("manifest")
        self.last = self._read(numbers[-1]) if numbers else None

    @property
    def next_run(self) -> int:
        """The number of the next run."""
        return 1 if self.last is None else int(self.last["run"]) + 1

    def commit(
        self, staged: StagedRun, files: Sequence[StagedParquet], about: Manifest
    ) -> tuple[Path, Manifest]:
        """Commit a run and move its files; return the manifest's path and content.

        Raises `FileNotFoundError` if a file is missing; nothing is committed then.
        """
        number = self.next_run
        arranged = staged.arrange(files, f"run-{number:05d}")
        manifest = {"version": 1, "run": number, **about, "files": arranged}
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        DISK.replace(staged.path / MANIFEST, f"{text}\n".encode())
        DISK.rename(staged.path, self._committed(number))
        DISK.sync_directory(self._folder.path)
        return self._finish(number), manifest

    def _finish(self, number: int) -> Path:
        """Move the files of a committed run to their places; return the manifest."""
        committed, done = self._committed(number), self._manifest(number)
        check_directories(self._folder.path, [committed.name])
        if not done.exists():
            StagedRun(committed).move_files(self.out)
            DISK.rename(committed / MANIFEST, done)
            DISK.sync_directory(self._folder.path)
        shutil.rmtree(committed, ignore_errors=True)
        return done

    def _committed(self, number: int) -> Path:
        return self._folder.path / f"{COMMITTED}{number:05d}"

    def _manifest(self, number: int) -> Path:
        return self._folder.path / f"manifest-{number:05d}.json"

    def _numbers(self, kind: str) -> list[int]:
        names = (path.name for path in self._folder.path.iterdir())
        matches = map(NUMBERED.fullmatch, names)
        return sorted(int(match[2]) for match in matches if match and match[1] == kind)

    def _read(self, number: int) -> Manifest:
        path = self._manifest(number)
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
def locked(path: Path) -> Iterator[JobFolder]:
    """Lock a directory for one job; make it if it is missing.

    Raises `BlockingIOError` while another job has the lock; the message names its
    process.

    >>> with tempfile.TemporaryDirectory() as out, locked(Path(out)) as folder:
    ...     print(ParquetOutput(folder).last)
    None
    """
    folder = JobFolder(path)
    DISK.make_directories(folder.path)
    check_directories(path, [FOLDER])
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(folder.path / LOCK, flags, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1024, 0).decode(errors="replace").strip()
            reason = f"another job is writing to the directory ({holder})"
            raise BlockingIOError(EAGAIN, reason, str(path)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _holder().encode(), 0)
        yield folder
    finally:
        os.close(descriptor)


def _holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}\n"

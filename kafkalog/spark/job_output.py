"""The directory that the job adds files to: run by run, each whole or not at all.

    OUT/topic=orders/date=2026-11-21/run-00002-part-00000.parquet
    OUT/_kafkalog/lock                    held while a run lasts
    OUT/_kafkalog/staging-00002-x1y2z3/   files of the run that is being made
    OUT/_kafkalog/pending-00002.json      a run that is committed, its files being moved
    OUT/_kafkalog/manifest-00002.json     a run that is done

A run spans directories, and no rename moves several of them at once. So it is committed
by one rename of one small file, its journal, which lists every move that is still to be
made; then the files are moved to their places, and at last the journal is renamed to be
the manifest. Whatever a run leaves behind, the next one settles before all else: with a
journal it goes on with the moves, each of which may have been made; without one it
removes the staged files. Staged files and journals lie below a name with an underscore
and do not end like Parquet's, so that no reader takes them for data.

A file thus gets its place only when nothing can take it back. Who lists OUT while files
are being moved sees some of a committed run, and soon the rest; who must know exactly
reads the files that manifests name.

All was forced to disk before the journal was: staged files by those who wrote them. The
lock is the kernel's, and ends with its process however that ends.

Knows: a local or shared POSIX file system. Does not know: Spark, Parquet, offsets.
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
from kafkalog.storage.durable_file import DISK

FOLDER: Final = "_kafkalog"
LOCK: Final = "lock"
NUMBERED: Final = re.compile(r"(pending|manifest)-(\d{5,})\.json")
STAGING: Final = "staging-"

Manifest = dict[str, Any]


class Staged(NamedTuple):
    """A file that waits for its place: its staged name, where it is to go, its size."""

    name: str
    folder: str
    rows: int
    size_in_bytes: int


class Output:
    """A directory of runs, held by one job; `locked` gives it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / FOLDER

    def recover(self) -> int | None:
        """Finish or remove what a run left that was ended; its number if finished."""
        finished = None
        for number in self._numbers("pending"):
            self._finish(number)
            finished = number
        for left in sorted(self.folder.glob(f"{STAGING}*")):
            shutil.rmtree(left, ignore_errors=True)  # a lost task may still write
        return finished

    def last(self) -> Manifest | None:
        """Return the manifest of the last run, None before the first."""
        numbers = self._numbers("manifest")
        return self._read("manifest", numbers[-1]) if numbers else None

    @contextmanager
    def staged(self, number: int) -> Iterator[Path]:
        """Give the files of a run a directory, for as long as it is being made."""
        prefix = f"{STAGING}{number:05d}-"
        staging = Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder.absolute()))
        try:
            yield staging
        finally:
            if not self._path("pending", number).exists():
                shutil.rmtree(staging, ignore_errors=True)

    def commit(
        self, number: int, staging: Path, files: Sequence[Staged], about: Manifest
    ) -> tuple[Path, Manifest]:
        """Give a run's files their places, for good; returns its manifest.

        Raises `FileNotFoundError` for a file that is not here as it was written; then
        nothing has been committed.
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
            self._check_whole(place)
        manifest = {"version": 1, "run": number, **about, "files": places}
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        DISK.replace(self._path("pending", number), f"{text}\n".encode())
        return self._finish(number), manifest

    def _check_whole(self, place: Manifest) -> None:
        path = self.folder / place["staged"]
        if not path.exists() or path.stat().st_size != place["size_in_bytes"]:
            raise FileNotFoundError(
                f"{path} was written by an executor, and is not here as it was written:"
                f" all executors and the driver must share {self.path}"
            )

    def _finish(self, number: int) -> Path:
        """Make the moves of a committed run that have not been made."""
        pending = self._path("pending", number)
        changed = {self.path}
        for place in self._read("pending", number)["files"]:
            staged, target = self.folder / place["staged"], self.path / place["path"]
            if staged.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(target)
            elif not target.exists():
                raise CorruptCheckpointError(
                    f"neither {staged} nor {target} is there"
                ).located(pending)
            changed |= {target.parent, target.parent.parent}
        for directory in sorted(changed):
            DISK.sync_directory(directory)
        done = pending.replace(self._path("manifest", number))
        DISK.sync_directory(self.folder)
        return done

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:05d}.json"

    def _numbers(self, kind: str) -> list[int]:
        found = (NUMBERED.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(one[2]) for one in found if one and one[1] == kind)

    def _read(self, kind: str, number: int) -> Manifest:
        path = self._path(kind, number)
        try:
            manifest: Any = json.loads(path.read_bytes())
        except ValueError as error:
            raise CorruptCheckpointError(f"no JSON: {error}").located(path) from None
        if not isinstance(manifest, dict) or manifest.get("version") != 1:
            raise CorruptCheckpointError("no manifest of version 1").located(path)
        return dict(manifest)


@contextmanager
def locked(path: Path) -> Iterator[Output]:
    """Hold a directory for one job, and make it if it is not there.

    Raises `BlockingIOError` while another job holds it, which says who that is.

    >>> with tempfile.TemporaryDirectory() as out, locked(Path(out)) as output:
    ...     print(output.last())
    None
    """
    output = Output(path)
    output.folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(output.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1024, 0).decode(errors="replace").strip()
            reason = f"another job is writing there ({holder})"
            raise BlockingIOError(EAGAIN, reason, str(path)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _holder().encode(), 0)
        yield output
    finally:
        os.close(descriptor)


def _holder() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}\n"

"""Staged files: encoded batches of one task for one partition, waiting for a commit.

    kafkalog-staged-<query>-<epoch>-<task>-<attempt>-<driver>-<random>-<number>

They are plain files in the log directory: a broker loads subdirectories only, and so do
readers. `query` is a hash of the query's name, and `driver` the process that is to
commit. The random part differs for each writer, so that two attempts of a task never
share a file.

A file has batches of magic 2 with base offset 0, one after another. It is forced to
disk before the commit learns its name.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.errors import StagedFileError
from kafkalog.formats.batch_headers import (
    RECORDS_COUNT,
    BatchHeaders,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from kafkalog.storage.durable_file import DISK, Data, Disk, DurableFile
from kafkalog.storage.location import is_file

STAGED: Final = "kafkalog-staged-"
ABANDONED_AFTER_S: Final = 3600
"""Seconds without a write after which another query's staged files are abandoned."""

READ_BYTES: Final = 8 << 20
OPEN_FILES: Final = 64
UNKNOWN_DRIVER: Final = "0.0"
_NAME: Final = re.compile(
    STAGED + r"([0-9a-f]{16})-(\d+)-\d+-\d+-([0-9a-f]+\.\d{1,9})-[0-9a-f]{16}-\d+"
)


class CommitIdentity(NamedTuple):
    """What a commit has in common with its repetitions, and with no other commit.

    `query` is the name of a stream or of a batch, and `epoch` counts the commits of a
    stream.
    """

    query: str
    epoch: int = 0

    @property
    def query_hash(self) -> str:
        """The 16 hex digits that stand for the query in names of staged files."""
        return hashlib.sha256(self.query.encode()).hexdigest()[:16]


class StagedFile(NamedTuple):
    """A complete staged file: its name, partition, size, and the counts in it."""

    name: str
    topic: str
    partition: int
    size_in_bytes: int
    batches: int
    records: int


class StagedBatches(NamedTuple):
    """Complete batches of a staged file: their bytes, and a header row of each."""

    data: Bytes
    rows: BatchHeaders


class StagingWriter:
    """Writer of the staged files of one attempt of a task.

    At most 64 files are open at a time.

    Parameters
    ----------
    directory : Path
        The log directory; it is created if it is missing.
    identity : CommitIdentity
        The commit that the files are for.
    task, attempt : int
        Numbers of the task, and of its attempt.
    driver : str
        The name of the process that is to commit, as `parent_process` returns it.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with StagingWriter(Path(root), CommitIdentity("q"), 0, 0) as writer:
    ...         writer.write("orders", 3, [batch.build()])
    ...         [file] = writer.finish()
    >>> file.partition, file.batches, file.records
    (3, 1, 1)
    """

    def __init__(
        self,
        directory: Path,
        identity: CommitIdentity,
        task: int,
        attempt: int,
        disk: Disk = DISK,
        driver: str = UNKNOWN_DRIVER,
    ) -> None:
        self._directory = directory
        self._prefix = (
            f"{STAGED}{identity.query_hash}-{identity.epoch}-{task}-{attempt}"
            f"-{driver}-{secrets.token_hex(8)}"
        )
        self._disk = disk
        self._files: dict[tuple[str, int], StagedFile] = {}
        self._open: dict[str, DurableFile] = {}

    def write(self, topic: str, partition: int, batches: Iterable[Data]) -> None:
        """Append batches to the file of a partition.

        Raises `OSError`; the writer can only be abandoned then.
        """
        key = topic, partition
        staged = self._files.get(key)
        if staged is None:
            name = f"{self._prefix}-{len(self._files)}"
            self._disk.make_directories(self._directory)
            staged = self._files[key] = StagedFile(name, topic, partition, 0, 0, 0)
        file = self._opened(staged)
        position, records, writes = staged.size_in_bytes, staged.records, []
        for batch in batches:
            writes.append((file, batch, position))
            position += len(batch)
            records += int.from_bytes(batch[RECORDS_COUNT])
        self._disk.write_each(writes)
        self._files[key] = staged._replace(
            size_in_bytes=position,
            batches=staged.batches + len(writes),
            records=records,
        )

    def _opened(self, staged: StagedFile) -> DurableFile:
        file = self._open.get(staged.name)
        if file is None:
            if len(self._open) == OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            path, is_new = self._directory / staged.name, not staged.batches
            file = self._disk.open(path, exclusive=is_new)
            self._open[staged.name] = file
        return file

    def finish(self) -> tuple[StagedFile, ...]:
        """Force the files to disk and return them.

        Raises `OSError`; the writer can only be abandoned then.
        """
        for staged in self._files.values():
            self._opened(staged).sync()
            self._open.pop(staged.name).close()
        if self._files:
            self._disk.sync_directory(self._directory)
        done = tuple(self._files.values())
        self._files = {}
        return done

    def abandon(self) -> None:
        """Remove the files, unless they were finished."""
        for file in self._open.values():
            file.close()
        self._open = {}
        for staged in self._files.values():
            self._disk.remove_if_there(self._directory / staged.name)
        self._files = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()


def check_staged(directory: Path, staged: StagedFile) -> None:
    """Raise `StagedFileError` if a staged file is missing or has another size."""
    path = directory / staged.name
    size = path.stat().st_size if is_file(path) else "no file"
    if size != staged.size_in_bytes:
        raise _staged_error(f"{size}, expected {staged.size_in_bytes} bytes", path)


def read_staged(
    directory: Path, staged: StagedFile, disk: Disk = DISK
) -> Iterator[StagedBatches]:
    """Yield the batches of a staged file, about 8 MB at a time.

    Checksums are not verified here: an append verifies them.

    Raises `StagedFileError` if the file is not what the task wrote.
    """
    check_staged(directory, staged)
    path = directory / staged.name
    position, length, batches, records = 0, READ_BYTES, 0, 0
    with disk.open(path) as file:
        while position < staged.size_in_bytes:
            data = np.frombuffer(file.read(position, length), np.uint8)
            rows, status, end = scan_headers(data, origin=position)
            if not len(rows):
                length = _size_of_next(data, staged.size_in_bytes - position)
                if status != Status.ENTRY_INCOMPLETE or length <= len(data):
                    raise _staged_error("invalid batch", path, position)
                continue
            if (rows["magic"] != 2).any() or rows["base_offset"].any():
                reason = "batch of another magic or base offset, expected 2 and 0"
                raise _staged_error(reason, path, position)
            batches += len(rows)
            records += int(rows["count"].sum())
            yield StagedBatches(data[:end], rows)
            position, length = position + end, READ_BYTES
    if (batches, records) != (staged.batches, staged.records):
        counts = f"{batches} batches and {records} records"
        expected = f"{staged.batches} and {staged.records}"
        raise _staged_error(f"{counts}, expected {expected}", path)


def _size_of_next(data: Bytes, most: int) -> int:
    """Return the bytes of the batch that `data` begins with, at most `most`."""
    if len(data) < RECORD_BATCH_OVERHEAD:
        return 0
    return min(LOG_OVERHEAD + size_field(data), most)


def _staged_error(reason: str, path: Path, position: int | None = None) -> Exception:
    error = StagedFileError(reason, position=position)
    error.add_note("All executors and the driver must share the log directory.")
    return error.located(path)


def list_staged(directory: Path, identity: CommitIdentity) -> list[str]:
    """Return the names of an identity's staged files."""
    if not directory.is_dir():
        return []
    return sorted(
        path.name
        for path, query, epoch, _ in _staged_in(directory)
        if (query, epoch) == (identity.query_hash, identity.epoch)
    )


def list_removable(directory: Path, committed: CommitIdentity) -> list[str]:
    """Return the names of staged files that no commit after `committed` needs.

    These are those of the same query up to the same epoch, those whose driver was a
    process of this machine that has ended, and those of any query to which no task has
    written for an hour.
    """
    found: dict[str, list[tuple[str, int, str]]] = {}
    newest: dict[str, float] = {}
    for path, query, epoch, driver in _staged_in(directory):
        found.setdefault(query, []).append((path.name, epoch, driver))
        newest[query] = max(newest.get(query, 0), _modified_s(path))
    stale = time.time() - ABANDONED_AFTER_S
    return sorted(
        name
        for query, files in found.items()
        for name, epoch, driver in files
        if newest[query] < stale
        or has_ended(driver)
        or (query == committed.query_hash and epoch <= committed.epoch)
    )


def parent_process() -> str:
    """Return a name of the parent of this process: its machine and its id.

    The machine is that of one boot and one namespace of process ids, so that equal ids
    in two containers differ. Without ``/proc`` it is `UNKNOWN_DRIVER`.
    """
    machine = _machine()
    return UNKNOWN_DRIVER if machine is None else f"{machine}.{os.getppid()}"


def has_ended(process: str) -> bool:
    """Return whether a process is of this machine, and has ended."""
    machine, _, number = process.partition(".")
    if machine != _machine():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is another user's
        return False
    return False


def _machine() -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return None
    return hashlib.sha256(b"%b%d" % (boot, namespace)).hexdigest()[:16]


def _staged_in(directory: Path) -> Iterator[tuple[Path, str, int, str]]:
    """Yield each staged file, with the hash of its query, its epoch and its driver."""
    for path in directory.iterdir():
        if (match := _NAME.fullmatch(path.name)) and is_file(path):
            yield path, match[1], int(match[2]), match[3]


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # a task has removed it since
        return 0

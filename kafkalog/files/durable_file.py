"""The one seam through which kafkalog writes: whole files, put down for good.

A small file that is rewritten (a checkpoint, ``meta.properties``) is replaced: written
beside its place, forced to disk, renamed over it, and the directory forced to disk, so
that after a power cut either the old content is there or the new, never a part of it.

Knows: the order of write, fsync and rename. Does not know: what it stores. One writer
a path at a time: two would share ``<name>.tmp``.
Source: ``CheckpointFile.java``, ``Utils.atomicMoveWithFallback``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TEMPORARY: Final = ".tmp"
"""What is added to a file's name while its replacement is written, as Kafka does."""


def replace(path: str | os.PathLike[str], data: bytes) -> None:
    r"""Make `data` the whole content of `path`, whether it exists or not.

    Once this returns, a power cut does not undo it; if it raises, `path` is either
    untouched or already new, and a ``.tmp`` beside it may be left, for the next
    replacement to overwrite.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     replace(Path(directory, "checkpoint"), b"0\n0\n")
    ...     os.listdir(directory)
    ['checkpoint']
    """
    target = Path(path)
    temporary = target.with_name(target.name + TEMPORARY)
    _write(temporary, data, os.O_TRUNC)
    temporary.replace(target)
    fsync_directory(target.parent)


def write_new(path: str | os.PathLike[str], data: bytes) -> None:
    """Create `path` with `data` in it, for good; `FileExistsError` if it is there.

    A power cut before this returns may leave a part of `data`: for content that a
    checksum guards, or that is given its final name later.
    """
    target = Path(path)
    _write(target, data, os.O_EXCL)
    fsync_directory(target.parent)


def fsync_directory(path: str | os.PathLike[str]) -> None:
    """Force the names in a directory to disk: creations, renames, removals."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

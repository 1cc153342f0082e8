"""Paths that one file of a directory gives for others: they never lead out of it.

Manifests and journals name the files that are to be changed. On a disk of unknown
origin they may name any file, with ``..`` or through a symbolic link. So a name is
checked when it is read, and the directories on the way to a file before it is used.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkalog.errors import LogStateError

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def contained_names(text: object, most: int) -> tuple[str, ...]:
    """Return the names in a relative path with at most `most` of them.

    >>> contained_names("orders-0/00000000000000000000.log", 2)
    ('orders-0', '00000000000000000000.log')
    >>> contained_names("../orders-0", 2)
    Traceback (most recent call last):
        ...
    ValueError: path '../orders-0', expected 1 to 2 names of files

    Raises `ValueError` for anything else: an absolute path, ``..``, or no text.
    """
    names = tuple(text.split("/")) if isinstance(text, str) else ()
    if not 1 <= len(names) <= most or not all(map(_is_name, names)):
        raise ValueError(f"path {text!r}, expected 1 to {most} names of files")
    return names


def _is_name(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return name not in ("", ".", "..") and "\0" not in name


def check_directories(root: Path, names: Sequence[str]) -> None:
    """Check that directories, each in the one before, are no symbolic links.

    The first is in `root`, which may be one itself. They are opened one from another. A
    missing one ends the check.

    Raises `LogStateError` for a link, and for anything but a directory.
    """
    opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    path = root
    try:
        with suppress(FileNotFoundError):
            for name in names:
                path /= name
                opened.append(os.open(name, _DIRECTORY, dir_fd=opened[-1]))
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise LogStateError(f"not a directory, or a symbolic link: {path}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)

"""Whether another process has locked a log directory, without taking the lock.

A broker holds a POSIX record lock on ``.lock`` as long as it runs. A process that holds
such a lock releases it by closing any descriptor of the file: it must not ask about its
own directories.

Source: ``FileLock.java``, ``fcntl(2)`` (``F_GETLK``).
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from kafkalog.storage.file_names import LOCK

# struct flock: its members are in another order on macOS.
_IS_LINUX: Final = sys.platform.startswith("linux")
_LAYOUT: Final = struct.Struct("hhqqi" if _IS_LINUX else "qqihh")
_KIND: Final = 0 if _IS_LINUX else 3


def is_locked(directory: Path) -> bool:
    """Return whether another process has locked a log directory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     is_locked(Path(directory))
    False
    """
    kind = fcntl.F_WRLCK, os.SEEK_SET
    whole = 0, 0, 0  # from byte 0 to the end, of no process
    asked = _LAYOUT.pack(*kind, *whole) if _IS_LINUX else _LAYOUT.pack(*whole, *kind)
    try:
        file = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # there is none, or it cannot be read
    try:
        answer = fcntl.fcntl(file, fcntl.F_GETLK, asked)
    finally:
        os.close(file)
    return int(_LAYOUT.unpack(answer)[_KIND]) != fcntl.F_UNLCK

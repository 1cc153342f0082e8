"""Failure of one read of the files of a log.

Logs and indexes are read by position, small files as a whole. Mapped files are not read
by calls that can fail.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from kafkalog.storage import byte_source, durable_file


class Reads:
    """Counter of reads that fails one of them, counted from 0."""

    def __init__(self, fail_at: int = -1) -> None:
        self.fail_at = fail_at
        self.count = 0

    @property
    def failed(self) -> bool:
        """Whether the read that is to fail was called."""
        return 0 <= self.fail_at < self.count

    def count_one(self) -> None:
        """Count a read; raise if it is the one that fails."""
        self.count += 1
        if self.count - 1 == self.fail_at:
            raise OSError(errno.EIO, "made to fail")

    def counting(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Return `read` with its calls counted."""

        def counted(*arguments: Any) -> Any:
            self.count_one()
            return read(*arguments)

        return counted


@contextmanager
def reads(fail_at: int = -1) -> Iterator[Reads]:
    """Count the reads within the context, and fail one of them."""
    counter = Reads(fail_at)

    class CountedFile(io.FileIO):
        readall = counter.counting(io.FileIO.readall)
        readinto = counter.counting(io.FileIO.readinto)

    by_position = {
        name: counter.counting(getattr(os, name)) for name in ("pread", "preadv")
    }
    with (
        mock.patch.multiple(durable_file.os, **by_position),
        mock.patch.object(byte_source, "io", SimpleNamespace(FileIO=CountedFile)),
    ):
        yield counter

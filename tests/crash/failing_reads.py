"""A disk that fails to read, once: whatever is read of a log's files passes here.

Logs, indexes and what is left of them are read by position, small files whole. What is
mapped is not read by calls that fail, and what is in memory is not read again.
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
    """Counts reads, and fails one of them, from 0 on; `failed` says that it did."""

    def __init__(self, fail_at: int = -1) -> None:
        self.fail_at = fail_at
        self.count = 0

    @property
    def failed(self) -> bool:
        """Whether the read that was to fail was come to."""
        return 0 <= self.fail_at < self.count

    def one(self) -> None:
        """Count a read, or fail it."""
        self.count += 1
        if self.count - 1 == self.fail_at:
            raise OSError(errno.EIO, "made to fail")

    def through(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Count the calls of a way to read."""

        def counted(*arguments: Any) -> Any:
            self.one()
            return read(*arguments)

        return counted


@contextmanager
def reads(fail_at: int = -1) -> Iterator[Reads]:
    """Count what is read meanwhile, and fail at one of the calls."""
    made = Reads(fail_at)

    class CountedFile(io.FileIO):
        readall = made.through(io.FileIO.readall)
        readinto = made.through(io.FileIO.readinto)

    by_position = {
        name: made.through(getattr(os, name)) for name in ("pread", "preadv")
    }
    with (
        mock.patch.multiple(durable_file.os, **by_position),
        mock.patch.object(byte_source, "io", SimpleNamespace(FileIO=CountedFile)),
    ):
        yield made

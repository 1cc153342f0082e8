"""What ``--verbose`` prints on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.cli.exits import print_error
from kafkalog.progress import BEGUN


class _Printer(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_error(record.getMessage())


@contextmanager
def verbose_lines() -> Iterator[None]:
    """Print each partition or file on standard error as work on it begins."""
    printer, level = _Printer(), BEGUN.level
    BEGUN.addHandler(printer)
    BEGUN.setLevel(logging.INFO)
    try:
        yield
    finally:
        BEGUN.setLevel(level)
        BEGUN.removeHandler(printer)

"""What long calls report: functions that are called, and lines of a log."""

import logging
from collections.abc import Callable
from typing import Final

Progress = Callable[[int, int], object]
"""Function that is called with the bytes done so far, and those of all."""

Advance = Callable[[int], object]
"""Function that is called with the bytes done since its last call."""

BEGUN: Final = logging.getLogger(__name__)
"""Has a line, at level INFO, for each partition or file as work on it begins."""


def note_begun(place: object) -> None:
    """Log that work on a partition or a file begins."""
    BEGUN.info("%s", place)

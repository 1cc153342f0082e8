"""Types of the functions that long calls report to."""

from collections.abc import Callable

Progress = Callable[[int, int], object]
"""Function that is called with the bytes done so far, and those of all."""

Advance = Callable[[int], object]
"""Function that is called with the bytes done since its last call."""

"""Suggestions for mistyped names of columns, options and settings."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def with_close_matches(name: object, known: Iterable[str]) -> str:
    """Return `name`, followed by the known names that are similar to it.

    >>> (
    ...     with_close_matches("valeu", ["key", "value"]),
    ...     with_close_matches("x", ["key", "value"]),
    ... )
    ('valeu (did you mean value?)', 'x')
    """
    near = get_close_matches(str(name), list(known))
    return f"{name} (did you mean {' or '.join(near)}?)" if near else str(name)

"""Numbers with their nouns, for people."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> counted(1, "record"), counted(2500, "batch", "batches")
    ('1 record', '2,500 batches')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

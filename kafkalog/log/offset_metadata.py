"""An offset, and where in the log it lies, as far as that is known.

Knows: three numbers. Does not know: how they are found.
Source: ``LogOffsetMetadata.java``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN: Final = -1


class OffsetMetadata(NamedTuple):
    """`offset`, the base offset of its segment, and its byte position in there.

    >>> OffsetMetadata(7).is_bare, OffsetMetadata(7, 0, 120).is_bare
    (True, False)
    """

    offset: int
    segment_base: int = UNKNOWN
    position: int = UNKNOWN

    @property
    def is_bare(self) -> bool:
        """Whether only the offset is known."""
        return self.segment_base == UNKNOWN and self.position == UNKNOWN

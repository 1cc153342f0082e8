"""An offset and its position in the log, if that is known.

Source: ``LogOffsetMetadata.java``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN: Final = -1


class OffsetMetadata(NamedTuple):
    """An offset, the base offset of its segment, and its byte position in the segment.

    >>> OffsetMetadata(7).is_bare, OffsetMetadata(7, 0, 120).is_bare
    (True, False)
    """

    offset: int
    segment_base: int = UNKNOWN
    position: int = UNKNOWN

    @property
    def is_bare(self) -> bool:
        """Whether the position is unknown."""
        return self.segment_base == UNKNOWN and self.position == UNKNOWN

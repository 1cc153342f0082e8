"""The end of a ``with`` block of what is open for writing.

At the end it is closed. If that is interrupted, it is abandoned, so that the log
directory is released. The exception that ended the block reaches the caller, also if
closing fails then: that error becomes a note.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class ClosedAtEnd(ABC):
    """A base of contexts that are closed at the end."""

    @abstractmethod
    def close(self) -> None:
        """Close it in order."""

    @abstractmethod
    def abandon(self) -> None:
        """Close it as it is; after `close` this has no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        try:
            self._close_after(error)
        except BaseException:
            self.abandon()
            raise

    def _close_after(self, error: BaseException | None) -> None:
        """Close it; if the block ended with an error, add a failure to that as a note.

        An interrupt is raised nevertheless.
        """
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            self.abandon()
            error.add_note(f"Closing failed, too: {failure}")

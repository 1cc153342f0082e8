"""`CorruptBatches`: what compaction does about corrupt batches.

    raise   the first one ends the round
    skip    they are dropped
    keep    they are copied byte for byte, with the CRC that does not match

A batch is kept only if its size and its offsets agree with its neighbours. Bytes that
are no batch are dropped or raise, as the batches after them could not be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from kafkalog.errors import CorruptRecordError, KafkaLogError, LocatedError
from kafkalog.reports import ReportRow

OnCorruptBatch: TypeAlias = Literal["raise", "skip", "keep"]


@dataclass(frozen=True, slots=True)
class CorruptBatch(ReportRow):
    """A corrupt batch of a log, or bytes that are no batch.

    Attributes
    ----------
    segment : str
        The file that had it before compaction.
    position : int
        Its first byte in the file.
    first_offset, last_offset : int or None
        The offsets that it has, or lost; None if unknown.
    reason : str
        What was expected and what was found.
    kept : bool
        Whether the log still has it, byte for byte.
    """

    segment: str
    position: int
    first_offset: int | None
    last_offset: int | None
    reason: str
    kept: bool

    def __str__(self) -> str:
        """Return one line: what became of it, the reason, the place, and the offsets.

        >>> print(CorruptBatch("0.log", 17, 4, 6, "CRC mismatch", False))
        dropped: CRC mismatch: 0.log at byte 17, offsets 4 to 6
        """
        outcome = "kept" if self.kept else "dropped"
        text = f"{outcome}: {self.reason}: {self.segment} at byte {self.position}"
        if self.first_offset is None or self.last_offset is None:
            return text
        return f"{text}, offsets {self.first_offset} to {self.last_offset}"


class CorruptBatches:
    """The corrupt batches that were found in a log, by file and position.

    Without `check_crcs` only batches that cannot be read count as corrupt, as in Kafka.
    """

    def __init__(
        self, on_corruption: OnCorruptBatch = "raise", *, check_crcs: bool = True
    ) -> None:
        self.on_corruption = on_corruption
        self.check_crcs = check_crcs
        self.found: dict[tuple[Path, int], CorruptBatch] = {}

    @property
    def is_kept(self) -> bool:
        """Whether corrupt batches are copied."""
        return self.on_corruption == "keep"

    @property
    def raises(self) -> bool:
        """Whether the first corrupt batch raises its error."""
        return self.on_corruption == "raise"

    def add(self, error: LocatedError, row: np.void, *, can_be_kept: bool) -> None:
        """Add a batch whose CRC does not match, or raise its error."""
        if self.raises or (self.is_kept and not can_be_kept):
            raise self._refusal(error)
        self._add_batch(error, row)

    def add_unreadable(self, error: LocatedError, row: np.void) -> None:
        """Add a batch whose records cannot be read, or raise its error.

        The error is the one that an append of the batch raises.
        """
        if self.raises:
            raise error.as_rejection() from error
        self._add_batch(error, row)

    def check_skipped(self, error: CorruptRecordError) -> None:
        """Raise the error of bytes that are no batch, unless they are dropped."""
        if self.on_corruption != "skip":
            raise self._refusal(error)

    def add_skipped(
        self, error: CorruptRecordError, first_offset: int, end_offset: int | None
    ) -> None:
        """Add bytes that are no batch, and the range of offsets that they had.

        `end_offset` is the first offset after them, None if it is unknown.
        """
        if end_offset is None or end_offset <= first_offset:
            self._add(error, None, None)
        else:
            self._add(error, first_offset, end_offset - 1)

    def _add_batch(self, error: LocatedError, row: np.void) -> None:
        first = int(row["base_offset"])
        self._add(error, first if first >= 0 else None, int(row["last_offset"]))

    def _add(self, error: LocatedError, first: int | None, last: int | None) -> None:
        path, position = error.path, error.position
        assert isinstance(path, Path)  # batches are read from files
        assert position is not None
        batch = CorruptBatch(
            path.name, position, first, last, error.reason, self.is_kept
        )
        self.found.setdefault((path, position), batch)

    def _refusal(self, error: LocatedError) -> LocatedError:
        """Return the error of damage that ends compaction, with advice."""
        if self.is_kept:
            error.add_note("It cannot be kept: its size or offsets are wrong, too.")
        return error


@contextmanager
def locating_errors(directory: Path, copy: Path) -> Iterator[None]:
    """Make errors about a copy of a partition name the partition's own files.

    An error about a record, which names no file, becomes one that names `directory`.
    """
    try:
        yield
    except LocatedError as error:
        if isinstance(error.path, Path) and error.path.parent == copy:
            error.path = directory / error.path.name
        raise
    except KafkaLogError as error:
        if not isinstance(error.__cause__, LocatedError):
            error.args = (str(error).replace(str(copy), str(directory)),)
            raise
        corrupt = error.__cause__
        if isinstance(corrupt.path, Path) and corrupt.path.parent == copy:
            corrupt.path = directory / corrupt.path.name
        elif corrupt.path is None:
            corrupt = corrupt.located(directory)
        raise corrupt from None

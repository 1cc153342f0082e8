"""What the checkpoints and file names around a log state about its offsets."""

from __future__ import annotations

from typing import NamedTuple, Self

from kafkalog.errors import CorruptCheckpointError
from kafkalog.formats.checkpoint import EpochEntry, parse_epochs
from kafkalog.log.ownership import Name
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_if_exists,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import parse_file_names
from kafkalog.storage.location import Location, entries


class KnownOffsets(NamedTuple):
    """The offsets of a log that are known without its batches.

    `end` is the greatest offset that its log end offset certainly had, by the
    checkpoints, the names of producer snapshots and the starts of leader epochs.
    `cleaned_to` is the offset up to which the log is compacted, 0 if it is not. The
    others are None if they are unknown. A corrupt checkpoint states nothing.
    """

    log_start_offset: int | None
    high_watermark: int | None
    end: int
    cleaned_to: int
    epochs: list[EpochEntry]

    @classmethod
    def of(cls, directory: Location, name: Name) -> Self:
        """Return the offsets of the partition in a directory."""
        start, high_watermark, recovery_point = (
            read_offsets_or_none(directory.parent, checkpoint).get(name)
            for checkpoint in (LOG_STARTS, HIGH_WATERMARKS, RECOVERY_POINTS)
        )
        epochs = _epochs_of(directory)
        names = parse_file_names(entry.name for entry in entries(directory))
        ends = [high_watermark, recovery_point]
        ends += [entry.start_offset for entry in epochs]
        ends += [
            each.base_offset
            for each in names.values()
            if each.kind == "snapshot" and each.suffix is None
        ]
        end = max((end for end in ends if end is not None), default=0)
        cleaned_to = read_offsets_or_none(directory.parent, CLEANED_TO).get(name, 0)
        return cls(start, high_watermark, end, cleaned_to, epochs)


def _epochs_of(directory: Location) -> list[EpochEntry]:
    """Return the entries of the epoch checkpoint."""
    try:
        return read_if_exists(directory / LEADER_EPOCHS, parse_epochs) or []
    except CorruptCheckpointError:
        return []

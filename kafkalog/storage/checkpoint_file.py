"""Checkpoint files of a log directory, and of one partition.

Source: ``LogManager.scala``, ``OffsetCheckpointFile.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from kafkalog.errors import CorruptCheckpointError, LocatedError
from kafkalog.formats.checkpoint import format_offsets, parse_offsets
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.location import Location, read_small

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED_TO: Final = "cleaner-offset-checkpoint"
CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_TO)
"""The offset checkpoints of a log directory, in the order in which a broker reads them.
"""

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

Offsets = dict[tuple[str, int], int]
Parsed = TypeVar("Parsed")


def read_if_exists(path: Location, parse: Callable[[bytes], Parsed]) -> Parsed | None:
    """Parse a small file; return None if there is none. Errors name the file."""
    try:
        return parse(read_small(path))
    except FileNotFoundError:
        return None
    except LocatedError as error:
        raise error.located(path) from None


def read_offsets(directory: Location, name: str) -> Offsets:
    """Read an offset checkpoint of a log directory; a missing file is empty.

    Raises `CorruptCheckpointError`, with file and byte.
    """
    return read_if_exists(directory / name, parse_offsets) or {}


def write_offsets(
    directory: Path, name: str, offsets: Mapping[tuple[str, int], int], disk: Disk
) -> None:
    """Replace an offset checkpoint by `offsets`, and force it to disk."""
    disk.replace(directory / name, format_offsets(offsets))


def read_offsets_or_none(directory: Location, name: str) -> Offsets:
    """Read an offset checkpoint; a corrupt file is empty, as in Kafka."""
    with suppress(CorruptCheckpointError):
        return read_offsets(directory, name)
    return {}

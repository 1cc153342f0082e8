"""Checkpoint files, by name: those of a log directory, and small files beside a log.

Knows: where checkpoints lie. Does not know: what follows from them.
Source: ``LogManager.scala``, ``OffsetCheckpointFile.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from kafkalog.errors import CorruptCheckpointError
from kafkalog.formats.checkpoint import format_offsets, parse_offsets
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.location import Location, read_small

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED_TO: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

Offsets = dict[tuple[str, int], int]
Parsed = TypeVar("Parsed")


def read_if_there(path: Location, parse: Callable[[bytes], Parsed]) -> Parsed | None:
    """Parse a small file; None where there is none. Errors say which file it is."""
    try:
        return parse(read_small(path))
    except FileNotFoundError:
        return None
    except CorruptCheckpointError as error:
        raise error.located(path) from None


def read_offsets(directory: Location, name: str) -> Offsets:
    """Read one of the offset checkpoints of a log directory; missing is empty.

    Raises `CorruptCheckpointError`, with file and byte.
    """
    return read_if_there(directory / name, parse_offsets) or {}


def write_offsets(
    directory: Path, name: str, offsets: Mapping[tuple[str, int], int], disk: Disk
) -> None:
    """Make `offsets` the content of an offset checkpoint, for good."""
    disk.replace(directory / name, format_offsets(offsets))


def known_offsets(directory: Location, name: str) -> Offsets:
    """Like `read_offsets`; Kafka, too, takes an unreadable file for an empty one."""
    with suppress(CorruptCheckpointError):
        return read_offsets(directory, name)
    return {}

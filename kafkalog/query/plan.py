"""What a source is made of: partitions, lone files, memory. Nothing is read here.

Knows: which bytes are asked for. Does not know: what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from kafkalog.errors import NotALogDirectoryError
from kafkalog.files.checkpoint_file import LOG_STARTS, known_offsets
from kafkalog.files.location import Location, OpenedSource, locate
from kafkalog.files.naming import parse_partition_dir
from kafkalog.files.remote import RemotePath
from kafkalog.formats.decoding import FIRST, LAST, Bounds
from kafkalog.manager.log_directory import is_partition, list_partitions
from kafkalog.segment.log_segment import LogSegment

FILE_ENDINGS: Final = tuple(
    kind + suffix
    for kind in (".log", ".checkpoint")
    for suffix in ("", ".deleted", ".cleaned", ".swap", ".part")
)
"""How the name of a file ends that holds entries."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)

Path_ = str | os.PathLike[str]
Offset = int | Mapping[tuple[str, int], int] | None
Time = int | datetime | None


class Span(NamedTuple):
    """Whole batches of one segment: its bytes from `begin` to `end`.

    Where they were looked for in an opened file, `source` is that very file: under its
    name there may be another by now. Who opened it closes it.
    """

    segment: LogSegment
    begin: int
    end: int
    source: OpenedSource | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One partition's directory, one file, or bytes in memory.

    Of a directory with a `span` no more is read than that.
    """

    topic: str = ""
    partition: int = -1
    directory: Location | None = None
    file: Location | None = None
    memory: Any = None
    log_start_offset: int = FIRST
    span: Span | None = None


def find_parts(source: Any) -> list[Part]:
    """Say what a source is made of; a list of sources, in its order.

    Raises `FileNotFoundError`, and `NotALogDirectoryError` for what is there and holds
    nothing of Kafka's.
    """
    if isinstance(source, (list, tuple)):
        return [part for one in source for part in find_parts(one)]
    if not isinstance(source, (str, os.PathLike, RemotePath)):
        with memoryview(source) as view:
            if not view.contiguous:
                raise ValueError("batches in memory must lie behind one another")
        return [Part(memory=source)]
    path = locate(source)
    if path.is_dir():
        return list(_of_directory(path))
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    if not path.is_file() or not path.name.endswith(FILE_ENDINGS):
        reason = f"neither a .log or .checkpoint file nor a log directory: {path}"
        raise NotALogDirectoryError(reason)
    topic, partition = _named(path.absolute().parent)
    return [Part(topic, partition, file=path)]


def _of_directory(path: Location) -> Iterator[Part]:
    if is_partition(path):
        topic, partition = _named(path.absolute())
        starts = known_offsets(path.absolute().parent, LOG_STARTS)
        start = starts.get((topic, partition), FIRST)
        yield Part(topic, partition, directory=path, log_start_offset=start)
        return
    starts = known_offsets(path, LOG_STARTS)
    for name, directory in list_partitions(path):
        start = starts.get((name.topic, name.partition), FIRST)
        yield Part(
            name.topic, name.partition, directory=directory, log_start_offset=start
        )


def _named(directory: Location) -> tuple[str, int]:
    name = parse_partition_dir(directory.name)
    return ("", -1) if name is None else (name.topic, name.partition)


def bounds_of(
    part: Part, start: Offset, end: Offset, times: tuple[Time, Time]
) -> Bounds:
    """Say which records of a part are wanted.

    Without a start offset a partition is read from its log start.
    """
    first, last = _offset_for(part, start), _offset_for(part, end)
    return Bounds(
        start_offset=part.log_start_offset if first is None else _in_64_bits(first),
        end_offset=LAST if last is None else _in_64_bits(last),
        start_timestamp=as_ms(times[0]),
        end_timestamp=as_ms(times[1]),
    )


def _in_64_bits(bound: int) -> int:
    """Return the nearest bound that fits: beyond it there is nothing to bound."""
    return max(FIRST, min(int(bound), LAST))


def _offset_for(part: Part, offset: Offset) -> int | None:
    if isinstance(offset, Mapping):
        return offset.get((part.topic, part.partition))
    return offset


def check_offset(name: str, offset: Offset) -> None:
    """Refuse what is neither an offset nor offsets by (topic, partition)."""
    values = offset.values() if isinstance(offset, Mapping) else [offset]
    for value in values:
        if value is None and offset is None:
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name} must be whole numbers, not {value!r}")


def as_ms(time: Time) -> int | None:
    """Milliseconds since 1970 of a bound; of a datetime between two, the later.

    >>> as_ms(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
    1700000000000
    """
    if time is None:
        return None
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"a time needs a zone to be one: {time!r} has none")
        return -((EPOCH - time) // MILLISECOND)
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        raise TypeError(f"a time is ms since 1970 or a datetime, not {time!r}")
    return _in_64_bits(time)

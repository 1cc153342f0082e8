"""What a source is made of: partitions, lone files, memory. Nothing is read here.

Knows: which bytes are asked for. Does not know: what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalog.decoding.batch_decoder import FIRST, LAST, Bounds
from kafkalog.errors import NotALogDirectoryError
from kafkalog.formats.timestamps import Time, as_ms
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import LOG_STARTS, known_offsets
from kafkalog.storage.file_names import parse_partition_dir
from kafkalog.storage.location import Location, OpenedSource, locate
from kafkalog.storage.log_directory import is_partition, list_partitions
from kafkalog.storage.remote_source import RemotePath

FILE_ENDINGS: Final = tuple(
    kind + suffix
    for kind in (".log", ".checkpoint")
    for suffix in ("", ".deleted", ".cleaned", ".swap", ".part")
)
"""How the name of a file ends that holds entries."""

SHOWN: Final = 5
"""How many partitions an error names."""

Offset = int | Mapping[tuple[str, int], int] | None


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
    """Return the parts of a source; of a list of sources, in its order, each once.

    A directory or file that comes by several names, links among them, is one part.

    Raises `FileNotFoundError`, and `NotALogDirectoryError` for what is there and holds
    nothing of Kafka's.
    """
    return list(_without_repeats(_all_parts(source)))


def _all_parts(source: Any) -> Iterator[Part]:
    if isinstance(source, (list, tuple)):
        for one in source:
            yield from _all_parts(one)
    elif isinstance(source, (str, os.PathLike, RemotePath)):
        yield from _of_path(locate(source))
    else:
        yield _of_memory(source)


def _without_repeats(parts: Iterator[Part]) -> Iterator[Part]:
    """Yield each directory and file once, by whichever of its names comes first."""
    seen = set[object]()
    for part in parts:
        place = part.directory or part.file
        if place is not None:
            known = place.resolve() if isinstance(place, Path) else place
            if known in seen:
                continue
            seen.add(known)
        yield part


def _of_memory(source: Any) -> Part:
    try:
        view = memoryview(source)
    except TypeError:
        raise TypeError(
            "a source is a path, a URL, bytes in memory, or a list of such, not "
            f"{type(source).__name__}"
        ) from None
    with view:
        if not view.contiguous:
            raise ValueError("batches in memory must lie behind one another")
    return Part(memory=source)


def _of_path(path: Location) -> list[Part]:
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
    part: Part, start: Offset, end: Offset, times: tuple[Time | None, Time | None]
) -> Bounds:
    """Say which records of a part are wanted.

    Without a start offset a partition is read from its log start.
    """
    first, last = _offset_for(part, start), _offset_for(part, end)
    earliest, latest = (None if time is None else as_ms(time) for time in times)
    return Bounds(
        start_offset=part.log_start_offset if first is None else _in_64_bits(first),
        end_offset=LAST if last is None else _in_64_bits(last),
        start_timestamp=earliest,
        end_timestamp=latest,
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
    if offset is None:
        return
    if isinstance(offset, Mapping):
        for key in offset:
            if not _is_partition_key(key):
                raise TypeError(
                    f"{name}: key {key!r}, expected (topic, partition), such as "
                    '("orders", 0)'
                )
    for value in offset.values() if isinstance(offset, Mapping) else [offset]:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name} must be whole numbers, not {value!r}")


def _is_partition_key(key: object) -> bool:
    if not isinstance(key, tuple) or len(key) != 2:
        return False
    topic, partition = key
    is_number = hasattr(partition, "__index__") and not isinstance(partition, bool)
    return isinstance(topic, str) and is_number


def check_known(name: str, offset: Offset, parts: Iterable[Part]) -> None:
    """Refuse offsets of partitions that are not among `parts`, naming some that are."""
    if not isinstance(offset, Mapping):
        return
    there = {(part.topic, part.partition) for part in parts}
    unknown = [key for key in offset if key not in there]
    if not unknown:
        return
    some = ", ".join(map(str, sorted(there)[:SHOWN]))
    more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
    raise ValueError(
        f"{name}: no partition {unknown[0]}; there are {some}{more}"
        if there
        else f"{name}: no partition {unknown[0]}; there are none"
    )

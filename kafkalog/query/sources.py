"""The partitions, files and buffers of a source. This module reads none of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from kafkalog.decoding.read_policy import Bounds
from kafkalog.errors import NotALogDirectoryError
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import LOG_STARTS, read_offsets_or_none
from kafkalog.storage.file_names import parse_partition_dir
from kafkalog.storage.location import Location, OpenedSource, locate, no_such_path
from kafkalog.storage.log_directory import is_partition, list_partitions
from kafkalog.storage.remote_source import RemotePath
from kafkalog.text.close_matches import first_few

FILE_ENDINGS: Final = tuple(
    kind + suffix
    for kind in (".log", ".checkpoint")
    for suffix in ("", ".deleted", ".cleaned", ".swap", ".part")
)
"""Endings of the names of files with batches."""

Offset = int | Mapping[tuple[str, int], int] | None


class ByteRange(NamedTuple):
    """Whole batches of one segment: its bytes from `begin` to `end`.

    `source` is the opened file that they were found in, if any: another file may have
    its name by now. The caller closes it.
    """

    segment: LogSegment
    begin: int
    end: int
    source: OpenedSource | None = None


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """One partition's directory, one file, or bytes in memory.

    With a `byte_range`, only that range of the directory is read. `is_named` is whether
    the caller named it, or its topic; else it was found in a log directory.
    """

    topic: str = ""
    partition: int = -1
    directory: Location | None = None
    file: Location | None = None
    memory: Any = None
    log_start_offset: int = MIN_INT64
    byte_range: ByteRange | None = None
    is_named: bool = True

    def __str__(self) -> str:
        place = self.file if self.directory is None else self.directory
        return "bytes in memory" if place is None else str(place)


_Named: TypeAlias = tuple[Location | None, PartitionSource]
"""A source, and its path without links; None for memory."""


def find_sources(source: Any) -> list[PartitionSource]:
    """Return the partitions, files and buffers of a source, in order, each once.

    A directory or file with several names, such as a link, is listed once.

    Raises `FileNotFoundError`, and `NotALogDirectoryError` for a path without files of
    Kafka's.
    """
    return list(_without_repeats(_all_sources(source)))


def _all_sources(source: Any) -> Iterator[_Named]:
    if isinstance(source, (list, tuple)):
        for member in source:
            yield from _all_sources(member)
    elif isinstance(source, (str, os.PathLike, RemotePath)):
        yield from _of_path(locate(source))
    else:
        yield None, _of_memory(source)


def _without_repeats(sources: Iterator[_Named]) -> Iterator[PartitionSource]:
    """Yield each directory and file once, under the first of its names."""
    seen = set[Location]()
    for place, source in sources:
        if place is not None:
            if place in seen:
                continue
            seen.add(place)
        yield source


def _of_memory(source: Any) -> PartitionSource:
    try:
        view = memoryview(source)
    except TypeError:
        raise TypeError(
            f"source of type {type(source).__name__}, expected a path, a URL, bytes in "
            "memory, or a list of these"
        ) from None
    with view:
        if not view.contiguous:
            raise ValueError("buffer is not contiguous, expected contiguous bytes")
    return PartitionSource(memory=source)


def _of_path(path: Location) -> list[_Named]:
    if path.is_dir():
        return list(_of_directory(path))
    if not path.exists():
        raise no_such_path(path)
    if not path.is_file() or not path.name.endswith(FILE_ENDINGS):
        reason = f"neither a .log or .checkpoint file nor a log directory: {path}"
        raise NotALogDirectoryError(reason)
    topic, partition = _named(path.absolute().parent)
    return [(path.resolve(), PartitionSource(topic, partition, file=path))]


def _of_directory(path: Location) -> Iterator[_Named]:
    place = path.resolve()
    if is_partition(path):
        topic, partition = _named(path.absolute())
        starts = read_offsets_or_none(path.absolute().parent, LOG_STARTS)
        start = starts.get((topic, partition), MIN_INT64)
        source = PartitionSource(
            topic, partition, directory=path, log_start_offset=start
        )
        yield place, source
        return
    starts = read_offsets_or_none(path, LOG_STARTS)
    for name, directory in list_partitions(path):  # none of them is a link
        start = starts.get((name.topic, name.partition), MIN_INT64)
        source = PartitionSource(
            name.topic,
            name.partition,
            directory=directory,
            log_start_offset=start,
            is_named=False,
        )
        yield place / directory.name, source


def _named(directory: Location) -> tuple[str, int]:
    name = parse_partition_dir(directory.name)
    return ("", -1) if name is None else (name.topic, name.partition)


def bounds_of(
    source: PartitionSource,
    start: Offset,
    end: Offset,
    times: tuple[int | None, int | None],
) -> Bounds:
    """Return the bounds of one source; without a start offset, from its log start."""
    first, last = _offset_for(source, start), _offset_for(source, end)
    return Bounds(
        start_offset=source.log_start_offset if first is None else _in_64_bits(first),
        end_offset=MAX_INT64 if last is None else _in_64_bits(last),
        start_timestamp=times[0],
        end_timestamp=times[1],
    )


def _in_64_bits(bound: int) -> int:
    """Return the nearest int64, the type of offsets."""
    return max(MIN_INT64, min(int(bound), MAX_INT64))


def _offset_for(source: PartitionSource, offset: Offset) -> int | None:
    if isinstance(offset, Mapping):
        return offset.get((source.topic, source.partition))
    return offset


def check_offset(name: str, offset: Offset) -> None:
    """Raise `TypeError` unless `offset` is an offset or a mapping of offsets."""
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
            raise TypeError(f"{name} {value!r}, expected an integer")


def _is_partition_key(key: object) -> bool:
    if not isinstance(key, tuple) or len(key) != 2:
        return False
    topic, partition = key
    is_number = hasattr(partition, "__index__") and not isinstance(partition, bool)
    return isinstance(topic, str) and is_number


def check_count(name: str, count: int) -> None:
    """Raise `TypeError` or `ValueError` unless `count` is an integer from 0 on."""
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"{name} {count!r}, expected an integer")
    if count < 0:
        raise ValueError(f"{name} {count}, expected 0 or more")


def check_known(name: str, offset: Offset, sources: Iterable[PartitionSource]) -> None:
    """Raise `ValueError` for offsets of partitions that are not in the source."""
    if not isinstance(offset, Mapping):
        return
    known = {(source.topic, source.partition) for source in sources}
    unknown = [key for key in offset if key not in known]
    if not unknown:
        return
    some = first_few(known) or "none"
    raise ValueError(f"{name}: no partition {unknown[0]}; there are {some}")

"""A log directory (``log.dirs``): which partitions lie in it, and which are chosen.

Knows: what lies directly in a log directory. Does not know: what is in a log.
Source: ``LogManager.scala``, ``LogDirFailureChannel.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalog.errors import NotALogDirectoryError
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import (
    META_PROPERTIES,
    PartitionDir,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import Location, entries

ROOT_FILES: Final = frozenset(
    {RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_TO, META_PROPERTIES}
)
"""Files by any of which a directory shows that it is a log directory."""


def is_partition(directory: Location) -> bool:
    """Whether a directory is a partition's: it holds segments, or is named as one.

    Raises `NotALogDirectoryError` where it is neither that nor a log directory.
    """
    names = sorted(entry.name for entry in entries(directory))
    if any(parse_file_name(name) is not None for name in names):
        return True
    if _show_logs(names):
        return False
    if parse_partition_dir(directory.name) is not None:
        return True
    reason = f"neither a partition nor a log directory: {directory}"
    raise NotALogDirectoryError(reason)


def holds_logs(directory: Location) -> bool:
    """Whether a directory shows that it is a log directory, by a file or a partition.

    That of a mount without its file system does not, nor does an empty one.
    """
    return _show_logs([entry.name for entry in entries(directory)])


def _show_logs(names: Sequence[str]) -> bool:
    return bool(ROOT_FILES.intersection(names)) or any(map(parse_partition_dir, names))


def list_partitions(
    directory: Location, *, marked: bool = False
) -> list[tuple[PartitionDir, Location]]:
    """List the partitions in a log directory, by topic and number.

    Those marked ``-delete``, ``-future`` or ``-stray`` only with `marked`. A link is
    not followed.
    """
    found = []
    for entry in entries(directory):
        name = parse_partition_dir(entry.name)
        if name is None or not entry.is_dir(follow_symlinks=False):
            continue
        if marked or name.state is None:
            found.append((name, directory / entry.name))
    return sorted(found, key=lambda one: (one[0].topic, one[0].partition, one[1].name))


def places_under(path: Location) -> list[tuple[str, int]]:
    """Topic and number of each partition under a path; of none, the empty one and -1.

    A partition's directory or a file has one; those marked ``-delete`` and the like are
    among a log directory's.
    """
    if path.is_dir() and not is_partition(path):
        return [
            (one.topic, one.partition) for one, _ in list_partitions(path, marked=True)
        ]
    directory = path.absolute() if path.is_dir() else path.absolute().parent
    name = parse_partition_dir(directory.name)
    return [("", -1) if name is None else (name.topic, name.partition)]


def choose(
    places: Sequence[tuple[str, int]],
    topics: Sequence[str] = (),
    partitions: Sequence[int] = (),
) -> list[int]:
    """Say which of `places` (topic, partition) are of these; none named is all.

    Raises `FileNotFoundError` for a topic or partition that is not among them.

    >>> choose([("orders", 0), ("orders", 1), ("state", 0)], ["orders"], [1])
    [1]
    """
    for what, wanted, there in (
        ("topic", topics, {topic for topic, _ in places}),
        ("partition", partitions, {partition for _, partition in places}),
    ):
        for one in wanted:
            if one not in there:
                raise FileNotFoundError(2, f"No such {what}", str(one))
    return [
        i
        for i, (topic, partition) in enumerate(places)
        if (not topics or topic in topics)
        and (not partitions or partition in partitions)
    ]

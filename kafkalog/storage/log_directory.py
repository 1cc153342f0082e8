"""A log directory (``log.dirs``): its partitions, and selections of them.

Source: ``LogManager.scala``, ``LogDirFailureChannel.java``.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Self, TypeAlias

from kafkalog.errors import NotALogDirectoryError
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    PartitionDir,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import Location, entries, is_directory, is_file
from kafkalog.text.close_matches import first_few, no_such_name

REMOTE_INDEXES: Final = "remote-log-index-cache"
"""Directory in a log directory that is no log: indexes of tiered storage."""

ROOT_FILES: Final = frozenset(
    {RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_TO, META_PROPERTIES}
)
"""Files that only a log directory has."""

LINKED: Final = (
    "symbolic link, expected a directory: a broker loads the log, but it is only "
    "verified, salvaged or restored if the link itself is named"
)
"""The problem of a link to a partition."""


LINKED_FILE: Final = (
    "symbolic link, expected a regular file: a broker follows it; here it counts as "
    "missing, and the log is not opened for writing"
)
"""The problem of a link in the place of a file of Kafka's."""

FILES: Final = ROOT_FILES | {CLEAN_SHUTDOWN, LEADER_EPOCHS, PARTITION_METADATA}
"""Names of Kafka's files in a log directory or a partition that have no offset."""


def is_loaded_name(name: str) -> bool:
    """Return whether a broker loads or completes a file of this name.

    >>> is_loaded_name("7.log"), is_loaded_name("7.log.deleted")
    (True, False)
    """
    parsed = parse_file_name(name)
    return name in FILES or (parsed is not None and parsed.suffix in (None, "swap"))


def check_no_links(directory: Path) -> None:
    """Raise `OSError` if a partition has a link or a special file as a file of Kafka's.

    A broker follows a link, and nothing is written through one here: the log would not
    be the one that the broker loads.
    """
    for entry in entries(directory):
        if is_file(entry) or not is_loaded_name(entry.name):
            continue
        if entry.name in FILES or not is_directory(entry):
            path = str(directory / entry.name)
            raise OSError(errno.EINVAL, "Not a regular file", path)


def is_partition(directory: Location) -> bool:
    """Return whether a directory is that of a partition, by its segments or its name.

    A log directory in which a file of a segment lies by mistake is none: it has files
    of a log directory, or partitions and no partition's name.

    Raises `NotALogDirectoryError` if it is neither that nor a log directory.
    """
    names = sorted(entry.name for entry in entries(directory))
    if ROOT_FILES.intersection(names):
        return False
    is_named = parse_partition_dir(directory.name) is not None
    has_logs = any(map(parse_partition_dir, names))
    if any(map(parse_file_name, names)):
        return is_named or not has_logs
    if has_logs:
        return False
    if is_named:
        return True
    reason = f"neither a partition nor a log directory: {directory}"
    raise NotALogDirectoryError(reason)


def is_log_directory(directory: Location) -> bool:
    """Return whether a directory has a log directory's files, or a partition.

    False for an empty directory, such as a mount point that is not mounted.
    """
    return _has_logs([entry.name for entry in entries(directory)])


def _has_logs(names: Sequence[str]) -> bool:
    return bool(ROOT_FILES.intersection(names)) or any(map(parse_partition_dir, names))


def list_partitions(
    directory: Location, *, marked: bool = False
) -> list[tuple[PartitionDir, Location]]:
    """List the partitions in a log directory, by topic and number.

    Directories marked ``-delete``, ``-future`` or ``-stray`` are listed only with
    `marked`. Symbolic links are ignored.
    """
    partitions = []
    for entry in entries(directory):
        name = parse_partition_dir(entry.name)
        if name is None or not is_directory(entry):
            continue
        if marked or name.state is None:
            partitions.append((name, directory / entry.name))
    return sorted(
        partitions, key=lambda pair: (pair[0].topic, pair[0].partition, pair[1].name)
    )


def subdirectories(directory: Path) -> list[Path]:
    """List the directories that a broker takes for logs, and links to some, by name.

    A broker does not start if one of them does not have the name of a partition.

    Source: ``LogManager.loadLogs``.
    """
    return [
        path
        for path in sorted(directory.iterdir())
        if path.name != REMOTE_INDEXES and path.is_dir()
    ]


def linked_partitions(directory: Path) -> list[tuple[PartitionDir, Path]]:
    """List the symbolic links to partitions in a log directory, by name.

    `list_partitions` ignores them, but a broker loads their logs.
    """
    return [
        (name, path)
        for path in subdirectories(directory)
        if path.is_symlink() and (name := parse_partition_dir(path.name)) is not None
    ]


def existing_partitions(directory: Location) -> dict[str, tuple[int, ...]]:
    """Return the partitions of each topic in a log directory, ascending.

    A missing directory has none.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as root:
    ...     Path(root, "orders-0").mkdir()
    ...     existing_partitions(Path(root))
    {'orders': (0,)}
    """
    found: dict[str, list[int]] = {}
    if directory.is_dir():
        for name, _ in list_partitions(directory):
            found.setdefault(name.topic, []).append(name.partition)
    return {topic: tuple(partitions) for topic, partitions in found.items()}


def partitions_under(path: Location) -> list[tuple[str, int]]:
    """Return topic and number of each partition under a path.

    For a log directory these are all its partitions, those marked ``-delete`` and the
    like included; for the directory of a partition, or a file in it, that partition.
    If its name is not that of a partition, it is ("", -1).
    """
    if path.is_dir() and not is_partition(path):
        return [
            (name.topic, name.partition)
            for name, _ in list_partitions(path, marked=True)
        ]
    directory = path.absolute() if path.is_dir() else path.absolute().parent
    name = parse_partition_dir(directory.name)
    return [("", -1) if name is None else (name.topic, name.partition)]


Topics: TypeAlias = "str | Iterable[str] | None"
"""One or several topics, which may be glob patterns; None for no condition."""

Numbers: TypeAlias = "int | Iterable[int] | None"
"""One or several numbers of partitions; None for all."""


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """The partitions that a caller requests; without a condition, all of them."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        topics: Topics = None,
        partitions: Numbers = None,
        exclude_topics: Topics = None,
    ) -> Self:
        """Return the selection for the arguments of a public function."""
        numbers = () if partitions is None else partitions
        if not isinstance(numbers, Iterable):  # one, of Python or of NumPy
            numbers = (numbers,)
        return cls(_patterns(topics), tuple(numbers), _patterns(exclude_topics))

    def has_topic(self, topic: str) -> bool:
        """Return whether partitions of a topic may be requested."""
        included = not self.topics or _matches(topic, self.topics)
        return included and not _matches(topic, self.excluded)

    def has(self, topic: str, partition: int) -> bool:
        """Return whether a partition is requested."""
        is_number = not self.partitions or partition in self.partitions
        return is_number and self.has_topic(topic)

    def check(self, paths: Iterable[Location]) -> None:
        """Raise `FileNotFoundError` as `choose` does for the partitions under paths.

        Without a condition, nothing is read.
        """
        if self.topics or self.partitions:
            self.choose([place for path in paths for place in partitions_under(path)])

    def choose(self, available: Sequence[tuple[str, int]]) -> list[int]:
        """Return the indexes of the `available` (topic, partition) that are requested.

        Raises `FileNotFoundError` for a topic, pattern or partition that nothing
        matches, and where no requested topic has a requested partition.

        >>> selection = PartitionSelection.of(["o*"], 1)
        >>> selection.choose([("orders", 0), ("orders", 1), ("state", 0)])
        [1]
        """
        names = {topic for topic, _ in available}
        for pattern in self.topics:
            if not matching_topics(names, pattern):
                raise no_such_name("topic", pattern, names)
        numbers = {partition for _, partition in available}
        for number in self.partitions:
            if number not in numbers:
                error = FileNotFoundError(2, "No such partition", str(number))
                error.add_note(f"there are {first_few(numbers) or 'none'}")
                raise error
        found = [i for i, name in enumerate(available) if self.has(*name)]
        if self.topics and self.partitions and not found:
            wanted = ", ".join(map(str, self.partitions))
            wanted = f"{wanted} of {', '.join(self.topics)}"
            raise FileNotFoundError(2, "No such partition", wanted)
        return found


EVERY_PARTITION: Final = PartitionSelection()


def _patterns(topics: Topics) -> tuple[str, ...]:
    if topics is None:
        return ()
    return (topics,) if isinstance(topics, str) else tuple(topics)


def _matches(topic: str, patterns: Iterable[str]) -> bool:
    return any(matching_topics({topic}, pattern) for pattern in patterns)


def matching_topics(names: Collection[str], pattern: str) -> set[str]:
    """Return the topics that a glob pattern matches; ``*``, ``?`` and ``[...]``.

    These characters are in no topic's name.
    """
    if pattern in names:
        return {pattern}
    return {name for name in names if fnmatchcase(name, pattern)}

"""The description of a file, partition or log directory, as ``kafkalog info`` prints.

For a file or a partition, the headers of its batches and all small files are read. For
a log directory, names, sizes, checkpoints and the files of a listing are read. Files
that a broker removes meanwhile are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from kafkalog.errors import LocatedError, NotALogDirectoryError
from kafkalog.log.reading.log_segments import list_directory, list_first
from kafkalog.log.reading.remote_offsets import find_missing_start, log_start_in
from kafkalog.log.reading.transactions import find_stable
from kafkalog.query.listing import list_path
from kafkalog.query.listing_report import PartitionSummary
from kafkalog.query.log_contents import Contents, LogContents, contents_of
from kafkalog.query.small_files import PARSERS, describe_small_file
from kafkalog.query.sources import FILE_ENDINGS
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import (
    CHECKPOINTS,
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    INDEXES,
    META_PROPERTIES,
    PARTITION_METADATA,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import (
    Entry,
    Location,
    entries,
    file_size,
    no_such_path,
    regular_files,
)
from kafkalog.storage.log_directory import (
    is_partition,
    list_partitions,
)

Facts = dict[str, Any]

MISSING: Final = "missing"
WHOLE: Final = "whole"
OPTIONAL_INDEX: Final = "txnindex"
"""The index that a segment has only if it has aborted transactions."""

OF_PARTITIONS: Final = {
    "high_watermark": HIGH_WATERMARKS,
    "recovery_point": RECOVERY_POINTS,
    "cleaned_to": CLEANED_TO,
}


def describe(path: Location) -> Facts:
    """Return the description of `path`, as members of JSON, `kind` and `path` first.

    Times are in ms since 1970; what is missing or unknown is None. A member `state` or
    `tail` states what is damaged, and why.

    Raises `FileNotFoundError`, and `NotALogDirectoryError` for files of other programs.
    """
    if path.is_dir():
        return _partition(path) if is_partition(path) else _log_directory(path)
    if not path.exists():
        raise no_such_path(path)
    if path.name.endswith(FILE_ENDINGS) and path.is_file():
        return _segment_file(path)
    facts = describe_small_file(path, links=True) if path.is_file() else None
    if facts is None:
        raise NotALogDirectoryError(f"not a file that Kafka writes: {path}")
    return facts


def damages(facts: Facts) -> list[str]:
    """Return the texts of all damage in `facts`.

    >>> damages({"tail": "whole", "beside": [{"state": "damaged: why"}]})
    ['damaged: why']
    """
    texts = []
    for value in facts.values():
        inside = value if isinstance(value, list) else [value]
        for member in inside:
            if isinstance(member, dict):
                texts += damages(member)
            elif isinstance(member, str) and member.startswith("damaged: "):
                texts.append(member)
    return texts


def _segment_file(path: Location) -> Facts:
    directory = parse_partition_dir(path.absolute().parent.name)
    segment, name = LogSegment.of(path), parse_file_name(path.name)
    facts = {
        "kind": "segment" if ".log" in path.name else "metadata snapshot",
        "path": str(path),
        "topic": directory and directory.topic,
        "partition": directory and directory.partition,
        **_segment(segment, contents_of(segment, Limits())),
    }
    if facts["kind"] == "segment":
        return {**facts, "beside": _sidecars(segment)}
    # The offset in a snapshot's name is the log's offset at its end, not a base offset.
    del facts["base_offset"]
    end = name and {"end_offset": name.base_offset, "epoch": name.epoch}
    return {**facts, **(end or {})}


def _segment(segment: LogSegment, found: LogContents) -> Facts:
    damage = "" if found.damage is None else f": {found.damage}"
    named = segment.base_offset >= 0
    return {
        "base_offset": segment.base_offset if named else None,
        "next_offset": found.next_offset,
        "size_in_bytes": segment.size_in_bytes,
        "tail": f"{found.tail or WHOLE}{damage}",
        "tail_position": found.end,
        **found.contents.as_dict(),
    }


def _sidecars(segment: LogSegment) -> list[Facts]:
    """Describe the indexes and the snapshot of a segment, missing indexes included."""
    stem, _, mark = segment.name.partition(".log")
    beside: list[Facts] = []
    for kind in (*INDEXES, "snapshot") if segment.base_offset >= 0 else ():
        path = segment.path.with_name(f"{stem}.{kind}{mark}")
        if facts := _small(path):
            del facts["path"]
            beside.append({"file": path.name, **facts})
        elif kind not in (OPTIONAL_INDEX, "snapshot") and not mark:
            beside.append({"file": path.name, "state": MISSING})
    return beside


def _partition(path: Location) -> Facts:
    name, parent = parse_partition_dir(path.absolute().name), path.absolute().parent
    segments, listed = list_directory(path)
    files = _files(listed)
    contents, rows, end = Contents(), [], 0
    for segment in segments:
        # A broker may have deleted the segment since it was listed.
        with suppress(FileNotFoundError):
            log_contents = contents_of(segment)
            facts = {**_segment(segment, log_contents), "beside": _sidecars(segment)}
            contents.add(log_contents.contents)
            rows.append({"file": segment.name, **facts})
            end = log_contents.next_offset
    key = ("", -1) if name is None else (name.topic, name.partition)
    start = read_offsets_or_none(parent, LOG_STARTS).get(key)
    end = max(start or 0, end)
    missing = find_missing_start(path, segments, start)
    start = log_start_in(path, segments, start)
    metadata = _small(path / PARTITION_METADATA)
    return {
        "kind": "partition",
        "path": str(path),
        "topic": name and name.topic,
        "partition": name and name.partition,
        "state": name and name.state,
        "topic_id": metadata.get("topic_id"),
        "log_start_offset": start,
        "missing_start": None if missing is None else str(missing),
        "log_end_offset": end,
        "last_stable_offset": _stable(path, segments, start, end),
        **{
            member: read_offsets_or_none(parent, checkpoint).get(key)
            for member, checkpoint in OF_PARTITIONS.items()
        },
        "size_in_bytes": sum(files.values()),
        "files": _by_kind(files),
        **contents.as_dict(),
        "leader_epochs": _small(path / LEADER_EPOCHS).get("leader_epochs", []),
        "segments": rows,
        "beside": _others(path, files, [*_lone_snapshots(files, rows), *PARSERS]),
    }


def _missing_starts(path: Location) -> dict[str, str]:
    """Describe the offsets before the first segment, by partition, where some are."""
    starts = read_offsets_or_none(path, LOG_STARTS)
    found = {}
    for name, directory in list_partitions(path):
        with suppress(FileNotFoundError):
            start = starts.get((name.topic, name.partition))
            missing = find_missing_start(directory, list_first(directory), start)
            if missing is not None:
                found[directory.name] = str(missing)
    return found


def _lone_snapshots(files: dict[str, int], rows: list[Facts]) -> list[str]:
    """Return the snapshots that no segment begins at, such as that at the log end."""
    listed = {described["file"] for row in rows for described in row["beside"]}
    endings = (".snapshot", ".snapshot.deleted")
    return sorted(
        file for file in files if file.endswith(endings) and file not in listed
    )


def _stable(
    path: Location, segments: list[LogSegment], start: int, end: int
) -> int | None:
    """Return the last stable offset; None if it is unknown because of damage."""
    with suppress(LocatedError):
        return find_stable(path, segments, start, end)
    return None


def _small(path: Location) -> Facts:
    """Describe a small file; return an empty description if there is no such file."""
    with suppress(FileNotFoundError):
        return describe_small_file(path) or {}
    return {}


def _others(path: Location, files: dict[str, int], names: Sequence[str]) -> list[Facts]:
    """Describe the small files of a directory that are not a segment's."""
    beside = []
    for name in names:
        if name in files and (facts := _small(path / name)):
            del facts["path"]
            beside.append({"file": name, **facts})
    return beside


def _files(listed: Iterable[Entry]) -> dict[str, int]:
    """Return the sizes of the files of a listed directory, by name."""
    return {name: file_size(file) for name, file in regular_files(listed).items()}


def _by_kind(files: dict[str, int]) -> dict[str, int]:
    """Return the number of files by extension or suffix, of others as ``other``."""
    counts: Counter[str] = Counter()
    for file in files:
        name = parse_file_name(file)
        counts["other" if name is None else name.suffix or name.kind] += 1
    return dict(sorted(counts.items()))


def _log_directory(path: Location) -> Facts:
    files = _files(entries(path))
    listed = [
        partition
        for partition in list_path(path)
        if isinstance(partition, PartitionSummary)
    ]
    live = [partition for partition in listed if partition.state is None]
    states = Counter(
        partition.state for partition in listed if partition.state is not None
    )
    firsts = [
        partition.first_timestamp
        for partition in live
        if partition.first_timestamp is not None
    ]
    latest = [
        partition.max_timestamp
        for partition in live
        if partition.max_timestamp is not None
    ]
    partitions = list_partitions(path, marked=True)
    sizes = (_files(entries(child)).values() for _, child in partitions)
    properties = _small(path / META_PROPERTIES)
    return {
        "kind": "log directory",
        "path": str(path),
        "cluster_id": properties.get("cluster_id"),
        "node_id": properties.get("node_id"),
        "directory_id": properties.get("directory_id"),
        "clean_shutdown": CLEAN_SHUTDOWN in files,
        "topics": len({partition.topic for partition in live}),
        "partitions": len(live),
        "marked": dict(sorted(states.items())),
        "missing_starts": _missing_starts(path),
        "segments": sum(partition.segments for partition in live),
        "log_bytes": sum(partition.size_in_bytes for partition in live),
        "size_in_bytes": sum(files.values()) + sum(chain.from_iterable(sizes)),
        "first_timestamp": min(firsts, default=None),
        "max_timestamp": max(latest, default=None),
        "beside": _others(path, files, (META_PROPERTIES, *CHECKPOINTS)),
    }

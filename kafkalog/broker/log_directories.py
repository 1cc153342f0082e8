"""DescribeLogDirs: the log directories, and the sizes of the logs in them.

Source: ``ReplicaManager.describeLogDirs``, ``KafkaApis.handleDescribeLogDirsRequest``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.messages.schema import Message
from kafkalog.protocol.frames import Request
from kafkalog.storage.location import Location

UNKNOWN_BYTES: Final = -1


def describe_log_dirs(catalogue: Catalogue, request: Request) -> Message:
    """Answer the size of each partition, in each log directory that has it.

    It follows ``ReplicaManager.describeLogDirs``.
    """
    catalogue.refresh()
    asked = request.message["topics"]
    wanted = None
    if asked is not None:
        wanted = {
            (topic["topic"], number)
            for topic in asked
            for number in topic["partitions"]
        }
    by_directory = catalogue.by_log_directory()
    return {
        "results": [
            {
                "logDir": str(directory),
                "topics": [
                    {"name": name, "partitions": [*_partitions(partitions)]}
                    for name, partitions in topics.items()
                ],
                **_space(directory),
            }
            for directory, topics in by_directory.items()
            for topics in [_only(topics, wanted)]
        ]
    }


def _only(
    topics: dict[str, dict[int, Location]], wanted: set[tuple[str, int]] | None
) -> dict[str, dict[int, Location]]:
    """Return the topics with the wanted partitions, None for all."""
    if wanted is None:
        return topics
    found = {
        name: {
            number: directory
            for number, directory in partitions.items()
            if (name, number) in wanted
        }
        for name, partitions in topics.items()
    }
    return {name: partitions for name, partitions in found.items() if partitions}


def _partitions(directories: dict[int, Location]) -> Iterator[dict[str, Any]]:
    for number, directory in sorted(directories.items()):
        segments = list_segments(directory)
        size = sum(segment.size_in_bytes for segment in segments)
        yield {"partitionIndex": number, "partitionSize": size}


def _space(directory: Location) -> dict[str, int]:
    """Return the bytes of a directory's file system: all, and those that are free."""
    if not isinstance(directory, Path):
        return {"totalBytes": UNKNOWN_BYTES, "usableBytes": UNKNOWN_BYTES}
    usage = shutil.disk_usage(directory)
    return {"totalBytes": usage.total, "usableBytes": usage.free}

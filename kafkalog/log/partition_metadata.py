"""The id of the topic that a partition's directory belongs to: ``partition.metadata``.

It is on disk before the first record is: what is recovered after a crash is then known
to be the topic's.

Knows: one file. Does not know: topics.
Source: ``PartitionMetadataFile.java``, ``UnifiedLog.initializeTopicId``.
"""

from __future__ import annotations

from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, InconsistentTopicIdError
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.storage.byte_source import read_plain
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import PARTITION_METADATA


class TopicIdFile:
    """A topic's id, and whether it is still to be written."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.path = directory / PARTITION_METADATA
        self.topic_id: str | None = None
        self._disk = disk
        self._dirty = False

    def start(self, topic_id: str | None) -> bool:
        """Read the file, or note `topic_id` for it; whether there was a file.

        Raises `InconsistentTopicIdError` where it has another id.
        """
        try:
            stored = PartitionMetadata.parse(read_plain(self.path)).topic_id
        except FileNotFoundError:
            self.topic_id = topic_id
            self._dirty = topic_id is not None
            return False
        except CorruptCheckpointError as error:
            raise error.located(self.path) from None
        if topic_id not in (None, stored):
            raise InconsistentTopicIdError(
                f"the topic id is {stored}, not {topic_id}: {self.path}"
            )
        self.topic_id = stored
        return True

    def flush(self) -> None:
        """Write the file, if it is to be."""
        if self._dirty and self.topic_id is not None:
            self._disk.replace(self.path, PartitionMetadata(self.topic_id).format())
            self._dirty = False

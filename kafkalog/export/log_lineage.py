"""The lineage of a partition: whether a log still has the records that were read.

Offsets alone do not show it. A log that was truncated, and has grown again, or a topic
that was deleted and created again, has other records at the same offsets. Two facts
differ then:

- the leader epoch of the record before the offset to continue from, as a replica
  truncates its log only to follow the leader of a later epoch;
- the topic id, which each creation of a topic changes.

A fact that was not recorded, or that the log does not have, is not compared: messages
of magic 0 and 1 have no leader epoch, and compaction may have removed the record.

Source: KIP-320 and KIP-516 of Kafka.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from kafkalog.codecs.uuid_text import UUID_BYTES, uuid_from_text
from kafkalog.errors import CorruptCheckpointError
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.log.log_segments import from_offset, list_segments, read_on
from kafkalog.storage.checkpoint_file import read_if_exists
from kafkalog.storage.file_names import PARTITION_METADATA
from kafkalog.storage.location import Location

ID_BYTES: Final = 8
INT64_BITS: Final = 2**63 - 1


class Lineage(NamedTuple):
    """The facts about a log at an offset; None for those that it does not have.

    `topic_number` is the last 63 bits of the topic id.
    """

    leader_epoch: int | None
    topic_number: int | None

    @classmethod
    def of(cls, directory: Location, offset: int) -> Lineage:
        """Return the facts about the records before `offset`."""
        return cls(_leader_epoch(directory, offset - 1), _topic_number(directory))

    def difference(self, name: str, offset: int, log: Lineage) -> str | None:
        """Return how the records before `offset` differ in a log, or None.

        >>> recorded = Lineage(3, 17)
        >>> print(recorded.difference("a-0", 9, Lineage(4, 17)))
        the log of a-0 was truncated and written again: leader epoch 4 at offset 8, ...
        >>> recorded.difference("orders-0", 100, Lineage(None, 17))
        """
        if _differs(self.topic_number, log.topic_number):
            return (
                f"the topic of {name} was deleted and created again: it has another "
                f"topic id than the records up to offset {offset - 1} in the table"
            )
        if _differs(self.leader_epoch, log.leader_epoch):
            return (
                f"the log of {name} was truncated and written again: leader epoch "
                f"{log.leader_epoch} at offset {offset - 1}, expected "
                f"{self.leader_epoch}"
            )
        return None


def _differs(recorded: int | None, found: int | None) -> bool:
    return recorded is not None and found is not None and recorded != found


def _leader_epoch(directory: Location, offset: int) -> int | None:
    """Return the leader epoch of the batch that has an offset."""
    segments = from_offset(list_segments(directory), offset)[:1]
    for segment, source in read_on(directory, segments):
        row = segment.entry_holding(source, offset)
        if row is not None and row["leader_epoch"][0] >= 0:
            return int(row["leader_epoch"][0])
    return None


def _topic_number(directory: Location) -> int | None:
    """Return the last bits of the topic id in the directory's metadata."""
    stored = None
    with suppress(CorruptCheckpointError):  # the records can be read without it
        path = directory / PARTITION_METADATA
        stored = read_if_exists(path, PartitionMetadata.parse)
    if stored is None:
        return None
    raw = uuid_from_text(stored.topic_id)[UUID_BYTES - ID_BYTES :]
    return int.from_bytes(raw) & INT64_BITS

"""Messages of Kafka 4.3's brokers about storage, word for word.

`N`, `NAME`, `TEXT` and `PATH` stand for what a broker inserts. Each has the class that
has it, by which `tests/interop/test_broker_messages.py` finds its words in the jars.
"""

from __future__ import annotations

import re
from typing import Final

PLACEHOLDER: Final = re.compile(r"\b(?:N|NAME|TEXT|PATH)\b")

PROPERTIES: Final = "MetaPropertiesEnsemble"
MESSAGES: Final = {
    (
        "Failed to acquire lock on file .lock in PATH. A Kafka instance in another "
        "process or thread is using this directory."
    ): "LogManager",
    "No readable meta.properties files found.": "MetaPropertiesEnsemble",
    (
        "No `meta.properties` found in PATH (have you run `kafka-storage.sh` to "
        "format the directory?)"
    ): "KafkaRaftServer",
    "Invalid cluster.id in: PATH. Expected NAME, but read NAME": PROPERTIES,
    "Stored node id N doesn't match previous node id N in PATH": PROPERTIES,
    "Duplicate directory ID NAME found. It was the ID of PATH, but also of PATH": (
        PROPERTIES
    ),
    (
        "Found directory PATH, 'NAME' is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion)."
    ): "LocalLog",
    "Duplicate log directories found: PATH, PATH": "LogManager",
    "Found unexpected metadata location in data directory": "KafkaRaftServer",
    (
        "Shutdown broker because none of the specified log dirs from PATH can be "
        "created or validated"
    ): "LogManager",
    "Shutdown broker because all log dirs in PATH have failed": "LogManager",
    "Shutdown broker because the metadata log dir PATH has failed": "ReplicaManager",
    "Error while loading log dir PATH": "LogManager",
    "There was an error in one of the threads during logs loading: TEXT": "LogManager",
    (
        "Tried to assign topic ID NAME to log for topic partition NAME,but log "
        "already contained topic ID NAME"
    ): "UnifiedLog",
    "Malformed line in checkpoint file [PATH]: TEXT": "CheckpointFile",
    (
        "Snapshot is corrupt (CRC is no longer valid). Stored crc: N. Computed crc: N"
    ): "ProducerStateManager",
    (
        "Found a corrupted index file corresponding to log file PATH due to TEXT, "
        "recovering segment and rebuilding index files..."
    ): "LogLoader",
    (
        "Could not find offset index file corresponding to log file PATH, "
        "recovering segment and rebuilding index files..."
    ): "LogLoader",
    "Failed to read from the transaction index PATH": "TransactionIndex",
    (
        "Unexpected aborted transaction version N in transaction index PATH, "
        "current version is N"
    ): "TransactionIndex",
    (
        "Trying to roll a new log segment for topic partition NAME with start "
        "offset N =max(provided offset = N, LEO = N) while it already exists."
    ): "LocalLog",
    "Record is corrupt (stored crc = N) in topic partition NAME.": "UnifiedLog",
    (
        "Disk error while writing recovery offsets checkpoint in directory PATH: TEXT"
    ): "LogManager",
    "Log directory PATH is already formatted.": "Formatter",
}


def parts_of(message: str) -> list[str]:
    """Return the words of a message between what is inserted."""
    return [part for part in PLACEHOLDER.split(message) if part.strip(" .,:")]

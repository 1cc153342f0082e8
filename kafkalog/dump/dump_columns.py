"""The columns of a dump's rows, from the names of its files and its options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkalog.dump.dump_options import DumpOptions
from kafkalog.dump.dumped_file import DumpedFile

ALWAYS: Final = ("file", "kind")
TITLE: Final = ("startingOffset", "snapshotEndOffset", "snapshotEpoch")
BATCH: Final = (
    "baseOffset",
    "lastOffset",
    "count",
    "baseSequence",
    "lastSequence",
    "producerId",
    "producerEpoch",
    "partitionLeaderEpoch",
    "isTransactional",
    "isControl",
    "deleteHorizonMs",
    "offset",
    "position",
    "timestampType",
    "timestamp",
    "size",
    "magic",
    "compresscodec",
    "crc",
    "isvalid",
)
RECORD: Final = (
    "offset",
    "timestampType",
    "timestamp",
    "keySize",
    "valueSize",
    "sequence",
    "headerKeys",
    "isValid",
    "crc",
)
CONTENTS: Final = ("key", "payload")
CONTROL: Final = (
    "endTxnMarker",
    "coordinatorEpoch",
    "LeaderChange",
    "SnapshotHeader",
    "SnapshotFooter",
    "KRaftVersion",
    "KRaftVoters",
    "controlType",
)
TAIL: Final = ("invalidBytes",)
INDEX: Final = ("entries", "isSane")
BESIDE_LOGS: Final = {
    ".index": ("offset", "position", *INDEX),
    ".timeindex": ("timestamp", "offset", *INDEX),
    ".txnindex": (
        "version",
        "producerId",
        "firstOffset",
        "lastOffset",
        "lastStableOffset",
    ),
    ".snapshot": (
        "producerId",
        "producerEpoch",
        "coordinatorEpoch",
        "currentTxnFirstOffset",
        "lastTimestamp",
        "firstSequence",
        "lastSequence",
        "lastOffset",
        "offsetDelta",
        "timestamp",
    ),
}


def columns_of(paths: Iterable[str], options: DumpOptions) -> tuple[str, ...]:
    """Return the columns that rows of these files may have, each once.

    >>> columns_of(["0.index", "0.timeindex"], DumpOptions())
    ('file', 'kind', 'offset', 'position', 'entries', 'isSane', 'timestamp')
    """
    names = list(ALWAYS)
    for suffix in dict.fromkeys(DumpedFile.of(path).suffix for path in paths):
        if suffix in (".log", ".checkpoint"):
            names += _of_logs(options)
        else:
            names += BESIDE_LOGS.get(suffix or "", ())
    return tuple(dict.fromkeys(names))


def _of_logs(options: DumpOptions) -> tuple[str, ...]:
    deep = options.deep or options.print_contents
    contents = CONTENTS * options.print_contents
    return TITLE + BATCH + (RECORD + contents + CONTROL) * deep + TAIL

"""Schemas of the values of control records: transaction markers, and KRaft's messages.

The first field of each KRaft message is its ``version``. A transaction marker is
preceded by an int16 version, which is not part of its schema.

Source: ``EndTxnMarker.json``, ``LeaderChangeMessage.json``,
``SnapshotHeaderRecord.json``, ``SnapshotFooterRecord.json``,
``KRaftVersionRecord.json``, ``VotersRecord.json``.
"""

from __future__ import annotations

from typing import Final

from kafkalog.messages.message import Schema
from kafkalog.messages.schema import Array, Field

END_TRANSACTION_MARKER: Final = Schema(
    "EndTxnMarker", (Field("coordinatorEpoch", "int32"),)
)

_LEADER_CHANGE_VOTER: Final = (
    Field("voterId", "int32"),
    Field("voterDirectoryId", "uuid", since=1),
)

LEADER_CHANGE: Final = Schema(
    "LeaderChangeMessage",
    (
        Field("version", "int16"),
        Field("leaderId", "int32"),
        Field("voters", Array(_LEADER_CHANGE_VOTER)),
        Field("grantingVoters", Array(_LEADER_CHANGE_VOTER)),
    ),
    highest_version=1,
    flexible_since=0,
)

SNAPSHOT_HEADER: Final = Schema(
    "SnapshotHeaderRecord",
    (
        Field("version", "int16"),
        Field("lastContainedLogTimestamp", "int64"),
    ),
    flexible_since=0,
)

SNAPSHOT_FOOTER: Final = Schema(
    "SnapshotFooterRecord", (Field("version", "int16"),), flexible_since=0
)

KRAFT_VERSION: Final = Schema(
    "KRaftVersionRecord",
    (
        Field("version", "int16"),
        Field("kRaftVersion", "int16"),
    ),
    flexible_since=0,
)

VOTERS: Final = Schema(
    "VotersRecord",
    (
        Field("version", "int16"),
        Field(
            "voters",
            Array(
                (
                    Field("voterId", "int32"),
                    Field("voterDirectoryId", "uuid"),
                    Field(
                        "endpoints",
                        Array(
                            (
                                Field("name", "string"),
                                Field("host", "string"),
                                Field("port", "uint16"),
                            )
                        ),
                    ),
                    Field(
                        "kRaftVersionFeature",
                        (
                            Field("minSupportedVersion", "int16"),
                            Field("maxSupportedVersion", "int16"),
                        ),
                    ),
                )
            ),
        ),
    ),
    flexible_since=0,
)

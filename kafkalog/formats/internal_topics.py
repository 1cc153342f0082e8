"""Records of Kafka's internal topics, described as kafka-dump-log describes them.

Knows: which messages a kind of topic holds, and the words of Kafka's tool. Does not
know: how a message is decoded, which line it is printed in.
Source: ``DumpLogSegments.java``, ``CoordinatorRecordSerde.java``.
"""

from __future__ import annotations

from typing import Final

KINDS: Final = (
    "offsets",
    "transaction-log",
    "cluster-metadata",
    "remote-log-metadata",
    "share-group-state",
)
"""Kinds of internal topics, named as kafka-dump-log's options: ``--<kind>-decoder``;
where several are given, the first of these counts."""


def describe_record(
    kind: str, key: bytes | None, value: bytes | None, offset: int
) -> tuple[str | None, str | None]:
    """Return what kafka-dump-log prints behind ``key: `` and behind ``payload: ``.

    None where that part is not printed at all: there is no key for ``cluster-metadata``
    and ``remote-log-metadata``, and no payload beside a key that says what is wrong. A
    record that cannot be decoded is described by a text that says so, with `offset`.
    Only data records are to be given, not those of control batches.

    Raises `InvalidRecordError` where a coordinator's record has no key: the tool ends
    there with an exception of this error's `reason` as its message.
    """
    raise NotImplementedError((kind, key, value, offset))

"""Target: records of internal topics, described in Python and printed by a kernel."""

from __future__ import annotations

import numpy as np

from kafkalog.errors import CorruptMessageError, UnsupportedFormatError
from kafkalog.messages.internal_records import InternalRecord
from kafkalog.messages.message_parsers import KINDS, TOPICS
from tests.dump.kernel_lines import batch_of, contents, printed
from tests.messages import internal_messages

BUFFER = np.empty(1 << 18, np.uint8)


def seeds() -> list[bytes]:
    """Return a record of each version of each message: kind, key size, key, value."""
    kinds = {topic: number for number, topic in enumerate(TOPICS.values())}
    return [
        bytes([kinds[topic], len(key or b"")]) + (key or b"") + value
        for topic, key, value in internal_messages.records(seed=1, each=1)
        if len(key or b"") < 256 and len(value) < 1_000
    ]


def check_internal_record(data: bytes) -> None:
    """Decode a record, and hold what the kernel prints to how it is described."""
    data = data.ljust(2, b"\0")
    kind, length = KINDS[data[0] % len(KINDS)], data[1]
    key, value = data[2 : 2 + length], data[2 + length :]
    try:
        InternalRecord.decode(TOPICS[kind], key, value)
    except (CorruptMessageError, UnsupportedFormatError) as error:
        assert error.position is not None, error
        assert 0 <= error.position <= len(data), error
    expected = contents(kind, key, value, 0)
    if kind != "remote-log-metadata":
        [line] = printed(kind, batch_of([(key, value)]), BUFFER)
        assert line is None or line.endswith(b"]" + expected), (line, expected)

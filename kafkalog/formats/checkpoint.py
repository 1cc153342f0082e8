"""Checkpoint files: an offset for each partition, or for each leader epoch.

They are lines of UTF-8, with fields separated by blanks:

    0                     version
    2                     number of entries
    orders 0 4100         topic partition offset     (the four offset checkpoints)
    clicks 3 77

``leader-epoch-checkpoint``, one in each partition, has ``epoch start_offset`` lines
instead. Kafka ends lines with LF; any line ending is read. An empty file, or one that
ends after its version, has no entries: brokers create such files. The entries of an
offset checkpoint have no order, those of an epoch checkpoint ascend.

Source: ``CheckpointFile.java``, ``OffsetCheckpointFile.java``,
``LeaderEpochCheckpointFile.java``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from kafkalog.errors import CorruptCheckpointError
from kafkalog.text.decimal_text import int_from_text, shown

VERSION: Final = 0
HEADER_LINES: Final = 2
"""Lines before the entries: version and count."""

_BLANKS: Final = re.compile(r"[ \t\x0b\f]+")
_TOPIC: Final = re.compile(r"[^ \t\x0b\f\r\n]+")


class EpochEntry(NamedTuple):
    """A leader epoch and its start offset."""

    epoch: int
    start_offset: int


def parse_offsets(data: bytes) -> dict[tuple[str, int], int]:
    r"""Return the offset of each (topic, partition) in an offset checkpoint.

    Of two lines for a partition the last one counts. Raises `CorruptCheckpointError`,
    whose `position` is the start of the invalid line.

    >>> parse_offsets(b"0\n1\nmy-topic 3 42\n")
    {('my-topic', 3): 42}
    """
    return {
        (topic, _field(partition, "partition", at)): _field(offset, "offset", at, 64)
        for at, (topic, partition, offset) in _entries(data, 3)
    }


def salvage_offsets(data: bytes) -> dict[tuple[str, int], int]:
    r"""Return the offsets of the valid lines of an offset checkpoint.

    The first two lines, version and count, are ignored.

    >>> salvage_offsets(b"0\n3\norders 0 7\nclicks 3 7x\n")
    {('orders', 0): 7}
    """
    offsets = {}
    for line in data.splitlines(keepends=True)[HEADER_LINES:]:
        with suppress(CorruptCheckpointError):
            offsets.update(parse_offsets(b"0\n1\n" + line))
    return {name: offset for name, offset in offsets.items() if offset >= 0}


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    r"""Return the bytes of an offset checkpoint, with lines in the order of `offsets`.

    >>> format_offsets({("my-topic", 3): 42})
    b'0\n1\nmy-topic 3 42\n'
    """
    for topic, _ in offsets:
        if not _TOPIC.fullmatch(topic):
            raise ValueError(
                f"topic {topic!r}, expected a name without blanks or line ends"
            )
    return _format(f"{topic} {n} {offset}" for (topic, n), offset in offsets.items())


def parse_epochs(data: bytes) -> list[EpochEntry]:
    r"""Return the entries of a ``leader-epoch-checkpoint``, in the file's order.

    Raises `CorruptCheckpointError`, whose `position` is the start of the invalid line.

    >>> parse_epochs(b"0\n2\n0 0\n5 1500\n")
    [EpochEntry(epoch=0, start_offset=0), EpochEntry(epoch=5, start_offset=1500)]
    """
    return [
        EpochEntry(_field(epoch, "epoch", at), _field(start, "start offset", at, 64))
        for at, (epoch, start) in _entries(data, 2)
    ]


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    r"""Return the bytes of a ``leader-epoch-checkpoint`` with these entries.

    >>> format_epochs([(0, 0), (5, 1500)])
    b'0\n2\n0 0\n5 1500\n'
    """
    return _format(f"{epoch} {start}" for epoch, start in entries)


def _format(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    text = "\n".join([str(VERSION), str(len(entries)), *entries])
    return text.encode() + b"\n"


def _entries(data: bytes, fields: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the position and fields of each entry, then verify their number."""
    lines = _lines(data)
    for at, line in lines:
        if (version := _number(line, "version", at)) != VERSION:
            reason = f"checkpoint version {version}, expected {VERSION}"
            raise CorruptCheckpointError(reason, position=at)
        break
    for counted_at, line in lines:
        count, entries = _number(line, "count", counted_at), 0
        if count < 0:
            raise CorruptCheckpointError(
                f"entry count {count}, expected at least 0",
                position=counted_at,
                kafka_name="IllegalArgumentException",
            )
        for at, line in lines:
            yield at, _split(line, fields, at)
            entries += 1
        if entries != count:
            reason = f"{entries} entries, expected {count} (the count in line 2)"
            raise CorruptCheckpointError(reason, position=counted_at)


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield each line's position and text; lines end with LF, CR or both."""
    position = 0
    for line in data.splitlines(keepends=True):
        try:
            text = line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError as error:
            reason = "line with invalid UTF-8"
            at = position + error.start
            raise CorruptCheckpointError(reason, position=at) from None
        yield position, text
        position += len(line)


def _split(line: str, fields: int, at: int) -> list[str]:
    parts = _BLANKS.split(line)
    while parts and not parts[-1]:  # as Java's String.split
        parts.pop()
    if len(parts) != fields or not parts[0]:
        reason = f"{len(parts)} fields in {shown(line)}, expected {fields}"
        raise CorruptCheckpointError(reason, position=at)
    return parts


def _field(text: str, name: str, at: int, bits: int = 32) -> int:
    """Return a number of an entry; Kafka's error for it is NumberFormatException."""
    return _number(text, name, at, bits, "NumberFormatException")


def _number(
    text: str, name: str, at: int, bits: int = 32, kafka_name: str | None = None
) -> int:
    try:
        return int_from_text(text, bits)
    except ValueError as error:
        raise CorruptCheckpointError(
            f"{name} {error}", position=at, kafka_name=kafka_name
        ) from None
